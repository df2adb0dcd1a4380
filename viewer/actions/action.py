"""The Action data class: title, menus, condition of being enabled, and function."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

from onnx_workbench.viewer.core.settings import RECENT_FILES, Settings
from onnx_workbench.viewer.style.formatting import without_mnemonic

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

    from onnx_workbench.model.ir.graph import Node, Value
    from onnx_workbench.viewer.core.selection import Item
    from onnx_workbench.viewer.docks import Docks
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.documents import Documents
    from onnx_workbench.viewer.run.workspace import Workspace


class Menu(enum.Enum):
    """The menus of the menu bar, in order."""

    FILE = "&File"
    EDIT = "&Edit"
    VIEW = "&View"
    GO = "&Go"
    MODEL = "&Model"
    RUN = "&Run"
    HELP = "&Help"


class Submenu(enum.StrEnum):
    """Submenus for related, less frequent actions."""

    ENDS = "Inputs and &Outputs"
    CONSTANTS = "Initia&lizers and Constants"
    FUNCTIONS = "&Functions"
    TYPES = "&Types and Shapes"
    NAMES = "&Names and Order"
    COMPARE = "Co&mpare"
    CUT = "E&xtract, Split and Merge"
    PANELS = "&Panels"
    THEMES = "T&heme"
    BREAK = "Brea&k When"
    LOOK = "&Inspect Values"
    COMPARE_RUNS = "Compare Wit&h"
    COLOURS = "Colo&ur Nodes"
    EDGES = "Values on &Edges"


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


class SelectionSummary(MenuContext):
    """A context that caches lookups: for evaluating all actions at one moment."""

    @classmethod
    def of(cls, context: MenuContext) -> SelectionSummary:
        """Return a summary of this moment."""
        return cls(**{one.name: getattr(context, one.name) for one in fields(context)})

    @cached_property
    def workspace(self) -> Workspace | None:
        """The document in front, or None on the start page."""
        return self.area.workspace

    @cached_property
    def recent_files(self) -> tuple[str, ...]:
        """Paths of recently opened files, newest first."""
        return super().recent_files


def always(_context: MenuContext) -> bool:
    """Enabled even on the start page."""
    return True


def with_document(context: MenuContext) -> bool:
    """Enabled while a document is open."""
    return context.document_open


def with_document_soon(context: MenuContext) -> bool:
    """Enabled while a document is open, or the first one is being read: see `once_open`."""
    return context.document_open or context.files.is_waiting


def once_open(action_id: str, run: Callable[[MenuContext], object]) -> Callable[[MenuContext], object]:
    """Return a `run` for a document: called now, or as soon as the first one, which is being read, is open."""

    def now_or_then(context: MenuContext) -> None:
        if context.document_open:
            run(context)
        else:
            context.do_once_open(action_id)

    return now_or_then


def with_selection(context: MenuContext) -> bool:
    """Enabled while something is selected."""
    return bool(context.selected)


@dataclass(frozen=True)
class Action:
    """A command of the program.

    id         stable: "file.open"; stored in the user's key bindings
    title      as in the menu, with an & before its mnemonic and … when it asks more
    run        does it; called only while `enabled` is true. User errors are ModelError
    by_key     what its shortcut does, where that is not what its entry in the menu does
    menu       where it stands; None: only in the palette. `section` groups within the menu, by number
    submenu    the title of a menu within the menu that holds it; those of one submenu stand together. Context menus
               have none
    shortcut   Qt's portable key texts, first one shown: ("Ctrl+Shift+Z", "Ctrl+Y")
    on_graph   the shortcut works only while the graph has the focus (Space, arrows, Backspace, letters)
    everywhere the shortcut works in dialogs too
    enabled    whether it makes sense now; must be cheap, it is asked after every change of selection
    checked    for a switch: whether it is on
    icon       a name in resources/icons
    toolbar    its place in the tool bar, from 1; 0: not there. A change of the tens digit leaves a gap
    label      for a title that changes: the title now; an empty one hides the action
    contexts   context menus that contain it: "canvas", "node", "value", "graph", "function", "model"
    tip        one sentence more than the title, for tooltip and palette
    words      other words a person might type in the palette
    """

    id: str
    title: str
    run: Callable[[MenuContext], object]
    menu: Menu | None = None
    section: int = 0
    submenu: str = ""
    shortcut: tuple[str, ...] = ()
    on_graph: bool = False
    everywhere: bool = False
    enabled: Callable[[MenuContext], bool] = with_document
    checked: Callable[[MenuContext], bool] | None = None
    label: Callable[[MenuContext], str] | None = None
    icon: str = ""
    toolbar: int = 0
    contexts: frozenset[str] = field(default_factory=frozenset)
    tip: str = ""
    words: str = ""
    by_key: Callable[[MenuContext], object] | None = None

    @property
    def plain_title(self) -> str:
        """Return the title without its mnemonic and dots."""
        return without_mnemonic(self.title).removesuffix("…")
