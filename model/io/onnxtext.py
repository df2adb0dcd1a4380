"""ONNX's text syntax through the parser and printer of the onnx package. Runs in a child process only."""

from __future__ import annotations

import re
from typing import Any

from model.errors import ModelError

_PARSE_ERROR = re.compile(
    r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\nError context: ([^\n]*)\n(.+)", re.DOTALL
)


def parse(payload: bytes) -> bytes:
    """From ``message name, newline, text`` to the serialised message."""
    import onnx
    from onnx import parser

    message, _, data = payload.partition(b"\n")
    parsers: dict[bytes, Any] = {
        b"ModelProto": parser.parse_model,
        b"GraphProto": parser.parse_graph,
        b"FunctionProto": parser.parse_function,
        b"NodeProto": parser.parse_node,
    }
    try:
        content = data.decode("utf-8-sig")
        parsed: onnx.ModelProto | onnx.GraphProto | onnx.FunctionProto | onnx.NodeProto = parsers[message](content)
    except UnicodeDecodeError as error:
        raise ModelError("The text is not UTF-8", f"Byte {error.start:,} is part of no character.") from error
    except parser.ParseError as error:
        raise ModelError("The ONNX text is not valid", _tidy(error)) from error
    return parsed.SerializeToString()


def print_text(payload: bytes) -> bytes:
    """From ``message name, newline, serialised message`` to the text.

    Before it stands ``=`` when the text reads back as the same message, else ``~``. ModelError when it does not
    read back at all, since nobody could open it.
    """
    import onnx
    from onnx import printer

    name, _, data = payload.partition(b"\n")
    cls = getattr(onnx, name.decode("ascii"))
    message = cls.FromString(data)
    try:
        written = (printer.to_text(message).rstrip("\n") + "\n").encode("utf-8")
        again = parse(name + b"\n" + written)
    except UnicodeError as error:
        raise ModelError("The model cannot be written as ONNX text", "It has text that is not UTF-8.") from error
    except ModelError as error:
        detail = f"The text for it could not be read back: {error.detail} Binary, protobuf text and JSON can hold it."
        raise ModelError("The model cannot be written as ONNX text", detail) from error
    return (b"=" if again == data else b"~") + written


def _tidy(error: Exception) -> str:
    """Where the parser stopped, what it expected and what it found there; its own words where they say it otherwise."""
    found: object = error.args[0] if error.args else error
    words = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    told = _PARSE_ERROR.fullmatch(words.strip())
    if told is None:
        return " ".join(words.split())[:500]
    line, column, context, reason = told.groups()
    rest = context[int(column) - 1 :].strip()
    shown = f"`{rest[:40]}{'…' if len(rest) > 40 else ''}`" if rest else "the end of the line"
    return f"Line {line}, column {column}: {' '.join(reason.split()).rstrip('.')[:300]}. It found {shown}."
