"""Tokenizer: split texts by separators, by a token pattern, or into characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.regex import Pattern, compile_pattern
from onnx_workbench.exec.values.arrays import Array, full
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import describe

_START, _END = "\x02", "\x03"


@kernel("Tokenizer", since=1, domain=MICROSOFT)
def tokenizer_1(
    x: Array,
    *,
    mark: int,
    mincharnum: int,
    pad_value: str,
    separators: Sequence[str] | None = None,
    tokenexp: str | None = None,
) -> Array:
    """Return the tokens of each text along a new last axis, padded; RE2 patterns, the longest match wins."""
    if x.dtype.kind != "O" or x.ndim not in (1, 2) or mincharnum < 1:
        msg = f"input {describe(x)}, mincharnum {mincharnum}; expected strings [C] or [N, C], and from 1"
        raise KernelError(msg)
    if bool(separators) == bool(tokenexp):
        msg = "expected separators or tokenexp, and only one of them"
        raise KernelError(msg)
    by_character = list(separators or ()) == [""]
    patterns = [compile_pattern(p) for p in ([tokenexp] if tokenexp else separators or ()) if p]
    found = []
    for text in x.reshape(-1).tolist():
        checkpoint()
        if by_character:
            tokens = list(text)
        elif tokenexp:
            tokens = [text[start:end] for start, end in patterns[0].matches(text)]
        else:
            tokens = _separated([text], patterns)
        tokens = [t for t in tokens if len(t) >= mincharnum]
        found.append([_START, *tokens, _END] if mark else tokens)
    width = max((len(tokens) for tokens in found), default=0)
    result = full((len(found), width), pad_value, object)
    for row, tokens in zip(result, found, strict=True):
        row[: len(tokens)] = tokens
    return np.asarray(result.reshape(*x.shape, width))


def _separated(parts: list[str], patterns: Sequence[Pattern]) -> list[str]:
    """Split by each separator in turn; drop empty parts."""
    for pattern in patterns:
        cut: list[str] = []
        for part in parts:
            last = 0
            for start, end in pattern.matches(part):
                cut.append(part[last:start])
                last = end
            cut.append(part[last:])
        parts = [p for p in cut if p]
    return parts
