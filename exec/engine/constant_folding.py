"""Evaluation of single nodes outside a run, with which model.simplify folds constants."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.exec.engine.input_types import check_types
from onnx_workbench.exec.engine.operations import Library
from onnx_workbench.exec.engine.snapshot import SnapshotCache
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.limits import Limits, set_limits
from onnx_workbench.model.ir.graph import Model, Node

_SECONDS = 10.0  # for one node


def evaluate(node: Node, inputs: Sequence[Array | None], opset: int, most_bytes: int) -> list[Array | None] | None:
    """Return the outputs of a node for these inputs, None for those it does not have.

    Returns None if there is no kernel, an output is not a tensor, the kernel fails, or the result exceeds `most_bytes`.
    A kernel is stopped after ten seconds, at its next checkpoint. Any thread.
    """
    if node.bodies or any(attribute.reference for attribute in node.attributes.values()):
        return None
    load()
    snapshots, library = SnapshotCache(Model()), Library()
    taken = snapshots.node(node)
    library.use(snapshots.tensors)
    operation = library.operation(taken, opset)
    kernel = operation.kernel
    if kernel is None or operation.problem:
        return None
    call = partial(kernel.function, **operation.attributes)
    if kernel.takes_context:
        wanted = [v is not None for v in node.outputs]
        call = partial(call, Context(node.op_type, opset, domain=node.domain, wanted=wanted, node_name=node.name))
    set_limits(Limits(most_bytes, time.monotonic() + _SECONDS))
    found: Any = None
    try:
        # Kernels may raise any exception for invalid inputs; the node is then not folded.
        with suppress(Exception), np.errstate(all="ignore"):
            arguments = kernel.arguments(inputs)
            check_types(node.op_type, opset, node.domain, arguments)
            found = call(*arguments)
    finally:
        set_limits(None)
    results: list[Array | None] = []
    for value, result in zip(node.outputs, found if isinstance(found, tuple) else (found,), strict=False):
        array = np.asarray(result) if isinstance(result, np.generic) else result
        if value is not None and not isinstance(array, np.ndarray):
            return None
        results.append(None if value is None else array)
    return results if sum(r.nbytes for r in results if r is not None) <= most_bytes else None
