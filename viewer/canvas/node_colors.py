"""Colours of nodes on a surface, recomputed for every new scene."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QObject

from onnx_workbench.exec.inspect.node_data import NodeValues
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.viewer.canvas.paint.surface import Surface
from onnx_workbench.viewer.canvas.scene import coloring
from onnx_workbench.viewer.canvas.scene.coloring import Coloring
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.style.theme import theme, themes


class NodeColors(QObject):
    """Colours nodes by operator category, or by numbers, words or devices with a legend. GUI thread only."""

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._surface = surface
        self._colors_of: Callable[[Scene], Coloring] | None = None
        self._shows_devices = False
        surface.scene_changed.connect(self._color_scene)
        themes().themeChanged.connect(self._apply)

    def _color_scene(self) -> None:
        if self._colors_of is not None:
            self._apply()

    def set_overlay(self, numbers: NodeValues | None, title: str = "") -> None:
        """Colour nodes by numbers (time, size, error) or texts, with a legend; None: by category again."""
        if numbers is None:
            self._set(None)
        else:
            self._set(lambda scene: coloring.by_data(scene, theme(), numbers, title))

    def set_groups(
        self, keys: Mapping[Node, str] | None, title: str = "", own: Mapping[str, str] | None = None
    ) -> None:
        """Colour nodes by words, with a legend; `own` has fixed colours of words. None: by category again."""
        if keys is None:
            self._set(None)
        else:
            self._set(lambda scene: coloring.by_key(scene, theme(), keys, title, own))

    def set_devices(self, *, shown: bool) -> None:
        """Colour nodes by the device or pipeline stage their configurations name."""

        def by_device(scene: Scene) -> Coloring:
            nodes = [box.subject for box in scene.boxes if isinstance(box.subject, Node)]
            return coloring.by_key(scene, theme(), coloring.device_keys(nodes), "Device")

        self._set(by_device if shown else None)
        self._shows_devices = shown

    @property
    def shows_devices(self) -> bool:
        """Whether nodes have the colour of their device or pipeline stage."""
        return self._shows_devices

    def _set(self, colors_of: Callable[[Scene], Coloring] | None) -> None:
        self._colors_of = colors_of
        self._shows_devices = False
        was_fitted = self._surface.is_fitted
        self._apply()
        if was_fitted:  # fit again, as the legend may cover nodes
            self._surface.fit()

    def _apply(self) -> None:
        scene = self._surface.scene
        if scene is not None:
            self._surface.set_colouring(self._colors_of(scene) if self._colors_of is not None else None)
