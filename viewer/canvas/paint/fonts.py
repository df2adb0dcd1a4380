"""Fonts of the canvas, and cached widths of texts.

Sizes are in px at 100 %, so that a node measured on screen also has room for its text in an image or a PDF.
"""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontInfo, QFontMetricsF, QGuiApplication

from onnx_workbench.viewer.canvas.scene.drawing import Style

#: 9 pt at 96 dpi, the smallest size at 100 %.
SMALLEST = 12.0

_CACHE_LIMIT = 200_000


class Fonts:
    """The fonts of a canvas made from the system's UI font. GUI thread, or any one thread of an offscreen program."""

    def __init__(self) -> None:
        base = QGuiApplication.font()
        size = max(float(QFontInfo(base).pixelSize()), SMALLEST + 1)
        self.size = size
        self._fonts = tuple(
            _font(base, pixels, weight)
            for pixels, weight in (
                (size, QFont.Weight.DemiBold),
                (max(size - 1, SMALLEST), QFont.Weight.Medium),
                (max(size - 1, SMALLEST), QFont.Weight.Normal),
                (max(size - 2, SMALLEST), QFont.Weight.Normal),
            )
        )
        self._metrics = tuple(QFontMetricsF(font) for font in self._fonts)
        self._widths: tuple[dict[str, float], ...] = tuple({} for _ in Style)
        self._heights = tuple(metrics.height() for metrics in self._metrics)
        self._ascents = tuple(metrics.ascent() for metrics in self._metrics)

    def font(self, style: Style) -> QFont:
        """Return the font of a style."""
        return self._fonts[style]

    def height(self, style: Style) -> float:
        """Return the line height."""
        return self._heights[style]

    def ascent(self, style: Style) -> float:
        """Return the distance from the top of a line to its baseline."""
        return self._ascents[style]

    def width(self, text: str, style: Style) -> float:
        """Return the width of a text."""
        widths = self._widths[style]
        width = widths.get(text)
        if width is None:
            if len(widths) > _CACHE_LIMIT:
                widths.clear()
            width = widths[text] = self._metrics[style].horizontalAdvance(text)
        return width

    def elided(self, text: str, style: Style, width: float, *, middle: bool = False) -> str:
        """Return the text, elided with … in the middle (names) or at the end (values) if it is too wide."""
        if self.width(text, style) <= width:
            return text
        mode = Qt.TextElideMode.ElideMiddle if middle else Qt.TextElideMode.ElideRight
        return self._metrics[style].elidedText(text, mode, width)


def _font(base: QFont, pixels: float, weight: QFont.Weight) -> QFont:
    font = QFont(base)
    font.setPixelSize(round(pixels))
    font.setWeight(weight)
    # Without horizontal hinting the width of a text scales exactly with the zoom.
    font.setHintingPreference(QFont.HintingPreference.PreferVerticalHinting)
    return font


@cache
def canvas_fonts() -> Fonts:
    """Return the fonts made from the system's font, shared by canvases and exports."""
    return Fonts()
