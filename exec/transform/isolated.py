"""Transformations that run a model many times, in a child process: a crash or a limit ends that alone."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from onnx_workbench.exec.kernels.threads import allowed_cores
from onnx_workbench.model import extensions
from onnx_workbench.model.budget import OVERHEAD, process_budget
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import make_own_folder, run_isolated

P = ParamSpec("P")
T = TypeVar("T")
_SECONDS = 24 * 3600  # of all runs; they are stopped by the user


def isolated(
    work: Callable[Concatenate[Model, Progress, P], T], model: Model, what: str, progress: Progress = SILENT
) -> Callable[P, T]:
    """Return `work` as it is called in a child process, with a copy of the model and a Progress that reports here.

    `work` is a function of a module; its other arguments and its result can be pickled. `what` is the subject of error
    messages. Cost: starting a process, and a file of the model. Any thread that may wait.
    """

    def call(*given: P.args, **named: P.kwargs) -> T:
        folder = make_own_folder()
        try:
            path = folder / "model.onnx"
            save(model, path, progress=progress)
            reply = run_isolated(
                f"{__name__}:run_in_child",
                pickle.dumps((extensions.state(), work, path, given, named)),
                what=what,
                memory=process_budget() + OVERHEAD,
                seconds=_SECONDS,
                threads=allowed_cores(),
                progress=progress,
                reports=True,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        result: T = pickle.loads(reply)  # noqa: S301 - written by the child that we started
        return result

    return call


def run_in_child(payload: bytes, progress: Progress) -> bytes:
    """The child's side of `isolated`."""
    wanted, work, path, given, named = pickle.loads(payload)  # noqa: S301 - written by the process that started this
    extensions.load_exactly(wanted)
    os.chdir(path.parent)  # its own was removed; processes that it starts, as for ONNX Runtime, need one
    result: Any = work(load(path), progress, *given, **named)
    return pickle.dumps(result)
