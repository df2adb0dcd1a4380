"""Text formats of a model: ONNX's own syntax, protobuf text and protobuf JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf import json_format, text_format

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.protobuf import message_class
from onnx_workbench.model.io.reader.sniff import FileForm, FileFormat
from onnx_workbench.model.io.wire import DEPTH_LIMIT
from onnx_workbench.model.progress import SILENT, Progress


def parse(data: bytes, found: FileFormat, progress: Progress = SILENT) -> Any:
    """Parse the message in a text; ModelError with line and column of an error.

    ONNX's own syntax is parsed by its C++ library, in a child process.
    """
    if found.form is FileForm.ONNX_TEXT:
        return message_class(found.message).FromString(_in_child("parse", data, found.message, progress))
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError("The text is not UTF-8", f"Byte {error.start:,} is not valid UTF-8.") from error
    message = message_class(found.message)()
    try:
        if found.form is FileForm.JSON:
            _parse_json(content, message)
        else:
            text_format.Parse(content, message)
    except (json_format.ParseError, text_format.ParseError, UnicodeEncodeError) as error:
        raise ModelError(f"The {found.form.value} is not valid", _first_line(error)) from error
    except RecursionError as error:
        raise ModelError(f"The {found.form.value} is not valid", "Messages nest too deep.") from error
    return message


class Printed(NamedTuple):
    """A message as text, and a description of what the text omits."""

    data: bytes
    left_out: tuple[str, ...] = ()


def print_message(message: Any, form: FileForm, progress: Progress = SILENT) -> Printed:
    """Print a message in one of the text formats; ModelError where the format cannot hold it."""
    if form is FileForm.ONNX_TEXT:
        data = _in_child("print_text", message.SerializeToString(), type(message).__name__, progress)
        missing, _, text = data.partition(b"\n")
        lossy = f"ONNX text cannot express {missing.decode('utf-8')}. Keep the binary file too."
        return Printed(text, (lossy,) if missing else ())
    broken = _broken_text(message)
    if broken:
        raise ModelError(f"The model cannot be written as {form.value}", f"The string {broken!r} is not UTF-8.")
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    try:
        if form is FileForm.JSON:
            written = json.dumps(_with_largest(json_format.MessageToDict(known), _written), indent=2)
        else:
            written = text_format.MessageToString(known, as_utf8=True)
    except (UnicodeError, json_format.SerializeToJsonError, RecursionError) as error:
        raise ModelError(f"The model cannot be written as {form.value}", _first_line(error)) from error
    lost = known.ByteSize() != message.ByteSize()
    warning = f"Fields that are unknown to this version of the format are not in the {form.value}."
    return Printed((written.rstrip("\n") + "\n").encode("utf-8"), (warning,) if lost else ())


#: The largest float32, and how protobuf writes it: rounded up, which its own parser refuses as too large.
_LARGEST, _ROUNDED = 3.4028234663852886e38, 3.4028235e38
_DOUBLES = "doubleData"  # the only field of numbers with 64 bits


def _written(number: float) -> float:
    return math.copysign(_LARGEST, number) if abs(number) == _ROUNDED else number


def _read(number: float) -> float:
    """Return the largest float32 for what is rounded to it, as for `_ROUNDED`."""
    return math.copysign(_LARGEST, number) if _LARGEST < abs(number) < _LARGEST + 2.0**103 else number


def _with_largest(content: Any, exact: Callable[[float], float]) -> Any:
    """Change the float32 numbers in a JSON value."""
    if isinstance(content, float):
        return exact(content)
    if isinstance(content, list):
        return [_with_largest(item, exact) for item in content]
    if isinstance(content, dict):
        return {key: value if key == _DOUBLES else _with_largest(value, exact) for key, value in content.items()}
    return content


def _parse_json(content: str, message: Any) -> None:
    try:
        json_format.Parse(content, message, max_recursion_depth=DEPTH_LIMIT)
    except json_format.ParseError as error:
        if "too large" not in str(error):
            raise
        message.Clear()
        json_format.ParseDict(_with_largest(json.loads(content), _read), message, max_recursion_depth=DEPTH_LIMIT)


def _broken_text(message: Any) -> bytes | None:
    """Return the first string in a message that is not UTF-8, which text formats cannot represent."""
    pending = [message]
    while pending:
        for field, value in pending.pop().ListFields():
            if field.message_type is not None:
                pending.extend([value] if hasattr(value, "ListFields") else value)
            elif field.type == field.TYPE_STRING:
                for text in (value,) if isinstance(value, (str, bytes)) else value:
                    if isinstance(text, bytes):
                        return text
    return None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:500] if lines else type(error).__name__


def _in_child(function: str, data: bytes, message: str, progress: Progress) -> bytes:
    from onnx_workbench.model.sandbox import run_isolated

    return run_isolated(
        f"onnx_workbench.model.io.onnx_text:{function}",
        message.encode() + b"\n" + data,
        what="The ONNX text parser" if function == "parse" else "The ONNX text printer",
        progress=progress,
    )
