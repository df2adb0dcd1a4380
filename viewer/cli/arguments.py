"""What commands take on the command line: numbers with their limits, sizes of named dimensions, comparisons."""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_workbench.exec.inputs.images import ImageOptions

_MOST_DIGITS = 18  # what surely fits 64 bits


def natural(text: str) -> int:
    """Return a whole number from 0 on, for argparse."""
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        msg = f"{text!r} is not a non-negative integer"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def seconds(text: str) -> float:
    """Return a duration above 0, for argparse."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        msg = f"{text!r} is not a positive number of seconds"
        raise argparse.ArgumentTypeError(msg)
    return found


def add_picture_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for turning pictures into tensors; see `picture_options`."""
    group = parser.add_argument_group(
        "images", "Each element of a float tensor is (value × scale − mean) / std, of an integer one the value."
    )
    group.add_argument("--picture-size", type=height_and_width, metavar="HxW", help="height and width (as declared)")
    group.add_argument(
        "--picture-fit", choices=("stretch", "crop", "pad"), default="stretch", help="how to reach the size (stretch)"
    )
    group.add_argument("--picture-layout", choices=("NCHW", "NHWC"), help="order of axes (as declared)")
    group.add_argument(
        "--picture-channels", choices=("RGB", "BGR", "L", "RGBA"), help="order of channels (as declared)"
    )
    group.add_argument("--picture-scale", type=number, default=1 / 255, metavar="S", help="scale (1/255)")
    for name, default in (("mean", 0.0), ("std", 1.0)):
        text = f"{name}: one number, or one for each channel such as 0.5,0.4,0.3 ({default:g})"
        group.add_argument(f"--picture-{name}", type=numbers, default=(default,), metavar="X,…", help=text)


def picture_options(arguments: argparse.Namespace) -> ImageOptions:
    """Return the values of the options of `add_picture_arguments`."""
    from onnx_workbench.exec.inputs.images import ImageOptions

    return ImageOptions(
        size=arguments.picture_size, layout=arguments.picture_layout, channels=arguments.picture_channels,
        fit=arguments.picture_fit, scale=arguments.picture_scale, mean=arguments.picture_mean,
        std=arguments.picture_std,
    )  # fmt: skip


def height_and_width(text: str) -> tuple[int, int]:
    """Two whole numbers as in ``224x224``, or one for both, for argparse."""
    found = re.fullmatch(r"(\d{1,9})(?:[x×](\d{1,9}))?", text)
    if found is None:
        msg = f"{text!r} is not a height and width such as 224x224"
        raise argparse.ArgumentTypeError(msg)
    return int(found[1]), int(found[2] or found[1])


def number(text: str) -> float:
    """Return a number that is finite, or a quotient such as ``1/255``, for argparse."""
    above, _, below = text.partition("/")
    try:
        found = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        found = math.nan
    if not math.isfinite(found):
        msg = f"{text!r} is not a number"
        raise argparse.ArgumentTypeError(msg)
    return found


def tolerance(text: str) -> float:
    """Return a finite number from 0 on, for argparse."""
    found = number(text)
    if found < 0:
        msg = f"{text!r} is negative"
        raise argparse.ArgumentTypeError(msg)
    return found


def numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between them, for argparse."""
    return tuple(number(part) for part in text.split(","))


def add_check_arguments(parser: argparse.ArgumentParser, *, runs: int) -> None:
    """Add the option for the number of random inputs on which outputs are compared before writing."""
    text = f"number of random inputs for the comparison ({runs})"
    parser.add_argument("--check", type=natural, default=runs, metavar="N", help=text)
    text = "write without a comparison"
    parser.add_argument("--no-check", action="store_const", const=0, dest="check", help=text)
