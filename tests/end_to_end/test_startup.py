"""The program as a process of its own: what it has loaded when its window is painted, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from onnx_workbench.__main__ import restore_library_path

REPOSITORY = Path(__file__).parents[2]

FIRST_PAINT = """
import json, sys
from PySide6.QtCore import QEvent, QObject
from onnx_workbench.viewer.app import Application
application = Application()
window = application.start({names!r})
class Watch(QObject):
    def eventFilter(self, watched, event):
        if watched is window and event.type() == QEvent.Type.Paint:  # before what follows it may begin, on any thread
            print(json.dumps(sorted(sys.modules)))
            window.removeEventFilter(self)
            application.exit()
        return False
watch = Watch()
window.installEventFilter(watch)
application.exec()
sys.stdout.flush()
import os; os._exit(0)
"""

#: What may be loaded only after the first paint: each costs a tenth of a second or more.
HEAVY = (
    "numpy",
    "onnx",
    "networkx",
    "pyqtgraph",
    "google.protobuf",
    "ml_dtypes",
    "PIL",
    "threadpoolctl",
    "numkong",
    "onnx_workbench.exec",
    "onnx_workbench.model.io.reader.read",
    "onnx_workbench.viewer.popups.command_palette",
    "importlib.metadata",
)


def run(code: str, state: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "ONNX_WORKBENCH_STATE": str(state), **environment}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env=settings,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("names", [[], ["--sample"]], ids=["start page", "with a model"])
def test_the_first_paint_needs_qt_alone(names, tmp_path):
    result = run(FIRST_PAINT.format(names=names), tmp_path)
    assert result.returncode == 0, result.stderr
    loaded = json.loads(result.stdout)
    assert "PySide6.QtWidgets" in loaded
    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.long
def test_showing_a_model_needs_no_executor_and_no_conversions(tmp_path):
    code = """
import json, sys
from onnx_workbench.viewer.preload import import_view
import_view()
print(json.dumps(sorted(sys.modules)))
"""
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr
    loaded = json.loads(result.stdout)
    assert "onnx_workbench.viewer.canvas.graph_view" in loaded
    heavy = ("onnx_workbench.exec.engine.engine", "onnx_workbench.exec.session", "onnx_workbench.model.convert.upgrade")
    assert [name for name in heavy if name in loaded] == []


@pytest.mark.long
def test_qt_does_not_read_the_source_of_what_is_imported(tmp_path):
    code = """
from importlib import import_module
from onnx_workbench.viewer.program.qt_imports import read_no_sources
import PySide6.QtCore
import html.entities
read_no_sources()
import html.parser
print([name in import_module("shibokensupport.feature").pyside_feature_dict for name in {names}])
"""
    result = run(code.format(names=["html.entities", "html.parser"]), tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[True, False]"


NONE_COUNT = """
import sys
from PySide6.QtWidgets import QApplication, QLabel
application = QApplication([])
label = QLabel()
def work():
    for number in range(5000):
        label.setText(str(number))
        label.setEnabled(bool(number % 2))
        label.update()
work()
before = sys.getrefcount(None)
work()
print(sys.getrefcount(None) - before)
"""


@pytest.mark.long
def test_qt_calls_do_not_use_up_references_to_none(tmp_path):
    """Some pairs of Python and PySide6 drop one per void call, and the process dies after a few thousand."""
    result = run(NONE_COUNT, tmp_path)
    assert result.returncode == 0, result.stderr
    assert abs(int(result.stdout)) < 500


WHOLE_SESSION = """
import sys
from PySide6.QtCore import QTimer
from onnx_workbench.viewer import app
def look():
    window = application.window
    if window is None:
        return
    tabs = window.tabs()
    if tabs and not tabs[-1].view.scenes.is_busy:
        print([tab.workspace.title for tab in tabs], len(tabs[-1].workspace.graph.nodes))
        window.close()
    elif window.area.message_bar.messages:
        print(window.area.message_bar.messages[0].title)
        window.close()
original = app.Application.start
def start(self, names, *more):
    global application
    application = self
    self.timer = QTimer(self, interval=20)
    self.timer.timeout.connect(look)
    self.timer.start()
    return original(self, names, *more)
app.Application.start = start
sys.exit(app.run({names!r}))
"""


def session(names: list[str], state: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return run(WHOLE_SESSION.format(names=names), state)


def test_a_session_opens_the_sample_and_ends_cleanly(tmp_path):
    result = session(["--sample"], tmp_path / "state")
    assert (result.returncode, result.stdout) == (0, "['digits'] 17\n"), result.stderr
    # The platform without a screen says so of each window; anything else would be a warning or an error of ours.
    assert {line for line in result.stderr.splitlines() if not line.startswith("This plugin does not support")} == set()
    assert (tmp_path / "state" / "settings.ini").exists()
    assert not (tmp_path / "state" / "log.txt").exists(), "nothing went wrong, so nothing was logged"


BUSY = """
import numpy, os
def work(progress):
    a = numpy.ones((1500, 1500))
    while True:
        a = a @ a / 1500.0
window.tabs()[-1].workspace.tasks.start("Endless", work)
"""


@pytest.mark.long
def test_a_window_closes_while_work_that_cannot_be_stopped_goes_on(tmp_path):
    code = WHOLE_SESSION.format(names=["--sample"])
    busy = "".join(f"        {line}\n" for line in BUSY.strip().splitlines())
    code = code.replace("        window.close()\n    elif", f"{busy}        window.close()\n    elif")
    result = run(code, tmp_path / "state")
    assert (result.returncode, result.stdout) == (0, "['digits'] 17\n"), result.stderr


@pytest.mark.long
def test_a_session_with_a_file_that_is_not_there_says_so_and_stays(tmp_path):
    result = session([str(tmp_path / "none.onnx")], tmp_path / "state")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("none.onnx: ")


@pytest.mark.long
def test_an_unwritable_state_folder_does_not_stop_the_start(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    result = session(["--sample"], blocked / "state")
    assert (result.returncode, result.stdout) == (0, "['digits'] 17\n"), result.stderr


TAKES_OVER = """
def look():
    window = application.window
    tabs = [] if window is None else window.tabs()
    if application._listener is not None and not getattr(application, "said", False):
        application.said = True
        print("listening", flush=True)
    if tabs and not tabs[-1].view.scenes.is_busy:
        print(tabs[-1].workspace.title, flush=True)
        window.close()
"""


@pytest.fixture
def short_path():
    """A folder whose path leaves room for a socket's name; the temporary folder of the tests may be deep."""
    with tempfile.TemporaryDirectory(dir=None if sys.platform == "win32" else "/tmp") as folder:
        yield Path(folder)


@pytest.mark.long
def test_a_second_start_hands_its_file_to_the_window_that_is_open(short_path):
    copy = short_path / "second.onnx"
    copy.write_bytes((REPOSITORY / "resources" / "sample" / "digits.onnx").read_bytes())
    begin, end = WHOLE_SESSION.index("def look"), WHOLE_SESSION.index("original =")
    code = (WHOLE_SESSION[:begin] + TAKES_OVER.lstrip() + WHOLE_SESSION[end:]).format(names=[])
    environment = {
        **os.environ, "QT_QPA_PLATFORM": "offscreen",
        "ONNX_WORKBENCH_STATE": str(short_path / "state"),
    }  # fmt: skip
    first = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "listening\n"
        second = subprocess.run(
            [sys.executable, "-m", "onnx_workbench", copy.name],
            capture_output=True, text=True, check=False, env=environment, cwd=short_path,
        )  # fmt: skip
        assert (second.returncode, second.stdout.split(";")[0]) == (0, "Opened in the running program")
        assert first.communicate()[0] == "second.onnx\n"
        assert first.returncode == 0
    finally:
        first.kill()


def test_no_display_is_said_plainly():
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
    result = subprocess.run(
        [sys.executable, "-m", "onnx_workbench"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert result.returncode == 3
    if sys.platform.startswith("linux"):
        assert "onnx-workbench: " in result.stderr


def test_programs_that_a_bundle_starts_get_their_own_libraries():
    environment = {"HOME": "/home/a", "LD_LIBRARY_PATH": "/opt/onnx-workbench/_internal"}
    restore_library_path(environment)
    assert environment == {"HOME": "/home/a"}
    environment |= {"LD_LIBRARY_PATH": "/opt/onnx-workbench/_internal", "LD_LIBRARY_PATH_ORIG": "/usr/local/lib"}
    restore_library_path(environment)
    assert environment == {"HOME": "/home/a", "LD_LIBRARY_PATH": "/usr/local/lib"}


#: What a window does with 8-bit operators besides running them: its modules, constants folded by the simplifier.
WITHOUT_A_RUN = """
import pkgutil, importlib, sys
import numpy as np
import onnx_workbench.viewer
from onnx import TensorProto, helper, numpy_helper
for module in pkgutil.walk_packages(onnx_workbench.viewer.__path__, "onnx_workbench.viewer."):
    importlib.import_module(module.name)
import onnx_workbench as ow
weights = [numpy_helper.from_array(np.ones((64, 64), np.uint8), name) for name in "ab"]
graph = helper.make_graph(
    [helper.make_node("MatMulInteger", ["a", "b"], ["c"])], "g", [],
    [helper.make_tensor_value_info("c", TensorProto.INT32, [64, 64])], weights)
made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
model = ow.load(made.SerializeToString())
report = ow.simplify(model)
assert report.report.applied == {"fold_constants": 1}, report
assert "numkong" not in sys.modules
"""


@pytest.mark.long
def test_only_runs_import_the_library_for_8_bit_products(tmp_path):
    result = run(WITHOUT_A_RUN, tmp_path)
    assert result.returncode == 0, result.stderr
