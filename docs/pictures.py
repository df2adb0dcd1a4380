"""Makes the pictures of the manual in docs/pictures by driving the program, without a display.

    python docs/pictures.py               all pictures
    python docs/pictures.py run tensor    those whose names contain one of the words

Each picture is taken of the sample model. `PICTURES` lists what is done before each; the window is set up anew for none
of them, so the order matters only where it says so.
"""

from __future__ import annotations

import io
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtWidgets import QApplication, QDialog, QDockWidget, QFileDialog, QWidget

from onnx_workbench import resources
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.viewer.app import Application
from onnx_workbench.viewer.dialogs.quantize import QuantizeDialog
from onnx_workbench.viewer.main_window import MainWindow
from onnx_workbench.viewer.panels.run_comparison import RunComparisonPanel
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from onnx_workbench.viewer.program.settings import THEME, Settings
from onnx_workbench.viewer.run.results.compare import with_precision

FILES = Path(tempfile.gettempdir()) / "models"  # shown in pictures
FOLDER = Path(__file__).resolve().parent / "pictures"
SIZE = (1280, 800)
_COLOURS = 128  # of a picture: enough for text and plots, and a fifth of the bytes
_LIMIT = 120  # s to wait for anything

Picture = Callable[[MainWindow], QWidget]


def wait(condition: Callable[[], object], settle: float = 0.6) -> None:
    """Let the program go on until a condition holds, and a while longer so that everything is painted."""
    end = time.monotonic() + _LIMIT
    while not condition():
        QApplication.processEvents()
        if time.monotonic() > end:
            raise SystemExit("The program did not do what the picture needs.")
    end = time.monotonic() + settle
    while time.monotonic() < end:
        QApplication.processEvents()


def whole_window(window: MainWindow) -> QWidget:
    """The window with the values of a run, at a node."""
    select(window, "/block/second/Conv")
    window.docks.open("run")
    return window


def panel(panel_id: str, *, select_first: str = "", size: tuple[int, int] = (900, 300)) -> Picture:
    """Return what shows a panel by itself."""

    def show(window: MainWindow) -> QWidget:
        if select_first:
            select(window, select_first)
        window.docks.open(panel_id)
        dock = window.findChild(QDockWidget, f"panel.{panel_id}")
        assert dock is not None
        dock.setFloating(True)
        dock.resize(*size)
        return dock

    return show


def dialog(action_id: str, *, select_first: str = "") -> Picture:
    """Return what opens the dialog of an action."""

    def show(window: MainWindow) -> QWidget:
        if select_first:
            select(window, select_first)
        before = set(dialogs())
        window.actions_binding.run(action_id)
        wait(lambda: set(dialogs()) - before)
        return (set(dialogs()) - before).pop()

    return show


def dialog_of_file(action_id: str, make: Callable[[], Path]) -> Picture:
    """Return what opens the dialog of an action that asks for a file first."""

    def show(window: MainWindow) -> QWidget:
        name = str(make())
        QFileDialog.getOpenFileName = lambda *_, **__: (name, "")
        return dialog(action_id)(window)

    return show


def quantized(window: MainWindow) -> QWidget:
    """The Quantize dialog with what each layer costs, and the range of one."""
    shown = dialog("model.quantize")(window)
    assert isinstance(shown, QuantizeDialog)
    shown.alone.setChecked(True)
    shown.preview()
    wait(lambda: shown.layers.table.model().rowCount())
    shown.layers.table.selectRow(0)
    return shown


def failures(window: MainWindow) -> QWidget:
    """The kinds of failure that a model can be reduced to."""
    window.actions_binding.run("run.reduce")
    wait(lambda: window.findChildren(ChoicePopup))
    return window.findChildren(ChoicePopup)[-1]


def with_node_data(window: MainWindow) -> QWidget:
    """The graph with a profile of ONNX Runtime in its boxes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(FILES / "profile")
    session = onnxruntime.InferenceSession(str(FILES / "digits.onnx"), options, providers=["CPUExecutionProvider"])
    for _ in range(20):
        session.run(None, {"image": np.zeros((1, 1, 28, 28), np.uint8)})
    profile = Path(session.end_profiling()).rename(FILES / "profile.json")
    assert window.tab is not None
    overlays = window.tab.workspace.runs.overlays
    overlays.load(profile)
    wait(lambda: overlays.data)
    window.actions_binding.run("view.actual_size")
    return window.tab


def preprocessing() -> Path:
    """A model that makes the sample's input of an image of four times its size."""
    path = FILES / "preprocess.onnxtxt"
    path.write_text(
        """<ir_version: 8, opset_import: ["" : 18]>
        preprocess (uint8[batch, 1, 56, 56] photo) => (uint8[batch, 1, 28, 28] small)
        { small = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (photo) }""",
        encoding="utf-8",
    )
    return path


def finetuned_weights() -> Path:
    """The sample's weights as if they were trained further: some have changed, and one has another shape."""
    model = load(FILES / "digits.onnx")
    generator = np.random.default_rng(0)
    arrays = {value.name: value.initializer.numpy() for value in model.graph.initializers}
    for number, (name, array) in enumerate(arrays.items()):
        if number % 2 and array.dtype.kind == "f":
            arrays[name] = array + generator.normal(0, 0.01, array.shape).astype(array.dtype)
    last = next(reversed(arrays))
    np.savez(FILES / "finetuned.npz", **{**arrays, last: np.zeros(3, np.float32)})
    return FILES / "finetuned.npz"


def comparison(window: MainWindow) -> QWidget:
    """The panel with the loss of a run in float16. It colours the graph, so it comes after pictures of that."""
    window.actions_binding.run("edit.clear_selection")
    found = panel("compare")(window)
    assert isinstance(found, RunComparisonPanel)
    workspace = found.workspace
    found.compare("All nodes in float16", with_precision(workspace, "float16", None))
    wait(lambda: True, settle=5.0)
    return found


def dialogs() -> list[QDialog]:
    """The dialogs that are open."""
    return [one for one in QApplication.topLevelWidgets() if isinstance(one, QDialog) and one.isVisible()]


def select(window: MainWindow, name: str) -> None:
    """Select the node or value of a name in the main graph."""
    workspace = window.workspace
    assert workspace is not None
    graph = workspace.model.graph
    workspace.selection.clear()
    found = [one for one in graph.nodes if one.name == name or name in (value.name for value in one.outputs)]
    workspace.selection.set(found[:1])


#: Each picture: its name, and what shows the widget to take.
PICTURES: dict[str, Picture] = {
    "window": whole_window,
    "graph": lambda window: window.tab.canvas,
    "outline": panel("outline", size=(320, 420)),
    "find": panel("find", size=(320, 420)),
    "inspector": panel("inspector", select_first="/block/second/Conv", size=(360, 620)),
    "run": panel("run", size=(360, 620)),
    "tensor": panel("tensor", select_first="/stem/Relu_output_0", size=(900, 380)),
    "problems": panel("problems"),
    "differences": panel("differences"),
    "statistics": panel("statistics"),
    "history": panel("history"),
    "node-table": panel("node_table"),
    "raw": panel("raw"),
    "bookmarks": panel("bookmarks"),
    "watch": panel("watch"),
    "profile": panel("profile"),
    "element": panel("element"),
    "compare": comparison,
    "convert": dialog("model.convert"),
    "simplify": dialog("model.simplify"),
    "quantize": quantized,
    "reduce": failures,
    "extract": dialog("model.extract", select_first="/block/second/Conv"),
    "merge": dialog_of_file("model.merge", preprocessing),
    "import-weights": dialog_of_file("model.import_weights", finetuned_weights),
    "find-places": dialog("edit.find_places", select_first="/block/first/Conv"),
    "find-replace": dialog("edit.replace"),
    "edit-message": dialog("edit.message", select_first="/block/second/Conv"),
    "new-model": dialog("file.new"),
    "save-options": dialog("file.save_options"),
    "preferences": dialog("edit.preferences"),
    "custom-operators": dialog("model.operator_sets"),
    "keyboard-and-mouse": dialog("help.shortcuts"),
    "report": dialog("help.report"),
    "node-data": with_node_data,
}


def take(widget: QWidget, file: Path) -> None:
    """Write a picture of a widget, in few colours."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    widget.grab().save(buffer, "PNG")
    image = Image.open(io.BytesIO(data.data())).convert("RGB")
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


def main(words: list[str]) -> None:
    """Open the sample model, run it, and take the pictures."""
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ["ONNX_WORKBENCH_STATE"] = str(FILES / "state")
    platform.platform = lambda *_, **__: "Linux"  # pictures name no machine
    FOLDER.mkdir(exist_ok=True)
    application = Application()
    settings = Settings(application)
    settings.set(THEME, "light")
    model = shutil.copy(resources.path("sample/digits.onnx"), FILES)
    window = application.start([str(model)])
    window.resize(*SIZE)
    wait(lambda: window.workspace is not None, settle=1.0)
    assert window.workspace is not None
    window.actions_binding.run("run.run")
    runs = window.workspace.runs
    wait(lambda: window.workspace.results.current is not None and not runs.is_running, settle=2.0)
    for name in ("/block/second/Conv", "/head/Gemm"):
        select(window, name)
        window.actions_binding.run("go.toggle_bookmark")
        window.actions_binding.run("run.pin")
    for name, show in PICTURES.items():
        if words and not any(word in name for word in words):
            continue
        widget = show(window)
        wait(lambda: True, settle=1.2)
        take(widget, FOLDER / f"{name}.png")
        if isinstance(widget, QDockWidget):
            widget.setFloating(False)
        elif isinstance(widget, (QDialog, ChoicePopup)):
            widget.close()
        print(name)
    os._exit(0)  # the pictures are written; nothing of the window is kept


if __name__ == "__main__":
    main(sys.argv[1:])
