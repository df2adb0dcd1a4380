"""Reference values of a model from ONNX Runtime, an optional dependency, in a child process."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import shutil
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from onnx_workbench.exec.inputs.feeds import HeldInput
from onnx_workbench.exec.inputs.recipe import value_of
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.worker.parent_watch import end_with_parent
from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.model.budget import OVERHEAD, RUNTIME_SECONDS, limit_memory, value_limit
from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import make_own_folder

#: Types that numpy has, by ONNX Runtime's names.
_OF_NUMPY = {"float", "double", "float16", "complex64", "complex128", "bool", "string"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def available() -> bool:
    """Return whether ONNX Runtime is installed, without importing it."""
    return importlib.util.find_spec("onnxruntime") is not None


def run_onnxruntime(
    path: Path, feeds: Mapping[str, RuntimeValue], seconds: float = RUNTIME_SECONDS
) -> dict[str, RuntimeValue]:
    """Compute all non-constant values of a model file, by name; values of types that numpy lacks as floats.

    ONNX Runtime runs without optimization, so that all values exist, in a child process that may crash or be killed.
    ModelError if it is not installed, refuses the model, crashes or takes longer than `seconds`.
    """
    if not available():
        raise ModelError("ONNX Runtime is not installed", "pip install onnxruntime")
    exchange = SharedMemoryExchange.create()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    memory = value_limit() + OVERHEAD
    sent = {name: exchange.encode(value) for name, value in feeds.items()}
    process = context.Process(target=_serve, args=(theirs, exchange.folder, str(path), sent, memory), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise ModelError("ONNX Runtime took too long", f"more than {seconds:g} seconds")
        kind, content = ours.recv()
        if kind == "error":
            raise ModelError("ONNX Runtime cannot run this model", content)
        return {name: exchange.decode(value) for name, value in content.items()}
    except (EOFError, OSError) as error:
        process.join(1.0)
        raise ModelError("ONNX Runtime crashed", f"its process ended with {process.exitcode}") from error
    finally:
        process.kill()
        process.join(5.0)
        ours.close()
        exchange.remove()


def run_model(
    model: Model, feeds: Mapping[str, RuntimeValue], seconds: float | None = None, progress: Progress = SILENT
) -> dict[str, RuntimeValue]:
    """Compute the values of a model as `run_onnxruntime`. It is written to a folder that is removed again."""
    folder = make_own_folder()
    try:
        path = folder / "model.onnx"
        save(model, path, progress=progress)
        return run_onnxruntime(path, feeds, RUNTIME_SECONDS if seconds is None else seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(connection: Connection, folder: str, path: str, feeds: dict[str, Any], memory: int) -> None:
    end_with_parent()
    limit_memory(memory)
    exchange = SharedMemoryExchange(folder)
    # ONNX Runtime's exception classes are not public; all exceptions are reported.
    with errors_to(lambda error: connection.send(("error", f"{type(error).__name__}: {error}"))):
        taken = {name: exchange.decode(value) for name, value in feeds.items()}
        given = {name: value_of(value) if isinstance(value, HeldInput) else value for name, value in taken.items()}
        results = _run(path, given)
        connection.send(("values", {name: exchange.encode(value) for name, value in results.items()}))


def _run(path: str, feeds: dict[str, Any]) -> dict[str, Any]:
    import onnx
    from onnx import helper

    ort: Any = importlib.import_module("onnxruntime")
    model = onnx.load(path, load_external_data=False)
    have = {o.name for o in model.graph.output}
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in _varying(model) if name not in have)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path",
        str(Path(path).absolute().parent),
    )

    def started() -> Any:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    session = started()
    foreign = {o.name: f"{o.name} as float" for o in session.get_outputs() if _is_foreign(o.type)}
    if foreign:
        outputs = [o for o in model.graph.output if o.name not in foreign]
        del model.graph.output[:]
        model.graph.output.extend([*outputs, *map(helper.make_empty_tensor_value_info, foreign.values())])
        casts = (
            helper.make_node("Cast", [name], [given], to=onnx.TensorProto.FLOAT) for name, given in foreign.items()
        )
        model.graph.node.extend(casts)
        session = started()
    names = [o.name for o in session.get_outputs()]
    taken = {i.name for i in session.get_inputs()}
    values = dict(zip(names, session.run(names, {k: v for k, v in feeds.items() if k in taken}), strict=True))
    values.update({name: values.pop(given) for name, given in foreign.items()})
    return values


def _is_foreign(type_: str) -> bool:
    """Return whether numpy lacks the type: ONNX Runtime refuses such outputs, or returns their bits as integers."""
    return type_.startswith("tensor(") and type_.removeprefix("tensor(").rstrip(")") not in _OF_NUMPY


def _varying(model: Any) -> list[str]:
    """Return the names of values that depend on an input."""
    constants = {t.name for t in model.graph.initializer}
    varying = dict.fromkeys(i.name for i in model.graph.input if i.name not in constants)
    inputs = set(varying)
    for node in model.graph.node:
        if any(name in varying for name in node.input):
            varying.update(dict.fromkeys(o for o in node.output if o))
    return [name for name in varying if name not in inputs]
