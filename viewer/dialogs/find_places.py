"""Find All Such Places: the places that compute what selected nodes do, and what to put in their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from onnx_workbench.exec.transform.simplify import SimplifyOutcome
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.ir.graph import Function, Model, Node, Value
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.simplify.passes import Pass
from onnx_workbench.model.simplify.pattern_example import Condition, Example, calling, text_for
from onnx_workbench.model.simplify.pattern_rules import Rule, function_in
from onnx_workbench.model.simplify.pattern_transfer import last_edits, learn, transfer
from onnx_workbench.model.simplify.pipeline import Survey
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.dialogs.simplify import SimplifyDialog, Surveyed
from onnx_workbench.viewer.dialogs.simplify_matches import make_tree
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.plain_label import plain_label
from onnx_workbench.viewer.widgets.whole_text import WholeTextDelegate

_MOST_LISTED = 1000  # conditions; the others are as is likely
_ROWS = 8  # of the list of conditions, before it scrolls
_RULE = "Places"
_KINDS = {"attribute": "Attribute", "constant": "Constant", "shape": "Shape"}
_FUNCTION, _OPERATOR, _TEXT, _LEARNED = range(4)


class FindPlacesDialog(SimplifyDialog):
    """Modeless. ModelError when the nodes are no example, as they are of several graphs or not connected."""

    _title = "Find All Such Places"
    _done = "Changed"
    _applied = "Changed"
    _key = "find_places"

    def __init__(self, workspace: Workspace, nodes: Sequence[Node], parent: QWidget | None = None) -> None:
        self._example = Example(workspace.model, nodes, workspace.types.type_of)
        self._equal = {condition for condition in self._example.conditions if condition.is_likely}
        self._rule = self._rule_now()
        self._found: list[Node] = []  # of all places
        super().__init__(workspace, parent)

    def _arrange(self) -> None:
        super()._arrange()
        make_tree(self.passes, "Places", ("Place", ""))
        self.conditions = QTreeWidget()
        self.conditions.setItemDelegate(WholeTextDelegate(self.conditions))
        make_tree(self.conditions, "What must be equal", ("Must be equal", ""))
        for condition in self._example.conditions[:_MOST_LISTED]:
            self.conditions.addTopLevelItem(_row(condition))
        rows = max(2, min(self.conditions.topLevelItemCount(), _ROWS))
        height = self.conditions.header().sizeHint().height() + rows * max(self.conditions.sizeHintForRow(0), 16)
        self.conditions.setFixedHeight(height + 2 * self.conditions.frameWidth())
        self.conditions.itemChanged.connect(self._on_condition)
        self.way = QComboBox()
        self.way.setAccessibleName("What to do")
        self.way.addItems(
            ["Make Function", "Replace With an Operator or Function", "Replace With a Text", "Do Here What I Did There"]
        )
        self.name = QLineEdit("Block")
        self.operator = QLineEdit()
        self.operator.setPlaceholderText("Relu or domain::Name")
        self.text = QPlainTextEdit(text_for(self._rule.pattern.function))
        self.text.setMinimumHeight(110)
        self.advice = plain_label(
            "Does what the last edits of the history did to one of these places, before or while this window is open."
        )
        self.details = QStackedWidget()
        for widget, label in (
            (self.name, "Name of the function"),
            (self.operator, "Operator or function"),
            (self.text, "Replacement in ONNX text"),
            (self.advice, ""),
        ):
            widget.setAccessibleName(label)
            page = QWidget()
            form = QFormLayout(page)
            form.setContentsMargins(0, 0, 0, 0)
            form.addRow(*((f"{label}:", widget) if label and widget is not self.text else (widget,)))
            self.details.addWidget(page)
        self.way.currentIndexChanged.connect(self._on_way)
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(1, self.conditions)
        layout.insertWidget(3, self.way)
        layout.insertWidget(4, self.details)
        self._on_way()
        self.ok.setText("Change")

    def _on_way(self) -> None:
        way = self.way.currentIndex()
        self.details.setCurrentIndex(way)
        self.details.setMaximumHeight(400 if way == _TEXT else 60)

    # -- searching -----------------------------------------------------------------------------------------------

    def _rule_now(self) -> Rule:
        pattern = self._example.pattern(self._equal)
        return Rule.of(_RULE, pattern, pattern)

    def _searched(self) -> Sequence[Pass]:
        return [self._rule.as_pass()]

    def _on_condition(self, item: QTreeWidgetItem, column: int) -> None:
        condition = item.data(0, Qt.ItemDataRole.UserRole)
        if column or not isinstance(condition, Condition):
            return
        is_untouched = self.text.toPlainText() == text_for(self._rule.pattern.function)
        if item.checkState(0) == Qt.CheckState.Checked:
            self._equal.add(condition)
        else:
            self._equal.discard(condition)
        try:
            self._rule = self._rule_now()
        except ModelError as error:
            self.error.show_error(error)
            return
        if is_untouched:
            self.text.setPlainText(text_for(self._rule.pattern.function))
        self.preview()

    def _list(self, surveyed: Surveyed) -> None:
        work, revision, survey = surveyed
        if revision != self.workspace.document.revision:
            return
        original = work.copy.original
        self._found = [original(node) for match in survey.found.get(_RULE, ()) for node in match.nodes]
        super()._list(surveyed)
        self.passes.expandAll()

    def _describe(self, survey: Survey, total: int) -> None:
        counted = Counter(refusal.reason for refusal in survey.refusals)
        reasons = "".join(f"\n{count:,} × {display(why, 200)}." for why, count in counted.items())
        reasons += "".join(f"\n{display(reason, 300)}" for reason in survey.failed.values())
        self.state.setText(f"{plural(total, 'place')} with these nodes and conditions.{reasons}")

    def _show_match(self, things: tuple[Node | Value, ...]) -> None:
        super()._show_match(things)
        self.workspace.highlights.mark("matches", self._found)

    def _lock(self, is_working: bool) -> None:
        super()._lock(is_working)
        for part in (self.conditions, self.way, self.details):
            part.setEnabled(not is_working)

    def _report(self, outcome: SimplifyOutcome) -> None:
        super()._report(outcome)
        for part in (self.conditions, self.way, self.details):
            part.setVisible(False)

    # -- changing ------------------------------------------------------------------------------------------------

    def _may_differ(self) -> bool:
        return self.way.currentIndex() == _LEARNED  # as the one place does already

    def _entry_title(self) -> str:
        return self.way.currentText()

    def _chosen(self) -> Callable[[Model, Progress], Sequence[Pass]]:
        pattern, model = self._rule.pattern.function, self.workspace.model
        match self.way.currentIndex():
            case way if way == _TEXT:
                data = self.text.toPlainText().encode()
                return lambda _, progress: [Rule.of(_RULE, pattern, function_in(data, progress)).as_pass()]
            case way if way == _OPERATOR:
                domain, _, name = self.operator.text().strip().rpartition("::")
                rule = Rule.of(_RULE, pattern, calling(pattern, "" if domain == "ai.onnx" else domain, name, model))
            case way if way == _LEARNED:
                edits, searched = last_edits(self.workspace.document.current), self._rule.pattern
                return lambda copy, progress: [transfer(_RULE, searched, learn(searched, copy, edits, progress))]
            case _:
                rule = self._outlined(pattern)
        return lambda _, __: [rule.as_pass()]

    def _outlined(self, pattern: Function) -> Rule:
        name, model = self.name.text().strip(), self.workspace.model
        if not name.isidentifier() or model.function("local", name) is not None:
            raise ModelError(f"{display(name, 60) or 'The function'} cannot be the name", "Choose a new identifier.")
        function = Cloner().function(pattern)
        function.name, function.domain = name, "local"
        return Rule.of(_RULE, pattern, calling(pattern, "local", name, model), function)


def _row(condition: Condition) -> QTreeWidgetItem:
    item = QTreeWidgetItem([condition.text, _KINDS[condition.kind]])
    item.setToolTip(0, plain_tip(condition.text))
    item.setData(0, Qt.ItemDataRole.UserRole, condition)
    item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
    item.setCheckState(0, Qt.CheckState.Checked if condition.is_likely else Qt.CheckState.Unchecked)
    return item
