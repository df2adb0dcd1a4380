"""Gradients of data movement: each gradient goes back to the element's origin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.kernels.onnx.gradients.tape import TapeStep, reduced_to, rule
from onnx_workbench.exec.kernels.registry import find
from onnx_workbench.exec.kernels.shared.axes import normal_axis
from onnx_workbench.exec.values.arrays import Array

Grads = Sequence[Array | None]


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshaped(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Back to the shape of the input."""
    return [grads[0].reshape(step.inputs[0].shape)]


@rule("Transpose")
def transposed(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Return the inverse permutation."""
    perm = step.attribute("perm")
    return [grads[0].T if perm is None else grads[0].transpose(np.argsort(perm))]


@rule("Expand")
def expanded(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Sum over broadcast axes."""
    return [reduced_to(grads[0], step.inputs[0].shape)]


@rule("Concat")
def joined(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Split the gradient among the inputs."""
    axis = normal_axis(step.attribute("axis", 1), grads[0].ndim)
    ends = np.cumsum([x.shape[axis] for x in step.inputs])[:-1]
    parts = np.split(grads[0], ends, axis)
    # An input without elements may have other sizes.
    return [part.reshape(x.shape) for part, x in zip(parts, step.inputs, strict=True)]


@rule("Split")
def split(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Concatenate the parts."""
    return [np.concatenate(list(grads), step.attribute("axis", 0))]


@rule("Slice", "Gather", "GatherElements", "GatherND", "DepthToSpace", "SpaceToDepth", "Tile", "Pad")
def picked(step: TapeStep, grads: Sequence[Array]) -> Grads:
    """Scatter-add the gradient: origins are found by running the operator's own kernel on element indices.

    Indices start at 1, so that 0 marks padding.
    """
    x = step.inputs[0]
    numbers = np.arange(1, x.size + 1).reshape(x.shape)
    rest = list(step.inputs[1:])
    attributes = dict(step.node.attributes)
    if step.node.op_type == "Pad":
        attributes.pop("value", None)
        if len(rest) > 1:
            rest[1] = None
    moved = find(step.node.op_type, step.node.opset).function(numbers, *rest, **attributes)
    total = np.zeros(x.size + 1, grads[0].dtype)
    np.add.at(total, moved.reshape(-1), grads[0].reshape(-1))
    return [total[1:].reshape(x.shape)]
