"""Every pass, in the order they run."""

from __future__ import annotations

from onnx_workbench.model.passes.simplify import (
    constants,
    control_flow,
    duplicates,
    eliminations,
    fusions_activation,
    fusions_arithmetic,
    fusions_conv,
    fusions_gemm,
    fusions_layout,
    fusions_norm,
    shapes,
    unrolling,
)
from onnx_workbench.model.passes.simplify.framework import Pass

#: Cheap eliminations and constants first: they make the patterns that fusions look for.
PASSES: tuple[Pass, ...] = (
    eliminations.DEADEND,
    constants.EXTRACT,
    *control_flow.PASSES,
    *unrolling.PASSES,
    *eliminations.PASSES,
    shapes.KNOWN_VALUES,
    shapes.SYMBOLIC_SHAPES,
    shapes.SLICE_ENDS,
    constants.CONSTANTS,
    duplicates.EQUAL_SIZES,
    duplicates.COMMON,
    *fusions_layout.PASSES,
    *fusions_conv.PASSES,
    *fusions_gemm.PASSES,
    *fusions_arithmetic.PASSES,
    *fusions_activation.PASSES,
    *fusions_norm.PASSES,
    constants.DUPLICATES,
    eliminations.UNUSED_INITIALIZER,
)

DEFAULT_PASSES: tuple[Pass, ...] = tuple(one for one in PASSES if one.is_default)
