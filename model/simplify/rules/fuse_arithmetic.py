"""Combine arithmetic with constants ahead of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass, describe, setting

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _consecutive_mul(context: MatchContext) -> Iterator[Match]:
    """Fuse (x · a) · b to x · (a · b). Not for sums, whose parts may cancel."""
    for node in context.nodes("Mul"):
        for index in (0, 1):
            before = context.producer(node.inputs[index], "Mul")
            factor = context.array(node.inputs[1 - index])
            if before is None or factor is None or context.sole_user(node.inputs[index]) is not node:
                continue
            own = next((i for i in (0, 1) if context.constant(before.inputs[i]) is not None), None)
            other = None if own is None else context.array(before.inputs[own])
            whole = None if other is None else _product(other, factor)
            if own is not None and whole is not None:
                x = before.inputs[1 - own]
                yield Match(
                    f"{describe(node)} multiplies by both constants",
                    (before, node),
                    setting(node, x, whole),
                )
                break


def _product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any] | None:
    """Return the product of two constants, a first; None where it would be larger than both or differ."""
    if a.dtype != b.dtype or a.dtype.kind not in "fiu":
        return None
    try:
        size = int(np.prod(np.broadcast_shapes(a.shape, b.shape), dtype=object))
    except ValueError:  # invalid shapes; checks report them
        return None
    if size > max(a.size, b.size):
        return None
    with np.errstate(all="ignore"):
        product = np.asarray(a * b)
    return product if product.dtype.kind != "f" or _is_safe(a, b, product) else None


def _is_safe(a: NDArray[Any], b: NDArray[Any], product: NDArray[Any]) -> bool:
    """Return whether the product is exact enough, and overflows or underflows only where the original does.

    Within a fourth of the exponent range: only extreme x distinguish them.
    """
    kind = np.finfo(product.dtype)
    far = 2.0 ** (kind.maxexp // 4)
    first, second = np.abs(a), np.abs(b)
    is_exact = np.isfinite(product) & ((np.abs(product) >= kind.tiny) | (a == 0) | (b == 0))
    goes_too_far = ((first > far) & (second < 1)) | ((first != 0) & (first < 1 / far) & (second > 1))
    return bool((is_exact & ~goes_too_far).all())


PASSES = (
    Pass(
        "fuse_consecutive_mul",
        "Multiplications by constants",
        "Multiplies once by the product of two constants.",
        _consecutive_mul,
    ),
)
