"""Images as input tensors: resized, reordered and scaled as a model expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.array_files import opened_picture
from onnx_workbench.model.ir.types import ElementType, TensorType, Type

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})

#: Accepted image formats. Others of Pillow are excluded, such as PostScript, for which it starts Ghostscript.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")

#: Formats with 16 bits per pixel that Pillow may return as 32 bits.
_SIXTEEN_BITS = ("PNG", "PPM")

_BANDS = {"L": 1, "RGB": 3, "BGR": 3, "RGBA": 4}

#: Larger images are refused before decoding.
MAX_PIXELS = 200_000_000

_NO_SIZES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Conversion of an image to a tensor of floats: (value × scale − mean) / std per channel. Integers are the pixels.

    `size` is (height, width); None for `layout` or `size` means that of the declared shape. `fit` keeps the aspect
    ratio by cropping or padding, or stretches.
    """

    size: tuple[int, int] | None = None
    layout: Literal["NCHW", "NHWC"] | None = None
    channels: Literal["RGB", "BGR", "L", "RGBA"] | None = None
    fit: Literal["stretch", "crop", "pad"] = "stretch"
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


def read_image(path: Path, options: ImageOptions, declared: Type | None = None) -> Array:
    """Read an image as [1, C, H, W] or [1, H, W, C] (or without batch, by the declared rank).

    ModelError for an invalid file, ValueError for invalid options.
    """
    dims = _dims(declared)
    layout = options.layout or _layout(dims)
    size = options.size or declared_size(declared, layout)
    channels = options.channels or _channels(dims, layout)
    _check(options, size, _BANDS[channels])
    with opened_picture(path, _FORMATS, MAX_PIXELS) as picture:
        converted = _eight_bits(picture, path).convert("RGB" if channels == "BGR" else channels)
    pixels = np.asarray(_resized(converted, size, options.fit))
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    pixels = pixels[..., ::-1] if channels == "BGR" else pixels
    kind = element_type(declared)
    if kind.is_float:
        scaled = pixels.astype(np.float32) * np.float32(options.scale)
        pixels = (scaled - np.asarray(options.mean, np.float32)) / np.asarray(options.std, np.float32)
    pixels = pixels.astype(kind.numpy_dtype)
    if layout == "NCHW":
        pixels = pixels.transpose(2, 0, 1)
    if len(dims) != 3:
        pixels = pixels[None]
    return np.ascontiguousarray(pixels)


def element_type(declared: Type | None) -> ElementType:
    """Return the element type of the tensor made for an input of the declared type."""
    kind = declared.element_type if isinstance(declared, TensorType) else ElementType.FLOAT
    return kind if isinstance(kind, ElementType) and kind is not ElementType.UNDEFINED else ElementType.FLOAT


def _eight_bits(picture: Any, path: Path) -> Any:
    """Return the image with eight bits per channel: of 16 bits the upper ones, where Pillow would clip."""
    from PIL import Image

    if picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format in _SIXTEEN_BITS):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    if picture.mode in ("I", "F"):
        found = "its pixels are numbers of 32 bits; 8 or 16 bits per channel were expected"
        raise ModelError(f"{path.name} cannot be read as a picture", found, str(path))
    return picture


def _check(options: ImageOptions, size: tuple[int, int] | None, bands: int) -> None:
    """Raise ValueError for invalid sizes, a wrong number of mean or std values, or a std of zero."""
    if size is not None and not (min(size) > 0 and size[0] * size[1] <= MAX_PIXELS):
        msg = f"a size of {size[0]} × {size[1]}; expected 1 to {MAX_PIXELS:,} pixels"
        raise ValueError(msg)
    for name, numbers in (("mean", options.mean), ("std", options.std)):
        if len(numbers) not in (1, bands):
            msg = f"{name} has {len(numbers)} numbers; expected 1, or {bands}: one for each channel"
            raise ValueError(msg)
    if 0 in options.std:
        msg = "std has a zero; expected numbers to divide by"
        raise ValueError(msg)


def _layout(dims: tuple[object, ...]) -> Literal["NCHW", "NHWC"]:
    if len(dims) in (3, 4) and dims[-1] in (1, 3, 4) and dims[-3] not in (1, 3, 4):
        return "NHWC"
    return "NCHW"


def _dims(declared: Type | None) -> tuple[object, ...]:
    return declared.shape.dims if isinstance(declared, TensorType) and declared.shape is not None else ()


def declared_size(
    declared: Type | None, layout: Literal["NCHW", "NHWC"] | None = None, sizes: Mapping[str, int] = _NO_SIZES
) -> tuple[int, int] | None:
    """Return the declared height and width of images, named dimensions by `sizes`; None if one is not known."""
    dims = tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in _dims(declared))
    if len(dims) not in (3, 4):
        return None
    height, width = dims[-2:] if (layout or _layout(dims)) == "NCHW" else dims[-3:-1]
    return (height, width) if isinstance(height, int) and isinstance(width, int) and height > 0 < width else None


def _channels(dims: tuple[object, ...], layout: str) -> Literal["RGB", "BGR", "L", "RGBA"]:
    count = dims[-3 if layout == "NCHW" else -1] if len(dims) in (3, 4) else 3
    return "L" if count == 1 else "RGBA" if count == 4 else "RGB"


def _resized(picture: Any, size: tuple[int, int] | None, fit: str) -> Any:
    from PIL import Image, ImageOps

    if size is None:
        return picture
    wanted = (size[1], size[0])
    if fit == "crop":
        return ImageOps.fit(picture, wanted, Image.Resampling.BILINEAR)
    if fit == "pad":
        return ImageOps.pad(picture, wanted, Image.Resampling.BILINEAR)
    return picture.resize(wanted, Image.Resampling.BILINEAR)
