import io
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.source import BytesSource, open_file, read_stream
from onnx_workbench.model.progress import Cancelled, Progress


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    return path


def test_any_part_can_be_read(path):
    source = open_file(path)
    assert source.size == 100
    assert source.read(10, 5) == bytes(range(10, 15))
    assert source.read(0, 0) == b""
    assert source.read(99, 1) == b"c"


def test_reading_beyond_the_end_is_reported(path):
    with pytest.raises(ModelError, match="too short"):
        open_file(path).read(90, 11)


@pytest.mark.parametrize("content", [b"x" * 100, b"short", b"x" * 200])
def test_a_file_written_to_since_is_reported(path, content):
    source = open_file(path)
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ModelError, match="changed on disk since it was opened"):
        source.read(0, 5)


def test_a_file_that_shrinks_while_it_is_read_is_reported(path, monkeypatch):
    source = open_file(path)
    monkeypatch.setattr(source, "check_unchanged", lambda: None)
    os.truncate(path, 50)
    with pytest.raises(ModelError, match="ended at byte 50"):
        source.read(40, 20)


def test_a_file_replaced_or_removed_can_still_be_read(path):
    source = open_file(path)
    other = path.with_name("other")
    other.write_bytes(b"other")
    other.replace(path)
    assert source.read(0, 2) == b"\0\1"
    path.unlink()
    assert source.read(0, 2) == b"\0\1"


def test_a_closed_file_is_reported(path):
    source = open_file(path)
    source.close()
    source.close()
    assert source.closed
    with pytest.raises(ModelError, match="closed"):
        source.read(0, 1)


def test_what_is_no_file_is_reported(tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        open_file(tmp_path / "nothing")
    with pytest.raises(ModelError, match="folder"):
        open_file(tmp_path)
    with pytest.raises(ModelError, match="cannot be opened"):
        open_file(tmp_path / ("x" * 300))
    with pytest.raises(ModelError, match="cannot be opened"):
        open_file("a\0b")
    with pytest.raises(ModelError, match="not a regular file"):
        open_file(os.devnull)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no sockets with names here")
def test_a_socket_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        with pytest.raises(ModelError, match="not a regular file"):
            open_file("socket")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_with_a_name_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="not a regular file"):
        open_file(tmp_path / "pipe")


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no /dev/fd here")
def test_a_pipe_of_the_shell_is_read_to_its_end():
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(writer, b"model"), os.close(writer)))
    thread.start()
    source = open_file(f"/dev/fd/{reader}")
    thread.join()
    os.close(reader)
    assert source.read(0, source.size) == b"model"


def test_a_stream_is_kept_in_a_file_of_its_own():
    data = os.urandom(3 << 20)
    source = read_stream(io.BytesIO(data), "stream")
    assert source.read(1 << 20, 100) == data[1 << 20 : (1 << 20) + 100]
    assert source.name == "stream"


def test_a_stream_without_end_does_not_fill_the_disk(monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10 << 20))
    endless = SimpleNamespace(read=bytes)
    with pytest.raises(ModelError, match="more than 5,242,880 bytes"):
        read_stream(endless, "stream")


def test_reading_a_stream_can_be_cancelled():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        read_stream(io.BytesIO(b"x"), "stream", progress)


def test_bytes_are_a_source():
    assert BytesSource(memoryview(b"abc")).read(1, 2) == b"bc"
