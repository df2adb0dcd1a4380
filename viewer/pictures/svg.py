"""SVG export of a scene: compact, with text as text. Without Qt painting, so 100,000 nodes take seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TextIO

import numpy as np
from PySide6.QtGui import QColor

from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.viewer.canvas.paint.batch_drawing import Area, arrow_points
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.paint.overlay import LEGEND_MARGIN, legend_size
from onnx_workbench.viewer.canvas.paint.painter import RADIUS, frame_colors, title_ground, title_indent
from onnx_workbench.viewer.canvas.scene import edge_notes
from onnx_workbench.viewer.canvas.scene.coloring import Coloring, heat_colors
from onnx_workbench.viewer.canvas.scene.drawing import (
    BUTTON,
    HEADER,
    ROW,
    ROWS_PADDING,
    SIDE,
    STACK,
    STRIPE,
    Box,
    Kind,
    Style,
)
from onnx_workbench.viewer.canvas.scene.edge_labels import HEIGHT, PADDING, EdgeLabels
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.document.edge_notes import EdgeNote
from onnx_workbench.viewer.style.theme import Theme

_CHUNK = 500


class SvgWriter:
    """Writes one scene in one theme."""

    def __init__(self, scene: Scene, fonts: Fonts, theme: Theme, labels: EdgeLabels, colouring: Coloring) -> None:
        self._scene = scene
        self._fonts = fonts
        self._theme = theme
        self._labels = labels
        self._colouring = colouring
        self._rise = {style: fonts.ascent(style) - fonts.height(style) / 2 for style in Style}

    def write(self, file: TextIO, area: Area, legend_at: tuple[float, float], progress: Progress = SILENT) -> None:
        """Write the scene; `area` is the part that the image shows, including the space for the legend."""
        left, top, right, bottom = area
        wide, high = right - left, bottom - top
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
            f'viewBox="{left:.0f} {top:.0f} {wide:.0f} {high:.0f}" stroke="none">\n<style>{self._styles()}</style>\n'
            f'<rect x="{left:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{high:.0f}" class="canvas"/>\n'
        )
        total = len(self._scene.boxes) + len(self._scene.drawing.edges)
        done = 0
        for part in (self._parts(area), self._legend(area, *legend_at)):
            lines: list[str] = []
            for line in part:
                lines.append(line)
                done += 1
                if len(lines) >= _CHUNK:
                    progress.report(min(done, total), total, "Writing SVG")
                    file.write("\n".join(lines) + "\n")
                    lines.clear()
            progress.report(min(done, total), total, "Writing SVG")
            file.write("\n".join(lines) + "\n")
        file.write("</svg>\n")

    def _parts(self, area: Area) -> Iterator[str]:
        """Yield the elements in an area, from back to front."""
        scene = self._scene
        boxes = scene.box_grid.in_rect(*area).tolist()
        frames = [index for index in boxes if scene.boxes[index].kind is Kind.CONTAINER]
        yield from self._frames(frames)
        yield from self._edges(np.unique(scene.piece_edges[scene.piece_grid.in_rect(*area)]).tolist())
        yield from self._frame_titles(frames)
        yield from self._boxes(boxes)
        yield from self._label_texts(*area)

    def _styles(self) -> str:
        """Return a CSS class for each style; elements have only one, as simple readers support no more."""
        theme, fonts = self._theme, self._fonts
        family = escape(fonts.font(Style.ROW).family().replace("'", ""), quote=True)
        sizes = {style: fonts.font(style).pixelSize() for style in Style}
        edge = f"fill:none;stroke:{_hex(theme.edge)};stroke-width:1.2"
        rules = [
            f"text{{font-family:'{family}',sans-serif;font-size:{sizes[Style.ROW]}px;white-space:pre}}",
            f".canvas{{fill:{_hex(theme.canvas)}}}",
            f".b{{fill:{_hex(theme.node)};stroke:{_hex(theme.node_border)}}}",
            f".p{{fill:{_hex(theme.endpoint)};stroke:{_hex(theme.node_border)}}}",
            f".g{{fill:{_hex(theme.group)};stroke:{_hex(theme.group_border)}}}",
            *self._frame_styles(),
            f".s{{fill:{_hex(theme.endpoint)}}}.lb{{fill:{_hex(theme.label)}}}",
            f".br{{fill:{_hex(theme.accent)}}}.old{{fill:{_hex(theme.stale)}}}",
            f".lg{{fill:{_hex(theme.panel)};stroke:{_hex(theme.border)}}}.w{{fill:{_hex(theme.canvas)}}}",
            f".e{{{edge}}}.d{{{edge};stroke-dasharray:5 3.5}}.a{{fill:{_hex(theme.edge)}}}",
        ]
        title = f"font-size:{sizes[Style.HEADER]}px;font-weight:600"
        kinds = {"": "", "h": title, "n": "font-weight:500", "l": f"font-size:{sizes[Style.LABEL]}px"}
        for name, color in (("t", theme.text), ("m", theme.muted), ("al", theme.error)):
            rules += [f".{kind}{name}{{fill:{_hex(color)};{look}}}" for kind, look in kinds.items()]
        for number, color in enumerate(self._colouring.palette):
            text = _hex(self._colouring.text[number])
            rules.append(f".c{number}{{fill:{_hex(color)}}}.x{number}{{fill:{text}}}.hx{number}{{fill:{text};{title}}}")
        return "".join(rules)

    def _frame_styles(self) -> Iterator[str]:
        """Yield the styles of containers, their title backgrounds, and the stripes of their operators."""
        border = _hex(self._theme.group_border)
        for depth, color in enumerate(frame_colors(self._theme)):
            yield f".g{depth}{{fill:{_hex(color)};stroke:{border}}}.gr{depth}{{fill:{_hex(color)}}}"
        containers = (box for box in self._scene.boxes if box.kind is Kind.CONTAINER)
        for category in sorted({box.category for box in containers} - {""}):
            yield f".k{category}{{fill:{_hex(self._theme.header(category))}}}"

    def _edges(self, edges: Iterable[int]) -> Iterator[str]:
        scene = self._scene
        for edge in edges:
            pieces = scene.pieces_of(edge)
            points = scene.pieces[pieces].round(1).reshape(-1, 8).tolist()
            x, y = points[0][:2]
            path = [f"M{x:g} {y:g}"]
            for (_, _, x1, y1, x2, y2, x3, y3), is_curved in zip(points, scene.curved[pieces], strict=True):
                path.append(f"C{x1:g} {y1:g} {x2:g} {y2:g} {x3:g} {y3:g}" if is_curved else f"L{x3:g} {y3:g}")
            tip = " ".join(f"{x:.1f},{y:.1f}" for x, y in arrow_points(scene.pieces[pieces.stop - 1]))
            kind = "d" if scene.drawing.dashed[edge] else "e"
            yield f'<path class="{kind}" d="{"".join(path)}"/><polygon class="a" points="{tip}"/>'

    def _frames(self, frames: Iterable[int]) -> Iterator[str]:
        depths = self._scene.depths
        for index in frames:
            box, (left, top, width, height) = self._scene.boxes[index], self._scene.rect(index)
            yield _rect(f"g{depths[index] % 2}", left + 0.5, top + 0.5, width - 1, height - 1, RADIUS)
            if box.category:
                yield _rect(f"k{box.category}", left + 5, top + 6, 4, HEADER - 12, 2)

    def _frame_titles(self, frames: Iterable[int]) -> Iterator[str]:
        """Yield titles of bodies, over the edges that enter them."""
        depths = self._scene.depths
        for index in frames:
            box, (left, top, width, _) = self._scene.boxes[index], self._scene.rect(index)
            stripe = STRIPE if box.category else 0.0
            x, y, wide, high = title_ground(box, self._fonts, left + stripe, top)
            yield _rect(f"gr{depths[index] % 2}", x, y, wide, high, 0)
            yield from self._title(box, left + stripe, top, width - stripe, "t", "m")

    def _boxes(self, boxes: Iterable[int]) -> Iterator[str]:
        colors = self._colouring.indices
        for index in boxes:
            box, (left, top, width, height) = self._scene.boxes[index], self._scene.rect(index)
            match box.kind:
                case Kind.CONTAINER:
                    continue
                case Kind.GROUP:
                    lines = self._group(box, colors[index], left, top, width - STACK, height - STACK)
                case Kind.NODE:
                    lines = self._node(box, colors[index], left, top, width, height)
                case _:
                    lines = self._pill(box, left, top, width, height)
            yield "".join(lines)

    def _node(self, box: Box, color: int, left: float, top: float, width: float, height: float) -> Iterator[str]:
        if box.rows:
            yield _rect("b", left + 0.5, top + 0.5, width - 1, height - 1, RADIUS)
            yield _header(f"c{color}", left, top, width)
        else:
            yield _rect(f"c{color}", left, top, width, height, RADIUS)
        yield from self._title(box, left, top, width, f"x{color}", f"x{color}")
        yield from self._rows(box, left, top)

    def _group(self, box: Box, color: int, left: float, top: float, width: float, height: float) -> Iterator[str]:
        for shift in (STACK, STACK / 2):
            yield _rect("g", left + shift + 0.5, top + shift + 0.5, width - 1, height - 1, RADIUS)
        yield _rect("b", left + 0.5, top + 0.5, width - 1, height - 1, RADIUS)
        yield _header("s", left, top, width)
        yield _rect(f"c{color}", left + 1, top + HEADER, width - 2, 2, 0)
        yield from self._title(box, left, top, width, "t", "m")
        yield from self._rows(box, left, top + 1)

    def _pill(self, box: Box, left: float, top: float, width: float, height: float) -> Iterator[str]:
        yield _rect("p", left + 0.5, top + 0.5, width - 1, height - 1, height / 2)
        name, note = self._fonts.width(box.title, Style.NAME), self._fonts.width(box.note, Style.ROW)
        x = left + (width - name - (note + 10 if note else 0)) / 2
        y = top + height / 2 + self._rise[Style.NAME]
        yield _text("nt", x, y, box.title)
        if box.note:
            yield _text("m", x + name + 10, y, box.note)

    def _title(self, box: Box, left: float, top: float, width: float, color: str, muted: str) -> Iterator[str]:
        middle = top + HEADER / 2
        yield _text(
            f"h{color}",
            left + title_indent(box, self._fonts, width),
            middle + self._rise[Style.HEADER],
            box.title,
        )
        if box.note:
            x = left + SIDE + self._fonts.width(box.title, Style.HEADER) + 10
            yield _text(muted, x, middle + self._rise[Style.ROW], box.note)
        for index, button in enumerate(reversed(box.buttons)):
            x = left + width - 2 - (index + 0.5) * BUTTON - self._fonts.width(button, Style.HEADER) / 2
            yield _text(f"h{color}", x, middle + self._rise[Style.HEADER], button)

    def _rows(self, box: Box, left: float, top: float) -> Iterator[str]:
        y = top + HEADER + ROWS_PADDING + ROW / 2 + self._rise[Style.ROW]
        column = left + SIDE + (box.names_width + 10 if box.names_width else 0)
        for row in box.rows:
            if row.name:
                yield _text("nt" if row.is_constant else "m", left + SIDE, y, row.name)
            yield _text("t", column, y, row.text)
            y += ROW

    def _label_texts(self, left: float, top: float, right: float, bottom: float) -> Iterator[str]:
        rise, width_of = self._rise[Style.LABEL], self._fonts.width
        for label in self._labels.in_rect(left, top, right, bottom):
            x, y, width, height = label.rect
            lines = [f'<rect class="lb" x="{x:.10g}" y="{y:.10g}" width="{width:.0f}" height="{height:g}"/>']
            x += PADDING
            if label.text:
                lines.append(_text("lm", x, y + HEIGHT / 2 + rise, label.text))
            if label.stacked:
                y += HEIGHT
            elif label.text:
                x += width_of(label.text, Style.LABEL) + edge_notes.SPACE
            if label.note is not None:
                lines += self._note(label.note, x, y)
            yield "".join(lines)

    def _note(self, note: EdgeNote, x: float, y: float) -> Iterator[str]:
        """Write the note of a run on a value; see ScenePainter."""
        line, width_of = y + HEIGHT / 2 + self._rise[Style.LABEL], self._fonts.width
        if note.warning:
            yield _text("lm" if note.stale else "lal", x, line, note.warning)
            x += width_of(note.warning, Style.LABEL) + edge_notes.SPACE
        if note.bars:
            foot = y + (HEIGHT + edge_notes.HEIGHT) / 2
            steps = "".join(f"V{foot - bar * edge_notes.HEIGHT:.10g}h{edge_notes.BAR:g}" for bar in note.bars)
            yield f'<path class="{"old" if note.stale else "br"}" d="M{x:.10g} {foot:.10g}{steps}V{foot:.10g}z"/>'
            x += len(note.bars) * edge_notes.BAR + edge_notes.SPACE
        if note.text:
            yield _text("lm" if note.stale else "lt", x, line, note.text)

    def _legend(self, area: Area, left: float, top: float) -> Iterator[str]:
        """Write the colour legend over the strip reserved for it; see paint_legend_at."""
        legend, fonts = self._colouring.legend, self._fonts
        if legend is None:
            return
        wide, high = legend_size(legend, fonts)
        strip = top - LEGEND_MARGIN
        yield _rect("w", area[0], strip, area[2] - area[0], area[3] - strip, 0)
        yield _rect("lg", left, top, wide, high, 4)
        line, x, y = fonts.height(Style.ROW) + 4.0, left + 8, top + 6
        yield _text("nt", x, y + fonts.ascent(Style.NAME), legend.title)
        for text, color in legend.entries:
            y += line
            yield f'<rect x="{x:.10g}" y="{y + 2:.10g}" width="14" height="{line - 8:g}" rx="2" fill="{_hex(color)}"/>'
            yield _text("t", x + 22, y + fonts.ascent(Style.ROW), text)
        if legend.entries:
            return
        colors = heat_colors()
        stops = "".join(
            f'<stop offset="{number / (len(colors) - 1):.4g}" stop-color="{_hex(color)}"/>'
            for number, color in enumerate(colors)
        )
        yield f'<linearGradient id="heat">{stops}</linearGradient>'
        yield f'<rect x="{x:.10g}" y="{y + line:.10g}" width="{wide - 16:g}" height="10" fill="url(#heat)"/>'
        foot = y + line + 12 + fonts.ascent(Style.ROW)
        yield _text("m", x, foot, legend.low)
        yield _text("m", x + wide - 16 - fonts.width(legend.high, Style.ROW), foot, legend.high)


def _rect(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    return f'<rect class="{kind}" x="{x:.10g}" y="{y:.10g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'


def _header(kind: str, left: float, top: float, width: float) -> str:
    r = RADIUS
    return (
        f'<path class="{kind}" d="M{left:.10g} {top + HEADER:.10g}v{r - HEADER:g}q0 {-r:g} {r:g} {-r:g}'
        f'h{width - 2 * r:g}q{r:g} 0 {r:g} {r:g}v{HEADER - r:g}z"/>'
    )


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text, quote=False)}</text>'


def _hex(color: QColor) -> str:
    return color.name()
