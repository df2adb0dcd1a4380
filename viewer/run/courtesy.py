"""While a person acts, a run leaves one of the processor's cores to the window, which comes first.

So do the other threads of the program, which hear what the run tells and look at it, but for those that the window
waits for. And what the window itself does in slices has fewer turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.exec.kernels.threads import stand_back
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.viewer.core.precedence import acts
from onnx_workbench.viewer.core.slices import serving

if TYPE_CHECKING:
    from onnx_workbench.viewer.core.context import Workspace

#: Milliseconds after which a person who has done nothing more waits for the run rather than for the window.
_PATIENCE = 600
#: Seconds after which to look again for threads that have been started since.
_NEW_THREADS = 0.1


class Courtesy(QObject):
    """Lets the worker that runs a model stand back and come forward again. GUI thread only.

    Priorities do not suffice: a thread that wakes up waits until the one that has its core has used up its slice, a
    good part of a frame, however much less it matters.
    """

    def __init__(self, workspace: Workspace, running: Callable[[], object]) -> None:
        super().__init__(workspace)
        self._running = running
        self._standing: WorkerSession | None = None
        self._looked = 0.0  # when its threads were last told to stand back
        self._rest = QTimer(self, singleShot=True, interval=_PATIENCE)
        self._rest.timeout.connect(self._come_forward)
        acts().acted.connect(self._give_way)
        workspace.closed.connect(self._come_forward)

    def _give_way(self) -> None:
        session = self._running()
        if session is not None:
            acts().come_first()
        if isinstance(session, WorkerSession):
            if session is not self._standing:
                self._standing = session
                session.stand_back(back=True)
            if time.monotonic() > self._looked + _NEW_THREADS:
                self._own_threads(back=True)
            self._rest.start()

    def _come_forward(self) -> None:
        if self._standing is not None:
            self._standing.stand_back(back=False)
            self._own_threads(back=False)
            self._standing = None

    def _own_threads(self, *, back: bool) -> None:
        self._looked = time.monotonic() if back else 0.0
        stand_back(os.getpid(), back=back, but=[threading.get_native_id(), *serving()])
