"""ONNX's text syntax through the parser and printer of the onnx package. Runs in a child process only."""

from __future__ import annotations

from typing import Any

from model.errors import ModelError


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
    """From ``message name, newline, serialised message`` to the text."""
    import onnx
    from onnx import printer

    message, _, data = payload.partition(b"\n")
    cls = getattr(onnx, message.decode("ascii"))
    written = printer.to_text(cls.FromString(data))
    return (written if written.endswith("\n") else written + "\n").encode("utf-8", "surrogateescape")


def _tidy(error: Exception) -> str:
    """The parser's own words, which name line and column, on one line."""
    found: object = error.args[0] if error.args else error
    words = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
    return " ".join(words.split())[:500]
