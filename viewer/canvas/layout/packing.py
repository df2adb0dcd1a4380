"""Packing of the boxes of unconnected parts on one sheet: large ones first, small ones stacked beside them."""

from __future__ import annotations

from math import sqrt

import numpy as np

from onnx_workbench.viewer.canvas.layout.arrays import Real

_ASPECT = 1.5  # width to height of the sheet, as far as the largest part allows


def pack(extent: Real, gap: float, main: int = -1) -> tuple[Real, float, float]:
    """[parts, 2] left top corners, and the sheet's width and height.

    Shelves from top to bottom; on each, columns as high as its first box. `main` is the index of a part that must
    extend from the sheet's top to its bottom: then there is one shelf, and that part is its first column, alone.
    """
    parts = len(extent)
    if parts == 1:
        return np.zeros((1, 2)), float(extent[0, 0]), float(extent[0, 1])
    width, height = extent[:, 0], extent[:, 1]
    order = np.lexsort((np.arange(parts), -height))
    limit = max(float(width.max()), sqrt(float(((width + gap) * (height + gap)).sum()) * _ASPECT))
    tallest = float(height.max())
    if main >= 0:
        order = np.concatenate([[main], order[order != main]])
        limit = float("inf")
        tallest = max(tallest, sqrt(float(((width + gap) * (height + gap)).sum()) / _ASPECT))
    place = np.zeros((parts, 2))
    shelf_top = column_left = column_width = column_bottom = 0.0
    shelf_height = tallest if main >= 0 else float(height[order[0]])
    sheet = 0.0
    for i, w, h in zip(order.tolist(), width[order].tolist(), height[order].tolist(), strict=True):
        if column_bottom > 0 and column_bottom + h > shelf_height:
            column_left += column_width + gap
            column_width = column_bottom = 0.0
        if column_left > 0 and column_left + w > limit:
            shelf_top += shelf_height + gap
            shelf_height = h
            column_left = column_width = column_bottom = 0.0
        place[i] = column_left, shelf_top + column_bottom
        column_bottom = float("inf") if i == main else column_bottom + h + gap
        column_width = max(column_width, w)
        sheet = max(sheet, column_left + w)
    used = float((place[:, 1] + height).max())
    return place, sheet, used
