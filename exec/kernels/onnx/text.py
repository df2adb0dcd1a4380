"""Operators on strings: arrays of Python `str`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.blocks import parts
from onnx_workbench.exec.kernels.shared.broadcast import broadcast_shape
from onnx_workbench.exec.kernels.shared.regex import compile_pattern
from onnx_workbench.exec.values.arrays import Array, check_size, empty, full
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.exec.values.statistics import describe


@kernel("StringConcat", since=20)
def string_concat_20(x: Array, y: Array) -> Array:
    """Texts joined element by element, with broadcasting."""
    result = empty(broadcast_shape(x, y), object)
    check_size((int(np.add(_lengths(x), _lengths(y)).sum()),), np.uint8)
    # An object array even for scalars, where the ufunc gives a str.
    return np.add(x, y, out=result)


def _lengths(x: Array) -> Array:
    return np.array([len(text) for text in _texts(x)], np.int64).reshape(x.shape)


@kernel("StringSplit", since=20)
def string_split_20(x: Array, *, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Array, Array]:
    """Split each text along a new last axis, padded with empty ones; also the number of parts."""
    most = -1 if maxsplit is None else maxsplit
    # "Leading or trailing whitespace is removed in the output", also behind the last split; str.split leaves it there.
    texts = _texts(x) if delimiter else [text.strip() for text in _texts(x)]
    matches = [text.split(delimiter or None, most) for part in parts(len(texts)) for text in texts[part]]
    counts = np.array([len(p) for p in matches], np.int64)
    width = int(counts.max()) if matches else 0
    result = full((len(matches), width), "", object)
    for part in parts(len(matches)):
        for row, found in zip(result[part], matches[part], strict=True):
            row[: len(found)] = found
    return result.reshape(*x.shape, width), counts.reshape(x.shape)


@kernel("StringNormalizer", since=10)
def string_normalizer_10(
    x: Array,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    _locale: str | None = None,  # Python's case mapping is Unicode's own, whatever the locale
    stopwords: Sequence[str] | None = None,
) -> Array:
    """Drop the stop words, then change the case; one empty text when nothing is left."""
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        msg = f"input of shape {x.shape}; expected [C] or [1, C]"
        raise KernelError(msg)
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    change = changes.get(case_change_action)
    if change is None:
        msg = f"case_change_action is {case_change_action!r}; expected NONE, LOWER or UPPER"
        raise KernelError(msg)
    seen: Callable[[str], str] = str if is_case_sensitive else str.lower
    stop = {seen(word) for word in stopwords or ()}
    kept = [change(text) for text in _texts(x) if seen(text) not in stop] or [""]
    result = empty((len(kept),), object)
    result[:] = kept
    return result.reshape(1, -1) if x.ndim == 2 else result


@kernel("RegexFullMatch", since=20)
def regex_full_match_20(x: Array, *, pattern: str | None = None) -> Array:
    """Return whether each whole text matches the RE2 pattern; time is linear in the texts' length."""
    if pattern is None:
        msg = "attribute pattern is missing; expected an RE2 pattern"
        raise KernelError(msg)
    compiled = compile_pattern(pattern)
    matches = []
    for text in _texts(x):
        checkpoint()
        matches.append(compiled.full_match(text))
    return np.array(matches, bool).reshape(x.shape)


def _texts(x: Array) -> list[str]:
    if not isinstance(x, np.ndarray) or x.dtype.kind != "O":
        msg = f"input is {describe(x)}; expected strings"
        raise KernelError(msg)
    texts: list[str] = x.reshape(-1).tolist()
    return texts
