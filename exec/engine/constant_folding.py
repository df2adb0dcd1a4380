"""Evaluation of single nodes outside a run, with which model.simplify folds constants."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from onnx_workbench.exec.engine.input_types import check_types
from onnx_workbench.exec.errors import MissingKernelError
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.context import Context
from onnx_workbench.exec.kernels.registry import REQUIRED, Kernel, find
from onnx_workbench.exec.values.arrays import Array
from onnx_workbench.exec.values.limits import Limits, set_limits
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Graph, Node
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

_SECONDS = 10.0  # for one node


def evaluate(node: Node, inputs: Sequence[Array | None], opset: int, most_bytes: int) -> list[Array | None] | None:
    """Return the outputs of a node for these inputs, None for those it does not have.

    Returns None if there is no kernel, an output is not a tensor, the kernel fails, or the result exceeds `most_bytes`.
    A kernel is stopped after ten seconds, at its next checkpoint. Any thread.
    """
    load()
    try:
        kernel = find(node.op_type, opset, node.domain)
        attributes = _attributes(kernel, node)
    except (MissingKernelError, ModelError, ValueError):
        return None
    if attributes is None or kernel.arity_problem([value is not None for value in inputs]):
        return None
    call = partial(kernel.function, **attributes)
    if kernel.takes_context:
        wanted = [v is not None for v in node.outputs]
        call = partial(call, Context(node.op_type, opset, domain=node.domain, wanted=wanted, node_name=node.name))
    set_limits(Limits(most_bytes, time.monotonic() + _SECONDS))
    found: Any = None
    try:
        # Kernels may raise any exception for invalid inputs; the node is then not folded.
        with suppress(Exception), np.errstate(all="ignore"):
            given = kernel.arguments(inputs)
            check_types(node.op_type, opset, node.domain, given)
            found = call(*given)
    finally:
        set_limits(None)
    results: list[Array | None] = []
    for value, result in zip(node.outputs, found if isinstance(found, tuple) else (found,), strict=False):
        array = np.asarray(result) if isinstance(result, np.generic) else result
        if value is not None and not isinstance(array, np.ndarray):
            return None
        results.append(None if value is None else array)
    return results if sum(r.nbytes for r in results if r is not None) <= most_bytes else None


def _attributes(kernel: Kernel, node: Node) -> dict[str, Any] | None:
    """Return the attributes as arguments of the kernel; None if one is missing or of a kind that is not folded."""
    given: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        if name not in kernel.attributes and not kernel.any_attributes:
            continue
        value: Any = attribute.value
        if attribute.reference or isinstance(value, (Graph, SparseTensor)):
            return None
        if isinstance(value, tuple) and value and isinstance(value[0], (Graph, SparseTensor)):
            return None
        if isinstance(value, Tensor):
            value = value.numpy()
        elif isinstance(value, tuple) and value and isinstance(value[0], Tensor):
            value = tuple(t.numpy() for t in value)
        given[name] = value
    if any(default is REQUIRED and name not in given for name, default in kernel.attributes.items()):
        return None
    return given
