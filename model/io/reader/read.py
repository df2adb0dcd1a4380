"""Open models from files, bytes or streams, in any supported format."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import DecodeError, GraphProto, message_class, text
from onnx_workbench.model.io.reader.custom import read_with_extension
from onnx_workbench.model.io.reader.decode import MessageDecoder
from onnx_workbench.model.io.reader.import_graph import ModelBuilder
from onnx_workbench.model.io.reader.ort_format import parse_ort
from onnx_workbench.model.io.reader.payloads import PayloadTable
from onnx_workbench.model.io.reader.scan import MESSAGE_LIMIT, diagnose, scan
from onnx_workbench.model.io.reader.sniff import HEAD_BYTES, FileForm, FileFormat, sniff
from onnx_workbench.model.io.reader.source import (
    BytesSource,
    FileSource,
    Identity,
    Source,
    open_file,
    read_stream,
    standard_input,
)
from onnx_workbench.model.io.tensors.proto_tensor import TensorFiles
from onnx_workbench.model.io.wire import MessageSchema, operator_set_schema, schemas
from onnx_workbench.model.io.writer.storage_plan import SavedAs
from onnx_workbench.model.ir.graph import Function, Model
from onnx_workbench.model.progress import SILENT, Progress

#: Smaller files are parsed whole: with many small nodes that is faster than a scan.
PARSED_WHOLE: Final = 16 << 20
#: Text formats take several times their size in memory to parse, so they may not be larger.
TEXT_LIMIT: Final = 512 << 20
#: A file with more zero bytes is scanned even if it is small. It may hold millions of empty messages, each of which
#: takes two bytes of the file and a hundred of memory; the scan limits their number. Zeros in weights are skipped.
_MOST_ZEROS: Final = 1_000_000

Opened = str | os.PathLike[str] | bytes | BinaryIO


@dataclass(slots=True)
class ModelSource:
    """Origin of a model: `Model.source` of every model that was read.

    `problems` are the broken rules found while reading; `truncation` describes what a truncated file lacks. `data`
    stays open, and large tensors are read from it lazily.
    """

    format: FileFormat
    data: Source
    path: Path | None
    files: TensorFiles
    truncation: str = ""
    problems: tuple[str, ...] = ()
    proto: Any = field(default=None, repr=False)
    saves: dict[Path, SavedAs] = field(default_factory=dict, repr=False)  # by the path of the saved file

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.data.name

    @property
    def identity(self) -> Identity | None:
        """Device, inode, size and time of the file when it was opened; None for bytes in memory."""
        return self.data.identity if isinstance(self.data, FileSource) else None

    def close(self) -> None:
        """Close the file and its data files; tensors still in them can no longer be read."""
        self.files.close()
        if isinstance(self.data, FileSource):
            self.data.close()


class DeclaredOperator(NamedTuple):
    """An operator declared in an operator-set document."""

    name: str
    since_version: int
    is_experimental: bool
    doc_string: str


@dataclass(slots=True)
class OperatorSet:
    """An operator-set document (ONNXOPSET): operators by name and version, and functions with bodies."""

    domain: str
    version: int
    ir_version: int
    doc_string: str
    operators: tuple[DeclaredOperator, ...]
    functions: tuple[Function, ...]
    problems: tuple[str, ...] = ()


class _Parsed(NamedTuple):
    proto: Any
    table: PayloadTable | None = None
    truncation: str = ""
    may_have_graphs: bool = True


#: A `type` field with GRAPH or GRAPHS. It may also occur by chance, but every such attribute has it.
_GRAPH_MARKS = (b"\xa0\x01\x05", b"\xa0\x01\x0a")


def load(opened: Opened, progress: Progress = SILENT) -> Model:
    """Open a model from a path (``-`` is standard input), bytes or a binary stream. Reads no weights.

    A lone graph, function, node or tensor becomes a model around it. Files that break rules are opened too: see
    `Model.source.problems`. Readers added by extensions are chosen by suffix. ModelError names the format of a file
    that is not ONNX, and byte and field path of damage. Any thread; `Cancelled` when the progress is cancelled.
    """
    if isinstance(opened, (str, os.PathLike)) and opened != "-":
        made = read_with_extension(Path(opened))
        if made is not None:
            return made if isinstance(made, Model) else load(made, progress)
    source, path = _open(opened, progress)
    found = sniff(source.read(0, min(HEAD_BYTES, source.size)), source.size)
    if found.message == "OperatorSetProto":
        raise ModelError(
            "This is an operator-set document, not a model",
            "It declares operators. Add it to the known operators to use it with a model.",
            place=source.name,
        )
    parsed = _parse(source, found, progress)
    files = TensorFiles(parsed.table, *_folders(path))
    builder = ModelBuilder(MessageDecoder(files), progress, may_have_graphs=parsed.may_have_graphs)
    model = _BUILDERS[found.message](builder, parsed.proto)
    problems = [parsed.truncation] if parsed.truncation else []
    model.source = ModelSource(
        found, source, path, files, parsed.truncation, tuple(problems + builder.problems), parsed.proto
    )
    return model


def load_operator_set(opened: Opened, progress: Progress = SILENT) -> OperatorSet:
    """Open an operator-set document; ModelError for anything else."""
    source, _ = _open(opened, progress)
    found = sniff(source.read(0, min(HEAD_BYTES, source.size)), source.size)
    if found.message != "OperatorSetProto":
        raise ModelError("This is not an operator-set document", f"{source.name} holds a {found}.")
    parsed = _parse(source, found, progress)
    proto = parsed.proto
    builder = ModelBuilder(MessageDecoder(TensorFiles(parsed.table, None)), progress)
    return OperatorSet(
        text(proto.domain),
        proto.opset_version,
        proto.ir_version,
        text(proto.doc_string),
        tuple(
            DeclaredOperator(
                text(o.op_type), o.since_version, o.HasField("status") and o.status == 0, text(o.doc_string)
            )
            for o in proto.operator
        ),
        tuple(builder.function(function).functions[0] for function in proto.functions),
        tuple(builder.problems),
    )


def identify(opened: Opened) -> FileFormat:
    """Detect the format of a file from its first bytes; ModelError names the format if it is not ONNX."""
    source, _ = _open(opened, SILENT)
    return sniff(source.read(0, min(HEAD_BYTES, source.size)), source.size)


def _open(opened: Opened, progress: Progress) -> tuple[Source, Path | None]:
    if isinstance(opened, (bytes, bytearray, memoryview)):
        return BytesSource(opened), None
    if opened == "-":
        return standard_input(progress), None
    if isinstance(opened, (str, os.PathLike)):
        return open_file(opened, progress), Path(opened)
    return read_stream(opened, str(getattr(opened, "name", "a stream")), progress), None


def _parse(source: Source, found: FileFormat, progress: Progress) -> _Parsed:
    """Parse the message in a source, leaving large payloads there."""
    if found.form is FileForm.ORT:
        if source.size > MESSAGE_LIMIT:
            raise ModelError("The file is too large", f"It has {source.size:,} bytes; at most 2 GiB are read.")
        return _Parsed(parse_ort(source.read(0, source.size), progress))
    if found.form is not FileForm.BINARY:
        if source.size > TEXT_LIMIT:
            raise ModelError(
                "The text is too long", f"It has {source.size:,} bytes; at most {TEXT_LIMIT:,} can be read."
            )
        from onnx_workbench.model.io import text_formats  # importing the parsers takes longer than reading most files

        proto = text_formats.parse(source.read(0, source.size), found, progress)
        return _Parsed(proto)
    cls = message_class(found.message)
    if source.size < PARSED_WHOLE:
        data = source.read(0, source.size)
        if data.count(0) <= _MOST_ZEROS:
            try:
                return _Parsed(cls.FromString(data), may_have_graphs=_may_have_graphs(data))
            except DecodeError:
                pass  # the scan below locates the damage, or keeps what is left of a truncated file
    schema = message_schema(found.message)
    skeleton = scan(source, schema, progress)
    try:
        proto = cls.FromString(skeleton.data)
        return _Parsed(proto, skeleton.table, skeleton.truncation, _may_have_graphs(skeleton.data))
    except DecodeError:
        if not skeleton.truncation:
            diagnose(source, schema, progress)
        elif len(skeleton.data) < MESSAGE_LIMIT:
            diagnose(BytesSource(skeleton.data), schema, progress)
        raise ModelError("The file is damaged", "It is not a valid protobuf message.", place=source.name) from None


def _folders(path: Path | None) -> tuple[Path | None, Path | None]:
    """Return the folder a file was opened in, and the folder of the file itself if it was opened through a link."""
    if path is None:
        return None, None
    return path.absolute().parent, Path(os.path.realpath(path)).parent if path.is_symlink() else None


def _may_have_graphs(data: bytes) -> bool:
    return any(mark in data for mark in _GRAPH_MARKS)


def message_schema(name: str) -> MessageSchema:
    """Return the schema of a message that may be a file's root."""
    return operator_set_schema() if name == "OperatorSetProto" else schemas()[name]


def _around_tensor(builder: ModelBuilder, proto: Any) -> Model:
    """Build a model around a lone tensor: the only initializer of a graph."""
    model = builder.graph(GraphProto(initializer=[proto]))
    builder.problems.clear()  # a missing name is no problem here
    return model


class _Builder(Protocol):
    def __call__(self, builder: ModelBuilder, proto: Any, /) -> Model: ...


_BUILDERS: Final[dict[str, _Builder]] = {
    "ModelProto": ModelBuilder.model,
    "GraphProto": ModelBuilder.graph,
    "FunctionProto": ModelBuilder.function,
    "NodeProto": ModelBuilder.node,
    "TensorProto": _around_tensor,
}
