"""Logits processors for text generation: penalties, forbidden words, Whisper's timestamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import onnx
from onnx_workbench.exec.kernels.microsoft.tensors import ngram_repeat_block_1
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.values.arrays import Array

LOWEST = np.finfo(np.float32).min
#: Changes the logits (count, words) of the next token of sequences (count, length).
Change = Callable[[Array, Array], Array]


@dataclass(frozen=True, slots=True)
class Rules:
    """Logits processing of a search. `repeats` sequences belong to each batch entry."""

    prompt_length: int
    eos: int
    min_length: int = 0
    penalty: float = 1.0
    ngram: int = 0
    mask: Array | None = None
    prefix_mask: Array | None = None
    repeats: int = 1
    further: Sequence[Change] = field(default_factory=tuple)

    def apply(self, scores: Array, sequences: Array) -> Array:
        """Process the logits of the next token of sequences (count, length)."""
        if not 0 <= self.eos < scores.shape[1] or (sequences.size and int(sequences.max()) >= scores.shape[1]):
            given = f"eos_token_id {self.eos} or a token is not among the {scores.shape[1]} words of the decoder"
            msg = f"{given}; expected within [0, {scores.shape[1] - 1}]"
            raise KernelError(msg)
        if self.penalty != 1.0:
            seen = np.take_along_axis(scores, sequences, 1)
            again = np.where(seen < 0, seen * np.float32(self.penalty), seen / np.float32(self.penalty))
            np.put_along_axis(scores, sequences, again, 1)
        if 0 < self.ngram <= sequences.shape[1]:
            scores = np.maximum(ngram_repeat_block_1(sequences, scores, ngram_size=self.ngram), LOWEST)
        if self.mask is not None:
            scores = np.where(self.mask.reshape(1, -1) != 0, scores, LOWEST)
        if self.prefix_mask is not None and sequences.shape[1] == self.prompt_length:
            scores = np.where(np.repeat(self.prefix_mask, self.repeats, 0) != 0, scores, LOWEST)
        if sequences.shape[1] < self.min_length:
            scores[:, self.eos] = LOWEST
        for change in self.further:
            scores = change(scores, sequences)
        return scores


def rules(
    prompt: Array,
    eos: int,
    min_length: Array | None,
    penalty: Array | None,
    ngram: int,
    masks: tuple[Array | None, Array | None],
) -> Rules:
    """Create the processing from inputs and attributes of a search; `masks` are those of all and of the first step."""
    least = 0 if min_length is None else scalar_int(min_length, "min_length")
    return Rules(prompt.shape[1], eos, least, number(penalty, 1.0), ngram, *masks)


def number(value: Array | None, default: float) -> float:
    """Return the number in an input of one element; `default` where it is left out."""
    return default if value is None or not value.size else float(value.reshape(-1)[0])


def warmer(temperature: float) -> Change:
    """Divide scores by a temperature."""
    return lambda scores, _: scores / np.float32(temperature)


@dataclass(frozen=True, slots=True)
class Timestamps:
    """Whisper's timestamp rules: tokens from `begin` on are times, in pairs around text and not decreasing."""

    eos: int
    begin: int
    start: int
    translate: int
    transcribe: int
    start_of_lm: int
    no_timestamps: int
    #: Offset of the latest allowed first timestamp.
    most_at_first: int = 50

    def __call__(self, scores: Array, sequences: Array) -> Array:
        """Set the scores (count, words) of forbidden tokens to the lowest number."""
        if not 0 < self.begin < scores.shape[1]:
            msg = f"beginning_timestamp_token_id is {self.begin}; expected one of the {scores.shape[1]} words, not 0"
            raise KernelError(msg)
        scores = scores.copy()
        for row, sequence in zip(scores, sequences, strict=True):
            self._forbid(row, sequence)
        times = scores[:, self.begin :]
        likely = onnx("ReduceLogSumExp", 18, times, np.array([1]), keepdims=0)
        scores[likely > scores[:, : self.begin].max(1), : self.begin] = LOWEST
        return scores

    def _forbid(self, row: Array, sequence: Array) -> None:
        stamped = np.flatnonzero(sequence >= self.begin)
        begun = int(stamped[0]) + 1 if stamped.size else len(sequence)  # where the text begins, after the first time
        never = [self.no_timestamps, self.start_of_lm]
        if len(sequence) > begun:
            never += [self.start, self.translate, self.transcribe]
        row[[word for word in never if 0 <= word < len(row)]] = LOWEST
        paired = len(sequence) <= begun or sequence[-2] >= self.begin
        last = bool(sequence[-1] >= self.begin)
        if last and paired:
            row[self.begin :] = LOWEST
        elif last:
            row[: self.eos] = LOWEST
        if stamped.size:
            least = int(sequence[stamped[-1]]) + (0 if last and not paired else 1)
            row[self.begin : least] = LOWEST
        if len(sequence) == begun:
            row[self.begin + self.most_at_first + 1 :] = LOWEST
