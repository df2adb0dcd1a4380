"""RE2 regular expressions, which operators' attributes hold: https://github.com/google/re2/wiki/Syntax.

google-re2 is RE2 itself: matching takes time linear in the text for any pattern, and memory is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.limits import checkpoint

try:
    import re2  # type: ignore[import-untyped]  # it ships no types
except ModuleNotFoundError:  # there are no wheels of it for Python 3.15 yet
    re2 = None

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Pattern:
    """A compiled pattern. KernelError when it is not valid or too large, or google-re2 is not installed."""

    def __init__(self, pattern: str) -> None:
        if re2 is None:
            msg = "needs the package google-re2, which is not installed; Python up to 3.14 has it"
            raise KernelError(msg)
        options = re2.Options()
        options.longest_match = True
        options.never_capture = True  # groups are not asked for, and cost time
        options.log_errors = False
        try:
            self._compiled = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            msg = f"pattern {pattern[:200]!r} must be a regular expression of RE2: {error}"
            raise KernelError(msg) from error

    def full_match(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self._compiled.fullmatch(_encodable(text)) is not None

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Return begin and end of all non-empty matches from left to right, each the longest of the leftmost."""
        for match in self._compiled.finditer(_encodable(text)):
            checkpoint()
            if match.start() < match.end():
                yield match.span()


def _encodable(text: str) -> str:
    """Replace what UTF-8 has no bytes for, character by character, so that positions stay."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern, cached."""
    return Pattern(pattern)
