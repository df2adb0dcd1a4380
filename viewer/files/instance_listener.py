"""Hears what later starts of the program hand over; see `viewer.files.single_instance` for the other side.

Whatever comes in is held to be a stranger's until it has the right form: the length and the time it may take are
limited, and the most it can do is to have files opened that this user could open anyway.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from onnx_workbench.viewer.files.single_instance import ACCEPTED, LARGEST, OpenMessage, address

_TIMEOUT_MS = 2000  # ms a sender may take
_MOST = 8  # senders at a time


class InstanceListener(QObject):
    """Waits for other starts. GUI thread only."""

    received = Signal(object)  # Request

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_closed = False
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.setMaxPendingConnections(_MOST)
        self._server.newConnection.connect(self._greet)

    def listen(self) -> bool:
        """Start listening; return False where another program listens already, or there is no folder for the socket."""
        where = address()
        if where is None:
            return False
        if _answers(where):  # checked first: Qt would replace the socket of the other one
            return False
        QLocalServer.removeServer(where)  # left behind by a program that was killed
        return self._server.listen(where)

    def close(self) -> None:
        """Stop listening, also to open connections, so that each start opens a window of its own."""
        self._server.close()
        self._is_closed = True

    def _greet(self) -> None:
        while (line := self._server.nextPendingConnection()) is not None:
            line.setParent(self)
            line.setReadBufferSize(LARGEST)
            line.readyRead.connect(partial(self._read_line, line))
            line.disconnected.connect(line.deleteLater)
            QTimer.singleShot(_TIMEOUT_MS, line, line.abort)
            self._read_line(line)

    def _read_line(self, line: QLocalSocket) -> None:
        if not line.canReadLine():
            if line.bytesAvailable() >= LARGEST:
                line.abort()
            return
        request = OpenMessage.from_bytes(bytes(line.readLine().data()))
        if request is None or self._is_closed:
            line.abort()
            return
        line.write(ACCEPTED)
        line.disconnectFromServer()
        self.received.emit(request)


def _answers(where: str) -> bool:
    """Return whether a program listens there."""
    probe = QLocalSocket()
    probe.connectToServer(where)
    found = probe.waitForConnected(200)
    probe.abort()
    return found
