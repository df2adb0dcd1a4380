"""Everything that a view of one open document gets, but for what runs of it give (see `viewer.run.workspace`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from PySide6.QtCore import QObject, QPoint, Signal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.viewer.core.edge_notes import NoteOf, no_note
from onnx_workbench.viewer.core.grouping import Grouping
from onnx_workbench.viewer.core.model_signals import ModelSignals, is_in_model
from onnx_workbench.viewer.core.navigation_history import NavigationEntry, NavigationHistory
from onnx_workbench.viewer.core.problem_checker import ProblemChecker
from onnx_workbench.viewer.core.selection import Item, Selection
from onnx_workbench.viewer.core.settings import Settings
from onnx_workbench.viewer.core.tasks import Task, TaskRunner, cancel_readers
from onnx_workbench.viewer.core.type_inference import TypeInference

if TYPE_CHECKING:
    from onnx_workbench.model.recovery.journal import Journal

Severity = Literal["info", "warning", "error"]
#: The topic of what a person's last action was refused for: the next one's takes its place.
REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True)
class Message:
    """Message for the user: title, details, place (a model object to go to, or a text), and choices.

    `choices` are titles of buttons with their actions; the message closes after any of them. A message replaces one
    with the same `topic`.
    """

    severity: Severity
    title: str
    detail: str = ""
    place: Any = None
    choices: tuple[tuple[str, Callable[[], object]], ...] = ()
    topic: str = ""


class DocumentContext(QObject):
    """One open document with its selection, navigation, highlights, messages and tasks; the canvas gets only this.

    GUI thread only.
    """

    graph_shown = Signal(object)  # Graph
    reveal_requested = Signal(object)  # Item: centre it; its graph is shown and it is selected
    returned = Signal(object)  # the spot of a Visit: bring that part of the graph into view again
    messaged = Signal(object)  # Message
    withdrawn = Signal(str)  # the topic of messages that are no longer true
    run_state_changed = Signal()
    runs_changed = Signal()  # running, paused, live or breakpoints
    action_requested = Signal(str)  # the id of an Action
    panel_offered = Signal(str)  # the id of a panel, see `offer`
    marked = Signal(str, object)  # kind and objects: what the graph is to mark, see `mark`
    unmarked = Signal(str, object)  # kind and nodes: from which a mark is to go, see `unmark`
    grouped = Signal(object, str, object)  # Mapping[Node, str] or None, what the words are, colours; see `group`
    comparison_changed = Signal()  # it is compared with another document, or no longer
    conversion_requested = Signal(int, str, object)  # opset, purpose, callable for after it; shows a dialog
    overlaid = Signal(object, str)  # Mapping[Node, float] or None, and what the numbers are; see `overlay`
    noted = Signal(object)  # set[Value]: what a run says beside their edges is another now; None: of any. See note_of
    closed = Signal()  # the document is going away; heard while everything here still works
    menu_requested = Signal(QPoint, str)  # global position; "node", "value", "canvas" …: what was clicked

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
        self.tasks = TaskRunner(self)
        self._end_before_change = document.before_change(cancel_readers)
        self.changes = ModelSignals(document, self)
        self.grouping = Grouping(self.changes, self)  # hears of changes before any view does
        self.types = TypeInference(document, self.tasks, self)
        self.problems = ProblemChecker(document, self.types, self.tasks, self)
        self.journal: Journal | None = None  # of its edits; set by who keeps it
        self.run_state = ""  # for the status line; see set_run_state
        self.marks: dict[str, list[object]] = {}  # by kind, what the graph marks; without what `unmark` is for
        self.overlay_shown: tuple[Mapping[Node, float] | None, str] = (None, "")  # see `overlay`
        #: Which part of the graph is in view, comparable by ==; set by the view.
        self.spot: Callable[[], object] = lambda: None
        self.draws: Callable[[Graph], bool] = lambda _graph: False  # whether it is seen inside the one shown, too
        self.note_of: NoteOf = no_note  # what is written beside the edges of a value; set by runs
        self._graph = _first_graph(document.model)
        self.selection.set(_lone_tensor(self._graph))
        self.visits = NavigationHistory(self._here, self)
        self.changes.removed.connect(self._leave_removed)
        self.tasks.failed.connect(self._on_task_failed)

    # -- places ----------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The document's model."""
        return self.document.model

    @property
    def title(self) -> str:
        """Title of the document in tab and window: the file's name, or the title it was opened with."""
        return self._title if self.document.path is None else self.document.path.name

    @property
    def graph(self) -> Graph:
        """The graph shown now: the main one, a body, a function's body or a training graph."""
        return self._graph

    def show(self, graph: Graph) -> None:
        """Show another graph; the place left can be gone back to."""
        if graph is not self._graph:
            with self.visits.jump():
                self._go(graph)

    def _here(self) -> NavigationEntry:
        return NavigationEntry(self._graph, self.selection.items, self.spot())

    def go_back(self) -> None:
        """Return to the place left by the last jump: its graph, what was selected, and the part in view."""
        self._return_to(self.visits.back())

    def go_forward(self) -> None:
        """Return to the place that `go_back` left."""
        self._return_to(self.visits.forward())

    def _return_to(self, visit: NavigationEntry | None) -> None:
        if visit is None:
            return
        if visit.graph is not self._graph:
            self._go(visit.graph)
        self.selection.set(visit.items)
        self.returned.emit(visit.spot)

    def go_up(self) -> None:
        """Go from a body to the graph around it, from a function to the main graph; the graph left is selected."""
        owner = self._graph.owner
        if isinstance(owner, Node) and owner.graph is not None:
            self.reveal(owner)
        elif self._graph is not self.model.graph:
            self.show(self.model.graph)

    def _go(self, graph: Graph) -> None:
        self._graph = graph
        self.graph_shown.emit(graph)

    def _leave_removed(self, _removed: object) -> None:
        self.selection.prune(is_in_model)
        self.visits.prune(is_in_model)
        if not is_in_model(self._graph):
            self._return_to(self.visits.back() or NavigationEntry(self.model.graph))
            self.visits.prune(is_in_model)  # the graph that is gone is not gone forward to

    def reveal(self, item: Item) -> None:
        """Show the graph an object lies in, select the object and bring it into view."""
        self.reveal_all([item])

    def reveal_all(self, items: Iterable[Item]) -> None:
        """Reveal several objects; those in the graph of the last one come into view.

        Nodes and values of a body or function that is open inside the graph shown are shown there. Deleted objects
        are left out: lists may hold them until they are rebuilt.
        """
        found = [(item, graph_of(item)) for item in items]
        there = {graph for graph in {graph for _, graph in found} if graph is not None and is_in_model(graph)}
        chosen = [item for item, graph in found if graph in there and not _is_gone(item)]
        if not chosen:
            return
        with self.visits.jump():
            graph = graph_of(chosen[-1])
            if graph is not None and not (isinstance(chosen[-1], (Node, Value)) and self.draws(graph)):
                self.show(graph)
            self.selection.set(chosen)
            self.reveal_requested.emit(chosen[-1])

    # -- messages --------------------------------------------------------------------------------------------

    def message(
        self,
        severity: Severity,
        title: str,
        detail: str = "",
        place: Any = None,
        choices: tuple[tuple[str, Callable[[], object]], ...] = (),
        topic: str = "",
    ) -> None:
        """Show the user a non-modal message: a bar above the graph, one line and a detail."""
        self.messaged.emit(Message(severity, title, detail, place, choices, topic))

    def withdraw(self, topic: str) -> None:
        """Withdraw the message on a topic, which no longer holds."""
        self.withdrawn.emit(topic)

    def report(self, error: ModelError, topic: str = "") -> None:
        """Show an error."""
        self.message("error", error.title, error.detail, error.place, topic=topic)

    def _on_task_failed(self, task: Task[Any]) -> None:
        if isinstance(task.error, ModelError):
            self.report(task.error)

    def set_run_state(self, text: str) -> None:
        """Say in the status line how the last run stands; empty before the first."""
        if text != self.run_state:
            self.run_state = text
            self.run_state_changed.emit()

    def overlay(self, numbers: Mapping[Node, float] | None, title: str = "") -> None:
        """Colour the nodes of the graph by a number each, with a legend; None takes the colours away."""
        self.overlay_shown = numbers, title
        self.overlaid.emit(numbers, title)

    def group(self, keys: Mapping[Node, str] | None, title: str = "", own: Mapping[str, str] | None = None) -> None:
        """Colour the nodes of the graph by a word each, with a legend; words in `own` have those colours."""
        self.grouped.emit(keys, title, own)

    def mark(self, kind: str, items: Iterable[object]) -> None:
        """Mark objects on the graph: "matches", "errors", "stale", "changed" or "traced"; none takes marks away."""
        found = list(items)
        self.marks[kind] = found
        self.marked.emit(kind, found)

    def unmark(self, kind: str, nodes: Iterable[Node]) -> None:
        """Take marks of a kind off some nodes; costs little where many are marked."""
        self.marks.pop(kind, None)
        self.unmarked.emit(kind, list(nodes))

    # -- actions and menus -----------------------------------------------------------------------------------

    def trigger(self, action_id: str) -> None:
        """Run one of the window's actions by its id, as if chosen in a menu."""
        self.action_requested.emit(action_id)

    def offer(self, panel_id: str) -> None:
        """There is something to see in a panel: open it where it was never closed; the focus stays where it is."""
        self.panel_offered.emit(panel_id)

    def open_menu(self, position: QPoint, kind: str) -> None:
        """Open the context menu of actions that fit what is selected, at a global position."""
        self.menu_requested.emit(position, kind)

    def close(self) -> None:
        """Stop all work and listening; the tab is going away."""
        self.closed.emit()
        self.tasks.close()
        self.problems.close()
        self.types.close()
        self.changes.close()
        self._end_before_change()


def _first_graph(model: Model) -> Graph:
    """Return the graph shown first: the main graph, or the first function of a file that has functions alone."""
    graph = model.graph
    is_empty = not (graph.nodes.first or graph.inputs or graph.outputs or graph.initializers)
    return model.functions[0].body if is_empty and model.functions else graph


def _lone_tensor(graph: Graph) -> list[Value]:
    """Return the only tensor of a graph that holds one constant and nothing else."""
    constants = list(islice(graph.initializers, 2))
    return constants if len(constants) == 1 and not (graph.nodes.first or graph.inputs or graph.outputs) else []


def _is_gone(item: Item) -> bool:
    """Return whether a graph no longer has a value, though the value refers to it; fast, as there may be very many."""
    if not isinstance(item, Value):
        return False
    maker = item.producer
    return maker.graph is None if maker is not None else not (item.is_defined or item.uses)


def graph_of(item: Item) -> Graph | None:
    """The graph in which an object is seen: the body of a function, the main graph of a model."""
    match item:
        case Node() | Value():
            return item.graph
        case Graph():
            return item
        case Function():
            return item.body
        case Model():
            return item.graph
