"""Set, add and remove fields of the protobuf messages of a model by their path, for the raw view.

Paths are defined in `raw_paths`; `raw_entries` maps fields of messages to fields of objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from onnx_workbench.model.edits import initializers
from onnx_workbench.model.edits.raw_codecs import DIMS_CODEC, TENSOR_CODEC, TENSOR_FIELDS, Codec, Editable, spliced
from onnx_workbench.model.edits.raw_entries import FIELDS, MESSAGES, Field
from onnx_workbench.model.edits.raw_paths import host_of, object_at, plain_path
from onnx_workbench.model.edits.unknown_fields import add_unknown, change_unknown, is_unknown
from onnx_workbench.model.edits.values import rename_value
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import Target
from onnx_workbench.model.io.message_fields import Path, is_repeated, parse_scalar
from onnx_workbench.model.io.raw_view import BYTES, PAGE
from onnx_workbench.model.io.tensors.array_files import is_stored_outside
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Model, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

Setter = Callable[[Transaction, str], object]
Remove = Callable[[Transaction], object]


@dataclass(frozen=True, slots=True)
class MessagePart:
    """An entry that is a message: `path` is the path inside it, `store` stores the entry read from the copy."""

    entry: Any
    codec: Codec
    store: Callable[[Transaction, Any], object]
    path: Path

    def open(self) -> Editable:
        """Return a copy of the message to edit."""
        return self.codec.open(self.entry)

    def change(self, edit: Transaction, how: Callable[[Editable], None]) -> None:
        """Change a copy and replace the entry by it."""
        copy = self.open()
        how(copy)
        self.store(edit, self.codec.read(copy))

    @property
    def can_set(self) -> bool:
        """Return whether the path leads to a field that the entry has."""
        return bool(self.path) and self.codec.can_set(self.entry, self.path)

    @property
    def can_remove(self) -> bool:
        """Return whether the message remains valid without the field at the path."""
        names = tuple(name for name, _ in self.path)
        return bool(names) and names != (self.codec.key,) and self.codec.can_remove(self.entry, self.path)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """Resolved path: the innermost object, the field through which it was reached, and the path below it.

    `part` is the enclosing entry that is a message, if there is one.
    """

    target: Target
    field: str
    rest: Path
    part: MessagePart | None

    @property
    def stored(self) -> Field | None:
        """The field of the object's message that the path leads to, if the object stores it as a separate entry."""
        is_tensor = isinstance(self.target, Value) and self.field.endswith("initializer")
        if len(self.rest) != 1 or is_tensor:
            return None
        name, index = self.rest[0]
        found = FIELDS[type(self.target)].get(name)
        is_list = found is not None and is_repeated(MESSAGES[type(self.target)], name)
        return None if found is None or (is_list and index >= len(found.items(self.target))) else found

    @property
    def is_name_of_initializer(self) -> bool:
        """Return whether the path leads to the field of a tensor that names an initializer."""
        names = tuple(name for name, _ in self.rest)
        return (self.field, names) in (("initializer", ("name",)), ("sparse_initializer", ("values", "name")))


def place_of(model: Model, path: Path) -> FieldPath | None:
    """Resolve a path of the raw view; None for fields that the model does not store separately."""
    plain = plain_path(path)
    if plain is None:
        return None
    target, rest = object_at(model, plain)
    at = len(plain) - len(rest) - 1
    field = plain[at][0] if at >= 0 else ""
    return FieldPath(target, field, rest, _part_at(target, field, rest))


def _part_at(target: object, field: str, rest: Path) -> MessagePart | None:
    """Return the entry that holds a field below an object; `field` is the one through which it was reached."""
    if isinstance(target, Value) and field.endswith("initializer"):
        held = target.initializer
        return _tensor_part(held, lambda edit, made: initializers.set_tensor(edit, target, made), rest)
    if not rest:
        return None
    (name, index), *below = rest
    known = FIELDS[type(target)].get(name)
    if known is None or known.codec is None or known.change is None or index >= len(known.items(target)):
        return None
    change, entry = known.change, known.items(target)[index]

    def store(edit: Transaction, made: Any) -> None:
        change(edit, target, index, made)

    if isinstance(entry, Attribute) and below and below[0][0] == TENSOR_FIELDS.get(entry.kind):
        return _part_of_value(entry, store, tuple(below))
    return MessagePart(entry, known.codec, store, tuple(below))


def _part_of_value(
    attribute: Attribute, store: Callable[[Transaction, Attribute], object], path: Path
) -> MessagePart | None:
    """Return a tensor in an attribute."""
    value: Any = attribute.value
    if not attribute.kind.is_list:
        return _tensor_part(value, lambda edit, made: store(edit, replace(attribute, value=made)), path[1:])
    index = path[0][1]
    if value is None or index >= len(value):
        return None
    return _tensor_part(
        value[index], lambda edit, made: store(edit, replace(attribute, value=spliced(value, index, made))), path[1:]
    )


def _tensor_part(
    held: Tensor | SparseTensor | None, store: Callable[[Transaction, Any], object], path: Path
) -> MessagePart | None:
    if isinstance(held, Tensor):
        if not isinstance(held, ProtoTensor) and is_stored_outside(held):
            return None  # its values go to a data file that is not written yet
        return MessagePart(held, TENSOR_CODEC, store, path)
    if held is None or not path:
        return None

    def changed(edit: Transaction, made: Any, field: str) -> None:
        parts = {"values": held.values, "indices": held.indices, "shape": held.shape, field: made}
        store(edit, SparseTensor(**parts, source=held.source))

    if path[0][0] == "dims":
        return MessagePart(held.shape, DIMS_CODEC, partial(changed, field="shape"), path)
    field = "values" if path[0][0] == "values" else "indices"
    return _tensor_part(getattr(held, field), partial(changed, field=field), path[1:])


# -- setting --------------------------------------------------------------------------------------------------


def can_set(model: Model, path: Path) -> bool:
    """Return whether `set_field` supports a field."""
    return _setter(model, path) is not None


def set_field(edit: Transaction, path: Path, text: str) -> None:
    """Set one scalar field from the user's text; ModelError when it does not fit the field's type."""
    setter = _setter(edit.model, path)
    if setter is None:
        raise ModelError("This field is edited elsewhere", "Its message has an editor of its own.", path[-1][0])
    setter(edit, text)


def _setter(model: Model, path: Path) -> Setter | None:
    if is_unknown(path):
        host, inner = host_of(model, path)
        return lambda edit, text: change_unknown(edit, host, inner, path, text)
    place = place_of(model, path)
    if place is None or not place.rest:
        return None
    target, part, stored = place.target, place.part, place.stored
    if isinstance(target, Value) and place.is_name_of_initializer:
        return lambda edit, text: rename_value(edit, target, text)
    if part is not None:
        return (lambda edit, text: part.change(edit, lambda copy: copy.set(part.path, text))) if part.can_set else None
    change = None if stored is None or stored.codec is not None else stored.change
    if change is None:
        return None
    name, index = place.rest[0]
    return lambda edit, text: change(edit, target, index, parse_scalar(MESSAGES[type(target)], name, text))


# -- removing -------------------------------------------------------------------------------------------------


def can_remove(model: Model, path: Path) -> bool:
    """Return whether `remove_field` supports a field."""
    return _removal(model, path) is not None


def remove_field(edit: Transaction, path: Path) -> None:
    """Remove a field, or one entry of a repeated field, from its message; ModelError if it is required."""
    removal = _removal(edit.model, path)
    if removal is None:
        raise ModelError(f"{path[-1][0]} cannot be removed", "The message needs it.")
    removal(edit)


def _removal(model: Model, path: Path) -> Remove | None:
    if is_unknown(path):
        host, inner = host_of(model, path)
        return lambda edit: change_unknown(edit, host, inner, path, None)
    place = place_of(model, path)
    if place is None or not path or path[-1][0] in (PAGE, BYTES) or place.is_name_of_initializer:
        return None
    if place.part is not None and place.part.path:
        return _removal_from(place.part)
    holder = place if place.stored is not None else place_of(model, path[:-1])
    if holder is not place and holder is not None and holder.rest:  # a tensor or graph in an attribute
        part = holder.part
        return None if part is None else _removal_from(replace(part, path=(*part.path, path[-1])))
    field, index = path[-1]
    stored = None if holder is None else FIELDS[type(holder.target)].get(field)
    if holder is None or stored is None or stored.remove is None:
        return None
    remove, target = stored.remove, holder.target
    return lambda edit: remove(edit, target, index)


def _removal_from(part: MessagePart) -> Remove | None:
    if not part.can_remove:
        return None
    return lambda edit: part.change(edit, lambda copy: copy.remove(part.path))


# -- adding ---------------------------------------------------------------------------------------------------


def addable(model: Model, path: Path) -> dict[str, str]:
    """Return the fields that can be added to the message at a path, with the prompt for each (``""`` for none)."""
    place = place_of(model, path)
    if place is None:
        return {}
    if place.part is not None:
        try:
            return place.part.open().missing(place.part.path)
        except ModelError:
            return {}
    if place.rest or place.field.endswith("initializer"):
        return {}
    target, kind = place.target, MESSAGES[type(place.target)]
    return {
        name: field.prompt
        for name, field in FIELDS[type(target)].items()
        if is_repeated(kind, name) or not field.items(target)
    }


def add_field(edit: Transaction, path: Path, name: str, text: str = "") -> None:
    """Add a field to the message at a path; to a repeated field an entry at its end."""
    place = place_of(edit.model, path)
    if place is None or name not in addable(edit.model, path):
        raise ModelError(f"{name} cannot be added here", "The message has it already, or has another editor.")
    target, part = place.target, place.part
    if part is not None:
        part.change(edit, lambda copy: copy.add(part.path, name, text))
    else:
        field = FIELDS[type(target)][name]
        field.add(edit, target, field.new(text))


def add_unknown_field(edit: Transaction, path: Path, number: str, text: str) -> None:
    """Add a field that onnx.proto does not define to the message at a path: see `add_unknown`."""
    host, inner = host_of(edit.model, (*path, ("", 0)))
    add_unknown(edit, host, inner, path, number, text)
