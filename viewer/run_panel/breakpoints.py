"""Breakpoints in the Run panel: conditions on any value, and nodes and values to stop at."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from PySide6.QtCore import QSignalBlocker, QSize, Qt
from PySide6.QtGui import QIcon, QPaintEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QLabel,
    QSizePolicy,
    QStyle,
    QStyleOptionToolButton,
    QStylePainter,
    QToolButton,
    QWidget,
)

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.run.session.breakpoints import Condition
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.run_panel.controls import Combo, Section
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.theme import theme, themes
from onnx_workbench.viewer.style.tooltips import plain_tip
from onnx_workbench.viewer.widgets.flow_layout import in_a_row
from onnx_workbench.viewer.widgets.number_edit import NumberEdit

_WHEN: dict[Literal[""] | Condition, str] = {
    "": "always",
    "non-finite": "if not finite",
    "above": "if |x| is above",
    "shape": "if shape differs",
    "iteration": "in iteration",
}

_USUAL_LIMIT = 1e4

#: Pixels of the button of a place: beside its icon and text, and at least.
_AROUND_TEXT, _LEAST_WIDTH = 14, 60


class BreakpointSection(Section):
    """Shows and changes the breakpoints of the document."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__("Breakpoints")
        self._workspace = workspace
        self._breakpoints = workspace.runs.breakpoints
        self.non_finite = QCheckBox("a value is not finite")
        self.above = QCheckBox("|x| is above")
        self.limit = NumberEdit("Limit of |x|", f"{_USUAL_LIMIT:g}")
        self.limit.number_entered.connect(self._on_limit)
        self.limit.show_number(_USUAL_LIMIT)
        self.shape = QCheckBox("a shape differs from the declared")
        self.add(QLabel("Stop after a node when"))
        self.add(self.non_finite)
        self.add(in_a_row(self.above, self.limit))
        self.add(self.shape)
        self._boxes: tuple[tuple[QCheckBox, Condition], ...] = (
            (self.non_finite, "non-finite"),
            (self.above, "above"),
            (self.shape, "shape"),
        )
        self._list = QWidget()
        self.add(self._list)
        for box, condition in self._boxes:
            box.setAccessibleName(f"Stop when {box.text()}")
            box.toggled.connect(lambda on, chosen=condition: self._switch(chosen, on=on))
        workspace.runs_changed.connect(self._refresh)
        workspace.changes.changed.connect(lambda _: self._refresh())  # names
        themes().themeChanged.connect(self._color)
        self._shown: tuple[object, object, object] | None = None
        self._refresh()

    def _color(self) -> None:
        self._shown = None  # rebuild the rows, as their icons have colours of the theme
        self._refresh()

    def _switch(self, condition: Condition, *, on: bool) -> None:
        self._breakpoints.set_condition(condition, on=on, limit=self._limit_of(condition))

    def _on_limit(self, _number: float | None) -> None:
        if self.above.isChecked():
            self._switch("above", on=True)

    def _refresh(self) -> None:
        breakpoints = self._breakpoints.all
        now = breakpoints, self._breakpoints.disabled, self._names()
        if now == self._shown:
            return
        self._shown = now
        for box, condition in self._boxes:
            with QSignalBlocker(box):
                box.setChecked(self._breakpoints.has(condition))
        for one in breakpoints:
            if one.condition == "above" and one.value is None:
                self.limit.show_number(one.limit)
        self.rows.removeWidget(self._list)
        self._list.hide()
        self._list.deleteLater()
        places = Section("Stop at") if any(b.node or b.value for b in breakpoints) else None
        self._list = places or QWidget()
        for one in breakpoints:
            if places is not None and (one.node is not None or one.value is not None):
                places.add(self._row(one))
        self.add(self._list)

    def _names(self) -> list[str]:
        return [name_of(subject) for b in self._breakpoints.all if (subject := b.node or b.value) is not None]

    def _change(self, one: Breakpoint, condition: Literal[""] | Condition) -> None:
        """Set whether a breakpoint always stops, or only on a condition."""
        self._replace(one, replace(one, condition=condition, limit=self._limit_of(condition)))

    def _replace(self, one: Breakpoint, made: Breakpoint) -> None:
        rests = one in self._breakpoints.disabled
        self._breakpoints.set(made if b == one else b for b in self._breakpoints.all)
        if rests:
            self._breakpoints.set_disabled(made, on=True)

    def _rest(self, one: Breakpoint, where: QToolButton, *, on: bool) -> None:
        """Disable or enable a breakpoint; its row stays, with the focus in it."""
        now = self._breakpoints.disabled
        self._shown = self._breakpoints.all, now | {one} if on else now - {one}, self._names()
        where.setIcon(_dot(rests=on))
        self._breakpoints.set_disabled(one, on=on)

    def _remove(self, one: Breakpoint) -> None:
        self._breakpoints.set(b for b in self._breakpoints.all if b != one)

    def _limit_of(self, condition: Literal[""] | Condition) -> float:
        return self._limit if condition == "above" else 0.0

    @property
    def _limit(self) -> float:
        limit = self.limit.number()
        return _USUAL_LIMIT if limit is None else limit

    def _when(self, one: Breakpoint) -> list[QWidget]:
        """Return the widgets for the condition of a breakpoint, if it can have one, and for its number."""
        thing = one.node or one.value
        assert thing is not None
        is_in_body = thing.graph is not None and isinstance(thing.graph.owner, Node)
        offered = [
            condition
            for condition in _WHEN
            if not condition or (is_in_body if condition == "iteration" else one.value is not None)
        ]
        if len(offered) < 2:
            return []
        name = display(name_of(thing), 40)
        where = "before" if one.node is not None else "after"
        when = Combo(f"When to stop {where} {name}", [(_WHEN[condition], condition) for condition in offered])
        if "above" in offered:
            limit = one.limit if one.condition == "above" else self._limit
            when.setItemText(offered.index("above"), f"if |x| > {limit:g}")
        when.choose(one.condition)
        when.activated.connect(lambda _: self._change(one, when.currentData()))
        if one.condition != "iteration":
            return [when]
        number = NumberEdit(f"Iteration in which to stop at {name}", "0", count=True)
        number.number_entered.connect(lambda found: self._replace(one, replace(one, limit=found or 0.0)))
        number.setToolTip("Number of the iteration, counted from 0")
        number.setFixedWidth(56)
        number.show_number(one.limit)
        return [when, number]

    def _row(self, one: Breakpoint) -> QWidget:
        thing = one.node or one.value
        assert thing is not None
        where = "before" if isinstance(thing, Node) else "after"
        text = _PlaceButton(f"{where} {display(name_of(thing), 200)}")
        rests = one in self._breakpoints.disabled
        text.setIcon(_dot(rests=rests))
        text.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        text.clicked.connect(lambda: self._workspace.navigation.reveal(thing))
        stops = QCheckBox()
        stops.setChecked(not rests)
        stops.setToolTip("Enable or disable this breakpoint")
        stops.setAccessibleName(f"Stop {text.accessibleName()}")
        stops.toggled.connect(lambda on: self._rest(one, text, on=not on))
        remove = QToolButton()
        remove.setAutoRaise(True)
        remove.setIcon(icon("close"))
        remove.setToolTip("Remove this breakpoint")
        remove.setAccessibleName(f"Remove the breakpoint {where} {display(name_of(thing), 40)}")
        remove.clicked.connect(lambda: self._remove(one))
        return in_a_row(stops, text, *self._when(one), remove)


class _PlaceButton(QToolButton):
    """Button that goes to the place of a breakpoint; a name longer than the room is elided."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAutoRaise(True)
        self.setText(name)
        self.setAccessibleName(name)
        self.setToolTip(plain_tip(f"Go to the place: {name}"))
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint as much of the name as fits."""
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        room = self.width() - self.iconSize().width() - _AROUND_TEXT
        option.text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideMiddle, room)
        QStylePainter(self).drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option)

    def minimumSizeHint(self) -> QSize:
        """Room for the icon and a few letters."""
        return QSize(_LEAST_WIDTH, super().minimumSizeHint().height())


def _dot(*, rests: bool) -> QIcon:
    return icon("breakpoint", theme().muted if rests else theme().accent)
