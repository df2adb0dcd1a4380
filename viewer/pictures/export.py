"""Export of a graph as an image (PNG, SVG or PDF): the whole graph, the visible part or the selection.

Needs a QGuiApplication for fonts and painting but no window and no display (platform "offscreen").
A scene is immutable, so `export_scene` may run in a thread.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from PySide6.QtCore import QMarginsF, QRectF, QSaveFile, QSizeF
from PySide6.QtGui import QGuiApplication, QImage, QPageLayout, QPageSize, QPainter, QPdfWriter

from onnx_workbench.exec.inspect.node_data import Matched
from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.groups import groups_of
from onnx_workbench.model.analysis.name_scopes import Scope, ScopeTree
from onnx_workbench.model.analysis.value_types import TypeOf, declared_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.atomic_file import replacing, target_of
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.canvas.layout import Direction, is_slender, layout
from onnx_workbench.viewer.canvas.paint.batch_drawing import Area
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.paint.overlay import LEGEND_MARGIN, legend_size, paint_legend_at, paint_legend_frame
from onnx_workbench.viewer.canvas.paint.painter import ScenePainter
from onnx_workbench.viewer.canvas.scene.builder import build, initial_expansion
from onnx_workbench.viewer.canvas.scene.coloring import Coloring, by_category
from onnx_workbench.viewer.canvas.scene.drawing import DrawingOptions
from onnx_workbench.viewer.canvas.scene.edge_labels import MARGIN as REACH
from onnx_workbench.viewer.canvas.scene.edge_labels import EdgeLabels
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.document.edge_notes import NoteOf, no_note
from onnx_workbench.viewer.pictures.png import PngWriter
from onnx_workbench.viewer.pictures.svg import SvgWriter
from onnx_workbench.viewer.style.theme import Theme, load_theme

if TYPE_CHECKING:
    from onnx_workbench.viewer.canvas.paint.surface import Surface

MARGIN = 24.0
#: Limits for a PNG, px on a side and in total; a larger graph is drawn smaller. Few programs open larger images.
PNG_SIDE = 65_500
PNG_PIXELS = 250_000_000
#: A PDF page has at most 200 inches on a side.
PDF_SIDE = 14_400.0
#: Texts scaled below this factor cannot be read.
READABLE = 0.5

SUFFIXES = (".png", ".svg", ".pdf")

_MANY = 2000  # nodes up to which a picture shows nodes instead of groups, as groups cannot be opened in it
_COLUMNS = 4000.0  # px of length from which graphs much longer than wide are folded into columns
_BAND_PIXELS = 8_000_000
_SHARP_PIXELS = 30_000_000  # images below this are drawn at twice the size
_POINTS = 0.75  # per px at 96 dpi


@dataclass(frozen=True, slots=True)
class Exported:
    """Size of the written picture in px (PDF: points), and the factor it was shrunk by (1.0: not at all)."""

    path: Path
    width: int
    height: int
    scale: float

    @property
    def loss(self) -> str:
        """Describe the detail lost by shrinking, and how to keep it; empty if none was."""
        if self.scale >= 1:
            return ""
        format_ = self.path.suffix.lower().removeprefix(".").upper()
        percent = f"{self.scale * 100:.0f}" if self.scale >= 0.1 else f"{self.scale * 100:.1f}"
        small = ", too small to read without zooming in" if format_ == "PDF" else ", too small to read"
        unread = small if self.scale < READABLE else ""
        return f"It was shrunk to {percent} % to fit into a {format_}{unread}. An SVG has no limit."


def render_graph(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    direction: Direction = "down",
    theme: Literal["light", "dark"] = "light",
    groups: bool | None = None,
    unfold: bool = False,
    note_of: NoteOf = no_note,
    coloring_of: Callable[[Scene, Theme], Coloring] = by_category,
    data: Matched | None = None,
    progress: Progress = SILENT,
) -> Exported:
    """Draw a graph, lay it out and write it, without a window; creates a QGuiApplication if there is none.

    It is drawn as initially in a window: with groups if it is large (`groups` None) or always (True); `unfold`: also
    draw the nodes folded into tags. `data` stands in the boxes of nodes and groups.
    """
    application = QGuiApplication.instance() or QGuiApplication(["onnx-workbench"])
    schemas.preload()
    options = DrawingOptions(
        direction=direction, groups=groups, many=_MANY, fold_nodes=not unfold, columns=_COLUMNS, data=data
    )
    expanded: set[Hashable] = set()
    tree = ScopeTree(Scope((), ""), {})
    if options.are_grouped(graph):
        tree = groups_of(graph, progress, asked=groups is True)
        expanded = initial_expansion(tree)
    drawing = build(graph, options, expanded, tree_of=lambda _graph: tree)
    progress.check()
    scene = Scene(drawing, layout(request(drawing), progress))
    colors = load_theme(theme)
    shades = coloring_of(scene, colors)
    result = export_scene(scene, path, colors, colouring=shades, note_of=note_of, progress=progress)
    del application  # kept until here
    return result


def export_scene(
    scene: Scene,
    path: str | os.PathLike[str],
    theme: Theme,
    *,
    area: Area | None = None,
    colouring: Coloring | None = None,
    type_of: TypeOf = declared_type,
    note_of: NoteOf = no_note,
    progress: Progress = SILENT,
) -> Exported:
    """Write a scene, or an area of it, in the form the file's extension names, with a legend of colours below.

    For a selection pass `scene.only(boxes)`. The file is replaced when writing is complete. ModelError if the
    extension is not in SUFFIXES, there is nothing to draw, or the file cannot be written.
    """
    target = Path(path)
    if not scene.boxes:
        raise ModelError("There is nothing to draw", "The graph has no nodes, inputs or outputs.")
    shades = colouring or by_category(scene, theme)
    fonts = Fonts()  # not the shared ones: exports run in threads
    labels = EdgeLabels(scene, fonts, type_of, note_of)
    picture = _Picture(scene, theme, area, shades, fonts, labels, progress)
    match target.suffix.lower():
        case ".png":
            return picture.png(target)
        case ".svg":
            return picture.svg(target)
        case ".pdf":
            return picture.pdf(target)
        case _:
            raise ModelError(f"Cannot draw into {target.name}", f"The name ends with one of {', '.join(SUFFIXES)}.")


def in_columns(scene: Scene, progress: Progress = SILENT) -> Scene:
    """Return a scene that is much longer than wide laid out in columns, or rows; others unchanged."""
    options = scene.drawing.options
    long, wide = (scene.height, scene.width) if options.direction == "down" else (scene.width, scene.height)
    if long <= _COLUMNS or not is_slender(wide, long):
        return scene
    drawing = replace(scene.drawing, options=replace(options, columns=_COLUMNS))
    return Scene(drawing, layout(request(drawing), progress))


def part_of(
    surface: Surface, which: Literal["all", "view", "selection"], selected: Iterable[object] = ()
) -> tuple[Scene, Area | None, Coloring | None]:
    """Return the exported part of a canvas: a scene, the area (None: all), and its colours (None: by category).

    ModelError if there is nothing to export.
    """
    scene = surface.scene
    if scene is None:
        raise ModelError("There is nothing to draw yet", "The graph is still being laid out.")
    if which == "all":
        return scene, None, surface.colouring
    if which == "view":
        return scene, surface.viewport.area, surface.colouring
    boxes = [box for item in selected for box in scene.drawing.boxes_for(item)]
    if not boxes:
        raise ModelError("There is nothing to draw", "Nothing in this graph is selected.")
    kept = np.unique(np.array(boxes, np.intp))
    colouring = surface.colouring
    if colouring is not None:
        colouring = replace(colouring, indices=colouring.indices[kept])
    return scene.only(kept), None, colouring


def _with_labels(bounds: Area, labels: EdgeLabels) -> Area:
    """Extend bounds to labels that reach beyond the boxes."""
    left, top, right, bottom = bounds
    sides = [labels.in_rect(edge - REACH, top, edge + REACH, bottom) for edge in (left, right)]
    rects = [label.rect for side in sides for label in side]
    left = min([left, *(rect[0] for rect in rects)])
    return left, top, max([right, *(rect[0] + rect[2] for rect in rects)]), bottom


class _Picture:
    def __init__(
        self,
        scene: Scene,
        theme: Theme,
        area: Area | None,
        colouring: Coloring,
        fonts: Fonts,
        labels: EdgeLabels,
        progress: Progress,
    ) -> None:
        self._theme = theme
        self._fonts = fonts
        self._legend = colouring.legend
        self._progress = progress
        self._area = _with_labels(scene.bounds, labels) if area is None else area
        self._margin = MARGIN if area is None else 0.0
        self._painter = ScenePainter(scene, fonts, theme, labels, colouring)
        self._svg = SvgWriter(scene, fonts, theme, labels, colouring)

    @property
    def _outer(self) -> Area:
        left, top, right, bottom = self._area
        margin = self._margin
        if self._legend is not None:
            wide, high = legend_size(self._legend, self._fonts)
            right = max(right, left + wide + 2 * (LEGEND_MARGIN - margin))
            bottom += high + 2 * LEGEND_MARGIN - margin
        return left - margin, top - margin, right + margin, bottom + margin

    @property
    def _legend_place(self) -> tuple[float, float]:
        return self._outer[0] + LEGEND_MARGIN, self._area[3] + LEGEND_MARGIN

    def _paint(self, painter: QPainter, area: Area, scale: float, progress: Progress = SILENT) -> None:
        """Paint the scene, and the legend in the strip below it."""
        if self._legend is None:
            self._painter.paint(painter, area, scale, progress)
            return
        left, top, right, _ = self._outer
        bottom = self._area[3]
        if area[1] < bottom:
            painter.save()
            painter.setClipRect(QRectF(left, top, right - left, bottom - top))
            self._painter.paint(painter, (*area[:3], min(area[3], bottom)), scale, progress)
            painter.restore()
        (left, top), colors = self._legend_place, self._theme
        frame = QRectF(left, top, *legend_size(self._legend, self._fonts))
        paint_legend_frame(painter, frame, colors.panel, colors.border)
        paint_legend_at(painter, left, top, self._legend, self._fonts, colors)

    @property
    def _size(self) -> tuple[float, float]:
        left, top, right, bottom = self._outer
        return max(right - left, 1.0), max(bottom - top, 1.0)

    def png(self, path: Path) -> Exported:
        """Write a PNG in bands; scaled down to the size limit, or doubled if small."""
        wide, high = self._size
        scale = min(PNG_SIDE / wide, PNG_SIDE / high, (PNG_PIXELS / (wide * high)) ** 0.5)
        scale = min(scale, 2.0 if wide * high * 4 <= _SHARP_PIXELS else 1.0)
        width, height = max(int(wide * scale), 1), max(int(high * scale), 1)
        rows = max(min(_BAND_PIXELS // width, height), 1)
        with replacing(path) as file:
            writer = PngWriter(file, width, height)
            for top in range(0, height, rows):
                self._progress.report(top, height, "Writing PNG")
                writer.write(self._band(top, min(rows, height - top), width, scale))
            writer.close()
        return Exported(path, width, height, scale)

    def _band(self, top: int, rows: int, width: int, scale: float) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        image = QImage(width, rows, QImage.Format.Format_RGB888)
        image.fill(self._theme.canvas)
        left_edge, top_edge = self._outer[:2]
        painter = QPainter(image)
        painter.translate(-left_edge * scale, -top_edge * scale - top)
        painter.scale(scale, scale)
        area = (
            left_edge,
            top_edge + top / scale,
            left_edge + width / scale,
            top_edge + (top + rows) / scale,
        )
        self._paint(painter, area, scale)
        painter.end()
        stride = image.bytesPerLine()
        pixels = np.frombuffer(image.constBits(), np.uint8).reshape(rows, stride)
        return pixels[:, : width * 3].reshape(rows, width, 3).copy()

    def svg(self, path: Path) -> Exported:
        """Write an SVG at full size."""
        with replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")
            self._svg.write(text, self._outer, self._legend_place, self._progress)
            text.detach()
        wide, high = self._size
        return Exported(path, round(wide), round(high), 1.0)

    def pdf(self, path: Path) -> Exported:
        """Write a PDF of one page of the graph's size, as vectors."""
        wide, high = self._size
        scale = min(1.0, PDF_SIDE / (wide * _POINTS), PDF_SIDE / (high * _POINTS))
        page = QSizeF(wide * _POINTS * scale, high * _POINTS * scale)
        file = QSaveFile(str(target_of(path, f"{path.name} cannot be written")))
        if not file.open(QSaveFile.OpenModeFlag.WriteOnly):
            raise ModelError(f"{path.name} cannot be written", file.errorString())
        writer = QPdfWriter(file)
        writer.setCreator("ONNX Workbench")
        writer.setTitle(path.stem)
        writer.setResolution(1200)
        writer.setPageLayout(
            QPageLayout(
                QPageSize(page, QPageSize.Unit.Point, "graph", QPageSize.SizeMatchPolicy.ExactMatch),
                QPageLayout.Orientation.Portrait,
                QMarginsF(0, 0, 0, 0),
            )
        )
        painter = QPainter(writer)
        zoom = writer.width() / wide
        painter.fillRect(0, 0, writer.width(), writer.height(), self._theme.canvas)
        painter.scale(zoom, zoom)
        painter.translate(-self._outer[0], -self._outer[1])
        try:
            self._paint(painter, self._outer, 1.0, self._progress)
        finally:
            painter.end()
        if not file.commit():
            raise ModelError(f"{path.name} cannot be written", file.errorString())
        return Exported(path, round(page.width()), round(page.height()), scale)
