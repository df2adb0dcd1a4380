"""Receives files from later starts of the program; see `viewer.program.single_instance` for the other side.

Messages are untrusted: their length and time are limited, their form is checked, and they can only open files that
this user could open anyway.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from onnx_workbench.viewer.program.single_instance import ACCEPTED, LARGEST, OpenMessage, address

_TIMEOUT_MS = 2000  # time limit for a sender
_MOST = 8  # limit for simultaneous senders


class InstanceListener(QObject):
    """Listens for other starts of the program. GUI thread only."""

    received = Signal(object)  # Request

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_closed = False
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.setMaxPendingConnections(_MOST)
        self._server.newConnection.connect(self._greet)

    def listen(self) -> bool:
        """Start listening; return False if another instance listens, or if there is no folder for the socket."""
        where = address()
        if where is None:
            return False
        if _answers(where):  # checked first, as Qt would replace the other socket
            return False
        QLocalServer.removeServer(where)  # left behind by a program that was killed
        return self._server.listen(where)

    def close(self) -> None:
        """Stop listening and close connections, so that later starts open separate windows."""
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
    is_answered = probe.waitForConnected(200)
    probe.abort()
    return is_answered
