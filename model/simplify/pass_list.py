"""All passes in the order they run: those of the program, then those added by scripts and extensions."""

from __future__ import annotations

from onnx_workbench.model.simplify.custom import custom_passes
from onnx_workbench.model.simplify.passes import Pass
from onnx_workbench.model.simplify.rules import (
    constants,
    control_flow,
    duplicates,
    eliminations,
    fuse_activations,
    fuse_arithmetic,
    fuse_conv,
    fuse_gemm,
    fuse_layout,
    fuse_normalization,
    shape_computations,
    standard_operators,
    unroll_loops,
)

#: Cheap eliminations and constants first: they create the patterns for fusions.
PASSES: tuple[Pass, ...] = (
    eliminations.DEADEND,
    constants.EXTRACT,
    *control_flow.PASSES,
    standard_operators.STANDARD,
    *unroll_loops.PASSES,
    *eliminations.PASSES,
    shape_computations.KNOWN_VALUES,
    shape_computations.SYMBOLIC_SHAPES,
    shape_computations.SLICE_ENDS,
    constants.CONSTANTS,
    duplicates.EQUAL_SIZES,
    duplicates.COMMON,
    *fuse_layout.PASSES,
    *fuse_conv.PASSES,
    *fuse_gemm.PASSES,
    *fuse_arithmetic.PASSES,
    *fuse_activations.PASSES,
    *fuse_normalization.PASSES,
    constants.DUPLICATES,
    eliminations.UNUSED_INITIALIZER,
)


def all_passes() -> tuple[Pass, ...]:
    """Return every pass in the order they run."""
    return (*PASSES, *custom_passes())


def default_passes() -> tuple[Pass, ...]:
    """Return the passes that run where none are named."""
    return tuple(one for one in all_passes() if one.is_default)
