"""Facts about an operator that its schema does not contain; they hold for every version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

#: Arithmetic operations besides matrix products: none, one per element of the first input or of the output, or per
#: element of the output as many as the window has elements; or a matrix product, which is counted by its shapes.
Work = Literal["none", "input", "output", "window", "product"]


@dataclass(frozen=True, slots=True)
class OperatorTraits:
    """Traits of one operator. Inputs are given by their index."""

    #: Colour of the header, one of resources/operator-categories.toml; empty: that of the domain.
    category: str = ""
    work: Work = "output"

    # Shapes and movement
    shape_of: int | None = None  # the input that has the shape of the first output
    broadcasts: bool = False  # the first output has the common shape of all inputs
    is_elementwise: bool = False  # an element depends on those at its position in the inputs, maybe broadcast
    is_aligned_before_7: bool = False  # its second input was aligned to the attribute `axis` before version 7
    is_view: bool = False  # only changes the shape of its first input
    is_reduction: bool = False  # reduces axes, in the attribute or input `axes` or the attribute `axis`, by `keepdims`
    moves: tuple[int, ...] | None = None  # only moves elements of these inputs; empty: of all
    is_about_shapes: bool = False  # elements of inputs are neither copied to outputs nor computed with
    sizes: tuple[int, ...] = ()  # inputs of sizes, axes, counts and index bounds, which are no data

    # Algebra
    is_commutative: bool = False  # the inputs are interchangeable
    is_idempotent: bool = False  # applying it twice has the effect of once
    is_increasing: bool = False  # strictly, along the axis if it has one
    is_never_negative: bool = False
    neutral: tuple[int, tuple[int, ...]] | None = None  # the neutral element of any of these inputs

    # Values and types
    is_stochastic: bool = False
    widens_weights: bool = False  # results are larger than the quantized inputs they are computed from
    sums_integers: bool = False  # sums products of integers without scaling them
    is_about_bits: bool = False  # depends on how elements are stored
    type_attribute: str = ""  # attribute that holds the element type of the first output
    value_attributes: tuple[str, ...] = ()  # attributes that hold the elements of the output
    stashed_from: int | None = None  # outputs from this one on have the type in the attribute `stash_type`

    # Subgraphs
    first_argument: int | None = None  # first formal input of the subgraph that is an input of the node
    first_result: int | None = None  # first output of the subgraph that becomes an output of the node


elementwise = partial(OperatorTraits, shape_of=0, is_elementwise=True)
broadcasting = partial(OperatorTraits, broadcasts=True, is_elementwise=True)
reduction = partial(OperatorTraits, work="input", is_reduction=True)
product = partial(OperatorTraits, work="product")


def movement(
    category: str,
    moves: tuple[int, ...],
    *,
    shape_of: int | None = None,
    is_view: bool = False,
    sizes: tuple[int, ...] = (),
) -> OperatorTraits:
    """Return the traits of an operator that only moves elements of these inputs; empty: of all."""
    return OperatorTraits(category, "none", shape_of=shape_of, is_view=is_view, moves=moves, sizes=sizes)
