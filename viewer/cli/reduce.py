"""Find the smallest part of a model that still fails, and write it with its inputs.

The failure is one of: nonfinite, a node makes NaN or infinities of finite inputs; fails, a node fails in this program;
differs-from-ort, a value differs from ONNX Runtime's; or a command, such as "python check.py {}", which is run without
a shell with the file of each part in place of {} (its inputs are in inputs.npz beside it) and fails with an exit status
other than 0. The inputs of the part are the values that they have in a run of the whole model. They are written beside
OUT as .npz. When the model does not fail, or not each time, nothing is written and the exit status is 2.
"""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.arguments import seconds
from onnx_workbench.viewer.cli.inputs import add_input_arguments, make_inputs
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_OK, print_json, progress, read_model

WRITES_STANDARD_OUTPUT = False  # two files cannot be there


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the failure, the inputs, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument(
        "--until", metavar="FAILURE", required=True,
        help='nonfinite, differs-from-ort, fails, or a command such as "python check.py {}"',
    )  # fmt: skip
    parser.add_argument("--time-limit", type=seconds, metavar="S", help="limit for each trial")
    add_input_arguments(parser)
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Reduce, and write the part and its inputs."""
    from onnx_workbench.exec.values.npz_files import write_npz

    if str(options.output) == "-":
        raise ModelError("reduce writes two files", "Standard output is one: name a file.")
    model = read_model(options)
    beside = options.output.with_suffix(".npz")
    if beside == options.output:
        raise ModelError("OUT is where the inputs are written", f"{beside} would be both. Name it .onnx.")
    with progress("Reducing") as running:
        feeds = make_inputs(model, options, running)
        found = api.reduce(
            model, options.until, inputs=feeds, seed=options.seed, time_limit=options.time_limit, progress=running
        )
    write_model(found.model, options)
    write_npz(beside, found.inputs.items())
    if options.json:
        facts = {"output": str(options.output), "inputs": str(beside), "failure": found.failure}
        print_json(facts | {"nodes": found.nodes, "before": found.before, "trials": found.trials})
    else:
        print(f"{plural(found.nodes, 'node')} of {found.before:,}, in {plural(found.trials, 'trial')}: {found.failure}")
        print(f"Inputs: {beside}")
    return EXIT_OK
