"""Operators for which onnx's own inference is wrong in some versions or crashes, and workarounds.

Each entry is a test in tests/model/inference/test_doubtful.py, which fails when onnx's inference becomes right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onnx_workbench.model.io.reader.decode import bodies
from onnx_workbench.model.schemas import traits

_SORTS_AXES_SINCE = 11  # earlier, Squeeze assumes sorted axes
_CUTS_SYMBOLS_SINCE = 11  # earlier, Slice keeps the symbol of an axis that it cuts
_BEARS_INDICES_SINCE = 11  # earlier, OneHot refuses negative indices, which just select nothing
#: Operators for which onnx's inference crashes where the type of the first input is unknown.
CRASH_UNTYPED = frozenset(
    {("", "EyeLike"), ("", "RegexFullMatch"), ("ai.onnx.ml", "DictVectorizer"), ("ai.onnx.ml", "LabelEncoder")}
)
_CUTS_WINDOWS_SINCE = 22  # earlier, pooling with ceil_mode counts windows that begin in the end padding


def doubtful_nodes(root: Any, imports: Mapping[str, int]) -> Iterator[Any]:
    """Yield the nodes of a graph or function, bodies included, to be hidden from inference of a whole model.

    The axes of a Squeeze are sorted instead, as their order is irrelevant, and the default of STFT's onesided is
    written, which inference takes for 0.
    """
    version = imports.get("", 1)
    for graph in walk(root):
        for node in graph.node:
            if node.op_type == "Squeeze" and version < _SORTS_AXES_SINCE and _is_standard(node):
                _sort_axes(node)
            elif node.op_type == "STFT" and _is_standard(node):
                _write_default(node)
            elif _asked_as(node, version) != version or _key(node) in CRASH_UNTYPED:
                yield node


def imports_for(node: Any, imports: Mapping[str, int]) -> Mapping[str, int]:
    """Return the imports with which onnx infers a node correctly: its version, or a later one of equal meaning."""
    version = imports.get("", 1)
    asked = _asked_as(node, version)
    return imports if asked == version else {**imports, "": asked}


def _asked_as(node: Any, version: int) -> int:
    if node.op_type == "Slice" and version == _CUTS_SYMBOLS_SINCE - 1 and _is_standard(node):
        return _CUTS_SYMBOLS_SINCE
    if node.op_type == "OneHot" and version < _BEARS_INDICES_SINCE and _is_standard(node):
        return _BEARS_INDICES_SINCE
    if traits.find(node.op_type).work == "window" and version < _CUTS_WINDOWS_SINCE and _is_standard(node):
        rounds_up = any(attribute.name == "ceil_mode" and attribute.i for attribute in node.attribute)
        return _CUTS_WINDOWS_SINCE if rounds_up else version
    return version


def _is_standard(node: Any) -> bool:
    return node.domain in ("", "ai.onnx")


def _key(node: Any) -> tuple[str, str]:
    return "" if _is_standard(node) else node.domain, node.op_type


def _sort_axes(node: Any) -> None:
    for attribute in node.attribute:
        if attribute.name == "axes":
            attribute.ints[:] = sorted(attribute.ints)


def _write_default(node: Any) -> None:
    if all(attribute.name != "onesided" for attribute in node.attribute):
        node.attribute.add(name="onesided", type=2, i=1)  # AttributeProto.INT


def walk(root: Any) -> Iterator[Any]:
    """Yield a graph or function and the bodies inside, in the order of model.graph.Graph.walk."""
    pending = [root]
    while pending:
        graph = pending.pop()
        yield graph
        inner = [body for node in graph.node for body in bodies(node)]
        pending.extend(reversed(inner))
