"""Colours of box headers: by operator category, by a number per node (heat), or by device."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import chain
from math import log10

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor

from onnx_workbench.exec.inspect.node_data import NodeValues
from onnx_workbench.model.analysis.name_scopes import Scope
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.text.formatting import digits_apart, display, number_text
from onnx_workbench.viewer.canvas.scene.drawing import Kind
from onnx_workbench.viewer.canvas.scene.scene import Scene
from onnx_workbench.viewer.style.theme import Theme

#: Anchors of a perceptually uniform map from dark violet over green to yellow (the viridis family).
_HEAT_ANCHORS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
_HEAT_STEPS = 64
_ENTRY = 40  # characters of a text in a legend
_FAR = 50  # with a number beyond this many times the median, the scale is logarithmic
#: Colours for devices and pipeline stages, distinguishable by colour-blind people and dark enough for white text.
_DEVICES = ("#00629b", "#a34a00", "#00735a", "#8a4a76", "#63661a", "#4d5763", "#7d5c00", "#3a6f8f")


@dataclass(frozen=True)
class Legend:
    """Legend of the colours: a title with a range (heat), or an entry for each colour."""

    title: str
    low: str = ""
    high: str = ""
    entries: tuple[tuple[str, QColor], ...] = ()


@dataclass(frozen=True, eq=False)
class Coloring:
    """`palette[indices[box]]` is the colour of a box's header; `text` has the text colour for each palette entry."""

    indices: NDArray[np.uint8]  # [N]
    palette: tuple[QColor, ...]
    text: tuple[QColor, ...]
    legend: Legend | None = None


def by_category(scene: Scene, theme: Theme) -> Coloring:
    """Return the colours of operator categories."""
    names, indices = scene.categories
    palette = tuple(theme.header(name) if name else theme.endpoint for name in names)
    text = tuple(theme.header_text if name else theme.text for name in names)
    return Coloring(indices, palette, text)


def by_heat(scene: Scene, theme: Theme, numbers: Mapping[Node, float], title: str) -> Coloring:
    """Colour nodes by numbers; nodes without one are grey. A group has the largest number of its nodes.

    The scale is logarithmic if a few numbers are so large that all others would have the same colour.
    """
    values = np.full(len(scene.boxes), np.nan)
    for index, box in enumerate(scene.boxes):
        if isinstance(box.subject, Node):
            values[index] = numbers.get(box.subject, np.nan)
        elif isinstance(box.subject, Scope) and box.kind is Kind.GROUP:
            inside = [numbers[node] for node in box.subject.all_nodes() if node in numbers]
            values[index] = max(inside, default=np.nan)
    is_known = np.isfinite(values)
    numbers_shown = values[is_known]
    amounts = numbers_shown[numbers_shown > 0]
    is_log = bool(len(amounts) and numbers_shown.min() >= 0 and amounts.max() > _FAR * np.median(amounts))
    if is_log:
        title, numbers_shown = f"{title}, log", amounts
        values[is_known] = np.log10(np.maximum(values[is_known], amounts.min()))
    ends = (float(numbers_shown.min()), float(numbers_shown.max())) if is_known.any() else (0.0, 0.0)
    low, high = (log10(ends[0]), log10(ends[1])) if is_log else ends
    half = high / 2 - low / 2 or 1.0  # halves, as the difference may overflow
    steps = np.zeros(len(values), np.uint8)
    steps[is_known] = 1 + np.round((values[is_known] / 2 - low / 2) / half * (_HEAT_STEPS - 1)).astype(np.uint8)
    palette = (theme.endpoint, *heat_colors())
    if is_known.any():
        digits = 3 if is_log else digits_apart(*ends, 4)
        legend = Legend(title, number_text(ends[0], digits), number_text(ends[1], digits))
    else:
        legend = Legend(title, entries=(("no finite number", theme.endpoint),))
    return Coloring(steps, palette, (theme.text, *(_readable_on(color) for color in palette[1:])), legend)


def by_data(scene: Scene, theme: Theme, data: NodeValues, title: str) -> Coloring:
    """Colour nodes by numbers, as `by_heat`, or by texts, as `by_key`."""
    texts = {node: value for node, value in data.items() if isinstance(value, str)}
    if texts:
        return by_key(scene, theme, {n: display(text, _ENTRY) for n, text in texts.items()}, title)
    return by_heat(scene, theme, {n: value for n, value in data.items() if not isinstance(value, str)}, title)


def by_key(
    scene: Scene, theme: Theme, keys: Mapping[Node, Hashable], title: str, own: Mapping[str, str] | None = None
) -> Coloring:
    """Colour nodes by device, pipeline stage or other keys with few different values.

    `own` has fixed colours of keys, dark enough for white text. A closed group has the colour that all its coloured
    nodes share, or the first one in `own` if they differ.
    """
    order = list(own or ())
    distinct: list[Hashable] = list(dict.fromkeys((*order, *keys.values())))
    names = list(dict.fromkeys((*(own or {}).values(), *_DEVICES)))
    number = {key: 1 + index % len(names) for index, key in enumerate(distinct)}
    indices = np.zeros(len(scene.boxes), np.uint8)
    for index, box in enumerate(scene.boxes):
        if isinstance(box.subject, Node) and box.subject in keys:
            indices[index] = number[keys[box.subject]]
        elif isinstance(box.subject, Scope) and box.kind is Kind.GROUP:
            inside = {keys[node] for node in box.subject.all_nodes() if node in keys}
            shared = next(iter(inside)) if len(inside) == 1 else order[0] if inside and order else None
            indices[index] = number[shared] if shared is not None else 0
    colors = tuple(QColor(name) for name in names)
    seen = set(keys.values())
    entries = tuple((str(key), colors[number[key] - 1]) for key in distinct[: len(names)] if key in seen)
    palette = (theme.endpoint, *colors)
    legend = Legend(title, entries=entries) if entries else None
    return Coloring(indices, palette, (theme.text, *[theme.header_text] * len(colors)), legend)


def heat_colors() -> tuple[QColor, ...]:
    """Return the heat map, low to high."""
    anchors = np.array([(c.red(), c.green(), c.blue()) for c in map(QColor, _HEAT_ANCHORS)], np.float64)
    at = np.linspace(0, len(anchors) - 1, _HEAT_STEPS)
    channels = [np.interp(at, np.arange(len(anchors)), anchors[:, c]) for c in range(3)]
    return tuple(QColor(*(round(float(channel[i])) for channel in channels)) for i in range(_HEAT_STEPS))


def device_keys(nodes: Mapping[Node, object] | list[Node]) -> dict[Node, str]:
    """Return the device of each node by a model's device configurations: its pipeline stage, else its devices."""
    keys: dict[Node, str] = {}
    for node in nodes:
        for configuration in node.device_configurations:
            if configuration.pipeline_stage is not None:
                keys[node] = f"stage {configuration.pipeline_stage}"
            else:
                devices = sorted(set(chain.from_iterable(spec.devices for spec in configuration.sharding)))
                if devices:
                    keys[node] = "device " + ", ".join(map(str, devices[:8]))
            if node in keys:
                break
    return keys


def _readable_on(color: QColor) -> QColor:
    """Return dark or light text colour, whichever contrasts more (WCAG relative luminance)."""
    channels = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (color.redF(), color.greenF(), color.blueF())
    ]
    luminance = sum(weight * channel for weight, channel in zip((0.2126, 0.7152, 0.0722), channels, strict=True))
    return QColor("#05070a") if luminance > 0.18 else QColor("#ffffff")
