"""ImageDecoder on files made here, broken bytes and decompression bombs."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.exec.kernels.harness import call

PIXELS = np.random.default_rng(0).integers(0, 255, (6, 5, 3), np.uint8)


def encoded(kind: str, pixels: Any = PIXELS) -> Any:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return np.frombuffer(stream.getvalue(), np.uint8)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_come_back_exactly(kind: str) -> None:
    np.testing.assert_array_equal(call("ImageDecoder", [encoded(kind)], opset=20), PIXELS)
    bgr = call("ImageDecoder", [encoded(kind)], opset=20, pixel_format="BGR")
    np.testing.assert_array_equal(bgr, PIXELS[:, :, ::-1])
    assert call("ImageDecoder", [encoded(kind)], opset=20, pixel_format="Grayscale").shape == (6, 5, 1)


def test_jpeg_has_the_right_size() -> None:
    result = call("ImageDecoder", [encoded("JPEG")], opset=20)
    assert result.shape == (6, 5, 3)
    assert result.dtype == np.uint8


@pytest.mark.parametrize(
    "data", [b"", b"no image", bytes(encoded("PNG"))[:40], bytes(encoded("JPEG"))[:30], b"GIF89a" + b"\0" * 40]
)
def test_broken_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(KernelError, match=r"decode|refused"):
        call("ImageDecoder", [np.frombuffer(data, np.uint8)], opset=20)


def bomb(side: int) -> Any:
    """A PNG whose header claims side × side pixels."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    body = b"IDAT" + zlib.compress(b"\0" * 1000)
    data += struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return np.frombuffer(data, np.uint8)


def test_a_decompression_bomb_is_refused_by_its_header() -> None:
    with pytest.raises(KernelError, match="size"):
        call("ImageDecoder", [bomb(100_000)], opset=20)
    set_limits(Limits(max_bytes=1 << 20))
    try:
        with pytest.raises(LimitError):
            call("ImageDecoder", [bomb(5_000)], opset=20)
    finally:
        set_limits(None)


@pytest.mark.parametrize("stream", [np.zeros((2, 2), np.uint8), np.zeros(4, np.int32)])
def test_only_bytes_are_taken(stream: Any) -> None:
    with pytest.raises(KernelError, match="uint8"):
        call("ImageDecoder", [stream], opset=20)
    with pytest.raises(KernelError, match="CMYK"):
        call("ImageDecoder", [encoded("PNG")], opset=20, pixel_format="CMYK")
