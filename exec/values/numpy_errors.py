"""Messages of numpy and Python about operands that do not fit, rewritten for users who know neither."""

from __future__ import annotations

import re

#: Patterns of messages and their explanations.
_MEANINGS = [
    (
        r"could not be broadcast together with (?:remapped )?shapes ((?:\([\d,]*\) ?)+)",
        "shapes {} do not fit each other",
    ),
    (r"output operand with shape (\S+) doesn't match the broadcast shape (\S+)", "shape {1} does not fit into {0}"),
    (r"could not broadcast input array from shape (\S+) into shape (\S+)", "shape {} does not fit into {}"),
    (r"cannot reshape array of size (\d+) into shape \(\)", "{} elements were given where one is expected"),
    (r"cannot reshape array of size (\d+) into shape (\S+)", "{} elements cannot take the shape {}"),
    (
        r"truth value of|[Oo]nly (?:0-dim|size-1|length-1)",
        "several elements, or none, were given where one is expected",
    ),
    (r"axis (-?\d+) is out of bounds for array of dimension (\d+)", "a value of rank {1} has no axis {0}"),
    (r"index (-?\d+) is out of bounds for axis \d+ with size (\d+)", "index {0} is out of range for {1} elements"),
    (r"matmul: Input operand", "the matrices do not fit each other"),
    (r"must (?:match exactly|have same number of dimensions|have the same shape)", "shapes do not fit each other"),
    (
        r"index out of range|too many indices|unsized object|values to unpack|axes don't match|zero-dimensional",
        "a value has more or fewer axes or elements than expected",
    ),
    (r"zero-size array|empty sequence", "a value has no elements"),
    (r"(?:could not convert string to float|invalid literal for int\(\) with base 10): (.+)", "{} is not a number"),
    (r"argument must be a (?:string|number)", "a number was expected"),
    (r"inhomogeneous shape|array element with a sequence", "its rows have different lengths"),
    (r"Exceeds the limit \((\d+) digits\)", "a number has more than {} digits"),
    (r"(?:division|modulo).* by zero", "a size or a count is 0"),
    (r"duplicate value in 'axis'|repeated axis", "an axis is named twice"),
]
_PATTERNS = [(re.compile(pattern), meaning) for pattern, meaning in _MEANINGS]
_SHAPE = re.compile(r"\(([\d,]*)\)")
_TUPLE = re.compile(r"\((|-?\d+,|-?\d+(?:, -?\d+)+)\)")


def with_lists(message: str) -> str:
    """Return a message with shapes and other tuples of numbers written in brackets, as in the rest of the program."""
    return _TUPLE.sub(lambda found: f"[{found[1].rstrip(',')}]", message)


def in_plain_words(error: Exception) -> str:
    """Explain an exception of a kernel; empty if its message matches no known pattern."""
    text = str(error)
    for pattern, meaning in _PATTERNS:
        found = pattern.search(text)
        if found is not None:
            return meaning.format(*[_plain(part) for part in found.groups()])
    return ""


def _plain(text: str) -> str:
    shapes = [f"[{', '.join(filter(None, sizes.split(',')))}]" for sizes in _SHAPE.findall(text)]
    return " and ".join(shapes) or text
