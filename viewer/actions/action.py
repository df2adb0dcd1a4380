"""The Action data class: title, menus, condition of being enabled, and function."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from onnx_workbench.viewer.program.settings import Option, Settings
from onnx_workbench.viewer.style.labels import without_mnemonic

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QMainWindow

    from onnx_workbench.model.ir.graph import Node, Value
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.docks import Docks
    from onnx_workbench.viewer.document.selection import Item
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.document_tab import DocumentTab
    from onnx_workbench.viewer.files.documents import Documents
    from onnx_workbench.viewer.run.session.controller import RunController
    from onnx_workbench.viewer.run.workspace import Workspace


class Place(NamedTuple):
    """Where entries of a menu stand together: a section of it, between two lines, or a submenu in that section."""

    menu: Menu
    section: int
    submenu: str = ""


class Menu(enum.Enum):
    """The menus of the menu bar, in order."""

    FILE = "&File"
    EDIT = "&Edit"
    VIEW = "&View"
    GO = "&Go"
    MODEL = "&Model"
    RUN = "&Run"
    HELP = "&Help"

    def section(self, number: int) -> Place:
        """Return a section of the menu; sections are ordered by their numbers."""
        return Place(self, number)


class Submenu:
    """Submenus for related, less frequent actions."""

    ENDS = Place(Menu.MODEL, 2, "Inputs and &Outputs")
    CONSTANTS = Place(Menu.MODEL, 2, "Initia&lizers and Constants")
    FUNCTIONS = Place(Menu.MODEL, 2, "&Functions")
    TYPES = Place(Menu.MODEL, 2, "&Types and Shapes")
    NAMES = Place(Menu.MODEL, 2, "&Names and Order")
    COMPARE = Place(Menu.MODEL, 4, "Co&mpare")
    CUT = Place(Menu.MODEL, 4, "E&xtract, Split and Merge")
    PANELS = Place(Menu.VIEW, 4, "&Panels")
    FOLDS = Place(Menu.VIEW, 2, "Fold Nodes")
    THEMES = Place(Menu.VIEW, 5, "T&heme")
    BREAK = Place(Menu.RUN, 4, "Brea&k When")
    LOOK = Place(Menu.RUN, 5, "&Inspect Values")
    COLOURS = Place(Menu.RUN, 7, "Colo&ur Nodes")
    EDGES = Place(Menu.RUN, 8, "Values on &Edges")


@dataclass(frozen=True)
class MenuContext:
    """The parts of a window that actions work with, and the document in front."""

    window: QMainWindow  # the parent of dialogs
    area: DocumentArea
    files: Documents
    docks: Docks
    settings: Settings
    open_palette: Callable[[], object]
    do_once_open: Callable[[str], object]  # does an action as soon as the document that is being read is open

    @property
    def document_open(self) -> bool:
        return self.area.workspace is not None

    @property
    def tab(self) -> DocumentTab:
        """The tab in front. This and what follows are for actions that need a document."""
        tab = self.area.tab
        assert tab is not None
        return tab

    @property
    def workspace(self) -> Workspace:
        """The document in front."""
        return self.tab.workspace

    @property
    def view(self) -> GraphView:
        """The graph in front."""
        return self.tab.canvas

    @property
    def runs(self) -> RunController | None:
        """The runs of the document; None before the first."""
        return self.workspace.runs if self.workspace.has_runs else None

    @property
    def recent_files(self) -> list[Path]:
        """The files opened last, newest first."""
        return self.settings.recent_files()

    @property
    def current(self) -> Item | None:
        """The object selected last."""
        return self.workspace.selection.current

    @property
    def selected(self) -> tuple[Item, ...]:
        """The selection."""
        return self.workspace.selection.items

    @property
    def selected_nodes(self) -> tuple[Node, ...]:
        """The selected nodes."""
        return self.workspace.selection.nodes

    @property
    def selected_values(self) -> tuple[Value, ...]:
        """The selected values."""
        return self.workspace.selection.values


def with_selection(context: MenuContext) -> bool:
    """Enabled while something is selected."""
    return bool(context.selected)


def _always(_context: MenuContext) -> bool:
    return True


def _nothing(_context: MenuContext) -> None:
    pass


@dataclass(frozen=True)
class Action:
    """A command of the program: `run`, or the function that this decorates. User errors are ModelError.

    id         stable: "file.open"; stored in the user's key bindings
    title      as in the menu, with an & before its mnemonic and … when it asks more
    place      where it stands in the menu bar; None: only in the palette
    key        Qt's portable key texts, first one shown: ("Ctrl+Shift+Z", "Ctrl+Y")
    on_graph   the key works only while the graph has the focus (Space, arrows, Backspace, letters)
    everywhere the key works in dialogs too
    when       whether it makes sense now; must be cheap, it is asked after every change of selection
    on_start_page  it needs no document
    once_open  may be asked for while the first document is still being read, and is done as soon as that is open
    checked    for a switch: whether it is on; asked while it makes sense
    label      for a title that changes: the title now; an empty one hides the action
    icon       a name in resources/icons
    toolbar    its place in the tool bar, from 1; 0: not there. A change of the tens digit leaves a gap
    on         context menus that contain it: "canvas", "node", "value", "graph", "function", "model"
    tip        one sentence more than the title, for tooltip and palette
    words      other words a user might type in the palette
    by_key     what its key does, where that is not what its entry in the menu does
    """

    id: str
    title: str
    place: Place | None = None
    run: Callable[[MenuContext], object] = _nothing
    _: KW_ONLY
    key: str | tuple[str, ...] = ()
    on_graph: bool = False
    everywhere: bool = False
    when: Callable[[MenuContext], bool] = _always
    on_start_page: bool = False
    once_open: bool = False
    checked: Callable[[MenuContext], bool] | None = None
    label: Callable[[MenuContext], str] | None = None
    icon: str = ""
    toolbar: int = 0
    on: tuple[str, ...] = ()
    tip: str = ""
    words: str = ""
    by_key: Callable[[MenuContext], object] | None = None

    def __call__(self, run: Callable[[MenuContext], object]) -> Action:
        """Return the action that does what the function below it does."""
        return replace(self, run=run)

    def switching(self, option: Option[bool]) -> Action:
        """Return the action that turns a setting on and off."""
        return replace(
            self,
            run=lambda context: context.settings.set(option, not context.settings.get(option)),
            checked=lambda context: context.settings.get(option),
        )

    def choosing(self, option: Option[str], choice: str) -> Action:
        """Return the action that sets a setting to one of its choices."""
        return replace(
            self,
            run=lambda context: context.settings.set(option, choice),
            checked=lambda context: context.settings.get(option) == choice,
        )

    def is_possible(self, context: MenuContext, *, is_document_open: bool) -> bool:
        """Whether it can be done now, or be asked for."""
        if self.on_start_page or is_document_open:
            return self.when(context)
        return self.once_open and context.files.is_waiting

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys, the one that is shown first."""
        return (self.key,) * bool(self.key) if isinstance(self.key, str) else self.key

    @property
    def plain_title(self) -> str:
        """The title without its mnemonic and dots."""
        return without_mnemonic(self.title).removesuffix("…")
