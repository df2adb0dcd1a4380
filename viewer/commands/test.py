"""Run a model on its test data: a folder with model.onnx and test_data_set_* folders, as ONNX's backend tests have.

Exit status 1 when an output differs from what is expected or a node fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.errors import ModelError
from viewer.commands.arguments import seconds
from viewer.commands.terminal import EXIT_FOUND, EXIT_OK, print_json, progress, read_model
from viewer.text import display

if TYPE_CHECKING:
    import argparse

    from exec.inputs import DataSet
    from exec.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``test``."""
    parser.add_argument("folder", type=Path, metavar="MODEL_FOLDER", help="the folder, or the model inside it")
    parser.add_argument("--rtol", type=float, default=1e-3, help="relative tolerance (0.001)")
    parser.add_argument("--atol", type=float, default=1e-7, help="absolute tolerance (0.0000001)")
    parser.add_argument("--time-limit", type=seconds, metavar="S", help="seconds each run may take")


def run(arguments: argparse.Namespace) -> int:
    """Do it; the exit status says whether all outputs are as expected."""
    from exec.inputs import data_sets
    from exec.session import Session

    model_file = _model_file(arguments.folder)
    model = read_model(str(model_file))
    sets = data_sets(model_file.parent, model.graph)
    if not sets:
        raise ModelError("There is no test data", f"{model_file.parent} has no folder test_data_set_*")
    session = Session(model)
    verdicts = []
    with progress(f"Testing {arguments.folder}") as testing:
        for index, data_set in enumerate(sets):
            testing.report(index, len(sets), data_set.name)
            verdicts += _test(session, data_set, arguments)
    failed = [v for v in verdicts if v["problem"]]
    if arguments.json:
        print_json({"model": str(model_file), "passed": len(verdicts) - len(failed), "results": verdicts})
    else:
        for verdict in verdicts:
            state = f"FAILED  {verdict['problem']}" if verdict["problem"] else f"ok      error {verdict['error']:.2g}"
            print(display(f"{verdict['data_set']}  {verdict['output']}  {state}", 500, elide="end"))
        print(f"{len(verdicts) - len(failed)} of {len(verdicts)} outputs as expected")
    return EXIT_FOUND if failed else EXIT_OK


def _model_file(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise ModelError("There is no such folder", str(path))
    named = path / "model.onnx"
    found = [named] if named.is_file() else sorted(path.glob("*.onnx"))
    if len(found) != 1:
        raise ModelError("Which model is meant?", f"{path} has {len(found)} .onnx files; expected model.onnx")
    return found[0]


def _test(session: Session, data_set: DataSet, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    import numpy as np

    from exec.compare import compare_values, is_close

    result = session.run(data_set.inputs, values="outputs", time_limit=arguments.time_limit)
    outputs = result.outputs
    verdicts: list[dict[str, Any]] = []
    for name, expected in data_set.outputs.items():
        verdict: dict[str, Any] = {"data_set": data_set.name, "output": name, "problem": "", "error": 0.0}
        verdicts.append(verdict)
        if name not in outputs:
            verdict["problem"] = "; ".join(map(str, result.failures)) or result.stopped or "it was not computed"
            continue
        found = outputs[name]
        difference = compare_values(found, expected)
        verdict["error"] = difference.max_abs
        if difference.problem:
            verdict["problem"] = difference.problem
        elif isinstance(found, np.ndarray) and found.dtype != expected.dtype:
            verdict["problem"] = f"{found.dtype.name}; expected {expected.dtype.name}"
        elif not is_close(found, expected, arguments.rtol, arguments.atol):
            verdict["problem"] = (
                f"{difference.unequal} of {difference.size} elements differ, at {list(difference.worst)} "
                f"{difference.worst_pair[0]} for {difference.worst_pair[1]}"
            )
    return verdicts
