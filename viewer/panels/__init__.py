"""The docks around the graph: one module per panel, named in PANELS and imported when it is first shown.

To add a panel, write a `Panel` subclass in a module here and its line in PANELS.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

if TYPE_CHECKING:
    from viewer.workspace import Workspace

Area = Literal["left", "right", "bottom"]


class Panel(QWidget):
    """What a dock holds for one open document. Gets nothing but the workspace; made when the dock is first shown.

    A panel listens to the workspace's selection, changes and places, and acts through `workspace.trigger`,
    `workspace.reveal` and edits of its document.
    """

    def __init__(self, workspace: Workspace, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.workspace = workspace
        #: Where the focus goes first. No focus proxy: Tab would jump to it, past the controls before it.
        self.entry: QWidget = self

    def activate(self) -> None:
        """The person asked for the panel (shortcut, menu): put the focus where typing makes sense."""
        self.entry.setFocus(Qt.FocusReason.ShortcutFocusReason)


@dataclass(frozen=True)
class PanelInfo:
    """A line of PANELS: what the window must know before the module is imported."""

    id: str  # also the module's name
    class_name: str
    title: str
    area: Area
    icon: str
    shortcut: str = ""
    open_at_first: bool = False

    def load(self) -> type[Panel]:
        """The panel's class; imports its module."""
        found: type[Panel] = getattr(import_module(f"viewer.panels.{self.id}"), self.class_name)
        return found


#: The panels, in the order of their tabs within an area.
PANELS: tuple[PanelInfo, ...] = (
    PanelInfo("outline", "OutlinePanel", "Outline", "left", "outline", open_at_first=True),
    PanelInfo("find", "FindPanel", "Find", "left", "find", "Ctrl+F", open_at_first=True),
    PanelInfo("inspector", "InspectorPanel", "Inspector", "right", "inspector", "Alt+Return", open_at_first=True),
    PanelInfo("run", "RunPanel", "Run", "right", "run", "Ctrl+Shift+R"),
    PanelInfo("tensor", "TensorPanel", "Tensor", "bottom", "tensor", "Ctrl+Shift+T"),
    PanelInfo("problems", "ProblemsPanel", "Problems", "bottom", "problems"),
    PanelInfo("differences", "DifferencesPanel", "Differences", "bottom", "compare"),
    PanelInfo("statistics", "StatisticsPanel", "Statistics", "bottom", "chart"),
    PanelInfo("history", "HistoryPanel", "History", "bottom", "history"),
    PanelInfo("node_table", "NodeTablePanel", "Node Table", "bottom", "attributes", "Ctrl+T"),
    PanelInfo("raw", "RawPanel", "Raw Messages", "bottom", "raw"),
    PanelInfo("watch", "WatchPanel", "Watch", "bottom", "watch"),
    PanelInfo("profile", "ProfilePanel", "Profile", "bottom", "profile"),
    PanelInfo("element", "ElementPanel", "Element", "bottom", "find"),
    PanelInfo("compare", "ComparePanel", "Compare", "bottom", "compare"),
)
