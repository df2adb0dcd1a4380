"""Saves in which a system call fails, as of a full or broken disk, by a random generator."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

_CALLS = ("open", "write", "fsync", "fchmod", "replace", "stat", "fstat", "unlink")
_ERRORS = (
    errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EINTR, errno.EDQUOT, errno.ENOENT, errno.EMFILE,
    errno.ESTALE, errno.ENOMEM,
)  # fmt: skip


@contextmanager
def failing(at: int, error: int, *, for_ever: bool) -> Iterator[list[str]]:
    """Have the call with a number fail, or that and all after it; yields the names of those that did."""
    failed: list[str] = []
    count = 0
    before = {name: getattr(os, name) for name in _CALLS if hasattr(os, name)}

    def wrap(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            if count == at or (for_ever and count > at and name not in ("stat", "fstat", "unlink")):
                failed.append(name)
                raise OSError(error, os.strerror(error))
            return call(*arguments, **more)

        return wrapped

    for name, call in before.items():
        setattr(os, name, wrap(name, call))
    try:
        yield failed
    finally:
        for name, call in before.items():
            setattr(os, name, call)


def save_with_fault(path: Path, rng: random.Random) -> str:
    """Rename a node of a model and save it while a call fails; "" if the file is then the old or the new one, whole."""
    content = path.read_bytes()
    document = Document(load(path), path)
    names = [value.name for value in document.model.graph.initializers]
    new = f"renamed{rng.randrange(1 << 30)}"
    with document.edit("Rename") as edit:
        edit.do(SetField(next(iter(document.model.graph.nodes)), "name", new))
    storage = Storage(rng.choice([DataLayout.KEEP, DataLayout.KEEP, DataLayout.ONE_FILE]))
    message = ""
    at, error = rng.randrange(1, 60), rng.choice(_ERRORS)
    with failing(at, error, for_ever=rng.random() < 0.3) as failed:
        try:
            save(document.model, path, storage)
        except ModelError as refused:
            message = str(refused)
    report = f"{failed[:3]} with {errno.errorcode[error]} at call {at}: {message}"
    if message and path.read_bytes() == content:
        return ""
    found = load(path)
    is_new = next(iter(found.graph.nodes)).name == new
    is_whole = [v.name for v in found.graph.initializers] == names and not any(
        v.initializer.problem for v in found.graph.initializers if v.initializer is not None
    )
    return "" if is_new and is_whole else f"the file is neither the old nor the new one after {report}"


def convert_on_small_disk(path: Path, rng: random.Random) -> str:
    """Convert a file into itself where files may have so many bytes only; "" if it is whole then."""
    size = rng.randrange(1, 2 * path.stat().st_size)
    words = ["convert", str(path), "--strip", "doc", "-o", str(path), "--check", "0"]
    before = path.read_bytes()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "onnx_workbench", *words]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    if "Traceback" in done.stderr or done.returncode not in (0, 2):
        return f"exit {done.returncode} with {size} bytes: {done.stderr[-500:]}"
    if done.returncode and path.read_bytes() != before:
        return f"the file changed with {size} bytes: {done.stderr[-500:]}"
    found = load(path)
    problems = [v.initializer.problem for v in found.graph.initializers if v.initializer is not None]
    return "" if not any(problems) else f"{problems[:2]} with {size} bytes"
