"""Validation of texts that are added to the model: lone surrogates, which no UTF-8 file can store, are refused.

Bytes of a file that are not UTF-8 are decoded to surrogates of a separate range (surrogateescape), and written back
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import Role, Step, references_of
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, TensorType

_NO_TEXTS = frozenset({AttributeKind.INTS, AttributeKind.FLOATS, AttributeKind.INT, AttributeKind.FLOAT})


def refuse_lone_surrogates(step: Step) -> None:
    """Raise ModelError if a step would add a text that no file can store. Linear in the texts it adds."""
    content = _added_by(step)
    if content is None:  # the common case: an edit may have thousands of such steps
        return
    for text in (content,) if isinstance(content, str) else _texts(content):
        try:
            text.isascii() or text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ModelError("A string cannot be written", f"{text[:40]!r} has an unpaired surrogate.") from None


def _added_by(step: Step) -> Any:
    """Return what a step adds to the model."""
    contents = [
        _added(getattr(step, name), role) for name, role, *_ in references_of(type(step)) if role in _MAY_HOLD_TEXTS
    ]
    contents = [one for one in contents if one is not None]
    return contents[0] if len(contents) == 1 else contents or None


def _added(content: Any, role: Role) -> Any:
    match role:
        case Role.VALUE:
            return None if content is None or content.graph is not None else content.name
        case Role.VALUES:
            return _new_names(content)
        case Role.CONTENT if isinstance(content, tuple) and content and isinstance(content[0], Value):
            return None  # declared values, which may be many
        case Role.CONTENT if isinstance(content, TensorType):
            return _texts_of_type(content)
    return content


_MAY_HOLD_TEXTS = frozenset({Role.NODE, Role.VALUE, Role.VALUES, Role.ATTRIBUTE, Role.TENSOR, Role.CONTENT})


def _texts_of_type(kind: TensorType) -> list[str] | None:
    """Return the texts of a tensor type, None if it has none: one edit may declare a hundred thousand types."""
    texts = [kind.denotation] if kind.denotation else []
    if kind.shape is not None:
        texts += kind.shape.denotations
        texts += [size for size in kind.shape.dims if isinstance(size, str)]
    return texts or None


def _new_names(values: Iterable[Value | None]) -> list[str] | None:
    """Return the names of values that are in no graph yet."""
    return [value.name for value in values if value is not None and value.graph is None] or None


def _texts(content: Any) -> Iterator[str]:
    """Yield every text in new objects, skipping objects that were in the model before."""
    pending = [content]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, (tuple, list)):
            pending += item
        else:
            pending += _parts(item)


def _parts(item: Any) -> list[Any]:
    """Return the fields of an object that may be or contain texts."""
    match item:
        case Attribute():
            return [item.name, item.doc_string, item.reference, None if item.kind in _NO_TEXTS else item.value]
        case Node():
            names = _new_names((*item.inputs, *item.outputs))
            return [item.name, item.op_type, item.domain, item.overload, names, *(item._attributes or {}).values()]
        case Tensor():
            strings = isinstance(item, ArrayTensor) and item.element_type is ElementType.STRING
            return [item.name, item.doc_string, dict(item.metadata), item.numpy().ravel().tolist() if strings else None]
        case SparseTensor():
            return [item.values]
        case Function() if item.model is None:
            return [item.name, item.domain, item.overload, item.doc_string]
        case Model() | Graph() | Function() | TrainingInfo() | Value():
            return []
    return [getattr(item, f.name) for f in fields(item) if f.compare] if is_dataclass(item) else []
