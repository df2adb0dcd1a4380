"""Find the smallest part of a model that still fails, and write it with its inputs.

The failure is one of: nonfinite, a node makes NaN or infinities of finite inputs; fails, a node fails in this program;
differs-from-ort, a value differs from ONNX Runtime's; or a command, such as "python check.py {}", which is run without
a shell with the file of each part in place of {} (its inputs are in inputs.npz beside it) and fails with an exit status
other than 0. The inputs of the part are the values that they have in a run of the whole model. They are written beside
OUT as .npz. Nodes in subgraphs and functions are cut out of these if they fail by themselves. When the model does not
fail, or not each time, nothing is written and the exit status is 2.

For a bug report, --small-weights makes weights constants of one number wherever the part still fails in the same way,
and --neutral-names numbers nodes, values and sizes, and leaves texts and metadata out.
"""

from __future__ import annotations

import argparse

from onnx_workbench import api
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.cli.arguments import seconds, tolerance
from onnx_workbench.viewer.cli.inputs import add_input_arguments, make_inputs
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import EXIT_OK, load_model, print_json, progress

STANDARD_OUTPUT = ""  # two files cannot be there


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the failure, the inputs, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument(
        "--until", metavar="FAILURE", required=True,
        help='nonfinite, differs-from-ort, fails, or a command such as "python check.py {}"',
    )  # fmt: skip
    parser.add_argument("--time-limit", type=seconds, metavar="S", help="limit for each trial")
    parser.add_argument("--rtol", type=tolerance, help="differs-from-ort: relative tolerance, as in compare")
    parser.add_argument("--atol", type=tolerance, help="differs-from-ort: absolute tolerance, as in compare")
    parser.add_argument("--small-weights", action="store_true", help="make weights constant where the part still fails")
    parser.add_argument(
        "--neutral-names", action="store_true", help="number nodes and values; leave out descriptions and metadata"
    )
    add_input_arguments(parser)
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Reduce, and write the part and its inputs."""
    from onnx_workbench.exec.values.npz_files import write_npz

    model = load_model(options)
    beside = options.output.with_suffix(".npz")
    if beside == options.output:
        raise ModelError("OUT is where the inputs are written", f"{beside} would be both. Name it .onnx.")
    with progress("Reducing") as running:
        feeds = make_inputs(model, options, running)
        found = api.reduce(
            model, options.until, inputs=feeds, seed=options.seed, time_limit=options.time_limit, rtol=options.rtol,
            atol=options.atol, small_weights=options.small_weights, neutral_names=options.neutral_names,
            progress=running,
        )  # fmt: skip
    write_model(found.model, options)
    write_npz(beside, found.inputs.items())
    if options.json:
        facts: dict[str, object] = {"output": str(options.output), "inputs": str(beside), "failure": found.failure}
        facts |= {"nodes": found.nodes, "before": found.before, "trials": found.trials}
        print_json(facts | {"small_weights": found.small_weights, "large_weights": found.large_weights})
    else:
        print(f"{plural(found.nodes, 'node')} of {found.before:,}, in {plural(found.trials, 'trial')}: {found.failure}")
        if options.small_weights:
            print(f"Weights of one number: {found.small_weights:,}; as they were: {found.large_weights:,}")
        print(f"Inputs: {beside}")
    return EXIT_OK
