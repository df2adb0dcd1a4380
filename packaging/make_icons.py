"""Draws the program's icon in the sizes and forms desktops want, from resources/icons/app.svg.

    python packaging/make_icons.py

Writes onnx-workbench-N.png and onnx-workbench.ico into resources/desktop, and macos/onnx-workbench.icns beside this
script.
Needs PySide6 and Pillow.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PIL import Image
from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "resources" / "icons" / "app.svg"
SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
LARGEST_ON_LINUX = 256


def draw(size: int) -> Image.Image:
    """The icon as an image of size × size."""
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    QSvgRenderer(str(SOURCE)).render(painter)
    painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    return Image.open(io.BytesIO(data.data()))


def main() -> None:
    """Write every form."""
    application = QGuiApplication([])
    images = {size: draw(size) for size in SIZES}
    folder = HERE.parent / "resources" / "desktop"
    folder.mkdir(parents=True, exist_ok=True)
    for size, image in images.items():
        if size <= LARGEST_ON_LINUX:
            image.save(folder / f"onnx-workbench-{size}.png", optimize=True)
    largest = images[SIZES[-1]]
    others = [images[size] for size in SIZES[:-1]]
    largest.save(HERE / "macos" / "onnx-workbench.icns", append_images=others)
    icon_sizes = [(size, size) for size in SIZES if size <= LARGEST_ON_LINUX]
    images[LARGEST_ON_LINUX].save(folder / "onnx-workbench.ico", sizes=icon_sizes)
    application.quit()


if __name__ == "__main__":
    main()
