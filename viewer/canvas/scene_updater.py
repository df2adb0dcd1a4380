"""Updates the scene after edits, with as little work as possible for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from onnx_workbench.model.history.document import Change
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene.patch_drawing import (
    DrawingPatch,
    can_patch,
    patched,
    pills,
    replace_boxes,
    resize_in_place,
)
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.canvas.scene_builder import SceneBuilder, concerns
from onnx_workbench.viewer.document.model_signals import ChangeSet

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.scene_controller import SceneController
    from onnx_workbench.viewer.document.context import DocumentContext


class SceneUpdater(QObject):
    """Updates a canvas after edits of its model and newly inferred types. GUI thread only.

    Boxes with changed texts are replaced in place. If boxes or edges are added or removed, the touched part is redrawn
    in the next event loop iteration; everything, in a task, after a change of very many objects.
    """

    def __init__(
        self, scenes: SceneController, builder: SceneBuilder, surface: Surface, context: DocumentContext
    ) -> None:
        super().__init__(scenes)
        self._scenes = scenes
        self._builder = builder
        self._surface = surface
        self._changes = context.changes
        self._rebuild = QTimer(self, singleShot=True, interval=0)
        self._rebuild.timeout.connect(self._on_rebuild)
        self._touched: ChangeSet | None = None  # of the only edit that is not drawn yet
        self._changes.changed.connect(self._on_change)

    @property
    def is_due(self) -> bool:
        """Whether the scene is about to be redrawn."""
        return self._rebuild.isActive()

    def request_redraw(self) -> None:
        """Redraw everything, debounced to the next event loop iteration."""
        self._touched = None
        self._rebuild.start()

    def _on_change(self, change: Change) -> None:
        scene = self._surface.scene
        touched = self._changes.touched
        self._builder.forget(touched.nodes, touched.values)
        if scene is None or self._scenes.is_busy or (concerns(scene.drawing, touched) and touched.is_large):
            self.request_redraw()
        elif concerns(scene.drawing, touched):
            patch = self._builder.patch(scene.drawing, touched) if can_patch(scene.drawing, change, touched) else None
            self._touched = None if patch else touched
            self._follow(scene, patch)

    def _on_rebuild(self) -> None:
        scene, touched, self._touched = self._surface.scene, self._touched, None
        if scene is not None and touched is not None and not self._scenes.is_busy:
            drawing = self._builder.restructured(scene.drawing, touched, self._scenes.options)
            if drawing is not None:
                self._scenes.pin_position()
                self._scenes.lay_out(drawing, scene.layout)
                return
        self._scenes.reload()

    def _follow(self, scene: Scene, patch: DrawingPatch | None) -> None:
        """Update after an edit."""
        if patch is None:
            self._rebuild.start()
        elif patch.resized and (moved := resize_in_place(scene, patch)) is not None:
            self._surface.repaint_moved(patch.boxes, moved, patch.edges)
        elif patch.resized:
            self._scenes.pin_position()
            self._scenes.lay_out(patched(scene.drawing, patch), scene.layout, len(patch.boxes))
        else:
            replace_boxes(scene, patch)
            self._surface.repaint_boxes(patch.boxes, patch.edges)

    def retype(self) -> bool:
        """Update the types of values in the shown scene; return False if it must be redrawn."""
        scene = self._surface.scene
        if scene is None or self._scenes.is_busy:
            return False
        patch = self._builder.retyped(scene, pills(scene))
        if patch is None:
            return False
        if patch.boxes:
            self._follow(scene, patch)
        self._surface.repaint_labels()
        return True
