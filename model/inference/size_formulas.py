"""Express sizes that onnx's inference leaves open as formulas of symbols: ``4*batch``, ``div(T - 1, 2) + 1``.

Runs in the child, on a separate model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_workbench.model.analysis.symbolic import AnySize
from onnx_workbench.model.inference.node_call import to_dimension
from onnx_workbench.model.inference.shape_contents import ModelIR
from onnx_workbench.model.ir.types import Dimension, Shape, TensorType, Type


def fill(ir: ModelIR, found: Sequence[dict[str, Type]], is_open: Callable[[Dimension], bool]) -> list[set[str]]:
    """Put formulas into the types found for the graphs of a model, where sizes are open.

    Returns the names of the refined values, graph by graph.
    """
    from onnx_workbench.model.analysis.values import ModelValues

    values = ir.values
    types = {
        named[name]: kind
        for named, known in zip(values, found, strict=True)
        for name, kind in known.items()
        if name in named
    }
    facts = ModelValues(ir.model, types, ir.constants)
    improved: list[set[str]] = [set() for _ in found]
    for named, known, names in zip(values, found, improved, strict=True):
        for name, kind in known.items():
            if not isinstance(kind, TensorType) or kind.shape is None or not any(map(is_open, kind.shape.dims)):
                continue
            dims = facts.dims(named.get(name))
            if dims is not None and len(dims) == kind.shape.rank:
                sizes = tuple(_filled(a, b) if is_open(a) else a for a, b in zip(kind.shape.dims, dims, strict=True))
                if sizes != kind.shape.dims:
                    known[name] = TensorType(kind.element_type, Shape(sizes))
                    names.add(name)
    return improved


def _filled(given: Dimension, size: AnySize) -> Dimension:
    found = to_dimension(size)
    return given if found is None else found
