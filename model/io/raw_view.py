"""Structure of a model file, as it is or would be saved, field by field: messages with numbers, names and byte ranges.

Reads only what is displayed, in windows, so a file of any size opens at once. Nothing recurses: a caller descends one
message at a time, and a message nested too deeply is shown as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from onnx_workbench.model.io.reader.payloads import JoinedPieces
from onnx_workbench.model.io.unknown_fields import fields_of, is_known
from onnx_workbench.model.io.wire import (
    BYTES_OF_TEXT,
    DEPTH_LIMIT,
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    FieldOverrunError,
    FieldSchema,
    MessageSchema,
    WireError,
    WireField,
    read_field,
    read_varint,
    schemas,
)
from onnx_workbench.model.io.writer.export_graph import declarations
from onnx_workbench.model.io.writer.save import prepare
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import SparseTensor
from onnx_workbench.model.progress import SILENT, Progress

#: A path in the messages of a model: the fields from ModelProto down, each with its index among those of its name.
Path = tuple[tuple[str, int], ...]

#: Path step of a group of fields.
PAGE = "page"

_WINDOW = 1 << 16
_FEW, _OVERVIEW = 8, 80  # numbers shown in the row of a packed field, and maximum number of their bytes
_PREVIEW = 64  # bytes shown of a text or of data
_LONG_RUN = 1000  # maximum number of consecutive fields of one name that are listed singly
_STRETCH = 500  # fields per group in longer runs
# fields with many entries in most models
_HOLDERS = frozenset({"ModelProto", "GraphProto", "FunctionProto", "TrainingInfoProto"})
_HEADER = 20  # upper bound for tag and length


def contents_of(model: Model, progress: Progress = SILENT) -> JoinedPieces:
    """Return the bytes that saving the model now would write. On the thread that owns the model; reads no weights."""
    return JoinedPieces(prepare(model, "unsaved.onnx", progress=progress).pieces)


@dataclass(frozen=True, slots=True)
class RawField:
    """One field and its position. `index` counts fields of the same number before it in its message.

    The content is [content, end); `schema` is None for a field that onnx.proto does not define, and for malformed
    bytes, which `problem` explains.
    """

    number: int
    wire_type: int
    start: int
    content: int
    end: int
    value: int
    index: int
    schema: FieldSchema | None
    depth: int
    problem: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Its step in a path."""
        return self.name, self.index

    @property
    def is_packed(self) -> bool:
        """Whether it holds many numbers in one field."""
        return self.schema is not None and self.wire_type == LENGTH and self.schema.wire_type != LENGTH

    @property
    def name(self) -> str:
        """Its name in onnx.proto, or its number."""
        return self.schema.name if self.schema is not None else f"field {self.number}"

    @property
    def message(self) -> MessageSchema | None:
        """The schema of the message it holds, if it can be expanded."""
        if self.schema is None or self.wire_type != LENGTH or self.depth >= DEPTH_LIMIT:
            return None
        return self.schema.message


def _is_text(schema: FieldSchema) -> bool:
    return schema.is_text or (schema.wire_type == LENGTH and schema.name in BYTES_OF_TEXT)


@dataclass(frozen=True, slots=True)
class RawStretch:
    """A group of adjacent fields of one name, from `first` to `last`, in a message with very many of them."""

    first: RawField
    last: RawField

    @property
    def count(self) -> int:
        """Number of fields."""
        return self.last.index - self.first.index + 1

    @property
    def key(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Its step in a path. The paths of its fields do not contain it."""
        return (PAGE, self.first.number), (PAGE, self.first.index)

    @property
    def name(self) -> str:
        """Label of its row."""
        return f"{self.first.name}[{self.first.index}…{self.last.index}]"

    def holds(self, step: tuple[str, int]) -> bool:
        """Return whether a path step leads to one of its fields."""
        return step[0] == self.first.name and self.first.index <= step[1] <= self.last.index


def _numbers(contents: JoinedPieces, field: RawField) -> str:
    """Format the first few numbers of a packed field."""
    assert field.schema is not None
    code, width = _FIXED.get(field.schema.wire_type, ("", 0))
    data = contents.read(field.content, min(_OVERVIEW, field.end - field.content))
    shown: list[str] = []
    position = 0
    with suppress(WireError):  # the last number is damaged
        while len(shown) < _FEW and position + max(width, 1) <= len(data):
            if width:
                shown.append(f"{struct.unpack_from(code, data, position)[0]:g}")
                position += width
            else:
                value, position = read_varint(data, position)
                shown.append(_integer_text(value, field.schema))
    return ", ".join(shown) + (", …" if field.content + position < field.end else "")


#: Codes and sizes of numbers of fixed width.
_FIXED = {FIXED32: ("<f", 4), FIXED64: ("<d", 8)}


def _integer_text(value: int, schema: FieldSchema) -> str:
    return str(value if schema.name == "uint64_data" else signed(value))


def root(contents: JoinedPieces, message: str = "ModelProto") -> RawField:
    """Return the whole file as a root field."""
    schema = FieldSchema(0, message, LENGTH, False, False, schemas()[message])
    return RawField(0, LENGTH, 0, 0, contents.size, contents.size, 0, schema, 0)


def fields(contents: JoinedPieces, parent: RawField, within: RawStretch | None = None) -> Iterator[RawField]:
    """Yield the fields of a message, or of a group in it, in file order; the last one reports damage, if any."""
    schema = parent.message
    if schema is None:
        return
    position = parent.content if within is None else within.first.start
    stop = parent.end if within is None else within.last.end
    buffer, base = b"", position
    counts = {} if within is None else {within.first.number: within.first.index}
    while position < stop:
        if position - base + _HEADER > len(buffer):
            buffer, base = contents.read(position, min(_WINDOW, parent.end - position)), position
        try:
            found = _field_at(buffer, position - base)
            end = base + found.end
            if end > parent.end:
                raise FieldOverrunError(found, parent.end - base)
        except WireError as error:
            yield RawField(0, LENGTH, position, position, parent.end, 0, 0, None, parent.depth + 1, error.reason)
            return
        number, wire_type = found.number, found.wire_type
        index = counts.get(number, 0)
        counts[number] = index + 1
        known = schema.fields.get(number) if is_known(schema, number, wire_type) else None
        content = base + found.content
        yield RawField(number, wire_type, position, content, end, found.value, index, known, parent.depth + 1)
        position = end


def branch(contents: JoinedPieces, parent: RawField) -> Iterator[RawField | RawStretch]:
    """Yield the fields of a message in file order, grouped where very many of one name are adjacent."""
    run: list[RawField] = []  # of one name, not yielded yet
    divided = False  # whether groups of the same run were yielded
    for field in fields(contents, parent):
        if run and (field.number, field.name) != (run[0].number, run[0].name):
            yield from [RawStretch(run[0], run[-1])] if divided else run
            run, divided = [], False
        run.append(field)
        while len(run) > (_STRETCH if divided else _LONG_RUN):
            yield RawStretch(run[0], run[_STRETCH - 1])
            run, divided = run[_STRETCH:], True
    yield from [RawStretch(run[0], run[-1])] if divided else run


#: The grouped fields of long messages by their offset.
Branches = dict[int, list[RawField | RawStretch]]


def long_branches(contents: JoinedPieces, progress: Progress = SILENT) -> Branches:
    """Return the grouped fields of the model and its graphs, without those of nodes. Iterates over their fields."""
    branches: Branches = {}
    pending = [root(contents)]
    while pending:
        holder = pending.pop()
        listed: list[RawField | RawStretch] = []
        for entry in progress.paced(branch(contents, holder), 8):  # of up to 500 fields each
            listed.append(entry)
            if isinstance(entry, RawField) and entry.message is not None and entry.message.name in _HOLDERS:
                pending.append(entry)
        if any(isinstance(entry, RawStretch) for entry in listed):
            branches[holder.content] = listed
    return branches


def _field_at(buffer: bytes, position: int) -> WireField:
    """Return the field at a position, whose content may end beyond the buffer."""
    try:
        return read_field(buffer, position)
    except FieldOverrunError as error:
        return error.field


def value_text(contents: JoinedPieces, field: RawField) -> str:
    """Format the content of a field in short; reads at most a few dozen bytes."""
    if field.problem:
        return field.problem
    if field.message is not None:
        return f"{field.message.name}, {field.end - field.content:,} bytes"
    if field.wire_type == LENGTH:
        head = contents.read(field.content, min(_PREVIEW, field.end - field.content))
        more = "…" if field.end - field.content > _PREVIEW else ""
        if field.is_packed:
            return _numbers(contents, field)
        if field.schema is None or not _is_text(field.schema):
            return f"{field.end - field.content:,} bytes: {head[:16].hex(' ')}{'…' if len(head) > 16 or more else ''}"
        return head.decode("utf-8", "surrogateescape" if not more else "replace") + more
    if field.wire_type == FIXED32:
        return f"{struct.unpack('<f', field.value.to_bytes(4, 'little'))[0]:g}"
    if field.wire_type == FIXED64:
        return f"{struct.unpack('<d', field.value.to_bytes(8, 'little'))[0]:g}"
    return str(signed(field.value)) if field.schema is None else _integer_text(field.value, field.schema)


def signed(value: int) -> int:
    """Interpret a varint as a signed 64-bit number, as ONNX's integers are."""
    return value - (1 << 64) if value >> 63 else value


def readings(contents: JoinedPieces, field: RawField) -> list[tuple[str, str]]:
    """Return all possible interpretations of an unknown field: (type, text)."""
    if field.wire_type == VARINT:
        zigzag = (field.value >> 1) ^ -(field.value & 1)
        options = [("unsigned", str(field.value)), ("signed", str(signed(field.value))), ("zigzag", str(zigzag))]
        return [*options, ("bool", str(bool(field.value)))] if field.value < 2 else options
    if field.wire_type in (FIXED32, FIXED64):
        size, real = (4, "f") if field.wire_type == FIXED32 else (8, "d")
        raw = field.value.to_bytes(size, "little")
        return [
            ("unsigned", str(field.value)),
            ("signed", str(int.from_bytes(raw, "little", signed=True))),
            ("float" if size == 4 else "double", f"{struct.unpack('<' + real, raw)[0]:g}"),
        ]
    if field.wire_type != LENGTH:
        return []
    data = contents.read(field.content, min(4096, field.end - field.content))
    options = [("bytes", data[:32].hex(" ") + ("…" if field.end - field.content > 32 else ""))]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        options.insert(0, ("text", text[:200]))
    inner = _as_message(data) if field.end - field.content <= 4096 else None
    if inner:
        options.append(("message", f"fields {', '.join(map(str, inner[:12]))}"))
    return options


def _as_message(data: bytes) -> Sequence[int] | None:
    """Return the field numbers if the bytes are a message; else None."""
    try:
        return [field.number for field in fields_of(data)]
    except WireError:
        return None


# -- objects of the model and their messages ------------------------------------------------------------------

_LISTS: Mapping[type, Mapping[str, Callable[[Any], Sequence[Any]]]] = {
    Model: {
        "graph": lambda m: (m.graph,),
        "functions": lambda m: m.functions,
        "training_info": lambda m: m.training_info,
    },
    TrainingInfo: {
        "initialization": lambda t: [graph for graph in (t.initialization,) if graph is not None],
        "algorithm": lambda t: [graph for graph in (t.algorithm,) if graph is not None],
    },
    Graph: {
        "node": lambda g: g.nodes,
        "input": lambda g: g.inputs,
        "output": lambda g: g.outputs,
        "value_info": declarations,
        "initializer": lambda g: [v for v in g.initializers if not isinstance(v.initializer, SparseTensor)],
        "sparse_initializer": lambda g: [v for v in g.initializers if isinstance(v.initializer, SparseTensor)],
    },
    Function: {"node": lambda f: f.body.nodes, "value_info": lambda f: declarations(f.body)},
    Node: {"attribute": lambda n: list(n.attributes.values())},
    Attribute: {"g": lambda a: a.graphs, "graphs": lambda a: a.graphs},
}


def object_at(model: Model, path: Path) -> tuple[Model | Graph | Function | TrainingInfo | Node | Value, str]:
    """Return the innermost object with a message of its own on a path, and the field of its graph that lists it."""
    found: Any = model
    holder, field = found, ""
    for name, index in path:
        listed = _LISTS.get(type(holder), {}).get(name)
        items: Sequence[Any] = () if listed is None else listed(holder)
        if not 0 <= index < len(items):
            break
        holder = items[index]
        if not isinstance(holder, Attribute):
            found, field = holder, name
    return found, field if isinstance(found, Value) else ""


def path_of(target: object) -> Path | None:
    """Return the path to an object; None if it has no message of its own. Linear in the position in its list."""
    match target:
        case Model():
            return ()
        case Function():
            return _below(target.model, "functions", target)
        case TrainingInfo():
            return _below(target.model, "training_info", target)
        case Graph():
            return _path_of_graph(target)
        case Node():
            holder = target.graph.owner if target.graph and isinstance(target.graph.owner, Function) else target.graph
            return _below(holder, "node", target)
        case Value() if target.graph is not None and not isinstance(target.graph.owner, Function):
            fields = ("input", "output", "initializer", "sparse_initializer", "value_info")
            paths = (_below(target.graph, field, target) for field in fields)
            return next((path for path in paths if path is not None), path_of(target.producer))
        case Value():
            return path_of(target.producer)
    return None


def _below(holder: Any, field: str, target: object) -> Path | None:
    outer = path_of(holder)
    index = (
        next((i for i, item in enumerate(_LISTS[type(holder)][field](holder)) if item is target), None)
        if holder
        else None
    )
    return None if outer is None or index is None else (*outer, (field, index))


def _path_of_graph(graph: Graph) -> Path | None:
    owner = graph.owner
    match owner:
        case Model():
            return (("graph", 0),)
        case Function():
            return path_of(owner)
        case TrainingInfo():
            return _below(owner, "initialization" if owner.initialization is graph else "algorithm", graph)
        case Node():
            outer = path_of(owner)
            for index, attribute in enumerate(owner.attributes.values()):
                for number, body in enumerate(attribute.graphs):
                    if body is graph and outer is not None:
                        field = "graphs" if attribute.kind.is_list else "g"
                        return (*outer, ("attribute", index), (field, number))
    return None
