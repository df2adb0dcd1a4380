"""Status line below the graph: selection, progress, zoom, size of the graph, state of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import Qt, QTimer, SignalInstance
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QSizePolicy, QStatusBar, QToolButton, QWidget

from onnx_workbench.model.analysis.symbolic import condensed
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.types import Shape, TensorType, Type
from onnx_workbench.model.text.formatting import display, plural, type_text
from onnx_workbench.viewer.document.context import DocumentContext
from onnx_workbench.viewer.document.selection import Item
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.labels import name_of
from onnx_workbench.viewer.style.theme import theme, themes
from onnx_workbench.viewer.tasks.tasks import Task, TaskRunner
from onnx_workbench.viewer.widgets.fixed_width_label import FixedWidthLabel
from onnx_workbench.viewer.widgets.plain_label import plain_label

_NOTICE_DELAY_MS = 300  # ms before progress shows


class StatusLine(QStatusBar):
    """Follows one workspace at a time, and the tasks of all watched ones."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self.setContentsMargins(6, 0, 6, 0)
        self._workspace: DocumentContext | None = None
        self.selection = plain_label(wraps=False)
        self.selection.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.addWidget(self.selection, 1)
        self.work = _Work()
        self.addPermanentWidget(self.work)
        self.problems = QToolButton()
        self.problems.setAutoRaise(True)
        self.problems.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.problems.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.problems.clicked.connect(self._open_problems)
        self.addPermanentWidget(self.problems)
        self.run_state, self.extent, self.zoom = FixedWidthLabel(), FixedWidthLabel(), FixedWidthLabel()
        for label, name in ((self.run_state, "Run"), (self.extent, "Size of the graph"), (self.zoom, "Zoom")):
            label.setAccessibleName(name)
            self.addPermanentWidget(label)
        themes().themeChanged.connect(self._show_problems)

    def set_workspace(self, workspace: DocumentContext | None) -> None:
        """Show the state of another document, or of none."""
        if self._workspace is not None:
            for signal, slot in self._connections(self._workspace):
                signal.disconnect(slot)
        self._workspace = workspace
        if workspace is not None:
            for signal, slot in self._connections(workspace):
                signal.connect(slot)
        self._refresh()
        self._show_run_state()
        self._show_problems()

    def _connections(self, workspace: DocumentContext) -> Sequence[tuple[SignalInstance, Callable[..., object]]]:
        """Return the signals of a document, with the updates for each."""
        return (
            (workspace.selection.changed, self._show_selection),
            (workspace.navigation.graph_shown, self._show_size),
            (workspace.changes.changed, self._refresh),
            (workspace.types.changed, self._show_selection),
            (workspace.runs_changed, self._show_run_state),
            (workspace.problems.changed, self._show_problems),
        )

    def shows(self, workspace: DocumentContext) -> bool:
        """Return whether it shows the state of this document."""
        return self._workspace is workspace

    def show_zoom(self, zoom: float | None) -> None:
        """Show the zoom of the graph, 1.0 as 100 %."""
        self.zoom.setText("" if zoom is None else f"{zoom * 100:.3g} %")

    def _refresh(self, *_: object) -> None:
        self._show_selection()
        self._show_size()

    def _show_selection(self) -> None:
        workspace = self._workspace
        text = "" if workspace is None else selection_text(workspace.selection.items, workspace.types.type_of)
        self.selection.setText(text)

    def _show_size(self, *_: object) -> None:
        self.extent.setText("" if self._workspace is None else plural(len(self._workspace.graph.nodes), "node"))

    def _show_problems(self) -> None:
        """Show errors, else warnings; nothing for a model that has neither."""
        problems = None if self._workspace is None else self._workspace.problems
        severity = next((s for s in ("error", "warning") if problems is not None and problems.count(s)), "")
        self.problems.setVisible(bool(severity))
        if problems is not None and severity:
            text = plural(problems.count(severity), severity)
            self.problems.setText(text)
            self.problems.setToolTip(f"{text}: show what and where")
            self.problems.setAccessibleName(text)
            self.problems.setIcon(icon(severity, theme().error if severity == "error" else theme().warning))

    def _open_problems(self) -> None:
        if self._workspace is not None:
            self._workspace.trigger("panel.problems")

    def _show_run_state(self) -> None:
        self.run_state.setText("" if self._workspace is None else display(self._workspace.run_state, 80))


def selection_text(items: tuple[Item, ...], type_of: Callable[[Value], Type | None]) -> str:
    """Describe the selection in a line; `type_of` gives the known type of a value."""
    if not items:
        return ""
    if len(items) == 1:
        return _describe(items[0], type_of)
    if set(map(type, items)) == {Node}:
        return f"{plural(len(items), 'node')} selected"
    return f"{plural(len(items), 'object')} selected"


def _condensed(known: Type | None) -> Type | None:
    """Return a type with short formulas of sizes."""
    if not isinstance(known, TensorType) or known.shape is None:
        return known
    dims = tuple(condensed(size) if isinstance(size, str) else size for size in known.shape.dims)
    return TensorType(known.element_type, Shape(dims))


def _describe(item: Item, type_of: Callable[[Value], Type | None]) -> str:
    match item:
        case Node():
            kind = display(item.qualified_op_type, 80)
            return f"{kind}  {name_of(item)}" if item.name else kind
        case Value():
            kind = "initializer" if item.initializer is not None else "value"
            return f"{kind} {name_of(item)}  {type_text(_condensed(type_of(item)))}"
        case Function() | Graph(owner=Function()):
            return f"function {name_of(item)}"
        case Graph():
            return f"graph {name_of(item)}"
        case Model():
            return "model"


class _Work(QWidget):
    """The progress of a running task, shown with Stop only when it takes a while.

    Among several the oldest that will change a document or write a file, else the oldest that does not wait for a run.
    """

    def __init__(self) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        self.text = FixedWidthLabel()
        self.bar = QProgressBar()
        self.bar.setFixedWidth(140)
        self.bar.setMaximumHeight(14)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress")
        self.stop = QToolButton()
        self.stop.setAutoRaise(True)
        self.stop.setToolTip("Stop")
        self.stop.setAccessibleName("Stop")
        self.stop.clicked.connect(self._stop)
        for widget in (self.text, self.bar, self.stop):
            row.addWidget(widget)
        self._tasks: dict[Task[Any], None] = {}
        self._timer = QTimer(self, singleShot=True, interval=_NOTICE_DELAY_MS)
        self._timer.timeout.connect(self._show)
        themes().themeChanged.connect(self._color)
        self._color()
        self.hide()

    def _color(self) -> None:
        self.stop.setIcon(icon("stop"))

    def watch(self, tasks: TaskRunner) -> None:
        """Show the progress of these tasks too."""
        for task in tasks.running:
            self._started(task)
        tasks.started.connect(self._started)
        tasks.progressed.connect(self._progressed)
        tasks.ended.connect(self._ended)

    def forget(self, tasks: TaskRunner) -> None:
        """Stop showing them; their window is closing."""
        for task in tasks.running:
            self._ended(task)

    @property
    def _shown(self) -> Task[Any] | None:
        return min(self._tasks, key=lambda task: (not _is_main(task), task.lane == "fetch"), default=None)

    def _started(self, task: Task[Any]) -> None:
        if not task.title:
            return  # too small to matter
        self._tasks[task] = None
        if not self._timer.isActive() and (len(self._tasks) == 1 or task is self._shown):
            self._timer.start()

    def _progressed(self, task: Task[Any]) -> None:
        if task is self._shown and self.isVisible():
            self._show()

    def _show(self) -> None:
        task = self._shown
        if task is None:
            return
        self.text.setText(display(" · ".join(filter(None, (task.title, task.text))), 80))
        self.bar.setUpdatesEnabled(False)  # else a new value has the whole window painted before this returns
        self.bar.setRange(0, 1000 if task.total > 0 else 0)
        self.bar.setValue(int(1000 * task.done / task.total) if task.total > 0 else 0)
        self.bar.setUpdatesEnabled(True)
        self.stop.setEnabled(not task.cancelled)
        self.show()

    def _ended(self, task: Task[Any]) -> None:
        self._tasks.pop(task, None)
        if self._tasks:
            if self.isVisible():
                self._show()
        else:
            self._timer.stop()
            self.hide()

    def _stop(self) -> None:
        task = self._shown
        if task is not None:
            task.cancel()
            self._show()

    def stop_tool(self) -> bool:
        """Stop the oldest task that will change something; False when none takes a while."""
        task = next((task for task in self._tasks if _is_main(task) and not task.cancelled), None)
        if task is None or not self.isVisible():
            return False
        task.cancel()
        self._show()
        return True


def _is_main(task: Task[Any]) -> bool:
    """Return whether a task makes a change or a new model: it is shown rather than others."""
    return task.lane in ("mutate", "model") or task.makes == "edit"
