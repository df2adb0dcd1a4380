"""How long the first window takes, in CPU time of a fresh process, against the cheapest window Qt can show.

    python tests/benchmarks/bench_startup.py

Prints the program's start page, the frame of a document that is about to open, and the sample drawn, each as CPU
seconds and as a multiple of a bare QMainWindow with one label, all measured in this run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROUNDS = 7

BARE = """
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow
from PySide6.QtCore import QTimer
application = QApplication([])
class Window(QMainWindow):
    def paintEvent(self, event):
        QTimer.singleShot(0, application.quit)
window = Window()
window.setCentralWidget(QLabel("window"))
window.show()
application.exec()
"""

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from onnx_workbench.viewer.program.qt_imports import read_no_sources
read_no_sources()
from onnx_workbench.viewer.app import Application
application = Application()
window = application.start({names!r})
{until}
application.exec()
"""

PAINTED = "window.first_painted.connect(application.quit)"
DRAWN = """
from PySide6.QtCore import QTimer
def watch(tab):
    tab.view.scenes.scene_shown.connect(lambda: QTimer.singleShot(0, application.quit))
window.files.opened.connect(watch)
"""


def measure(code: str) -> tuple[float, float]:
    """CPU and wall seconds of a fresh process, interpreter included."""
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "ONNX_WORKBENCH_STATE": state}
        environment.setdefault("QT_QPA_PLATFORM", "offscreen")
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every module is compiled each time
        before, began = os.times(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", f"{code}\nimport os; os._exit(0)"],
            check=True,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        after, ended = os.times(), time.perf_counter()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, ended - began


def main() -> None:
    """Measure in turns, so that a busy moment hits all alike, and print the best and the median."""
    root = str(REPOSITORY)
    programs = {
        "bare window": BARE,
        "start page": PROGRAM.format(root=root, names=[], until=PAINTED),
        "frame for a file": PROGRAM.format(root=root, names=["--sample"], until=PAINTED),
        "sample drawn": PROGRAM.format(root=root, names=["--sample"], until=DRAWN),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, code in programs.items():
            times[name].append(measure(code))
    yardstick = min(cpu for cpu, _ in times["bare window"])
    print(f"{'':18}{'CPU best':>10}{'median':>9}{'wall best':>11}{'× bare':>9}")
    for name, runs in times.items():
        cpu = [run[0] for run in runs]
        wall = min(run[1] for run in runs)
        print(f"{name:18}{min(cpu):9.2f}s{statistics.median(cpu):8.2f}s{wall:10.2f}s{min(cpu) / yardstick:9.2f}")


if __name__ == "__main__":
    main()
