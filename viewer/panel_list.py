"""The panels of the docks: one line each in PANELS; their modules are imported when they are first shown.

To add a panel, write a `Panel` subclass in a module of viewer/panels and its line in PANELS.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from onnx_workbench.viewer.panel import Panel

Area = Literal["left", "right", "bottom"]


@dataclass(frozen=True)
class PanelInfo:
    """An entry of PANELS: the data that the window needs before the module is imported."""

    id: str  # kept in settings
    module: str  # below viewer/
    class_name: str
    title: str
    area: Area
    icon: str
    shortcut: str = ""
    open_at_first: bool = False
    words: str = ""  # what people call it, for the command palette

    def load(self) -> type[Panel]:
        """The panel's class; imports its module."""
        found: type[Panel] = getattr(import_module(f"onnx_workbench.viewer.{self.module}"), self.class_name)
        return found


#: The panels, in the order of their tabs within an area.
PANELS: tuple[PanelInfo, ...] = (
    PanelInfo(
        "outline",
        "panels.outline",
        "OutlinePanel",
        "Outline",
        "left",
        "outline",
        open_at_first=True,
        words="tree structure hierarchy graphs",
    ),
    PanelInfo("find", "panels.find", "FindPanel", "Find", "left", "find", open_at_first=True, words="search look for"),
    PanelInfo(
        "inspector",
        "inspector.panel",
        "InspectorPanel",
        "Inspector",
        "right",
        "inspector",
        "Alt+Return",
        open_at_first=True,
        words="properties attributes details facts",
    ),
    PanelInfo(
        "run",
        "run_panel.panel",
        "RunPanel",
        "Run",
        "right",
        "run",
        "Ctrl+Shift+R",
        words="inputs feeds breakpoints conditions seed random limits memory time outputs console debug",
    ),
    PanelInfo(
        "tensor",
        "tensor_view.panel",
        "TensorPanel",
        "Tensor",
        "bottom",
        "tensor",
        "Ctrl+Shift+T",
        words="values numbers array weights data image heat map histogram fill export import slice logarithmic",
    ),
    PanelInfo(
        "problems",
        "panels.problems",
        "ProblemsPanel",
        "Problems",
        "bottom",
        "problems",
        words="errors warnings messages check lint",
    ),
    PanelInfo(
        "differences",
        "panels.differences",
        "DifferencesPanel",
        "Differences",
        "bottom",
        "compare",
        words="diff compare models changes",
    ),
    PanelInfo(
        "statistics",
        "panels.statistics",
        "StatisticsPanel",
        "Statistics",
        "bottom",
        "chart",
        words="counts parameters params macs flops operators memory size summary",
    ),
    PanelInfo("history", "panels.history", "HistoryPanel", "History", "bottom", "history", words="undo redo edits"),
    PanelInfo(
        "node_table",
        "panels.node_table",
        "NodeTablePanel",
        "Node Table",
        "bottom",
        "attributes",
        "Ctrl+T",
        words="list spreadsheet nodes",
    ),
    PanelInfo(
        "raw",
        "panels.raw_messages",
        "RawMessagesPanel",
        "Raw Messages",
        "bottom",
        "raw",
        words="protobuf bytes source file",
    ),
    PanelInfo(
        "bookmarks",
        "panels.bookmarks",
        "BookmarksPanel",
        "Bookmarks",
        "bottom",
        "bookmark",
        words="notes remember favourites mark",
    ),
    PanelInfo("watch", "panels.watch", "WatchPanel", "Watch", "bottom", "watch", words="pinned values debug variables"),
    PanelInfo(
        "profile",
        "panels.profile",
        "ProfilePanel",
        "Profile",
        "bottom",
        "profile",
        words="time memory speed performance slow rows columns",
    ),
    PanelInfo(
        "element",
        "panels.provenance",
        "ProvenancePanel",
        "Element",
        "bottom",
        "find",
        words="provenance trace origin index receptive field debug",
    ),
    PanelInfo(
        "compare",
        "panels.run_comparison",
        "RunComparisonPanel",
        "Compare",
        "bottom",
        "compare",
        words="reference accuracy error difference onnxruntime absolute relative tolerance",
    ),
)
