"""Random actions, keys, clicks and files in the real window, in a process of its own; everything comes from a seed.

    python -m tests.attack.monkey --seed 7 --steps 500
    python -m tests.attack.monkey --minutes 20

Exit status 1 with a traceback, a warning of Qt, or memory that grew. The last line is JSON with the figures.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from onnx_workbench.model.errors import errors_to
from tests.attack.hostile_files import hostile_files
from tests.attack.mutations import mutated
from tests.real_models import RealModels

_LARGEST = 1 << 20  # of a model that is opened
_MOST_TABS = 5
_HUNG = 300  # seconds without a step, after which the stacks are printed and the process ends
_CLOSED_ALL = 150  # steps after which all tabs are closed
_GROWTH = 400 << 20  # bytes above the first time that all tabs were closed
_MORE_THREADS, _MORE_FILES = 40, 60
_STACK = 2000  # characters of the stacks of the longest stall
#: What leaves the window, or the program: web pages, folders, windows of the system.
_LEFT_OUT = frozenset({"file.quit", "help.logs", "help.folder", "help.website", "help.report"})
#: Of the platform without a screen; and of QTest, for keys and clicks on what is behind a dialog.
_HARMLESS = ("This plugin does not support ", "Keyboard event not accepted by ", "Mouse event ")


class StuckMenus:
    """Closes a menu or popup that a step opened and waits for, as a tool button does: nobody else would.

    Made on the main thread; `steps` tells how many steps were begun.
    """

    def __init__(self, steps: Callable[[], int], milliseconds: int = 1000) -> None:
        from PySide6.QtCore import QTimer

        self._steps, self._seen = steps, -1
        self._timer = QTimer(interval=milliseconds)
        self._timer.timeout.connect(self._look)
        self._timer.start()

    def stop(self) -> None:
        """Look no more."""
        self._timer.stop()

    def _look(self) -> None:
        from PySide6.QtWidgets import QApplication

        seen, self._seen = self._seen, self._steps()
        popup = QApplication.activePopupWidget()
        if popup is not None and self._seen == seen:
            popup.close()


class Monkey:
    """The window and what happens in it. Made on the main thread, once in a process."""

    def __init__(self, seed: int, folder: Path) -> None:
        from PySide6.QtCore import QEvent, QtMsgType, qInstallMessageHandler

        from onnx_workbench.viewer.actions import actions
        from onnx_workbench.viewer.app import Application
        from onnx_workbench.viewer.program.garbage_collection import Collector
        from tests.attack.heartbeat import Heartbeat

        self.rng = random.Random(seed)
        self.folder = folder
        self.faults: list[str] = []
        self.trace: deque[str] = deque(maxlen=12)
        self.steps = 0
        self.closed: list[dict[str, int]] = []  # what the process used whenever all tabs were closed
        self.peak = 0
        self.log: TextIO | None = None  # gets every step, for what ends the process
        qInstallMessageHandler(self._qt_message)
        self._critical = (QtMsgType.QtWarningMsg, QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg)
        sys.excepthook = self._raised
        threading.excepthook = lambda reported: self._raised(
            reported.exc_type, reported.exc_value, reported.exc_traceback
        )
        self._models = self._copies([p for p in RealModels().files() if p.stat().st_size <= _LARGEST])
        self._hostile = hostile_files(self.rng)
        self._answer_dialogs()
        self.application = Application()
        self._collector = Collector(self.application)
        self._collector.start()
        self.window = self.application.start([])
        self.window.closeEvent = QEvent.ignore  # the palette of actions can quit
        self.heartbeat = Heartbeat()
        self._noted = self.heartbeat.worst
        self.stalled = ""
        self._stuck_menus = StuckMenus(lambda: self.steps)
        self._actions = [one.id for one in actions() if one.id not in _LEFT_OUT]
        self._wait(0.5)

    def _copies(self, files: list[Path]) -> list[Path]:
        """Copy models into the folder of this run: random hands save and overwrite what they open."""
        for file in files:
            shutil.copytree(file.parent, self.folder / "models" / file.parent.name)
        return [self.folder / "models" / file.parent.name / file.name for file in files]

    def _qt_message(self, kind: Any, _context: Any, text: str) -> None:
        if kind in self._critical and not text.startswith(_HARMLESS):
            self._fault(f"Qt: {text}")

    def _raised(self, kind: type[BaseException], error: BaseException | None, at: TracebackType | None) -> None:
        self._fault("".join(traceback.format_exception(kind, error, at)))

    def _fault(self, text: str) -> None:
        self.faults.append(f"step {self.steps}, after {' | '.join(self.trace)}\n{text}")
        print(self.faults[-1], flush=True)

    def _answer_dialogs(self) -> None:
        """Dialogs of the system are answered with files of the folder; nothing is opened outside of the program."""
        from PySide6.QtCore import QFile
        from PySide6.QtGui import QDesktopServices
        from PySide6.QtWidgets import QFileDialog

        def there(*_: object) -> tuple[str, str]:
            return str(self.rng.choice([*self._models, self._new_file(), Path()])), ""

        def new(_parent: object, _title: str, start: str, filters: str, *_: object) -> tuple[str, str]:
            suffix = self.rng.choice([Path(start).suffix, ".onnx", ".npz", ".bin", ".png", ""])
            return self.rng.choice(["", str(self.folder / f"saved{self.rng.randrange(9)}{suffix}")]), filters

        dialog: Any = QFileDialog
        dialog.getOpenFileName = there
        dialog.getOpenFileNames = lambda *_: ([there()[0]], "")
        dialog.getSaveFileName = new
        dialog.getExistingDirectory = lambda *_: str(self.folder)
        services: Any = QDesktopServices
        services.openUrl = lambda *_: True
        file: Any = QFile
        file.moveToTrash = lambda *_: False

    def _new_file(self) -> Path:
        """A hostile file, or a mutant of a real model."""
        if self.rng.random() < 0.5:
            hostile = next(self._hostile)
            content, suffix, beside = hostile.content, hostile.suffix, hostile.beside
        else:
            content, suffix, beside = mutated(self.rng.choice(self._models).read_bytes(), self.rng), ".onnx", {}
        path = self.folder / f"file{self.rng.randrange(20)}{suffix}"
        path.write_bytes(content)
        for name, more in beside.items():
            (self.folder / name).write_bytes(more)
        return path

    # -- steps -----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one random thing, and handle events for a moment."""
        self.steps += 1
        kinds: list[tuple[int, Callable[[], str]]] = [
            (4, self._open), (30, self._act), (20, self._key), (25, self._click), (6, self._select), (4, self._panel),
            (3, self._close), (6, self._answer), (3, self._type), (2, self._wheel), (1, self._resize),
        ]  # fmt: skip
        kind = self.rng.choices([do for _, do in kinds], [weight for weight, _ in kinds])[0]
        self.trace.append(kind.__name__)
        faulthandler.dump_traceback_later(_HUNG, exit=True)
        with errors_to(lambda error: self._raised(type(error), error, error.__traceback__)):
            self.trace[-1] = kind()
            if self.log is not None:
                print(self.steps, self.trace[-1], file=self.log, flush=True)
        self._wait(self.rng.choice([0, 0, 0.01, 0.05, 0.3]))
        faulthandler.cancel_dump_traceback_later()
        self.peak = max(self.peak, process_resources()["memory"])
        self._note_stall()

    def _note_stall(self) -> None:
        """Note after what the longest stall so far was, and where the window was then."""
        worst = self.heartbeat.worst
        if worst is not self._noted:
            self._noted = worst
            self.stalled = f"step {self.steps}, after {' | '.join(self.trace)}: {worst.stack[-_STACK:]}"

    def _wait(self, seconds: float) -> None:
        from PySide6.QtCore import QEvent

        end = time.monotonic() + seconds
        while True:
            self.application.processEvents()
            self.application.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # which wait for an event loop else
            if time.monotonic() >= end:
                return
            time.sleep(0.002)

    def _open(self) -> str:
        while len(self.window.tabs()) >= _MOST_TABS:
            self.window.files.forget(self.window.tabs()[0])
        path = self._new_file() if self.rng.random() < 0.4 else self.rng.choice(self._models)
        self.window.files.open([path])
        return f"open {path.parent.name}/{path.name}"

    def _act(self) -> str:
        name = self.rng.choice(self._actions)
        self.window.actions_binding.run(name)
        return f"action {name}"

    def _key(self) -> str:
        from PySide6.QtCore import Qt
        from PySide6.QtTest import QTest
        from PySide6.QtWidgets import QApplication

        keys = Qt.Key
        key = self.rng.choice([
            keys.Key_Escape, keys.Key_Return, keys.Key_Tab, keys.Key_Up, keys.Key_Down, keys.Key_Left, keys.Key_Right,
            keys.Key_Delete, keys.Key_Space, keys.Key_F2, keys.Key_F6, keys.Key_F12, keys.Key_Home, keys.Key_End,
            keys.Key_PageDown, keys.Key_Asterisk, keys.Key_Z, keys.Key_Y, keys.Key_A, keys.Key_C, keys.Key_V,
            keys.Key_X, keys.Key_D, keys.Key_F, keys.Key_K, keys.Key_P, keys.Key_G,
        ])  # fmt: skip
        modifiers = Qt.KeyboardModifier
        modifier = self.rng.choice([
            modifiers.NoModifier, modifiers.NoModifier, modifiers.ControlModifier, modifiers.ShiftModifier,
            modifiers.ControlModifier | modifiers.ShiftModifier,
        ])  # fmt: skip
        target = QApplication.activePopupWidget() or QApplication.focusWidget() or self.window
        QTest.keyClick(target, key, modifier)
        return f"key {modifier.name} {key.name} to {type(target).__name__}"

    def _type(self) -> str:
        from PySide6.QtTest import QTest
        from PySide6.QtWidgets import QApplication

        target = QApplication.focusWidget() or self.window
        text = self.rng.choice(["x", "float[2,3]", "-1", "1e999", "[1, 2", "Conv", "a/b", "9" * 30])
        QTest.keyClicks(target, text)
        return f"type {text} into {type(target).__name__}"

    def _click(self) -> str:
        from PySide6.QtCore import QPoint, Qt
        from PySide6.QtTest import QTest
        from PySide6.QtWidgets import QApplication, QWidget

        tops = [w for w in QApplication.topLevelWidgets() if w.isVisible() and w.width() > 1 and w.height() > 1]
        top = QApplication.activePopupWidget() or self.rng.choice(tops or [self.window])
        at = QPoint(self.rng.randrange(max(1, top.width())), self.rng.randrange(max(1, top.height())))
        child: QWidget | None = top.childAt(at)
        target = top if child is None else child
        inner = target.mapFrom(top, at) if child is not None else at
        buttons = Qt.MouseButton
        button = self.rng.choice([buttons.LeftButton] * 5 + [buttons.RightButton, buttons.MiddleButton])
        modifier = self.rng.choice([Qt.KeyboardModifier.NoModifier] * 4 + [Qt.KeyboardModifier.ControlModifier])
        name = type(target).__name__
        if self.rng.random() < 0.15:
            QTest.mouseDClick(target, button, modifier, inner)
        elif self.rng.random() < 0.2:
            QTest.mousePress(target, button, modifier, inner)
            self._wait(0)
            if _is_there(target):
                QTest.mouseMove(target, inner + QPoint(self.rng.randrange(-200, 200), self.rng.randrange(-200, 200)))
                self._wait(0)
            if _is_there(target):
                QTest.mouseRelease(target, button, modifier, inner)
        else:
            QTest.mouseClick(target, button, modifier, inner)
        return f"click {button.name} {inner.x()},{inner.y()} in {name}"

    def _wheel(self) -> str:
        from PySide6.QtCore import QPoint, QPointF, Qt
        from PySide6.QtGui import QWheelEvent
        from PySide6.QtWidgets import QApplication

        tab = self.window.tab
        if tab is None:
            return "wheel on nothing"
        at = QPointF(tab.canvas.width() / 2, tab.canvas.height() / 2)
        turned = QPoint(0, self.rng.choice([-480, -120, 120, 480]))
        event = QWheelEvent(
            at, tab.canvas.mapToGlobal(at), QPoint(), turned, Qt.MouseButton.NoButton,
            self.rng.choice([Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier]),
            Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(tab.canvas, event)
        return f"wheel {turned.y()}"

    def _select(self) -> str:
        workspace = self.window.workspace
        if workspace is None:
            return "select nothing"
        graphs = list(islice(workspace.model.graphs(), 20))
        graph = self.rng.choice(graphs)
        nodes = list(islice(graph.nodes, 300))
        values = [v for node in nodes for v in (*node.inputs[:3], *node.outputs[:3]) if v is not None]
        found = self.rng.sample([*nodes, *values, graph], min(self.rng.choice([1, 1, 1, 2, 9]), len(nodes) + 1))
        workspace.navigation.reveal_all(found)
        return f"select {len(found)}"

    def _panel(self) -> str:
        from onnx_workbench.viewer.panel_list import PANELS

        name = self.rng.choice(PANELS).id
        if self.window.docks.has(name) and self.window.tab is not None:
            self.window.docks.open(name)
        return f"panel {name}"

    def _close(self) -> str:
        tabs = self.window.tabs()
        if not tabs:
            return "close nothing"
        tab = self.rng.choice(tabs)
        if self.rng.random() < 0.5:
            self.window.files.close(tab)
            return "close"
        self.window.files.forget(tab)
        return "forget"

    def _answer(self) -> str:
        """Press a button of a dialog or message, so that not all is stuck behind one."""
        from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog

        dialogs = [w for w in QApplication.topLevelWidgets() if isinstance(w, QDialog) and w.isVisible()]
        if not dialogs:
            return "answer nothing"
        dialog = self.rng.choice(dialogs)
        buttons = [b for b in dialog.findChildren(QAbstractButton) if b.isVisible() and b.isEnabled()]
        if buttons and self.rng.random() < 0.8:
            button = self.rng.choice(buttons)
            text = button.text()
            button.click()
            return f"press {text} of {type(dialog).__name__}"
        dialog.reject()
        return "reject"

    def _resize(self) -> str:
        width, height = self.rng.randrange(300, 1600), self.rng.randrange(200, 1000)
        self.window.resize(width, height)
        return f"resize {width} {height}"

    # -- memory ----------------------------------------------------------------------------------------------

    def close_all(self) -> None:
        """Close every tab without asking, and note what is left when all has ended."""
        from PySide6.QtWidgets import QApplication, QDialog

        from onnx_workbench.viewer.panel import Panel

        for dialog in [w for w in QApplication.topLevelWidgets() if isinstance(w, QDialog) and w.isVisible()]:
            dialog.reject()
        end = time.monotonic() + 20
        while time.monotonic() < end and (self.window.tabs() or self.window.files.is_waiting):
            for tab in self.window.tabs():
                self.window.files.forget(tab)
            self._wait(0.2)
        self._wait(1.5)
        self._collector.collect()
        self.closed.append(process_resources())
        self._note_stall()
        left = sorted({type(w).__name__ for w in QApplication.allWidgets() if isinstance(w, Panel)})
        if left and not self.window.tabs():
            self._fault(f"panels of closed documents are left: {', '.join(left)}")

    def judge(self) -> dict[str, Any]:
        """The figures; adds faults for what grew from the first to the last time that all tabs were closed."""
        first, last = self.closed[min(1, len(self.closed) - 1)], self.closed[-1]
        for name, most in (("memory", _GROWTH), ("threads", _MORE_THREADS), ("files", _MORE_FILES)):
            if last[name] - first[name] > most:
                self._fault(f"{name} grew from {first[name]:,} to {last[name]:,} with all tabs closed")
        return {
            "steps": self.steps, "faults": len(self.faults), "peak": self.peak, "closed": self.closed,
            "stall": self.heartbeat.worst.seconds, "busy": self.heartbeat.worst.busy, "stalled": self.stalled,
        }  # fmt: skip


def _is_there(widget: object) -> bool:
    from shiboken6 import isValid

    return bool(isValid(widget))


def process_resources() -> dict[str, int]:
    """Resident bytes, threads and open files of this process; 0 where there is no /proc."""
    process = Path("/proc/self")
    if not process.exists():
        return {"memory": 0, "threads": threading.active_count(), "files": 0}
    pages = int((process / "statm").read_text(encoding="ascii").split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "threads": len([*(process / "task").iterdir()]),
        "files": len([*(process / "fd").iterdir()]),
    }


def main() -> int:
    """Run the monkey; the exit status says whether it found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--log", type=argparse.FileType("w"), help="file for every step")
    options = parser.parse_args()
    print(f"--seed {options.seed}", flush=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ONNX_WORKBENCH_STATE"] = str(folder / "state")
        os.chdir(folder)
        monkey = Monkey(options.seed, folder)
        monkey.log = options.log
        monkey.close_all()
        end = time.monotonic() + 60 * options.minutes
        while monkey.steps < options.steps or time.monotonic() < end:
            monkey.step()
            if not monkey.steps % _CLOSED_ALL:
                monkey.close_all()
        monkey.close_all()
        figures = monkey.judge()
        print(json.dumps(figures), flush=True)
    sys.stdout.flush()
    os._exit(bool(monkey.faults))  # without waiting for what runs on


if __name__ == "__main__":
    main()
