"""A second start hands its files over; strangers, leftovers and programs that hang do no harm."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket

from onnx_workbench.viewer.program.instance_listener import InstanceListener
from onnx_workbench.viewer.program.single_instance import LARGEST, OpenMessage, address, send_to_running_instance

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="speaks to the socket itself")


@pytest.fixture(autouse=True)
def short_state_folder(monkeypatch):
    """A folder whose path leaves room for a socket's name; the temporary folder of the tests may be deep."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("ONNX_WORKBENCH_STATE", folder)
        yield Path(folder)


@pytest.fixture
def listener(qapp, short_state_folder):
    listener = InstanceListener()
    listener.requests = []
    listener.received.connect(listener.requests.append)
    assert listener.listen()
    yield listener
    listener.close()


def start(qtbot, *names):
    """Start the program a second time, as far as handing over goes; returns whether that was all it had to do."""
    answers = []
    other = threading.Thread(target=lambda: answers.append(send_to_running_instance(names)))
    other.start()
    qtbot.waitUntil(lambda: bool(answers))
    other.join()
    return answers[0]


def send(qtbot, content, *, then_close=True):
    """Be a stranger: send bytes, and what comes back until the other side hangs up."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address())
        line.sendall(content)
        if then_close:
            line.shutdown(socket.SHUT_WR)
        line.settimeout(0.02)
        received = []

        def is_over():
            try:
                received.append(line.recv(100))
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            return not received[-1]

        qtbot.waitUntil(is_over)
    return b"".join(received)


def test_files_reach_the_program_that_is_open(listener, qtbot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_ACTIVATION_TOKEN", "token")
    assert start(qtbot, "a.onnx", str(tmp_path / "ü <b>.onnx"))
    assert listener.requests == [OpenMessage((str(tmp_path / "a.onnx"), str(tmp_path / "ü <b>.onnx")), "token")]


def test_without_a_program_the_second_start_is_the_first(qtbot):
    assert not start(qtbot, "a.onnx")


def test_once_it_is_closed_nothing_is_handed_over(listener, qtbot):
    listener.close()
    assert not start(qtbot, "a.onnx")


def test_who_is_connected_when_it_closes_is_not_accepted(listener, qtbot):
    with socket.socket(socket.AF_UNIX) as early:
        early.connect(address())
        qtbot.waitUntil(lambda: bool(listener.findChildren(QLocalSocket)))
        listener.close()
        early.sendall(OpenMessage(("/a.onnx",)).to_bytes())
        qtbot.waitUntil(lambda: not listener.findChildren(QLocalSocket))
        early.settimeout(10)
        with contextlib.suppress(ConnectionError):
            assert early.recv(100) == b""
    assert listener.requests == []


def test_what_a_killed_program_left_behind_is_no_obstacle(qapp, qtbot, state_folder):
    state_folder.mkdir()
    left = socket.socket(socket.AF_UNIX)
    left.bind(address())
    left.close()
    assert Path(address()).exists()
    assert not start(qtbot, "a.onnx")
    listener = InstanceListener()
    assert listener.listen()
    assert start(qtbot, "a.onnx")
    listener.close()


def test_a_second_listener_leaves_the_first_alone(listener, qtbot):
    second = InstanceListener()
    assert not second.listen()
    second.close()
    assert start(qtbot, "a.onnx")
    assert len(listener.requests) == 1


def test_a_program_that_hangs_is_not_waited_for(qapp, state_folder):
    state_folder.mkdir()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(address())
        deaf.listen()
        assert not send_to_running_instance(["a.onnx"], timeout=0.1)


@pytest.mark.long
@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\x00\xfe\n",
        b"[" * 50_000 + b"\n",
        b"x" * (2 * LARGEST),
        b'{"open": "/etc/passwd", "token": ""}\n',
        b'{"open": [], "token": ""}\n',
        b'{"open": ["relative.onnx"], "token": ""}\n',
        b'{"open": ["/a\\u0000b"], "token": ""}\n',
        b'{"open": ["/a"], "token": 1}\n',
        b'{"open": [1], "token": ""}\n',
        b'{"open": ["/a"], "token": ""}',
    ],
    ids=[
        "nothing",
        "http",
        "bytes",
        "nested",
        "endless",
        "text",
        "no files",
        "relative",
        "nul",
        "token",
        "number",
        "cut",
    ],
)
def test_nonsense_is_hung_up_on_and_the_next_sender_is_received(listener, qtbot, content):
    try:
        assert send(qtbot, content) == b""
    except BrokenPipeError:
        pass  # hung up on before all was sent
    assert listener.requests == []
    assert start(qtbot, "a.onnx")


@pytest.mark.long
def test_who_says_nothing_is_hung_up_on(listener, qtbot):
    assert send(qtbot, b"", then_close=False) == b""
    assert listener.requests == []


def test_others_cannot_reach_the_socket(listener):
    assert Path(address()).stat().st_mode & 0o077 == 0


def test_there_is_no_meeting_where_others_may_put_a_socket(short_state_folder, qapp):
    short_state_folder.chmod(0o777)
    assert address() is None
    assert not send_to_running_instance(["a.onnx"])
    assert not InstanceListener().listen()


def test_each_display_has_a_place_of_its_own(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":1")
    first = address()
    monkeypatch.setenv("DISPLAY", ":2")
    assert address() != first


def test_a_request_survives_the_way():
    request = OpenMessage(("/a b", "/\udcff"), "t")
    assert OpenMessage.from_bytes(request.to_bytes()) == request
    assert json.loads(request.to_bytes())["open"] == ["/a b", "/\udcff"]


@pytest.mark.parametrize("token", ["a\0b", "\ud800", "é", "a\nb"])
def test_a_token_that_no_desktop_gives_is_refused(token, tmp_path):
    line = json.dumps({"open": [str(tmp_path / "m.onnx")], "token": token}).encode()
    assert OpenMessage.from_bytes(line) is None


@pytest.mark.parametrize("name", ["/a\0b", "/\ud800"])
def test_a_name_that_no_file_has_is_refused(name):
    assert OpenMessage.from_bytes(json.dumps({"open": [name], "token": ""}).encode()) is None
