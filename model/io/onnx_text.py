"""ONNX's text syntax, through the parser and printer of the onnx package. For child processes only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from onnx_workbench.model.errors import ModelError

_PARSE_ERROR = re.compile(
    r"\[ParseError at position \(line: (\d+) column: (\d+)\)\]\nError context: ([^\n]*)\n(.+)", re.DOTALL
)


def parse(payload: bytes) -> bytes:
    """Parse ``message name, newline, text`` to the serialised message."""
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
        raise ModelError("The text is not UTF-8", f"Byte {error.start:,} is not valid UTF-8.") from error
    except parser.ParseError as error:
        raise ModelError("The ONNX text is not valid", _tidy(error)) from error
    return parsed.SerializeToString()


def print_text(payload: bytes) -> bytes:
    """Print ``message name, newline, serialised message`` as text.

    The first line names what is lost when the text is parsed again, empty if nothing. ModelError when it cannot be
    parsed again at all.
    """
    import onnx
    from onnx import printer

    name, _, data = payload.partition(b"\n")
    cls = getattr(onnx, name.decode("ascii"))
    message = cls.FromString(data)
    try:
        written = _encoded(_with_defaults(message, printer.to_text))
        try:
            again = parse(name + b"\n" + written)
        except ModelError:  # a default that the syntax cannot express
            written = _encoded(printer.to_text(message))
            again = parse(name + b"\n" + written)
    except UnicodeError as error:
        raise ModelError("The model cannot be written as ONNX text", "It has text that is not UTF-8.") from error
    except ModelError as error:
        detail = f"The text for it could not be read back: {error.detail} Binary, protobuf text and JSON can hold it."
        raise ModelError("The model cannot be written as ONNX text", detail) from error
    missing = {} if again == data else _missing(message, cls.FromString(again))
    listed = "; ".join(f"{what} of {', '.join(sorted(holders))}" for what, holders in sorted(missing.items()))
    return listed.encode("utf-8") + b"\n" + written


def _encoded(text: str) -> bytes:
    return (text.rstrip("\n") + "\n").encode("utf-8")


#: Header of a function that has attributes, as the printer writes it.
_HEADER = re.compile(r"^(\S[^\n]*?) <([^<>\n]*)>(?=\()", re.MULTILINE)


def _with_defaults(message: Any, to_text: Callable[[Any], str]) -> str:
    """Print a message with the attribute defaults of functions, which onnx's printer leaves out."""
    from onnx import NodeProto

    copy = type(message).FromString(message.SerializeToString())
    kind = message.DESCRIPTOR.name
    functions = list(copy.functions) if kind == "ModelProto" else [copy] if kind == "FunctionProto" else []
    if not any(function.attribute_proto for function in functions):
        return to_text(message)
    lists = []  # of attributes, of each function that has any
    for function in functions:
        defaults = [to_text(NodeProto(op_type="X", attribute=[given])) for given in function.attribute_proto]
        written = [text[text.index("<") + 1 : text.rindex(">")] for text in defaults]
        lists += [", ".join([*function.attribute, *written])] if function.attribute or written else []
        function.attribute.extend(given.name for given in function.attribute_proto)
    text, headers = to_text(copy), iter(lists)
    if len(_HEADER.findall(text)) != len(lists):
        return to_text(message)
    return _HEADER.sub(lambda header: f"{header[1]} <{next(headers)}> ", text)


#: Display names of fields and messages, where they are not the plural of their names.
_FIELDS = {"doc_string": "descriptions", "metadata_props": "metadata", "training_info": "training graphs",
           "attribute_proto": "attribute defaults", "value_info": "types of values", "raw_data": "values",
           "sparse_initializer": "sparse initializers",
           "quantization_annotation": "quantization annotations"}  # fmt: skip
_HOLDERS = {"ModelProto": "the model", "ValueInfoProto": "values"}


def _missing(message: Any, again: Any) -> dict[str, set[str]]:
    """Return the fields that a reparsed copy of a message lacks or changes: names of fields, each with its owners."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    holders_by_field: dict[str, set[str]] = {}
    pending = [(message, again)]

    def note(what: str, holder: str) -> None:
        holders_by_field.setdefault(what, set()).add(_HOLDERS.get(holder, f"{holder.removesuffix('Proto').lower()}s"))

    while pending:
        one, other = pending.pop()
        holder = one.DESCRIPTOR.name
        if len(UnknownFieldSet(one)):
            note("unknown fields", holder)
        for field, value in one.ListFields():
            read = getattr(other, field.name)
            if field.message_type is not None and hasattr(value, "ListFields"):
                if other.HasField(field.name):
                    pending.append((value, read))
                    continue
            elif field.message_type is not None and len(value) == len(read):
                pending.extend(zip(value, read, strict=True))
                continue
            elif value == read:
                continue
            elif _same_values(one, other) if field.name.endswith("_data") else str(value) == str(read):
                continue  # equal when written alike: NaN equals nothing
            note(_FIELDS.get(field.name, field.name.replace("_", " ")), holder)
    return holders_by_field


def _same_values(one: Any, other: Any) -> bool:
    """Return whether two tensors hold the same numbers, raw or typed. Reads no external file."""
    from onnx import numpy_helper

    if one.data_location or other.data_location:
        return False
    try:
        return numpy_helper.to_array(one).tobytes() == numpy_helper.to_array(other).tobytes()
    except (TypeError, ValueError):  # one cannot be read
        return False


def _tidy(error: Exception) -> str:
    """Reformat a parser error: position, what was expected and what was found; unchanged if it has another form."""
    message: object = error.args[0] if error.args else error
    words = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    match = _PARSE_ERROR.fullmatch(words.strip())
    if match is None:
        return " ".join(words.split())[:500]
    line, column, context, reason = match.groups()
    rest = context[int(column) - 1 :].strip()
    shown = f"`{rest[:40]}{'…' if len(rest) > 40 else ''}`" if rest else "the end of the line"
    return f"Line {line}, column {column}: {' '.join(reason.split()).rstrip('.')[:300]}. It found {shown}."
