"""The Action data class: title, menus, condition of being enabled, and function."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from onnx_workbench.viewer.program.settings import RECENT_FILES, Option, Settings
from onnx_workbench.viewer.style.labels import without_mnemonic

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

    from onnx_workbench.model.ir.graph import Node, Value
    from onnx_workbench.viewer.docks import Docks
    from onnx_workbench.viewer.document.selection import Item
    from onnx_workbench.viewer.files.document_area import DocumentArea
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
    """The context an action works in: the parts of a window, and the current document, if any."""

    window: QMainWindow  # the parent of dialogs
    area: DocumentArea
    files: Documents
    docks: Docks
    settings: Settings
    open_palette: Callable[[], object]
    do_once_open: Callable[[str], object]  # does an action as soon as the document that is being read is open

    @property
    def workspace(self) -> Workspace | None:
        """The document in front, or None on the start page."""
        return self.area.workspace

    @property
    def document_open(self) -> bool:
        return self.workspace is not None

    @property
    def opened(self) -> Workspace:
        """The current document; only for actions whose `enabled` requires one."""
        workspace = self.workspace
        assert workspace is not None
        return workspace

    @property
    def runs(self) -> RunController | None:
        """The runs of the current document; None before the first."""
        workspace = self.workspace
        return workspace.runs if workspace is not None and workspace.has_runs else None

    @property
    def recent_files(self) -> tuple[str, ...]:
        """Paths of the files opened last, newest first."""
        return self.settings.get(RECENT_FILES)

    @property
    def selected(self) -> tuple[Item, ...]:
        """The selection of the current document."""
        workspace = self.workspace
        return () if workspace is None else workspace.selection.items

    @property
    def selected_nodes(self) -> tuple[Node, ...]:
        """The selected nodes."""
        workspace = self.workspace
        return () if workspace is None else workspace.selection.nodes

    @property
    def selected_values(self) -> tuple[Value, ...]:
        """The selected values."""
        workspace = self.workspace
        return () if workspace is None else workspace.selection.values


def always(_context: MenuContext) -> bool:
    """Enabled even on the start page."""
    return True


def with_document(context: MenuContext) -> bool:
    """Enabled while a document is open."""
    return context.document_open


def with_selection(context: MenuContext) -> bool:
    """Enabled while something is selected."""
    return bool(context.selected)


def is_on(option: Option[bool], context: MenuContext) -> bool:
    """State of an action that is a switch of a setting."""
    return context.settings.get(option)


def toggle(option: Option[bool], context: MenuContext) -> None:
    """Change a setting that is on or off."""
    context.settings.set(option, not context.settings.get(option))


@dataclass(frozen=True)
class Action:
    """A command of the program. The parameters of `action` describe its fields."""

    id: str
    title: str
    run: Callable[[MenuContext], object]
    place: Place | None = None
    key: tuple[str, ...] = ()
    on_graph: bool = False
    everywhere: bool = False
    when: Callable[[MenuContext], bool] = with_document
    checked: Callable[[MenuContext], bool] | None = None
    label: Callable[[MenuContext], str] | None = None
    icon: str = ""
    toolbar: int = 0
    on: tuple[str, ...] = ()
    tip: str = ""
    words: str = ""
    by_key: Callable[[MenuContext], object] | None = None

    def __call__(self, context: MenuContext) -> None:
        """Do it, as the function below the decorator does."""
        self.run(context)

    @property
    def plain_title(self) -> str:
        """Return the title without its mnemonic and dots."""
        return without_mnemonic(self.title).removesuffix("…")


def action(
    action_id: str,
    title: str,
    place: Place | None = None,
    *,
    key: str | tuple[str, ...] = (),
    on_graph: bool = False,
    everywhere: bool = False,
    when: Callable[[MenuContext], bool] = with_document,
    once_open: bool = False,
    checked: Callable[[MenuContext], bool] | None = None,
    label: Callable[[MenuContext], str] | None = None,
    icon: str = "",
    toolbar: int = 0,
    on: tuple[str, ...] = (),
    tip: str = "",
    words: str = "",
    by_key: Callable[[MenuContext], object] | None = None,
) -> Callable[[Callable[[MenuContext], object]], Action]:
    """Make an action of the function below it, which is called only while `when` is true. User errors are ModelError.

    action_id  stable: "file.open"; stored in the user's key bindings
    title      as in the menu, with an & before its mnemonic and … when it asks more
    place      where it stands in the menu bar; None: only in the palette
    key        Qt's portable key texts, first one shown: ("Ctrl+Shift+Z", "Ctrl+Y")
    on_graph   the key works only while the graph has the focus (Space, arrows, Backspace, letters)
    everywhere the key works in dialogs too
    when       whether it makes sense now; must be cheap, it is asked after every change of selection
    once_open  may be asked for while the first document is still being read, and is done as soon as that is open
    checked    for a switch: whether it is on
    label      for a title that changes: the title now; an empty one hides the action
    icon       a name in resources/icons
    toolbar    its place in the tool bar, from 1; 0: not there. A change of the tens digit leaves a gap
    on         context menus that contain it: "canvas", "node", "value", "graph", "function", "model"
    tip        one sentence more than the title, for tooltip and palette
    words      other words a user might type in the palette
    by_key     what its key does, where that is not what its entry in the menu does
    """

    def decorate(run: Callable[[MenuContext], object]) -> Action:
        return Action(
            id=action_id,
            title=title,
            run=_or_once_open(action_id, run) if once_open else run,
            place=place,
            key=(key,) if isinstance(key, str) else key,
            on_graph=on_graph,
            everywhere=everywhere,
            when=_with_document_soon if once_open else when,
            checked=checked,
            label=label,
            icon=icon,
            toolbar=toolbar,
            on=on,
            tip=tip,
            words=words,
            by_key=by_key,
        )

    return decorate


def _with_document_soon(context: MenuContext) -> bool:
    return context.document_open or context.files.is_waiting


def _or_once_open(action_id: str, run: Callable[[MenuContext], object]) -> Callable[[MenuContext], object]:
    def now_or_then(context: MenuContext) -> None:
        if context.document_open:
            run(context)
        else:
            context.do_once_open(action_id)

    return now_or_then
