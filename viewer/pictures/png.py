"""PNG writer by bands of rows, for images larger than memory allows at once."""

from __future__ import annotations

import struct
import zlib
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_UP = 2  # filter type: each row as the difference to the one above, which suits boxes and lines
_LEVEL = 4


class PngWriter:
    """Writer of an 8-bit RGB image. Write bands from top to bottom, then call `close`."""

    def __init__(self, file: BinaryIO, width: int, height: int) -> None:
        self._file = file
        self._width, self._height = width, height
        self._packer = zlib.compressobj(_LEVEL)
        self._above = np.zeros(width * 3, np.uint8)
        self._rows = 0
        file.write(_SIGNATURE)
        self._chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))

    def write(self, band: NDArray[np.uint8]) -> None:
        """Append rows [R, width, 3]."""
        rows = band.reshape(len(band), -1)
        if rows.shape[1] != self._width * 3:
            msg = f"rows of {rows.shape[1]} bytes; expected {self._width * 3}"
            raise ValueError(msg)
        filtered = np.empty((len(rows), self._width * 3 + 1), np.uint8)
        filtered[:, 0] = _UP
        filtered[0, 1:] = rows[0] - self._above
        np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
        self._above = rows[-1].copy()
        self._rows += len(rows)
        packed = self._packer.compress(filtered.tobytes())
        if packed:
            self._chunk(b"IDAT", packed)

    def close(self) -> None:
        """Finish the image; ValueError if rows are missing."""
        if self._rows != self._height:
            msg = f"{self._rows} rows written; expected {self._height}"
            raise ValueError(msg)
        self._chunk(b"IDAT", self._packer.flush())
        self._chunk(b"IEND", b"")

    def _chunk(self, kind: bytes, data: bytes) -> None:
        self._file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
