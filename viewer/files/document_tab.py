"""Tab of one open document: breadcrumb, messages and graph."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QWidget

from onnx_workbench.model.analysis.call_graph import holders
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.files.autosave import Autosave, JournalStart
from onnx_workbench.viewer.files.file_identity import identity_at, identity_read
from onnx_workbench.viewer.program import garbage_collection
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.widgets.breadcrumb import Breadcrumb
from onnx_workbench.viewer.widgets.flow_layout import FlowLayout, in_a_column
from onnx_workbench.viewer.widgets.message_bar import MessageBar

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.source import Identity
    from onnx_workbench.viewer.canvas.graph_view import GraphView
    from onnx_workbench.viewer.files.side_by_side import SideBySide
    from onnx_workbench.viewer.run.views.scope_bar import ScopeBar

_LEAST_PATH = 160  # least px for the path; with less room, the selectors of a run move to another line


class DocumentTab(QWidget):
    """A workspace and its view. The view imports numpy, so tabs are created only after the first paint."""

    def __init__(self, workspace: Workspace, start: JournalStart | None = None) -> None:
        super().__init__()
        from onnx_workbench.viewer.canvas.graph_view import GraphView
        from onnx_workbench.viewer.run.views.scope_bar import ScopeBar

        garbage_collection.exempt_objects()
        self.workspace = workspace
        workspace.setParent(self)
        self.number = 0  # of the request, ascending
        self.foreign: Path | None = None  # the file of another format that an extension has read
        self.identity: Identity | None = None  # of the file when it was last read or written
        self.reported_identity: Identity | None = None  # of a changed file about which the user was informed
        self.breadcrumb = Breadcrumb(workspace)
        self.scope_bar: ScopeBar = ScopeBar(workspace)
        self.message_bar = MessageBar(workspace)
        self.view: GraphView = GraphView(workspace)
        self.view.trail_changed.connect(self.breadcrumb.set_frames)
        self.autosave = Autosave(workspace, start or JournalStart())
        workspace.types.changed.connect(self._show_types)
        workspace.types.start()
        workspace.problems.changed.connect(self._mark_problems)
        workspace.problems.start()
        self.beside: SideBySide | None = None  # while it is shown together with another document
        self.pane = self._make_pane()
        in_a_column(self, self.pane)
        if self.path is not None:
            self.identity = identity_read(workspace.model) or identity_at(self.path)

    def _make_pane(self) -> QWidget:
        pane = QWidget()
        way = FlowLayout(2)
        self.breadcrumb.setMinimumWidth(_LEAST_PATH)
        way.add_filling(self.breadcrumb)
        way.addWidget(self.scope_bar)
        line = QFrame()
        line.setFrameShape(QFrame.Shape.HLine)
        line.setForegroundRole(line.palette().ColorRole.Mid)
        in_a_column(pane, way, line, self.message_bar, self.view, fills=self.view)
        return pane

    # -- side by side ----------------------------------------------------------------------------------------

    @property
    def front(self) -> DocumentTab:
        """The document to which actions apply while this tab is shown: this one, or the one beside it."""
        return self if self.beside is None else self.beside.front

    @property
    def canvas(self) -> GraphView:
        """The graph view that shows the document: its own, or the merged one."""
        merged = self.beside.merged if self.beside is not None else None
        return self.view if merged is None or merged.view is None else merged.view

    def drawn(self, item: Node | Value) -> Node | Value:
        """Return the drawn object for one of the document: the same, except in a merged graph."""
        merged = self.beside.merged if self.beside is not None else None
        drawn = merged.drawn(item) if merged is not None else None
        return drawn if isinstance(drawn, (Node, Value)) else item

    def set_content(self, content: QWidget) -> None:
        """Set the content of the tab: its pane, or its pane and another one."""
        layout = self.layout()
        assert layout is not None
        layout.addWidget(content)
        content.show()

    def showEvent(self, event: QShowEvent) -> None:
        if self.beside is not None:
            self.beside.move_to(self)
        super().showEvent(event)

    # -- the file --------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The file the document belongs to."""
        return self.workspace.document.path

    @property
    def modified(self) -> bool:
        """Whether closing would lose changes."""
        return self.workspace.document.modified or bool(self.workspace.tasks.making("edit"))

    @property
    def is_read_only(self) -> bool:
        """Whether the file is not writable; queries the file system."""
        return self.path is not None and self.path.exists() and not os.access(self.path, os.W_OK)

    def _show_types(self) -> None:
        self.view.scenes.set_types(self.workspace.types.type_of)

    def _mark_problems(self) -> None:
        """Mark objects with errors, and the nodes whose bodies or functions contain them, as these may be closed."""
        places = dict.fromkeys(p.place for p in self.workspace.problems.all if p.severity == "error")
        self.workspace.highlights.mark("errors", places | dict.fromkeys(holders(self.workspace.model, places)))

    def note_identity(self) -> None:
        """Store the identity of the file, to detect changes by other programs."""
        self.identity = None if self.path is None else identity_at(self.path)

    def close_workspace(self) -> None:
        """Stop all work, before the tab is closed."""
        self.autosave.close()
        self.workspace.close()

    def graph_number(self) -> int:
        """Return the index of the shown graph among all graphs of the model, to show it again after a reload."""
        graphs = self.workspace.model.graphs()
        return next((number for number, graph in enumerate(graphs) if graph is self.workspace.graph), 0)

    def show_graph_number(self, number: int) -> None:
        """Show the graph with an index from `graph_number`, if it exists."""
        graph = next(itertools.islice(self.workspace.model.graphs(), max(number, 0), None), None)
        if graph is not None:
            self.workspace.navigation.show(graph)
