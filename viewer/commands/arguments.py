"""What commands take on the command line: numbers with their limits, sizes of named dimensions, comparisons."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from model.errors import ModelError

_MOST_DIGITS = 18  # what surely fits 64 bits


def natural(text: str) -> int:
    """A whole number from 0 on, for argparse."""
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        msg = f"{text!r} is not a whole number from 0 on"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def seconds(text: str) -> float:
    """A duration above 0, for argparse."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        msg = f"{text!r} is not a number of seconds above 0"
        raise argparse.ArgumentTypeError(msg)
    return found


def sizes(given: Sequence[str]) -> dict[str, int]:
    """What ``name=size`` texts say; ModelError for one that says nothing of the kind."""
    found = {}
    for text in given:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal() or len(size) > _MOST_DIGITS:
            raise ModelError(f"{text!r} gives no dimension a size", "Write it as NAME=SIZE, such as batch=1.")
        found[name] = int(size)
    return found


def add_check_arguments(parser: argparse.ArgumentParser, *, runs: int) -> None:
    """On how many random inputs outputs are compared before something is written."""
    text = f"random inputs to compare outputs on ({runs})"
    parser.add_argument("--check", type=natural, default=runs, metavar="N", help=text)
    parser.add_argument("--no-check", action="store_const", const=0, dest="check", help="compare no outputs")
