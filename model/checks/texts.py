"""Rule about texts: names and descriptions are UTF-8."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from onnx_workbench.model.checks.problem import Problem, error

_BYTES = re.compile("[\udc80-\udcff]")  # surrogates that represent bytes of invalid UTF-8


def check_texts(place: Any, of: str, texts: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Report texts that are not UTF-8 in the file, given as (description, text). `of` names the object."""
    for what, text in texts:
        wrong = None if text.isascii() else _BYTES.search(text)
        if wrong is not None:
            at = len(text[: wrong.start()].encode("utf-8", "surrogateescape"))
            byte = ord(wrong[0]) - 0xDC00
            detail = f"Byte {at} of it is 0x{byte:02x}; protobuf requires UTF-8, and other programs reject it."
            yield error("utf-8", f"The {what} of {of} is not UTF-8", place, detail)
