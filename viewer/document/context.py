"""One open document with the objects that its views share. `viewer.run.workspace` adds its runs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QPoint, Signal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Graph, Model, Value
from onnx_workbench.viewer.document.bookmarks import Bookmarks
from onnx_workbench.viewer.document.grouping import Grouping
from onnx_workbench.viewer.document.highlights import Highlights
from onnx_workbench.viewer.document.messages import Messages
from onnx_workbench.viewer.document.model_signals import ModelSignals
from onnx_workbench.viewer.document.navigation import Navigation
from onnx_workbench.viewer.document.problem_checker import ProblemChecker
from onnx_workbench.viewer.document.selection import Selection
from onnx_workbench.viewer.document.type_inference import TypeInference
from onnx_workbench.viewer.program.settings import Settings
from onnx_workbench.viewer.style.type_texts import dimension_prefix
from onnx_workbench.viewer.tasks.readers import cancel_readers
from onnx_workbench.viewer.tasks.tasks import Task, TaskRunner

if TYPE_CHECKING:
    from onnx_workbench.model.recovery.journal import Journal

_MOST_NAMED = 64  # inputs and outputs whose names of dimensions are looked at: for each edit


class DocumentContext(QObject):
    """One open document and the objects for its view, selection, tasks and runs. GUI thread only.

    `selection`, `navigation` (the shown graph, jumps to objects, history), `highlights` (marks and colours on the
    graph), `bookmarks`, `messages`, `tasks`, `changes` (signals of edits), `grouping`, `types` and `problems`. The
    signals of the context itself are requests to the window and the state of runs.
    """

    runs_changed = Signal()  # running, paused, live, breakpoints or `run_state`
    action_requested = Signal(str)  # the id of an Action
    panel_offered = Signal(str)  # the id of a panel, see `offer`
    comparison_changed = Signal()  # a comparison with another document has begun or ended
    conversion_requested = Signal(int, str, object)  # opset, purpose, callable afterwards or None; shows a dialog
    closed = Signal()  # the document is being closed; emitted while everything here still works
    menu_requested = Signal(QPoint, str)  # global position; kind of the clicked object: "node", "value", "canvas" …

    def __init__(
        self,
        document: Document,
        settings: Settings | None = None,
        parent: QObject | None = None,
        *,
        title: str = "Untitled",
    ) -> None:
        super().__init__(parent)
        self.document = document
        self._title = title
        self.settings = settings or Settings(self)
        self.selection = Selection(self)
        self.messages = Messages(self)
        self.tasks = TaskRunner(self)
        self._end_before_change = document.before_change(cancel_readers)
        self.changes = ModelSignals(document, self)
        self.grouping = Grouping(self.changes, self)  # connected first: gets changes before any view
        self.types = TypeInference(document, self)
        self.problems = ProblemChecker(document, self.types, self.tasks, self)
        self.journal: Journal | None = None  # of its edits; set by Autosave
        self.run_state = ""  # for the status line; see set_run_state
        self.navigation = Navigation(document.model, self.selection, self.changes, self)
        self.highlights = Highlights(self)
        self.bookmarks = Bookmarks(document.model, self.changes, self.highlights, self)
        self.selection.set(_lone_tensor(self.graph))
        self.tasks.failed.connect(self._on_task_failed)

    @property
    def model(self) -> Model:
        """The document's model."""
        return self.document.model

    @property
    def title(self) -> str:
        """Title of the document in tab and window: the file's name, or the title it was opened with."""
        return self._title if self.document.path is None else self.document.path.name

    @property
    def label(self) -> str:
        """The title, with as many folders as needed to distinguish the file from open ones of the same name."""
        return self.title

    @property
    def graph(self) -> Graph:
        """The shown graph, see `Navigation`."""
        return self.navigation.graph

    @property
    def dimension_prefix(self) -> str:
        """What all names of dimensions of the model's inputs and outputs begin with; texts of types leave it out."""
        interface = self.model.graph
        return dimension_prefix((*interface.inputs[:_MOST_NAMED], *interface.outputs[:_MOST_NAMED]))

    def _on_task_failed(self, task: Task[Any]) -> None:
        if isinstance(task.error, ModelError):
            self.messages.report(task.error)

    def set_run_state(self, text: str) -> None:
        """Set the state of the last run for the status line; empty before the first."""
        if text != self.run_state:
            self.run_state = text
            self.runs_changed.emit()

    # -- actions and menus -----------------------------------------------------------------------------------

    def trigger(self, action_id: str) -> None:
        """Run one of the window's actions by its id, as if chosen in a menu."""
        self.action_requested.emit(action_id)

    def suggest_panel(self, panel_id: str) -> None:
        """Suggest a panel: it opens unless the user has closed it before; the focus is unchanged."""
        self.panel_offered.emit(panel_id)

    def open_menu(self, position: QPoint, kind: str) -> None:
        """Open the context menu of actions for the selection, at a global position."""
        self.menu_requested.emit(position, kind)

    def close(self) -> None:
        """Stop all work and disconnect from the document, before the tab is closed."""
        cancel_readers()
        self.closed.emit()
        self.tasks.close()
        self.problems.close()
        self.types.close()
        self.changes.close()
        self._end_before_change()


def _lone_tensor(graph: Graph) -> list[Value]:
    """Return the initializer of a graph that has nothing else, in a list; else an empty one."""
    constants = list(islice(graph.initializers, 2))
    return constants if len(constants) == 1 and not (graph.nodes.first or graph.inputs or graph.outputs) else []
