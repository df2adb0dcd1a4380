"""No action of the menus adds an error to a model, whatever is selected, and undo restores its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QMenu, QPushButton
from shiboken6 import isValid

import onnx_workbench as ow
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.viewer.actions import Menu, actions
from onnx_workbench.viewer.canvas.rename_field import RenameField
from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from onnx_workbench.viewer.popups.filter_popup import FilterPopup
from tests.fuzz.cases import ORT, one_helper_process
from tests.model import builders

pytestmark = pytest.mark.usefixtures("no_system_dialogs")

#: Rules that actions break by what they are for: they take away what others need, add what is to be connected, or
#: declare and connect what was chosen.
_TYPES = frozenset({"type", "declared-type", "shape"})
_MISSING = frozenset({"undefined-value", "undefined-output", "input-missing", "body"})
UNFINISHED = {
    "edit.cut": _MISSING,
    "edit.delete": _MISSING,
    "edit.delete_and_bridge": _TYPES,
    "node.disconnect": frozenset({"input-missing", "arity"}),
    "node.add": _TYPES | {"input-missing"},
    "node.connect": _TYPES,
    "node.change_operator": _TYPES | {"input-missing", "arity"},
    "value.type": _TYPES,
}
#: Undo and redo themselves, which take each action back here.
HISTORY = frozenset({"edit.undo", "edit.redo"})

#: Up to IR version 3 each initializer is an input.
OLD = """
<ir_version: 3, opset_import: ["" : 8]>
old (float[2, 4] x, float[4] w, float[4] b) => (float[2, 4] y, float[2, 4] s)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] b = {0.5, 0.5, 0.5, 0.5}>
{
    [first] a = Mul (x, w)
    [second] r = Relu (a)
    [third] c = Add (r, b)
    [fourth] y = Softmax <axis: int = 1> (c)
    [fifth] s = Identity (r)
}
"""

LOOP = """
<ir_version: 8, opset_import: ["" : 15, "local" : 1]>
looped (float[N, 4] x, int64 n) => (float[N, 4] y, float[2, M, 4] z)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, bool more = {1}>
{
    [first] d = Mul (x, w)
    [again] y = Loop (n, more, d) <body: graph = turn (int64 i, bool c, float[N, 4] s) => (bool go, float[N, 4] t)
        { [same] go = Identity (c) [inner] t = Add (s, w) } >
    [call] q = local.both (y, w)
    k = Constant <value: tensor = int64[1] {0}> ()
    [wide] u = Unsqueeze (q, k)
    [pair] z = Concat <axis = 0> (u, u)
}
<domain: "local", opset_import: ["" : 15]>
both (p, q) => (r) { m = Mul (p, q) r = Tanh (m) }
"""

SELECTIONS = (
    "node",
    "nodes",
    "inner node",
    "call",
    "value",
    "values",
    "initializer",
    "input",
    "output",
    "graph",
    "function",
)


@pytest.fixture(scope="module", autouse=True)
def helpers() -> Iterator[None]:
    with one_helper_process():
        yield


def selection(model: Model, kind: str) -> tuple[object, ...]:
    """Some things of a kind, of whatever model."""
    nodes, graph = list(model.graph.nodes), model.graph
    middle = len(nodes) // 2
    values = [value for node in nodes for value in node.outputs if value is not None]
    inner = [node for part in graph.walk() if part is not graph for node in part.nodes]
    called = {(function.domain, function.name) for function in model.functions}
    calls = [node for node in nodes if (node.domain, node.op_type) in called]
    return {
        "node": nodes[middle : middle + 1],
        "nodes": nodes[middle - 1 : middle + 1],
        "inner node": inner[:1],
        "call": calls[:1],
        "value": values[middle : middle + 1],
        "values": values[max(0, middle - 1) : middle + 1],
        "initializer": [*graph.initializers][:1],
        "input": [*graph.inputs][:1],
        "output": [*graph.outputs][:1],
        "graph": [graph],
        "function": [*model.functions][:1],
    }[kind]


def errors(data: bytes) -> Counter[str]:
    """How often each rule is broken; names may change."""
    return Counter(problem.rule for problem in ow.check(ow.load(data)) if problem.severity == "error")


class Trials:
    """A model in a window on which actions are tried, each from how it was opened."""

    def __init__(self, desk, model: Model) -> None:
        self.desk = desk
        first = desk.window.tabs()[0]
        self.tab = desk.open(model)
        desk.window.area.remove_tab(first)
        self.wait_until_idle()
        self.before = to_bytes(desk.document.model)
        self.errors = errors(self.before)
        self.was_loaded = isinstance(ORT.run(self.before), dict)

    def wait_until_idle(self) -> None:
        """Wait until nothing is under way."""
        window, wait = self.desk.window, self.desk.qtbot.waitUntil
        for _ in range(2):
            self.desk.settle()
            wait(
                lambda: (
                    not any(
                        runner.running for runner in (window.files.tasks, *(t.workspace.tasks for t in window.tabs()))
                    )
                )
            )

    def choose(self, action_id: str, kind: str) -> bool:
        """Select things of a kind; whether an action can be done to them then."""
        desk = self.desk
        desk.window.area.activate(self.tab)
        desk.workspace.navigation.show(desk.document.model.graph)
        chosen = selection(desk.document.model, kind)
        desk.select(*chosen)
        if action_id == "edit.paste":  # what came from a body lacks inputs elsewhere
            if not desk.workspace.selection.nodes:
                desk.select(*selection(desk.document.model, "node"))
            desk.run("edit.copy")
            desk.select(*chosen)
        binding = desk.window.actions_binding
        binding.refresh()
        return bool(chosen) and binding.qaction(action_id).isEnabled()

    def found_in(self, action_id: str) -> str:
        """What an action makes worse."""
        desk = self.desk
        desk.run(action_id)
        self.accept_what_opened()
        report = [self.worse(action_id, tab.workspace.model) for tab in desk.window.tabs()]
        self.close_what_opened()
        desk.window.area.activate(self.tab)
        report.append(self.undone())
        return "; ".join(filter(None, report))

    def worse(self, action_id: str, model: Model) -> str:
        after = to_bytes(model)
        if after == self.before:
            return ""
        broken = UNFINISHED.get(action_id, frozenset())
        added = errors(after) - self.errors
        if not broken.issuperset(added):
            return f"adds {dict(added)}"
        report = ORT.run(after) if self.was_loaded and not broken else {}
        if isinstance(report, str) and "NOT_IMPLEMENTED" not in report and "support" not in report:
            return f"ONNX Runtime says {report}"
        return ""

    def undone(self) -> str:
        """Undo until nothing is left, redo everything, and undo it again."""
        document = self.desk.document
        after, count = to_bytes(document.model), 0
        while document.undo():
            count += 1
        if to_bytes(document.model) != self.before:
            return "undone, it is another model"
        for _ in range(count):
            document.redo()
        again = to_bytes(document.model)
        document.go_to(document.root)
        return "" if again == after else "done again, it is another model"

    def accept_what_opened(self) -> None:
        """Press the default button of each dialog and Enter in each popup, as often as that leads on."""
        window, qtbot = self.desk.window, self.desk.qtbot
        self.wait_until_idle()
        for popup in window.findChildren(FilterPopup):
            if popup.isVisible():
                qtbot.keyClick(popup.field, Qt.Key.Key_Return)
        for dialog in [one for one in window.findChildren(QDialog) if one.isVisible()]:
            if isinstance(dialog, ConvertDialog):
                dialog.opset.setCurrentIndex(dialog.opset.count() - 1)
            for _ in range(3):
                self.wait_until_idle()
                button = default_button(dialog) if isValid(dialog) and dialog.isVisible() else None
                if button is None or not button.isEnabled():
                    break
                button.click()
                self.wait_until_idle()
        self.wait_until_idle()

    def close_what_opened(self) -> None:
        window = self.desk.window
        for kind in (ChoicePopup, QDialog, QMenu, RenameField):
            for widget in window.findChildren(kind):
                if isinstance(widget, RenameField):
                    widget.close_field()
                elif widget.isVisible():
                    widget.close()
        for other in [other for other in window.tabs() if other is not self.tab]:
            window.area.remove_tab(other)


def default_button(dialog: QDialog) -> QPushButton | None:
    boxes = dialog.findChildren(QDialogButtonBox)
    return boxes[0].button(QDialogButtonBox.StandardButton.Ok) if boxes else None


def found(desk, model: Model, kinds: tuple[str, ...], *, most: int) -> list[str]:
    """What actions make worse, each on so many kinds of selections for which it is enabled, beginning with others."""
    trials, report = Trials(desk, model), []
    edits = [
        one
        for one in actions()
        if one.place is not None and one.place.menu in (Menu.EDIT, Menu.MODEL) and one.id not in HISTORY
    ]
    for number, one in enumerate(edits):
        tried = 0
        for kind in (*kinds[number % len(kinds) :], *kinds[: number % len(kinds)]):
            if tried < most and trials.choose(one.id, kind):
                tried += 1
                if message := trials.found_in(one.id):
                    report.append(f"{one.id} on {kind}: {message}")
    return report


@pytest.mark.long
@pytest.mark.parametrize("text", [builders.BRANCHES, OLD, LOOP], ids=["branches", "old", "loop"])
def test_actions_on_small_models(desk, text: str) -> None:
    assert found(desk, builders.model(text), SELECTIONS, most=1) == []


MODELS = sorted(path.parent.name for path in (Path(__file__).parents[2] / "models").glob("*/model.onnx"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", MODELS)
def test_actions_on_every_model(desk, name: str, real_models) -> None:
    assert found(desk, ow.load(real_models / name / "model.onnx"), SELECTIONS, most=len(SELECTIONS)) == []
