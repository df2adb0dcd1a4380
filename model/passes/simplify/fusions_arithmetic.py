"""Arithmetic with constants, done ahead of time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from model.graph import Node, Value
from model.passes.simplify.context import Context
from model.passes.simplify.framework import Match, Pass, said
from model.passes.simplify.rewriter import Rewriter

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _consecutive_mul(context: Context) -> Iterator[Match]:
    """(x · a) · b as x · (a · b). Not so with sums, whose parts may cancel out."""
    for node in context.nodes("Mul"):
        for place in (0, 1):
            before = context.producer(node.inputs[place], "Mul")
            factor = context.array(node.inputs[1 - place])
            if before is None or factor is None or context.sole_user(node.inputs[place]) is not node:
                continue
            own = next((i for i in (0, 1) if context.constant(before.inputs[i]) is not None), None)
            other = None if own is None else context.array(before.inputs[own])
            whole = None if other is None else _product(other, factor)
            if own is not None and whole is not None:
                x = before.inputs[1 - own]
                yield Match(
                    f"{said(node)} multiplies by both constants", (before, node), partial(_multiply, node, x, whole)
                )
                break


def _product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any] | None:
    """The product of two constants; None where it would be larger than both, or is not one to full precision."""
    if a.dtype != b.dtype or a.dtype.kind not in "fiu":
        return None
    try:
        size = int(np.prod(np.broadcast_shapes(a.shape, b.shape), dtype=object))
    except ValueError:  # it cannot run; checks say so
        return None
    if size > max(a.size, b.size):
        return None
    with np.errstate(all="ignore"):
        product = np.asarray(a * b)
    if product.dtype.kind == "f":
        least = np.finfo(product.dtype).tiny
        is_exact = np.isfinite(product) & ((np.abs(product) >= least) | (a == 0) | (b == 0))
        if not is_exact.all():
            return None
    return product


def _multiply(node: Node, x: Value | None, factor: NDArray[Any], rewriter: Rewriter) -> None:
    rewriter.set_inputs(node, (x, factor))


PASSES = (
    Pass(
        "fuse_consecutive_mul",
        "Multiplications by constants",
        "Multiplies once by the product of two constants.",
        _consecutive_mul,
    ),
)
