"""Start-up: the application object, the first window, and what happens once it is painted."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QLibraryInfo, QSocketNotifier, Qt, QTimer, QTranslator
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication, QStyleFactory

from onnx_workbench.model import extensions
from onnx_workbench.viewer.files.open_model import STANDARD_INPUT
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.program import crash_report, language
from onnx_workbench.viewer.program.garbage_collection import Collector, use_one_heap
from onnx_workbench.viewer.program.settings import EXTENSIONS, THEME, Settings
from onnx_workbench.viewer.style.app_icon import app_icon
from onnx_workbench.viewer.style.theme import as_mode, themes
from onnx_workbench.viewer.tasks.threads import wait_for_end

if TYPE_CHECKING:
    from onnx_workbench.viewer.program.instance_listener import InstanceListener
    from onnx_workbench.viewer.program.single_instance import OpenMessage

SAMPLE = "--sample"


class Application(QApplication):
    """The one application; on macOS files arrive as events rather than as arguments."""

    def __init__(self) -> None:
        use_one_heap()
        # Else Qt splits large fills among its own threads and waits for them: on a busy machine, as during a run,
        # longer than it takes to paint them.
        os.environ.setdefault("QT_NO_GUI_THREADPOOL", "1")
        super().__init__(["onnx-workbench"])
        self.setApplicationName("onnx-workbench")
        self.setApplicationDisplayName("ONNX Workbench")
        self.setDesktopFileName("onnx-workbench")
        self.setWindowIcon(app_icon())
        if language.current() != language.ENGLISH:
            translator = QTranslator(self)  # of Qt's own dialogs
            translations = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
            if translator.load(f"qtbase_{language.current()}", translations):
                self.installTranslator(translator)
        self.window: MainWindow | None = None
        self._listener: InstanceListener | None = None
        self._waiting: list[Path] = []

    def event(self, event: QEvent) -> bool:
        """Open files the system hands over."""
        if isinstance(event, QFileOpenEvent):
            self.open([Path(event.file())])
            return True
        return super().event(event)

    def open(self, paths: list[Path]) -> None:
        """Open files in the window, or as soon as it exists."""
        if self.window is None:
            self._waiting += paths
        else:
            self.window.files.open(paths)

    def start(self, names: Sequence[str], goto: str = "", load: Sequence[str] = ()) -> MainWindow:
        """Show the window; after its first paint, open the named files, and show the node `goto` of the first one.

        `load` are extensions, beside those in the preferences.
        """
        settings = Settings(self)
        self.setStyle(QStyleFactory.create("Fusion"))
        themes().set_mode(as_mode(settings.get(THEME)))
        themes().apply()
        window = self.window = MainWindow(settings)
        window.closing.connect(self._stop_listening)
        window.destroyed.connect(self._window_gone)
        window.expect(bool(names or self._waiting))
        window.show()
        window.when_painted(lambda: self._open_named(window, [*names, *map(str, self._waiting)], goto, load))
        return window

    def _open_named(self, window: MainWindow, names: Sequence[str], goto: str, load: Sequence[str]) -> None:
        refused = extensions.load_all([*window.settings.get(EXTENSIONS), *load])
        window.actions_binding.refresh_soon()
        for name in names:
            if name == STANDARD_INPUT:
                window.files.open_standard_input()
            elif name == SAMPLE:
                window.files.open_sample()
            else:
                window.files.open([Path(name)])
        if goto:
            window.files.go_to(Path(names[0]), goto)
        window.expect(False)
        if not names:
            window.files.warm_up()
        from onnx_workbench.viewer.extensions import custom_operators
        from onnx_workbench.viewer.files import recovery

        recovery.offer_recovery(window.files)
        for error in [*refused, *custom_operators.documents().remember(window.settings)]:
            window.area.report(error)
        QTimer.singleShot(0, self, self._listen)

    def _listen(self) -> None:
        """Open the files of later starts in this window; without Qt's network library each start has its own."""
        try:
            from onnx_workbench.viewer.program.instance_listener import InstanceListener
        except ImportError:
            return
        self._listener = InstanceListener(self)
        self._listener.received.connect(self._open_files)
        self._listener.listen()

    def _open_files(self, request: OpenMessage) -> None:
        """Open the files passed by a second start of the program, in the active window."""
        window = self.window
        if window is None:
            return
        self.open([Path(name) for name in request.files])
        if request.goto:
            window.files.go_to(Path(request.files[0]), request.goto)
        if request.token:
            os.environ["XDG_ACTIVATION_TOKEN"] = request.token  # Qt hands it to a Wayland desktop
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.raise_()
        window.activateWindow()
        self.alert(window)  # for desktops that let no program come to the front by itself

    def _stop_listening(self) -> None:
        """Stop listening: later starts of the program open separate windows."""
        if self._listener is not None:
            self._listener.close()

    def _window_gone(self) -> None:
        self.window = None


def run(names: Sequence[str], goto: str = "", load: Sequence[str] = ()) -> int:
    """Run the program until its window is closed; returns the exit status. `-` names standard input, `goto` a node.

    `load` are extensions.
    """
    application = Application()
    collector = Collector(application)
    collector.start()
    crash_report.install(_show_crash)
    application.start(names, goto, load)
    with handling_signals(application):
        status = application.exec()
    collector.stop()
    if not wait_for_end():
        sys.stdout.flush()
        os._exit(status)  # else Qt would wait for the threads of tasks that ignore cancellation
    return status


def _show_crash(text: str) -> None:
    from onnx_workbench.viewer.dialogs.crash import CrashDialog

    CrashDialog.show_report(text)


@contextmanager
def handling_signals(application: QApplication) -> Iterator[None]:
    """Quit on Ctrl+C and on the end of the session. Python sees a signal only while it runs, so each wakes it."""
    signal.signal(signal.SIGINT, lambda *_: application.quit())
    if sys.platform != "win32":
        signal.signal(signal.SIGTERM, lambda *_: application.quit())
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    notifier = QSocketNotifier(ours.fileno(), QSocketNotifier.Type.Read, application)
    notifier.activated.connect(lambda *_: ours.recv(4096))  # whose call lets Python see to the signal
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        notifier.setEnabled(False)
        ours.close()
        theirs.close()
