"""Save a model to a file in any format, with its weights in the file or in data files next to it.

`prepare` reads the model (on the thread that owns it) and keeps only file ranges; the `Saving` it returns may then run
on any thread while the model is edited.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import EncodeError

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import message_class
from onnx_workbench.model.io.reader.payloads import JoinedPieces, Payload, Pieces, restore, total_length
from onnx_workbench.model.io.reader.read import ModelSource, message_schema
from onnx_workbench.model.io.reader.scan import MESSAGE_LIMIT, scan
from onnx_workbench.model.io.reader.sniff import FileForm, FileFormat
from onnx_workbench.model.io.reader.source import Identity, identity_of, open_file
from onnx_workbench.model.io.root_message import message_of
from onnx_workbench.model.io.text_formats import Printed, print_message
from onnx_workbench.model.io.writer.atomic_file import (
    AtomicFile,
    remove_leftovers,
    save_error,
    sync_folder,
    target_of,
)
from onnx_workbench.model.io.writer.export_graph import write_function, write_graph, write_model
from onnx_workbench.model.io.writer.storage_plan import UNMOVED, DataLayout, SavedAs, Storage, StoragePlan
from onnx_workbench.model.io.writer.targets import check_target
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import SILENT, Progress

#: Maximum bytes of weights for a text format: a larger result could not be opened.
TEXT_LIMIT: Final = 256 << 20

_FORMS = {
    ".onnxtxt": FileForm.ONNX_TEXT,
    ".textproto": FileForm.PROTOBUF_TEXT,
    ".pbtxt": FileForm.PROTOBUF_TEXT,
    ".prototxt": FileForm.PROTOBUF_TEXT,
    ".txtpb": FileForm.PROTOBUF_TEXT,
    ".json": FileForm.JSON,
    ".onnxjson": FileForm.JSON,
    ".ort": FileForm.ORT,
}
_BINARY = (".onnx", ".pb", ".onnxopset")

Placing = Callable[[Path, Identity], object]  # called with the finished file and its identity, before it is renamed


@dataclass(frozen=True, slots=True)
class Saved:
    """Result of a save. `identity` is that of the new file, to detect changes by other programs.

    `warnings` for the user name tensors whose values were unavailable and left as they are. `left_out` names the parts
    of the model that the format cannot store. `unused` are data files of earlier saves that the model no longer refers
    to; they are kept, since a copy of the model may refer to them.
    """

    path: Path
    identity: Identity
    data_files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    unused: tuple[Path, ...] = ()


@dataclass(slots=True)
class Saving:
    """A prepared save, independent of later edits of the model."""

    path: Path
    pieces: Pieces
    plan: StoragePlan
    known: SavedAs  # gets the new locations of values once they are written
    expected: Identity | None = None
    left_out: tuple[str, ...] = ()
    origin: Path | None = None  # the file that the model was read from

    @property
    def size(self) -> int:
        """Bytes of the model file."""
        return total_length(self.pieces)

    def run(
        self, progress: Progress = SILENT, *, durable: bool = True, placing: Placing = lambda _path, _identity: None
    ) -> Saved:
        """Write everything; on ModelError and `Cancelled` the old files remain and no new ones.

        Blocks until the disk has finished; without `durable` the data need only survive the end of the program, which
        is much faster. Any thread. `placing` is called when everything is written and nothing replaced yet.
        """
        with _reporting_errors(self.path):
            target = target_of(self.path)
            self._check_expected(target)
            remove_leftovers(target)
            folder = self.path.absolute().parent  # of the link, if it is one: readers look for data files there
            unused = tuple(self._unused(target))
            like = target if target.exists() else self.origin
        made: list[Path] = []
        written: list[Identity] = []

        def place(path: Path, identity: Identity) -> None:
            placing(path, identity)
            written.append(identity)
            self._check_expected(path)  # checked again, as writing may have taken long

        try:
            with _reporting_errors(self.path):
                for data_file in self.plan.data_files:
                    path = folder / data_file.name
                    _write(path, data_file.pieces, progress, durable=durable, like=like)
                    made.append(path)
                if made and durable:
                    sync_folder(folder)  # the model must never exist without its data
                _write(target, self.pieces, progress, durable=durable, placing=place, like=like)
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise
        self.known.update(self.plan)
        warnings = self.plan.warnings()
        try:
            if durable:
                sync_folder(target.parent)
        except OSError as error:
            warnings.append(f"The file is saved, but may not survive a power failure: {error.strerror}")
        with suppress(OSError):  # saved all the same
            written.append(identity_of(target.stat()))
        return Saved(self.path, written[-1], tuple(made), tuple(warnings), self.left_out, unused)

    def _check_expected(self, target: Path) -> None:
        if self.expected is None:
            return
        try:
            identity = identity_of(target.stat())
        except FileNotFoundError:
            return  # if moved, nothing is lost
        if identity != self.expected:
            raise ModelError(
                "The file was changed by another program",
                f"{self.path} is not the file that was opened or saved last. Reload it, or save under another name.",
            )

    def _unused(self, target: Path) -> Iterator[Path]:
        """Return data files of earlier saves that neither the old file nor the new one refers to."""
        with suppress(OSError, ModelError):
            earlier = self.known.data_files
            if not any(path.exists() for path in earlier) or not target.exists():
                return
            old = scan(open_file(target), message_schema("ModelProto")).data
            new = b"".join(piece for piece in self.pieces if isinstance(piece, bytes))
            for path in earlier:
                name = os.fsencode(path.name)
                if name in old and name not in new and path.exists():
                    yield path


def save(
    model: Model,
    path: str | os.PathLike[str],
    storage: Storage = UNMOVED,
    *,
    form: FileForm | None = None,
    expected: Identity | None = None,
    progress: Progress = SILENT,
) -> Saved:
    """Save a model to a path: `prepare` and `Saving.run` in one, on the thread that owns the model."""
    return prepare(model, path, storage, form=form, expected=expected, progress=progress).run(progress)


def prepare(
    model: Model,
    path: str | os.PathLike[str],
    storage: Storage = UNMOVED,
    *,
    form: FileForm | None = None,
    expected: Identity | None = None,
    others: Iterable[Model] = (),
    progress: Progress = SILENT,
) -> Saving:
    """Collect everything a save needs. Reads no weights, except for text formats.

    `form` None takes the format of the extension or of the model's file. Data files are in the folder of the model and
    get new names. An unmodified model is written as the exact bytes of its file. With `expected`, ModelError is raised
    if the file at `path` has another identity; also if the format cannot hold the model, or the file must not be
    replaced because the model or the `others` read from it (see `check_target`).
    """
    target = Path(path)
    check_target(target, "model", own=model, others=others, progress=progress)
    source = model.source if isinstance(model.source, ModelSource) else None
    chosen = form_for(target, source) if form is None else form
    if chosen is FileForm.ORT:
        raise ModelError(
            "The ORT format is not written",
            "Save the model as .onnx; ONNX Runtime makes a .ort file of that.",
            str(path),
        )
    saves = source.saves if source is not None else {}
    known = saves.setdefault(target.absolute(), SavedAs(target.absolute()))
    plan = StoragePlan(storage, known, moved=_is_moved(target, source))
    message = message_of(model)
    proto, data = _written(model, message, plan, progress)
    saving = Saving(target, [], plan, known, expected, origin=None if source is None else source.path)
    file_format = FileFormat(chosen, message)
    if source is not None and not plan.data_files and _is_unmodified(source, file_format, data):
        saving.pieces = [Payload(source.data, 0, source.data.size)]
        return saving
    progress.check()
    pieces = restore(data, message_schema(message), list(plan.tables.values()))
    if chosen is FileForm.BINARY:
        _check_size(pieces, plan.layout, source)
        saving.pieces = pieces
    else:
        printed = _as_text(proto, message, pieces, chosen, progress)
        saving.pieces = [printed.data]
        saving.left_out = printed.left_out
    return saving


def to_bytes(model: Model, storage: Storage = UNMOVED, *, progress: Progress = SILENT) -> bytes:
    """Serialise a model as ModelProto, for child processes. Reads the weights that stay in it."""
    pieces = _pieces(model, storage, progress)
    return JoinedPieces(pieces).read(0, total_length(pieces))


def to_file(model: Model, path: Path, storage: Storage = UNMOVED, *, progress: Progress = SILENT) -> None:
    """Write what `to_bytes` returns to a file that lives shortly; weights go through memory in chunks."""
    with _reporting_errors(path):
        _write(path, _pieces(model, storage, progress), progress, durable=False, like=None)


def _pieces(model: Model, storage: Storage, progress: Progress) -> Pieces:
    """Return a model as the pieces of one message."""
    plan = StoragePlan(storage)
    _, data = _written(model, "ModelProto", plan, progress)
    pieces = restore(data, message_schema("ModelProto"), list(plan.tables.values()))
    if total_length(pieces) > MESSAGE_LIMIT:
        raise ModelError("The model is too large", "One message can hold at most 2 GiB.")
    return pieces


def form_for(path: Path, source: ModelSource | None) -> FileForm:
    """Return the format for a path: by its extension, else that of the model's file if the extension is the same, else
    binary.
    """
    known = _FORMS.get(path.suffix.lower())
    if known is not None:
        return known
    if source is not None and source.path is not None and source.path.suffix == path.suffix:
        return source.format.form
    return FileForm.BINARY


def names_form(path: Path) -> bool:
    """Return whether the extension determines the format; others are binary, or in the model's own format."""
    return path.suffix.lower() in _FORMS or path.suffix.lower() in _BINARY


def _written(model: Model, message: str, plan: StoragePlan, progress: Progress) -> tuple[Any, bytes]:
    """Return a model as this kind of message, and its bytes."""
    with _reporting_misfits():
        proto = _message(model, message, plan, progress)
        progress.check()
        data = proto.SerializeToString()
    progress.check()
    return proto, data


def _message(model: Model, message: str, plan: StoragePlan, progress: Progress) -> Any:
    match message:
        case "GraphProto":
            return write_graph(model.graph, plan, progress)
        case "FunctionProto":
            return write_function(model.functions[0], plan, progress)
        case "NodeProto":
            return write_graph(model.graph, plan, progress).node[0]
        case "TensorProto":
            return write_graph(model.graph, plan, progress).initializer[0]
    return write_model(model, plan, progress)


def _is_unmodified(source: ModelSource, found: FileFormat, data: bytes) -> bool:
    """Return whether a message equals the file's; then the file's bytes are written, whatever their encoding."""
    return source.format == found and not source.truncation and source.proto.SerializeToString() == data


@contextmanager
def _reporting_misfits() -> Iterator[None]:
    """Report values that no file can store, such as an int beyond its field's range, which a script may set."""
    try:
        yield
    except ModelError:
        raise
    except (EncodeError, TypeError, ValueError) as error:
        raise ModelError("The model cannot be written", str(error)) from error


def _check_size(pieces: Pieces, layout: DataLayout, source: ModelSource | None) -> None:
    size = total_length(pieces)
    was_larger = layout is DataLayout.KEEP and source is not None and source.data.size > MESSAGE_LIMIT
    if size > MESSAGE_LIMIT and not was_larger:
        raise ModelError(
            "The model does not fit into one file",
            f"With its weights inside it has {size:,} bytes. Other programs read at most {MESSAGE_LIMIT:,} (2 GiB): "
            "save the weights in a data file.",
        )


def _as_text(proto: Any, message: str, pieces: Pieces, form: FileForm, progress: Progress) -> Printed:
    """Return the text of a message, with external weights included."""
    if any(isinstance(piece, Payload) for piece in pieces):
        size = total_length(pieces)
        if size > TEXT_LIMIT:
            raise ModelError(
                f"The model is too large for {form.value}",
                f"It has {size:,} bytes; at most {TEXT_LIMIT:,} can be saved as text. Save the weights in a data file.",
            )
        data = JoinedPieces(pieces).read(0, size)
        proto = message_class(message).FromString(data)
    return print_message(proto, form, progress)


def _is_moved(target: Path, source: ModelSource | None) -> bool:
    """Return whether the model moves to another folder than that of its external data."""
    if source is None or source.files.folder is None:
        return False
    return os.path.realpath(target.absolute().parent) != os.path.realpath(source.files.folder)


@contextmanager
def _reporting_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise save_error(path, error) from error


def _write(
    path: Path,
    pieces: Pieces,
    progress: Progress,
    *,
    durable: bool,
    placing: Placing = lambda _path, _identity: None,
    like: Path | None = None,
) -> None:
    """Replace a file atomically; nothing has changed when this raises."""
    file = AtomicFile(path, like)
    try:
        file.write(pieces, progress)
        file.finish(durable=durable)
        placing(path, file.identity())
        file.commit()
    except BaseException:
        file.discard()
        raise
