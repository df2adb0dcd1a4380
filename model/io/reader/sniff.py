"""Format detection by content alone: names and extensions are unreliable, and ONNX files have no magic number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.wire import (
    LENGTH,
    FieldOverrunError,
    MessageSchema,
    WireError,
    operator_set_schema,
    read_field,
    schemas,
)

#: Bytes from the start of a file that `sniff` needs.
HEAD_BYTES: Final = 1 << 16


class FileForm(Enum):
    """Serialization format of a message."""

    BINARY = "binary"
    ONNX_TEXT = "ONNX text"
    PROTOBUF_TEXT = "protobuf text"
    JSON = "protobuf JSON"
    ORT = "ORT format"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of a file and its root message: ``ModelProto``, ``GraphProto``, ``OperatorSetProto`` …"""

    form: FileForm
    message: str = "ModelProto"

    def __str__(self) -> str:
        return f"{self.message.removesuffix('Proto').lower()} in {self.form.value}"


#: Possible root messages; where two fit equally well the earlier one is taken.
MESSAGES: Final = ("ModelProto", "GraphProto", "FunctionProto", "NodeProto", "TensorProto", "OperatorSetProto")

_CONVERT = "Convert it to ONNX with the framework it comes from, then open the result."
_WEIGHTS = "It holds weights without a graph. Open the ONNX export of the model, then choose Import Weights there."
_UNPACK = "Unpack it first, then open the model inside."
_ENGINE = "It is compiled for one GPU and cannot be converted back. Open the ONNX model that it was built from."
_NCNN = "Nothing converts it to ONNX. Open the ONNX model it was made from, or export its PyTorch model to ONNX."
#: Other file types by magic number: offset, bytes, what it is, what to do.
_MAGICS: Final = (
    (0, b"version https://git-lfs.github.com/spec/", "a Git LFS pointer",
     "The file itself was not fetched. Run `git lfs pull` in the repository, then open it again."),
    (4, b"TFL3", "a TensorFlow Lite model", "Convert it with tf2onnx (`--tflite`), then open the result."),
    (0, b"GGUF", "a GGUF file of llama.cpp", _WEIGHTS),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, perhaps a Keras model", "Convert it with tf2onnx, then open the result."),
    (0, b"ftrt", "a TensorRT engine", _ENGINE),
    (0, b"ptrt", "a TensorRT engine", _ENGINE),
    (0, b"7767517\n", "the graph of an ncnn model (.param)", _NCNN),
    (0, b"7767517\r", "the graph of an ncnn model (.param)", _NCNN),
    (0, b"\xdd\x85\x76\x00", "the graph of an ncnn model (.param.bin)", _NCNN),
    (0, b"\x47\x6b\x30\x01", "the weights of an ncnn model (.bin)", _NCNN),
    (0, b"\x1f\x8b", "compressed with gzip", _UNPACK),
    (0, b"BZh", "compressed with bzip2", _UNPACK),
    (0, b"\xfd7zXZ\x00", "compressed with xz", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (0, b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"\x93NUMPY", "a NumPy array", "Import it into a tensor of an open model instead."),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image", ""),
    (0, b"\xff\xd8\xff", "a JPEG image", ""),
    (0, b"%PDF-", "a PDF document", ""),
    (0, b"\x7fELF", "a program or library (ELF)", ""),
    (0, b"MZ\x90\x00", "a program or library (Windows)", ""),
)  # fmt: skip

_LENGTH = rb"[\x80-\xff]*[\x00-\x7f]"
_TEXT = _LENGTH + rb"[ -~]+"
#: GraphDef: its first node has a name, an operator, perhaps inputs and a device, then an attribute of key and message.
#: In ONNX a name of an attribute is never followed by a message of number 2.
_TENSORFLOW_GRAPH = re.compile(
    rb"\x0a%(n)b\x0a%(t)b\x12%(t)b(?:\x1a%(t)b)*(?:\x22%(t)b)?\x2a%(n)b\x0a%(t)b\x12" % {b"n": _LENGTH, b"t": _TEXT},
    re.DOTALL,
)
#: A version, then a message in a message: MetaInfoDef in MetaGraphDef, or FeatureDescription, which begins with its
#: name, in ModelDescription. A producer, which ONNX has there, begins with no line break.
_SAVED_MODEL_OR_CORE_ML = re.compile(rb"\x08[\x01-\x7f]\x12%(n)b\x0a%(n)b(.)" % {b"n": _LENGTH}, re.DOTALL)


def sniff(head: bytes, size: int) -> FileFormat:
    """Return the format of a file from its first HEAD_BYTES and its size; ModelError says what else it is.

    The error's detail says what to do about it.
    """
    if size == 0:
        _refuse("an empty file", "It is empty. A download or export may have failed.")
    if head[4:8] == b"ORTM":
        return FileFormat(FileForm.ORT)
    _refuse_other_kinds(head, size)
    text = _as_text(head)
    found = _sniff_text(text) if text is not None else _sniff_binary(head, size)
    if found is None:
        what = "plain text" if text is not None else "of an unknown kind"
        _refuse(f"{what}", f"It begins with {_excerpt(head, text)}.")
    return found


def _refuse(what: str, advice: str) -> NoReturn:
    raise ModelError(f"This is {what}, not an ONNX model", advice)


def _excerpt(head: bytes, text: str | None) -> str:
    if text is not None:
        return repr(text.lstrip()[:40])
    return "the bytes " + head[:16].hex(" ")


def _refuse_other_kinds(head: bytes, size: int) -> None:
    for offset, magic, what, advice in _MAGICS:
        if head.startswith(magic, offset):
            _refuse(what, advice)
    if head[3:5] == b"\x00{" and head.startswith((b"ftrt", b"ptrt"), 4 + int.from_bytes(head[:4], "little")):
        _refuse("a TensorRT engine", _ENGINE)  # behind a description in JSON
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        _refuse(*_zip_kind(head))
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        _refuse("a Python pickle", "It may be a PyTorch or scikit-learn model. " + _CONVERT)
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") <= size - 8:
        _refuse("a safetensors file", _WEIGHTS)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:256].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<script")):
        _refuse("a web page (HTML)", "A web page was downloaded instead of the file. Download the file itself.")
    if start.startswith((b"<?xml", b"<net ")):
        _refuse("an XML file", "It may be a model of OpenVINO; open the ONNX model it was made from.")
    if start.startswith((b"import ", b"from ", b"#!", b"def ", b"# -*-")):
        _refuse("a program text", "Run it to export the model, then open what it writes.")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\x00" in head[:64]:
        _refuse("text in UTF-16", "Save it as UTF-8, then open it again.")
    if _TENSORFLOW_GRAPH.match(head):
        _refuse("a TensorFlow graph", "Convert it with tf2onnx (`--graphdef`), then open the result.")
    if found := _SAVED_MODEL_OR_CORE_ML.match(head):
        if found[1] == b"\x0a":
            _refuse("a Core ML model", "Convert it with onnxmltools, or export the model it was made from to ONNX.")
        _refuse("a TensorFlow SavedModel", "Convert its folder with tf2onnx (`--saved-model`), then open the result.")
    if not head.strip(b"\x00"):
        _refuse("a file of zero bytes only", "It was probably never written completely. Fetch or export it again.")


def _zip_kind(head: bytes) -> tuple[str, str]:
    if b"data.pkl" in head or b"/byteorder" in head or b"archive/" in head:
        return "a PyTorch file (zip)", "Export the model with torch.onnx.export, then open the result."
    if head.startswith(b"metadata.json", 30) or (b"config.json" in head and b".h5" in head):
        return "a Keras file (zip)", "Convert it with tf2onnx, then open the result."
    if b".npy" in head[:256]:
        return "a NumPy archive (.npz)", "Import its arrays into tensors of an open model instead."
    return "a zip archive", _UNPACK


# -- binary ---------------------------------------------------------------------------------------------------


def _sniff_binary(head: bytes, size: int) -> FileFormat | None:
    best: tuple[float, str] | None = None
    for name in MESSAGES:
        if name == "OperatorSetProto":
            if head.startswith(b"\x0a\x09ONNXOPSET"):
                return FileFormat(FileForm.BINARY, name)
            continue  # its schema needs the onnx package, which opening avoids
        score = _score(head, size, schemas()[name], depth=2)
        if score > 0 and (best is None or score > best[0]):
            best = score, name
    return None if best is None else FileFormat(FileForm.BINARY, best[1])


def _score(data: bytes, size: int, schema: MessageSchema, depth: int) -> float:
    """Score how well bytes parse as a message: 1 for each matching field, negative for others.

    `size` may exceed the given bytes; the last field may then be truncated.
    """
    score, position = 0.0, 0
    for _ in range(200):
        if position >= len(data):
            break
        try:
            field = read_field(data, position)
            number, wire_type, content, end = field.number, field.wire_type, field.content, field.end
        except WireError:
            cut = _cut_field(data, position)
            if cut is None or (size <= len(data) and depth < 2):
                return score - 1  # damage after a valid beginning does not change the type
            number, content = cut
            wire_type, end = LENGTH, len(data)
        score += _field_score(data[content:end], number, wire_type, schema, depth)
        position = end
    return score


def _cut_field(data: bytes, position: int) -> tuple[int, int] | None:
    """Return number and content of a length-delimited field that continues beyond the data."""
    try:
        field = read_field(data[position:] + bytes(20), 0)
    except FieldOverrunError as error:
        content = position + error.field.content
        return (error.field.number, content) if content <= len(data) else None
    except WireError:
        return None
    return field.number, len(data)


def _field_score(content: bytes, number: int, wire_type: int, schema: MessageSchema, depth: int) -> float:
    field = schema.fields.get(number)
    if field is None:
        return -0.6  # it may be of a later version of the format
    if wire_type != field.wire_type:
        return 0.5 if wire_type == LENGTH and field.repeated and field.wire_type != LENGTH else -2
    if field.message is not None and depth:
        inner = _score(content, len(content) + 1, field.message, depth - 1) if content else 0
        return 1 + min(inner, 3) / 3 if inner >= -1 else -2
    if field.is_text:
        return _text_score(content[:200])
    return 1


def _text_score(content: bytes) -> float:
    """Score a text; 0 for one with control characters, such as terminal colours in a name, which is not evidence."""
    if not any(byte < 0x20 and byte not in b"\t\n\r" for byte in content):
        return 1
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return 0 if error.start > len(content) - 4 else -2  # a character cut at the end
    return 0


# -- text -----------------------------------------------------------------------------------------------------


def _as_text(head: bytes) -> str | None:
    if any(byte < 0x20 and byte not in b"\t\n\r\f\v" for byte in head[:4096]):
        return None
    try:
        return head.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return None  # not merely a character cut at the end of the head
        return head[: error.start].decode("utf-8")


_HEADER = re.compile(r"\s*(?:#[^\n]*\n\s*|//[^\n]*\n\s*)*")
_ONNX_MODEL = re.compile(r"<\s*(?:\w+\s*:[^<>]*)?\bir_version\s*:")
_ONNX_FUNCTION = re.compile(r"<\s*(?:domain|opset_import|overload|doc_string)\s*:")
_ONNX_GRAPH = re.compile(r"[^\s(){}<>=,\[]+\s*(?:\[[^\]]*\]\s*)?\([^{}]*?\)\s*=>\s*\(")
_ONNX_NODE = re.compile(
    r"(?:\[[^\]]*\]\s*)?[^\s(){}<>=:,]+(?:\s*,\s*[^\s(){}<>=:,]+)*\s*=\s*[\w.:]+\s*(?:<[^{}]*>)?\s*\("
)


def _sniff_text(text: str) -> FileFormat | None:
    start = _HEADER.match(text)
    body = text[start.end() :] if start else text
    for pattern, message in (
        (_ONNX_MODEL, "ModelProto"),
        (_ONNX_FUNCTION, "FunctionProto"),
        (_ONNX_GRAPH, "GraphProto"),
        (_ONNX_NODE, "NodeProto"),
    ):
        if pattern.match(body):
            return FileFormat(FileForm.ONNX_TEXT, message)
    if body.startswith("{"):
        names = {re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), name) for name in _json_keys(body)}
        found = _message_with(names)
        return None if found is None else FileFormat(FileForm.JSON, found)
    found = _message_with(set(_text_keys(body)))
    return None if found is None else FileFormat(FileForm.PROTOBUF_TEXT, found)


def _message_with(names: set[str]) -> str | None:
    """Return the message that declares most of the field names; None unless it declares nearly all."""
    best: tuple[int, str] | None = None
    for message in MESSAGES:
        if message == "OperatorSetProto" and not names & {"magic", "operator"}:
            continue  # its schema needs the onnx package, whose import opening avoids
        schema = operator_set_schema() if message == "OperatorSetProto" else schemas()[message]
        known = len(names & {field.name for field in schema.fields.values()})
        if known and known * 2 > len(names) and (best is None or known > best[0]):
            best = known, message
    return None if best is None else best[1]


# An unterminated string extends to the end of the text, so that none of it is scanned twice.
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z))(?P<colon>\s*:)?"""
    r"""|(?P<open>[{\[<])|(?P<close>[}\]>])|\#[^\n]*|\b(?P<key>[A-Za-z_]\w*+)(?=\s*[:{<])""",
    re.DOTALL,
)


def _json_keys(text: str) -> Iterator[str]:
    for match, depth in _tokens(text):
        if match["string"] and match["colon"] and depth == 1:
            yield match["string"][1:-1]


def _text_keys(text: str) -> Iterator[str]:
    for match, depth in _tokens(text):
        if match["key"] and depth == 0:
            yield match["key"]


def _tokens(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield tokens other than brackets, with the bracket depth."""
    depth = 0
    for match in _TOKEN.finditer(text):
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        else:
            yield match, depth
