"""Values on their way between two processes, through memory or files that both can open."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.model.errors import ModelError


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks up where a descriptor is")
def test_a_full_memory_folder_sends_values_through_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Containers have little room in /dev/shm; beyond it a mapping would end the process with a signal."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    exchange = SharedMemoryExchange.create()
    write, full = os.write, {Path(exchange.folder)}

    def into_little_room(descriptor: int, content: memoryview) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().parent in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content[:30_000])

    monkeypatch.setattr(os, "write", into_little_room)
    array = np.arange(100_000, dtype=np.int32).reshape(1000, 100).T
    try:
        sent = exchange.encode(array)
        assert not list(Path(exchange.folder).iterdir())
        np.testing.assert_array_equal(SharedMemoryExchange(exchange.folder).decode(sent), array)
        full |= set(tmp_path.iterdir())
        with pytest.raises(ModelError, match="400,000 bytes"):
            exchange.encode(array)
    finally:
        exchange.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="no files are used there")
def test_a_folder_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    exchange = SharedMemoryExchange.create()
    (tmp_path / f"{Path(exchange.folder).name}-spare").symlink_to(tmp_path)
    monkeypatch.setattr(os, "write", _no_room)
    try:
        with pytest.raises(ModelError, match="belongs to another user"):
            exchange.encode(np.zeros(100_000))
    finally:
        exchange.remove()


def _no_room(_descriptor: int, _content: memoryview) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.ones((300, 400), np.float16)[::2, ::3],
        np.array(["a", ""], object),
        np.zeros((0, 4), np.float32),
        np.array(3.5),
        [np.ones(2), [np.zeros(50_000)]],
        {1: 2.0},
        None,
    ],
)
def test_what_is_encoded_is_decoded(value: Any) -> None:
    exchange = SharedMemoryExchange.create()
    try:
        other = SharedMemoryExchange(exchange.folder)
        taken = other.decode(exchange.encode(value))
        np.testing.assert_equal(taken, value)
        if isinstance(value, np.ndarray):
            assert (taken.dtype, taken.shape) == (value.dtype, value.shape)
        if os.name != "nt":
            assert list(Path(exchange.folder).iterdir()) == []
    finally:
        exchange.remove()
