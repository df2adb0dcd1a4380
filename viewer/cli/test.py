"""Run a model on its test data and compare the outputs with those expected.

Test data are test_data_set_* folders beside the model, as ONNX's backend tests have them, and pairs of files there:
inputs.npz and outputs.npz, or inputs_NAME.npz and outputs_NAME.npz. The exit status is 1 when an output differs from
what is expected or a node fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.cli.arguments import seconds, tolerance
from onnx_workbench.viewer.cli.terminal import EXIT_FOUND, EXIT_OK, load_model, print_json, progress, shorten

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``test``."""
    parser.add_argument("folder", type=Path, metavar="MODEL_FOLDER", help="folder of the model, or the model in it")
    parser.add_argument("--rtol", type=tolerance, default=1e-3, help="relative tolerance (0.001)")
    parser.add_argument("--atol", type=tolerance, help="absolute tolerance (1e-7 + 1e-4 of the scale)")
    parser.add_argument("--time-limit", type=seconds, metavar="S", help="time limit of each run in seconds")


def run(arguments: argparse.Namespace) -> int:
    """Run the tests; the exit status says whether all outputs are as expected."""
    from onnx_workbench.exec.inputs.sources import data_sets
    from onnx_workbench.exec.inspect.expected_outputs import check_run
    from onnx_workbench.exec.session import Session

    model_file = _model_file(arguments.folder)
    model = load_model(arguments, str(model_file))
    sets = data_sets(model_file.parent, model.graph)
    if not sets:
        raise ModelError(
            "There is no test data",
            f"{model_file.parent} has no test_data_set_* folder, and no inputs.npz with outputs.npz",
        )
    session = Session(model)
    verdicts = []
    with progress(f"Testing {arguments.folder}") as testing:
        for index, data_set in enumerate(sets):
            testing.report(index, len(sets), data_set.name)
            result = session.run(data_set.inputs, values="outputs", time_limit=arguments.time_limit)
            verdicts += check_run(result, data_set, arguments.rtol, arguments.atol)
    failed = [verdict for verdict in verdicts if verdict.problem]
    if arguments.json:
        print_json({"model": str(model_file), "passed": len(verdicts) - len(failed), "results": verdicts})
    else:
        for verdict in verdicts:
            state = f"FAILED  {verdict.problem}" if verdict.problem else f"ok      error {verdict.error:.2g}"
            print(shorten(f"{verdict.data_set}  {verdict.output}  {state}", 500, elide="end"))
        print(f"{len(verdicts) - len(failed)} of {len(verdicts)} outputs as expected")
    return EXIT_FOUND if failed else EXIT_OK


def _model_file(path: Path) -> Path:
    from onnx_workbench.exec.inspect.expected_outputs import model_in

    if path.is_file():
        return path
    if not path.is_dir():
        raise ModelError("There is no such folder", str(path))
    return model_in(path)
