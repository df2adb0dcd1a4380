"""Pictures, tables and values of runs do not replace what is no regular file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import pytest

from onnx_workbench.exec.values.npz_files import write_npz
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.atomic_file import replacing

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")


@pytest.fixture(params=["pipe", "socket", "folder", "loop"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something that is no regular file."""
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    path = Path(request.param)
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("other")
            Path("other").symlink_to(path)
    return path


def written_to(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"content")


def test_what_is_no_file_stays(target: Path) -> None:
    before = target.lstat()
    with pytest.raises(ModelError, match=f"{target.name} cannot be written"):
        written_to(target)
    assert target.lstat() == before
    assert not any(path.suffix == ".tmp" for path in Path().iterdir())


def test_values_are_not_written_to_what_no_one_reads_from(target: Path) -> None:
    before = target.lstat()
    with pytest.raises(ModelError, match=f"{target.name} cannot be written"):
        write_npz(target, [("x", np.ones(2))])
    assert target.lstat() == before


def test_values_go_into_a_pipe_that_is_read_from(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_npz(tmp_path / "pipe", [("x", np.ones(2))])
    assert os.read(reader, 4) == b"PK\x03\x04"
    os.close(reader)
