"""Hashes of token n-grams, used as indices into embedding tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.values.arrays import Array, check_size, full


@dataclass(frozen=True, slots=True)
class _Hash:
    """Hashing of n-grams of 2 up to `longest` tokens, with `heads` hashes per length."""

    longest: int
    heads: int
    multipliers: Array
    sizes: Array
    offsets: Array | None
    missing: int  # token before the first one
    reset_at: int | None  # separator token: earlier tokens do not count

    def check(self) -> None:
        """Raise KernelError where the inputs do not fit the attributes."""
        count = (self.longest - 1) * self.heads
        fits = self.longest >= 2 and self.heads >= 1 and self.multipliers.size >= self.longest
        if not fits or self.sizes.shape != (count,) or (self.offsets is not None and self.offsets.shape != (count,)):
            msg = (
                f"max_ngram_size {self.longest}, n_head_per_ngram {self.heads}, multipliers {self.multipliers.shape}, "
                f"vocab_sizes {self.sizes.shape}; expected 2 or more, 1 or more, a multiplier for each, ({count},)"
            )
            raise KernelError(msg)
        if int(self.sizes.min()) <= 0:
            msg = f"vocab_sizes has {self.sizes.min()}; expected positive numbers"
            raise KernelError(msg)

    def history(self, batch: int, past: Array | None, dtype: np.dtype) -> Array:
        """Return the tokens before those of this call, (batch, longest - 1)."""
        shape = (batch, self.longest - 1)
        if past is not None and past.shape != shape:
            msg = f"past_ids has shape {past.shape}; expected {shape}"
            raise KernelError(msg)
        return full(shape, self.missing, dtype) if past is None else past

    def of(self, ids: Array, begins: Array) -> Array:
        """Return the hashes (batch, length, all heads) of ids that follow their history.

        `begins` marks the positions in history and ids at which a segment begins.
        """
        before = self.longest - 1
        batch, length = ids.shape[0], ids.shape[1] - before
        check_size((batch, length, before * self.heads), ids.dtype)
        index = np.arange(ids.shape[1])
        first = np.maximum.accumulate(np.where(begins, index, 0), 1)  # the first position that counts
        if self.reset_at is not None:
            ended = np.maximum.accumulate(np.where(ids == self.reset_at, index + 1, 0), 1)
            first[:, 1:] = np.maximum(first[:, 1:], ended[:, :-1])
        mixed = ids[:, before:] * self.multipliers[0]
        hashes = []
        for back in range(1, self.longest):
            start = before - back
            seen = index[before:] - back >= first[:, before:]
            shifted = np.where(seen, ids[:, start : start + length], ids.dtype.type(self.missing))
            mixed = mixed ^ (shifted * self.multipliers[back])
            sizes = self.sizes[(back - 1) * self.heads : back * self.heads]
            hashes.append(mixed[:, :, None] % sizes)
        found: Array = np.concatenate(hashes, 2)
        return found if self.offsets is None else found + self.offsets


def _missing(pad_id: int, eos: Array | None, reset_on_eos: int) -> tuple[int, int | None]:
    """Return the padding token and the separator token."""
    if eos is None:
        return pad_id, None
    token = scalar_int(eos, "eos_token_id")
    return token, token if reset_on_eos else None


@kernel("NGramHashMapping", since=1, domain=MICROSOFT)
def ngram_hash_mapping_1(
    input_ids: Array,
    multipliers: Array,
    vocab_sizes: Array,
    past_ids: Array | None = None,
    head_offsets: Array | None = None,
    eos_token_id: Array | None = None,
    segment_ids: Array | None = None,
    *,
    max_ngram_size: int,
    n_head_per_ngram: int,
    pad_id: int,
    reset_on_eos: int = 0,
) -> tuple[Array, Array]:
    """Return the hashes of the n-grams that end at each token, and the history for the next call."""
    missing, reset_at = _missing(pad_id, eos_token_id, reset_on_eos)
    hashing = _Hash(max_ngram_size, n_head_per_ngram, multipliers, vocab_sizes, head_offsets, missing, reset_at)
    hashing.check()
    if input_ids.ndim != 2 or (segment_ids is not None and segment_ids.shape != input_ids.shape):
        given = None if segment_ids is None else segment_ids.shape
        msg = f"input_ids of shape {input_ids.shape}, segment_ids {given}; expected (batch, length) for both"
        raise KernelError(msg)
    before = max_ngram_size - 1
    ids = np.concatenate([hashing.history(len(input_ids), past_ids, input_ids.dtype), input_ids], 1)
    begins = np.zeros(ids.shape, bool)
    if segment_ids is not None:
        begins[:, before + 1 :] = segment_ids[:, 1:] != segment_ids[:, :-1]
    return hashing.of(ids, begins), np.ascontiguousarray(ids[:, ids.shape[1] - before :])


@kernel("VarlenNGramHashMapping", since=1, domain=MICROSOFT)
def varlen_ngram_hash_mapping_1(
    input_ids: Array,
    multipliers: Array,
    vocab_sizes: Array,
    cumulative_sequence_length: Array,
    past_ids: Array | None = None,
    head_offsets: Array | None = None,
    eos_token_id: Array | None = None,
    segment_ids: Array | None = None,
    past_segment_ids: Array | None = None,
    capture_count: Array | None = None,
    *,
    max_ngram_size: int,
    n_head_per_ngram: int,
    pad_id: int,
    reset_on_eos: int = 0,
    state_update_capacity: int = 0,
) -> tuple[Array, Array, Array | None, Array | None]:
    """Return the same for concatenated sequences; also returns segments and history for the next call."""
    missing, reset_at = _missing(pad_id, eos_token_id, reset_on_eos)
    hashing = _Hash(max_ngram_size, n_head_per_ngram, multipliers, vocab_sizes, head_offsets, missing, reset_at)
    hashing.check()
    before = max_ngram_size - 1
    ranges = sequence_ranges(cumulative_sequence_length, input_ids.shape[:1])
    past = hashing.history(len(ranges), past_ids, input_ids.dtype)
    segments = np.zeros(input_ids.shape, np.int32) if segment_ids is None else segment_ids
    earlier = past_segment_ids
    if earlier is None:  # no boundary before the first token
        earlier = np.repeat(segments[[start for start, _ in ranges]][:, None], before, 1)
    if segments.shape != input_ids.shape or earlier.shape != past.shape:
        msg = (
            f"segment_ids {segments.shape}, past_segment_ids {earlier.shape}; expected {input_ids.shape}, {past.shape}"
        )
        raise KernelError(msg)
    hashes, wholes, parts = [], [], []
    for (start, end), tokens, marks in zip(ranges, past, earlier, strict=True):
        ids, marked = np.concatenate([tokens, input_ids[start:end]]), np.concatenate([marks, segments[start:end]])
        begins = np.diff(marked, prepend=marked[:1]) != 0
        hashes.append(hashing.of(ids[None], begins[None])[0])
        wholes.append(ids)
        parts.append(marked)
    present = np.stack([ids[len(ids) - before :] for ids in wholes])
    marks_after = None if segment_ids is None else np.stack([m[len(m) - before :] for m in parts])
    states = full((len(ranges), state_update_capacity, before), pad_id, input_ids.dtype)
    for entry, count in enumerate(captures(capture_count, state_update_capacity, ranges)):
        for index in range(count):
            states[entry, index] = wholes[entry][index + 1 : index + 1 + before]
    return np.concatenate(hashes), present, marks_after, states if state_update_capacity else None


def sequence_ranges(cumulative: Array, shape: Sequence[int]) -> list[tuple[int, int]]:
    """Return the range of each of several concatenated sequences."""
    ends = cumulative.reshape(-1).astype(np.int64)
    if len(ends) < 2 or ends[0] != 0 or int(ends[-1]) != shape[0] or int(np.diff(ends).min()) < 1:
        msg = f"cumulative_sequence_length is {ends.tolist()}; expected rising from 0 to {shape[0]}"
        raise KernelError(msg)
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def captures(counts: Array | None, capacity: int, ranges: list[tuple[int, int]]) -> list[int]:
    """Return after how many tokens of each sequence the state is captured; empty for capacity 0."""
    if (counts is None) != (capacity == 0) or not 0 <= capacity <= 8:
        msg = f"state_update_capacity is {capacity}; expected 0 up to 8, and capture_count where it is not 0"
        raise KernelError(msg)
    if counts is None:
        return []
    return [
        max(0, min(int(count), capacity, end - start))
        for count, (start, end) in zip(counts.reshape(-1).tolist(), ranges, strict=True)
    ]
