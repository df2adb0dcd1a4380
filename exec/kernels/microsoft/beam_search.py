"""Text generation by beam search around a decoder in a subgraph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Body, Context
from onnx_workbench.exec.kernels.microsoft.decoders import Decoder, Encoded, EncodedDecoder, LoneDecoder, Room, encode
from onnx_workbench.exec.kernels.microsoft.generation import prompt_and_mask
from onnx_workbench.exec.kernels.microsoft.logits_processing import Rules, Timestamps, number, rules, warmer
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.values.arrays import Array, check_size, full

#: model_type: decoder only, encoder-decoder for text, encoder-decoder for speech.
_GPT, _T5, _WHISPER = range(3)


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """A finished sequence with its cross attention, (pairs, length, frames)."""

    score: float
    sequence: Array
    crossed: Array | None


class _Hypotheses:
    """The best finished sequences of one batch entry."""

    def __init__(self, most: int, length_penalty: float, early_stopping: bool) -> None:
        self._most, self._penalty, self._early = most, length_penalty, early_stopping
        self.found: list[_Hypothesis] = []  # by descending score
        self.done = False

    def add(self, sequence: Array, total: float, crossed: Array | None) -> None:
        """Add a sequence with the sum of its scores, if it is among the best."""
        score = total / len(sequence) ** self._penalty
        self.found.append(_Hypothesis(score, sequence.copy(), None if crossed is None else crossed.copy()))
        self.found.sort(key=lambda item: -item.score)
        del self.found[self._most :]

    def settle(self, best: float, length: int) -> None:
        """Return whether no unfinished sequence can become better."""
        if len(self.found) == self._most:
            self.done = self.done or self._early or self.found[-1].score >= best / length**self._penalty


class _Search:
    """Number and length of the beams, and the requested outputs."""

    def __init__(
        self,
        max_length: Array,
        num_beams: Array,
        num_return_sequences: Array,
        length_penalty: Array | None,
        early_stopping: int,
        pad: int,
    ) -> None:
        self.longest, self.beams = scalar_int(max_length, "max_length"), scalar_int(num_beams, "num_beams")
        self.wanted = scalar_int(num_return_sequences, "num_return_sequences")
        self.pad = pad
        self.kind = np.dtype(np.float32) if length_penalty is None else length_penalty.dtype
        self._ends = number(length_penalty, 1.0), bool(early_stopping)
        if not 1 <= self.wanted <= self.beams:
            msg = f"num_return_sequences {self.wanted} of num_beams {self.beams}; expected 1 up to that"
            raise KernelError(msg)

    def room(self, prompt: Array) -> Room:
        """Return the sizes for the decoder; LimitError where they exceed the memory limit."""
        if not 0 < prompt.shape[1] < self.longest:
            msg = f"{prompt.shape[1]} tokens to begin with, max_length {self.longest}; expected fewer than that, but 1"
            raise KernelError(msg)
        check_size((len(prompt), self.beams, self.longest), np.int32)
        return Room(len(prompt), self.beams, self.longest)

    def run(
        self, state: Decoder, token_rules: Rules, prompt: Array, *, each_step: bool
    ) -> tuple[list[_Hypotheses], Array | None]:
        """Run the search; returns the best sequences per batch entry, and optionally the scores of all tokens at each
        step.
        """
        ended = [_Hypotheses(self.beams, *self._ends) for _ in prompt]
        steps: list[Array] | None = [] if each_step else None
        token_rules = replace(token_rules, repeats=self.beams)
        _follow(state, token_rules, np.repeat(prompt, self.beams, 0), self.longest, self.pad, ended, steps)
        if steps is None:
            return ended, None
        shape = (self.longest - prompt.shape[1], len(prompt), self.beams, steps[0].shape[-1])
        scores = full(shape, 0, self.kind)
        scores[: len(steps)] = np.reshape(steps, (len(steps), *shape[1:]))
        return ended, scores

    def results(self, ended: list[_Hypotheses]) -> tuple[Array, Array]:
        """Return sequences (batch, wanted, longest) and their scores (batch, wanted)."""
        sequences = full((len(ended), self.wanted, self.longest), self.pad, np.int32)
        scores = full((len(ended), self.wanted), 0, self.kind)
        for entry, best in enumerate(ended):
            for rank, hypothesis in enumerate(best.found[: self.wanted]):
                sequences[entry, rank, : len(hypothesis.sequence)] = hypothesis.sequence
                scores[entry, rank] = hypothesis.score
        return sequences, scores

    def crossed(self, ended: list[_Hypotheses]) -> Array:
        """Return the cross attention, (batch, wanted, pairs, longest length, frames), padded with 0."""
        by_entry = [[h.crossed for h in best.found[: self.wanted]] for best in ended]
        present = [c for entry in by_entry for c in entry if c is not None]
        if not present:
            return full((len(ended), self.wanted, 0, 0, 0), 0, np.float32)
        pairs, _, frames = present[0].shape
        whole = full((len(ended), self.wanted, pairs, max(c.shape[1] for c in present), frames), 0, np.float32)
        for entry, ranks in enumerate(by_entry):
            for rank, crossed in enumerate(ranks):
                if crossed is not None:
                    whole[entry, rank, :, : crossed.shape[1]] = crossed
        return whole


def _follow(
    state: Decoder,
    token_rules: Rules,
    sequences: Array,
    longest: int,
    pad: int,
    ended: list[_Hypotheses],
    steps: list[Array] | None,
) -> None:
    """Extend beams (batch · beams, length) until they reach the maximum length or cannot improve."""
    batch, beams = len(ended), token_rules.repeats
    totals = np.tile(np.where(np.arange(beams) > 0, np.float32(-1e9), np.float32(0)), (batch, 1))
    while sequences.shape[1] < longest:
        likely = np.array(onnx("LogSoftmax", 13, state.scores(), axis=-1))
        scores = token_rules.apply(likely, sequences) + totals.reshape(-1, 1)
        if steps is not None:
            steps.append(scores)
        crossed = _crossed(state)
        rows = scores.reshape(batch, -1)
        order = np.argsort(-rows, 1, kind="stable")[:, : 2 * beams]
        tokens = np.full((batch, beams), pad, np.int32)
        sources = np.repeat(np.arange(batch)[:, None] * beams, beams, 1)
        for entry, best in enumerate(ended):
            if best.done:
                totals[entry] = 0
                continue
            places, ending = _chosen(order[entry], scores.shape[1], token_rules.eos, beams)
            for index in ending.tolist():
                source = entry * beams + index // scores.shape[1]
                best.add(sequences[source], float(rows[entry, index]), None if crossed is None else crossed[source])
            taken = len(places)
            tokens[entry, :taken] = places % scores.shape[1]
            sources[entry, :taken] += places // scores.shape[1]
            totals[entry, :taken] = rows[entry, places]
            best.settle(float(rows[entry, order[entry, 0]]), sequences.shape[1])
        picked = sources.reshape(-1)
        sequences = np.concatenate([sequences[picked], tokens.reshape(-1, 1)], 1)
        if all(best.done for best in ended):
            return
        state.append_token(tokens.reshape(-1), picked)
    _finish_remaining(state, sequences, totals, ended)


def _finish_remaining(state: Decoder, sequences: Array, totals: Array, ended: list[_Hypotheses]) -> None:
    """Finish the remaining beams, which have the maximum length."""
    crossed, beams = _crossed(state), totals.shape[1]
    for entry, best in enumerate(ended):
        if not best.done:
            for beam in range(beams):
                source = entry * beams + beam
                best.add(sequences[source], float(totals[entry, beam]), None if crossed is None else crossed[source])


def _crossed(state: Decoder) -> Array | None:
    return state.crossed if isinstance(state, EncodedDecoder) else None


def _chosen(order: Array, words: int, eos: int, beams: int) -> tuple[Array, Array]:
    """Return which of the best candidates in (beams · tokens) continue, and which before the last of them end a
    sequence.
    """
    ends = order % words == eos
    going = np.flatnonzero(~ends)[:beams]
    before = min(beams, int(going[-1])) if len(going) == beams else beams
    return order[going], order[:before][ends[:before]]


def _start(given: Array | None, token: int, batch: int) -> Array:
    """Return the initial tokens for a decoder with an encoder, (batch, length)."""
    if given is None and token >= 0:
        return np.full((batch, 1), token, np.int32)
    if given is None or given.ndim != 2 or len(given) != batch or (given.size and given.min() < 0):
        shape = None if given is None else given.shape
        msg = f"decoder_input_ids {shape}, decoder_start_token_id {token}; expected ({batch}, length) or a token"
        raise KernelError(msg)
    return given.astype(np.int32)


def _counting(input_ids: Array, attention_mask: Array | None, pad: int) -> Array:
    """Return the encoder's attention mask: as given, or from the first token that is not padding on."""
    if input_ids.ndim != 2 or (attention_mask is not None and attention_mask.shape != input_ids.shape):
        shape = None if attention_mask is None else attention_mask.shape
        msg = f"input_ids of shape {input_ids.shape}, attention_mask {shape}; expected (batch, length) for both"
        raise KernelError(msg)
    if attention_mask is not None:
        return attention_mask.astype(np.int32)
    return np.asarray(np.logical_or.accumulate(input_ids != pad, 1).astype(np.int32))


@kernel("BeamSearch", since=1, domain=MICROSOFT)
def beam_search_1(
    ctx: Context,
    input_ids: Array,
    max_length: Array,
    min_length: Array | None,
    num_beams: Array,
    num_return_sequences: Array,
    length_penalty: Array | None = None,
    repetition_penalty: Array | None = None,
    vocab_mask: Array | None = None,
    prefix_vocab_mask: Array | None = None,
    attention_mask: Array | None = None,
    decoder_input_ids: Array | None = None,
    logits_processor: Array | None = None,
    *,
    decoder: Body,
    decoder_start_token_id: int = -1,
    early_stopping: int = 0,
    encoder: Body | None = None,
    eos_token_id: int,
    init_decoder: Body | None = None,
    model_type: int = _GPT,
    no_repeat_ngram_size: int = 0,
    pad_token_id: int,
    vocab_size: int = -1,
) -> tuple[Array, Array, Array | None]:
    """Beam search: the most likely sequences, their scores, and the token scores at each step."""
    search = _Search(max_length, num_beams, num_return_sequences, length_penalty, early_stopping, pad_token_id)
    state: Decoder
    if model_type == _GPT and encoder is None:
        prompt, mask = prompt_and_mask(input_ids, attention_mask, pad_token_id, search.longest)
        search.room(prompt)
        beams = search.beams
        state = LoneDecoder(decoder, init_decoder, np.repeat(prompt, beams, 0), np.repeat(mask, beams, 0), vocab_size)
    elif model_type in (_T5, _WHISPER):
        start = decoder_input_ids if model_type == _WHISPER else None
        prompt = _start(start, decoder_start_token_id, len(input_ids))
        room = search.room(prompt)
        attended = _counting(input_ids, attention_mask, pad_token_id) if model_type == _T5 else None
        state = EncodedDecoder(decoder, encode(encoder, input_ids, attended, prompt), prompt, room, vocab_size)
    else:
        msg = f"model_type is {model_type}; expected 0 without an encoder, as of GPT-2, or 1 or 2 with one: T5, Whisper"
        raise KernelError(msg)
    masks = vocab_mask, prefix_vocab_mask
    token_rules = rules(prompt, eos_token_id, min_length, repetition_penalty, no_repeat_ngram_size, masks)
    if logits_processor is not None and logits_processor.any():
        token_rules = replace(token_rules, further=(_stamps_after(eos_token_id, model_type),))
    ended, steps = search.run(state, token_rules, prompt, each_step=any(ctx.wanted[2:3]))
    return *search.results(ended), steps


def _stamps_after(eos: int, model_type: int) -> Timestamps:
    """Return Whisper's timestamp rules where only the end-of-text token is given: its special tokens have a fixed
    order.
    """
    if model_type != _WHISPER:
        msg = f"logits_processor is given to a model of type {model_type}; expected 2, Whisper"
        raise KernelError(msg)
    return Timestamps(eos, eos + 107, eos + 1, eos + 101, eos + 102, eos + 105, eos + 106)


@kernel("WhisperBeamSearch", since=1, domain=MICROSOFT)
def whisper_beam_search_1(
    ctx: Context,
    input_ids: Array,
    max_length: Array,
    min_length: Array | None,
    num_beams: Array,
    num_return_sequences: Array,
    length_penalty: Array | None = None,
    repetition_penalty: Array | None = None,
    vocab_mask: Array | None = None,
    prefix_vocab_mask: Array | None = None,
    _attention_mask: Array | None = None,  # an encoder of sound has none
    decoder_input_ids: Array | None = None,
    logits_processor: Array | None = None,
    cross_qk_layer_head: Array | None = None,
    extra_decoding_ids: Array | None = None,
    temperature: Array | None = None,
    *,
    beginning_timestamp_token_id: int = -1,
    decoder: Body,
    decoder_output_cross_qk: int = 0,
    decoder_start_token_id: int = -1,
    early_stopping: int = 0,
    encoder: Body | None = None,
    eos_token_id: int,
    _init_decoder: Body | None = None,  # of models without an encoder
    _model_type: int = _WHISPER,
    no_repeat_ngram_size: int = 0,
    no_speech_token_id: int = -1,
    no_timestamps_token_id: int = -1,
    pad_token_id: int,
    start_of_lm_token_id: int = -1,
    transcribe_token_id: int = -1,
    translate_token_id: int = -1,
    vocab_size: int = -1,
) -> tuple[Array, Array, Array | None, Array | None, Array | None]:
    """BeamSearch for speech; also returns cross attention and the probability of no speech."""
    search = _Search(max_length, num_beams, num_return_sequences, length_penalty, early_stopping, pad_token_id)
    prompt = _start(decoder_input_ids, decoder_start_token_id, len(input_ids))
    room = search.room(prompt)
    encoded = encode(encoder, input_ids, None, prompt)
    pairs = _pairs(cross_qk_layer_head) if decoder_output_cross_qk else None
    state = EncodedDecoder(decoder, encoded, prompt, room, vocab_size, pairs)
    masks = vocab_mask, prefix_vocab_mask
    token_rules = rules(prompt, eos_token_id, min_length, repetition_penalty, no_repeat_ngram_size, masks)
    further = [warmer(number(temperature, 1.0))] if number(temperature, 1.0) > 0 else []
    if logits_processor is not None and logits_processor.any():
        stamps = Timestamps(
            eos_token_id, beginning_timestamp_token_id, decoder_start_token_id, translate_token_id,
            transcribe_token_id, start_of_lm_token_id, no_timestamps_token_id,
        )  # fmt: skip
        further.append(stamps)
    if extra_decoding_ids is not None and extra_decoding_ids.size:
        further.append(_Forced(np.repeat(extra_decoding_ids, search.beams, 0), prompt.shape[1]))
    ended, steps = search.run(
        state, replace(token_rules, further=tuple(further)), prompt, each_step=any(ctx.wanted[2:3])
    )
    silence = _no_speech(encoded, no_speech_token_id, search.kind) if any(ctx.wanted[4:5]) else None
    return *search.results(ended), steps, search.crossed(ended) if pairs is not None else None, silence


@dataclass(frozen=True, slots=True)
class _Forced:
    """Forced tokens after a prompt, (sequences, count); a negative one leaves all further tokens free."""

    tokens: Array
    start: int

    def __call__(self, scores: Array, sequences: Array) -> Array:
        index = sequences.shape[1] - self.start
        if self.tokens.ndim != 2 or len(self.tokens) != len(scores):
            given = f"extra_decoding_ids give tokens of shape {self.tokens.shape} for {len(scores)} sequences"
            msg = f"{given}; expected one row for each"
            raise KernelError(msg)
        if index >= self.tokens.shape[1]:
            return scores
        wanted = self.tokens[:, index]
        bound = np.flatnonzero((self.tokens[:, : index + 1] >= 0).all(1) & (wanted < scores.shape[1]))
        scores = scores.copy()
        scores[bound] = np.finfo(np.float32).min
        scores[bound, wanted[bound]] = 0
        return scores


def _pairs(given: Array | None) -> Array:
    if given is None or given.ndim != 2 or given.shape[1] != 2 or (given.size and given.min() < 0):
        shape = None if given is None else given.shape
        msg = f"cross_qk_layer_head has shape {shape}; expected (count, 2), numbers of layers and heads"
        raise KernelError(msg)
    return given


def _no_speech(encoded: Encoded, token: int, kind: np.dtype) -> Array:
    """Return the probability of one token at the first position, (batch,)."""
    logits = encoded.logits
    if logits is None or not 0 <= token < logits.shape[-1]:
        words = 0 if logits is None else logits.shape[-1]
        msg = f"no_speech_token_id is {token}; expected one of the {words} words that the encoder scores"
        raise KernelError(msg)
    return np.asarray(onnx("Softmax", 13, logits[:, -1].astype(np.float32), axis=-1)[:, token], kind)
