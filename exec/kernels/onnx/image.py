"""ImageDecoder, through Pillow."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.values.arrays import Array, check_size
from onnx_workbench.exec.values.statistics import describe

#: Formats that the specification names; no other decoder is tried on bytes from a model's input.
_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@kernel("ImageDecoder", since=20)
def image_decoder_20(encoded_stream: Array, *, pixel_format: str = "RGB") -> Array:
    """Decode the bytes of an image file to uint8 (H, W, 3), or (H, W, 1) for Grayscale.

    The size in the file's header is checked against the memory limit before decoding.
    """
    if pixel_format not in _MODES:
        msg = f"pixel_format is {pixel_format!r}, expected RGB, BGR or Grayscale"
        raise KernelError(msg)
    if encoded_stream.ndim != 1 or encoded_stream.dtype != np.uint8:
        msg = f"encoded_stream is {describe(encoded_stream)}; expected uint8 bytes"
        raise KernelError(msg)
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(encoded_stream.tobytes()), formats=_supported_formats(Image)) as picture:
                check_size((picture.height, picture.width, 4), np.uint8)
                pixels = np.asarray(picture.convert(_MODES[pixel_format]), np.uint8)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            msg = f"the image is refused for its size: {str(error).partition(',')[0]}; expected no more"
            raise KernelError(msg) from None
        except (OSError, ValueError, SyntaxError, EOFError) as error:  # what Pillow raises for broken files
            if isinstance(error, KernelError):
                raise
            given = "the bytes are no image this program can decode"
            msg = f"{given}; expected BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP"
            raise KernelError(msg) from None
    if pixel_format == "BGR":
        pixels = np.ascontiguousarray(pixels[:, :, ::-1])
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _supported_formats(image: Any) -> list[str]:
    """Return the formats that this Pillow was built with; requesting another one is an error."""
    image.init()
    return [name for name in _FORMATS if name in image.OPEN]
