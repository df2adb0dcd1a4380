"""Updates the scene after edits, with as little work as possible for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.model.history.document import Change
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene.backlog import Backlog
from onnx_workbench.viewer.canvas.scene.patch_drawing import (
    DrawingPatch,
    can_patch,
    pills,
    replace_boxes,
)
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene_loader import SceneLoader, concerns
from onnx_workbench.viewer.document.model_signals import ChangeSet, is_large

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.scene_controller import SceneController
    from onnx_workbench.viewer.document.context import DocumentContext


class SceneUpdater(QObject):
    """Updates a canvas after edits of its model and newly inferred types. GUI thread only.

    Boxes with changed texts are replaced in place, very many of them in chunks. If boxes or edges are added or removed,
    the touched part, or else everything, is redrawn in the next event loop iteration.
    """

    def __init__(
        self, scenes: SceneController, loader: SceneLoader, surface: Surface, context: DocumentContext
    ) -> None:
        super().__init__(scenes)
        self._scenes = scenes
        self._loader = loader
        self._surface = surface
        self._changes = context.changes
        self._rebuild = QTimer(self, singleShot=True, interval=0)
        self._rebuild.timeout.connect(self._on_rebuild)
        self._touched: ChangeSet | None = None  # of the only edit that is not drawn yet
        self._backlog = Backlog(self._catch_up, lambda: scenes.is_busy, self)
        changes = context.changes
        changes.nodes_changed.connect(loader.forget)
        changes.values_changed.connect(lambda values: loader.forget((), values))
        changes.changed.connect(self._on_change)

    @property
    def is_due(self) -> bool:
        """Whether the scene is about to be redrawn."""
        return self._rebuild.isActive()

    def request_redraw(self) -> None:
        """Redraw everything, debounced to the next event loop iteration."""
        self._touched = None
        self._rebuild.start()

    def forget(self) -> None:
        """Drop pending updates: everything is redrawn."""
        self._backlog.clear()

    def _on_change(self, change: Change) -> None:
        scene = self._surface.scene
        touched = self._changes.touched
        if scene is None or self._scenes.is_busy:
            self.request_redraw()
        elif can_patch(scene.drawing, change, touched) and touched.is_large:
            self._backlog.add((*touched.nodes, *touched.values))
        elif concerns(scene.drawing, touched):
            patch = self._loader.patch(scene.drawing, touched) if can_patch(scene.drawing, change, touched) else None
            self._touched = None if patch or touched.is_large else touched
            self._follow(scene, patch)

    def _catch_up(self, touched: ChangeSet) -> None:
        scene = self._surface.scene
        if scene is not None:
            patch = self._loader.patch(scene.drawing, touched)
            is_small = patch is not None and not patch.resized  # else redraw all: each chunk would move the others
            self._follow(scene, patch if is_small else None)

    def _on_rebuild(self) -> None:
        scene, touched, self._touched = self._surface.scene, self._touched, None
        if scene is not None and touched is not None and not self._loader.is_busy:
            drawing = self._loader.restructured(scene.drawing, touched, self._scenes.options)
            if drawing is not None:
                self._scenes.pin_position()
                self._loader.load_drawing(drawing, scene.layout, around=self._surface.middle)
                return
        self._scenes.reload()

    def _follow(self, scene: Scene, patch: DrawingPatch | None) -> None:
        """Update after an edit."""
        if patch is None:
            self._rebuild.start()
        elif patch.resized:
            self._scenes.pin_position()
            self._loader.load_patched(scene, patch)
        else:
            replace_boxes(scene, patch)
            self._surface.repaint_boxes(patch.boxes, patch.edges)

    def retype(self) -> bool:
        """Update the types of values in the shown scene; return False if it must be redrawn."""
        scene = self._surface.scene
        if scene is None or self._scenes.is_busy:
            return False
        boxes = pills(scene)
        values = [subject for subject in (scene.boxes[box].subject for box in boxes) if isinstance(subject, Value)]
        if is_large((), values):
            self._backlog.add(values)
        else:
            patch = self._loader.retyped(scene, boxes)
            if patch is None:
                return False
            if patch.boxes:
                self._follow(scene, patch)
        self._surface.repaint_labels()
        return True
