"""TfIdfVectorizer: counts of given n-grams, with skips."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.values.arrays import Array, zeros
from onnx_workbench.exec.values.limits import checkpoint

_MODES = ("TF", "IDF", "TFIDF")


@kernel("TfIdfVectorizer", since=9)
def tf_idf_vectorizer_9(
    x: Array,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...] | None = None,
    pool_strings: tuple[str, ...] | None = None,
    weights: tuple[float, ...] | None = None,
) -> Array:
    """Count the n-grams of the pool in each row of (C,) or (N, C), weighted as `mode` says."""
    if x.ndim not in (1, 2) or mode not in _MODES or not ngram_indexes or min(ngram_indexes) < 0:
        msg = f"X has shape {x.shape}, mode is {mode!r}; expected 1 or 2 axes and one of {', '.join(_MODES)}"
        raise KernelError(msg)
    pool: tuple[Any, ...] | None = pool_strings if pool_int64s is None else pool_int64s
    if pool is None or (pool_int64s is not None and pool_strings is not None):
        msg = "exactly one of pool_int64s and pool_strings must be given"
        raise KernelError(msg)
    grams = _grams(pool, ngram_counts, min_gram_length, max_gram_length)
    columns = np.asarray(ngram_indexes, np.int64)
    total = sum(len(known) for known in grams.values())
    if total and max(max(known.values()) for known in grams.values() if known) >= len(columns):
        msg = f"ngram_indexes has {len(columns)} entries, fewer than the pool has n-grams; expected one for each"
        raise KernelError(msg)
    rows = np.atleast_2d(x)
    counts = zeros((rows.shape[0], int(columns.max()) + 1), np.float32)
    for row, tokens in enumerate(rows.tolist()):
        checkpoint()
        for number in _found(tokens, grams, max_skip_count):
            counts[row, columns[number]] += 1
    if mode == "IDF":
        np.minimum(counts, 1, out=counts)
    if mode != "TF" and weights is not None:
        scale = np.ones(counts.shape[1], np.float32)
        scale[columns] = np.asarray(weights, np.float32)
        counts *= scale
    return counts if x.ndim == 2 else counts[0]


def _grams(
    pool: tuple[Any, ...], starts: tuple[int, ...], shortest: int, longest: int
) -> dict[int, dict[tuple[Any, ...], int]]:
    """Return by length: each n-gram and its index in the pool; only the requested lengths."""
    grams: dict[int, dict[tuple[Any, ...], int]] = {}
    number = 0
    for length, (start, stop) in enumerate(pairwise((*starts, len(pool))), start=1):
        if not 0 <= start <= stop <= len(pool) or (stop - start) % length:
            given = f"ngram_counts is {starts}, which does not divide a pool of {len(pool)} into n-grams"
            msg = f"{given}; expected rising starts of whole n-grams"
            raise KernelError(msg)
        for at in range(start, stop, length):
            if shortest <= length <= longest:
                grams.setdefault(length, {})[tuple(pool[at : at + length])] = number
            number += 1
    return grams


def _found(tokens: list[Any], grams: dict[int, dict[tuple[Any, ...], int]], skips: int) -> list[int]:
    """Return the indices of all n-grams found in a row, with 0 to `skips` tokens left out between neighbours."""
    found = []
    for length, known in grams.items():
        # A single token has no neighbours to skip between, so it is counted once.
        for skip in range(1 if length == 1 else min(skips, len(tokens)) + 1):
            step = skip + 1
            for start in range(len(tokens) - (length - 1) * step):
                number = known.get(tuple(tokens[start : start + (length - 1) * step + 1 : step]))
                if number is not None:
                    found.append(number)
    return found
