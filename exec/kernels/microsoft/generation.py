"""Text generation around a decoder in a subgraph: the likeliest token, a random one, or the likeliest beams.

The decoder is that of a GPT-2: it takes tokens, their positions, a mask of all tokens so far and what it gave of
each layer, (2, batch, heads, length, size); it gives the scores of each word, (batch, length, words), and the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from exec.arrays import Array, check_size, full
from exec.context import Body, Context, checkpoint
from exec.errors import KernelError
from exec.kernels.microsoft.standard import MICROSOFT, onnx
from exec.kernels.microsoft.tensors import ngram_repeat_block_1
from exec.kernels.registry import kernel
from exec.kernels.shared.axes import scalar_int
from exec.kernels.shared.dtypes import dtype_of
from model.types import TensorType

_LOWEST = np.finfo(np.float32).min


class _Decoder:
    """A decoder with the state of all its sequences."""

    def __init__(self, body: Body, first: Body | None, prompt: Array, mask: Array) -> None:
        self._body = body
        self._first: Body | None = first or body
        self._ids = prompt
        self._mask = mask
        positions = np.cumsum(mask, 1) - 1
        self._positions = np.where(mask != 0, positions, 0).astype(np.int32)
        self._layers = _empty_layers(body, len(prompt))

    def scores(self) -> Array:
        """Scores of the words that may come next, (sequences, words) float32."""
        checkpoint()
        body, self._first = self._first or self._body, None
        logits, *layers = body([self._ids, self._positions, self._mask, *self._layers])
        if not isinstance(logits, np.ndarray) or logits.ndim != 3 or len(logits) != len(self._ids):
            msg = f"the decoder gave scores of shape {np.shape(logits)}; expected ({len(self._ids)}, length, words)"
            raise KernelError(msg)
        self._layers = layers
        return logits[:, -1].astype(np.float32)

    def go_on(self, tokens: Array, sources: Array | None = None) -> None:
        """Add a token to each sequence; `sources` says which sequence each is the continuation of."""
        if sources is not None:
            self._layers = [layer[:, sources] for layer in self._layers]
            self._mask, self._positions = self._mask[sources], self._positions[sources]
        self._ids = tokens.astype(np.int32)[:, None]
        self._positions = self._positions[:, -1:] + np.int32(1)
        self._mask = np.concatenate([self._mask, np.ones_like(self._ids)], 1)


def _empty_layers(body: Body, batch: int) -> list[Array]:
    """The layers of no token, by the declared shapes of those the decoder gives."""
    layers = []
    for name, declared in zip(body.output_names[1:], body.output_types[1:], strict=True):
        dims = declared.shape.dims if isinstance(declared, TensorType) and declared.shape is not None else ()
        heads, size = (dims[2], dims[4]) if len(dims) == 5 else (None, None)
        if not isinstance(heads, int) or not isinstance(size, int) or not isinstance(declared, TensorType):
            msg = f"output {name!r} of the decoder has type {declared}; expected (2, batch, heads, length, size)"
            raise KernelError(msg)
        layers.append(full((2, batch, heads, 0, size), 0, dtype_of(declared.element_type)))
    if len(body.input_names) != 3 + len(layers):
        msg = f"the decoder takes {', '.join(body.input_names)}; expected tokens, positions, mask and each layer"
        raise KernelError(msg)
    return layers


@dataclass(frozen=True, slots=True)
class _Rules:
    """What is done to scores before a word is chosen. `repeats` sequences belong to each entry of the batch."""

    prompt_length: int
    eos: int
    min_length: int = 0
    penalty: float = 1.0
    ngram: int = 0
    mask: Array | None = None
    prefix_mask: Array | None = None
    repeats: int = 1
    further: Sequence[Callable[[Array], Array]] = field(default_factory=tuple)

    def apply(self, scores: Array, sequences: Array) -> Array:
        """Scores of the next words of sequences (count, length)."""
        if not 0 <= self.eos < scores.shape[1] or (sequences.size and int(sequences.max()) >= scores.shape[1]):
            msg = f"eos_token_id {self.eos} or a token is not among the {scores.shape[1]} words of the decoder"
            raise KernelError(msg)
        if self.penalty != 1.0:
            seen = np.take_along_axis(scores, sequences, 1)
            again = np.where(seen < 0, seen * np.float32(self.penalty), seen / np.float32(self.penalty))
            np.put_along_axis(scores, sequences, again, 1)
        if 0 < self.ngram <= sequences.shape[1]:
            scores = np.maximum(ngram_repeat_block_1(sequences, scores, ngram_size=self.ngram), _LOWEST)
        if self.mask is not None:
            scores = np.where(self.mask.reshape(1, -1) != 0, scores, _LOWEST)
        if self.prefix_mask is not None and sequences.shape[1] == self.prompt_length:
            scores = np.where(np.repeat(self.prefix_mask, self.repeats, 0) != 0, scores, _LOWEST)
        if sequences.shape[1] < self.min_length:
            scores[:, self.eos] = _LOWEST
        for change in self.further:
            scores = change(scores)
        return scores


def _rules(
    prompt: Array,
    eos: int,
    min_length: Array | None,
    penalty: Array | None,
    ngram: int,
    masks: tuple[Array | None, Array | None],
) -> _Rules:
    """What the inputs and attributes of a search say of its words; `masks` are those of all and of the first."""
    least = 0 if min_length is None else scalar_int(min_length, "min_length")
    return _Rules(prompt.shape[1], eos, least, _float(penalty, 1.0), ngram, *masks)


def _prompt(input_ids: Array, attention_mask: Array | None, pad: int, max_length: int) -> tuple[Array, Array]:
    """The tokens given and which of them count."""
    if input_ids.ndim != 2 or not input_ids.size or not 0 < input_ids.shape[1] < max_length or input_ids.min() < 0:
        msg = f"input_ids of shape {input_ids.shape}, max_length {max_length}; expected (batch, fewer than that)"
        raise KernelError(msg)
    mask = (input_ids != pad if attention_mask is None else attention_mask != 0).astype(np.int32)
    if mask.shape != input_ids.shape:
        msg = f"attention_mask has shape {mask.shape}; expected {input_ids.shape}"
        raise KernelError(msg)
    return input_ids.astype(np.int32), mask


def _check_kind(model_type: int, encoder: Body | None) -> None:
    if model_type or encoder is not None:
        msg = f"model_type is {model_type}; expected 0, a decoder only, as of GPT-2"
        raise KernelError(msg)


def _float(value: Array | None, default: float) -> float:
    return default if value is None else float(value.reshape(-1)[0])


def _one_by_one(
    decoder: _Decoder, rules: _Rules, prompt: Array, max_length: int, pad: int, choose: Callable[[Array], Array]
) -> Array:
    """Sequences (batch, max_length), each with the chosen tokens after the prompt until its end."""
    sequences = full((len(prompt), max_length), pad, np.int32)
    length = prompt.shape[1]
    sequences[:, :length] = prompt
    ended = np.zeros(len(prompt), bool)
    for place in range(length, max_length):
        tokens = choose(rules.apply(decoder.scores(), sequences[:, :place])).astype(np.int32)
        tokens[ended] = pad
        ended |= tokens == rules.eos
        tokens[ended] = pad if pad != rules.eos else tokens[ended]
        sequences[:, place] = tokens
        if ended.all():
            break
        decoder.go_on(tokens)
    return sequences


@kernel("GreedySearch", since=1, domain=MICROSOFT)
def greedy_search_1(
    input_ids: Array,
    max_length: Array,
    min_length: Array | None = None,
    repetition_penalty: Array | None = None,
    vocab_mask: Array | None = None,
    prefix_vocab_mask: Array | None = None,
    attention_mask: Array | None = None,
    *,
    decoder: Body,
    _decoder_start_token_id: int = -1,  # of models with an encoder
    encoder: Body | None = None,
    eos_token_id: int,
    init_decoder: Body | None = None,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    pad_token_id: int,
    _vocab_size: int = -1,  # told by the scores
) -> Array:
    """Sequences of the likeliest next token each time."""
    _check_kind(model_type, encoder)
    longest = scalar_int(max_length, "max_length")
    prompt, mask = _prompt(input_ids, attention_mask, pad_token_id, longest)
    masks = vocab_mask, prefix_vocab_mask
    rules = _rules(prompt, eos_token_id, min_length, repetition_penalty, no_repeat_ngram_size, masks)
    state = _Decoder(decoder, init_decoder, prompt, mask)
    return _one_by_one(state, rules, prompt, longest, pad_token_id, lambda scores: scores.argmax(1))


@kernel("Sampling", since=1, domain=MICROSOFT)
def sampling_1(
    ctx: Context,
    input_ids: Array,
    max_length: Array,
    min_length: Array | None = None,
    repetition_penalty: Array | None = None,
    vocab_mask: Array | None = None,
    prefix_vocab_mask: Array | None = None,
    attention_mask: Array | None = None,
    presence_mask: Array | None = None,
    seed: Array | None = None,
    *,
    custom: int = 0,
    decoder: Body,
    _decoder_start_token_id: int = -1,  # of models with an encoder
    encoder: Body | None = None,
    eos_token_id: int,
    filter_value: float = -1.0000000200408773e20,
    init_decoder: Body | None = None,
    min_tokens_to_keep: int = 0,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    pad_token_id: int,
    presence_penalty: float = 0.0,
    temperature: float = 1.0,
    top_p: float = 0.0,
    _vocab_size: int = -1,  # told by the scores
) -> tuple[Array, Array]:
    """Sequences of tokens drawn from the most probable ones; also the scores the last were drawn by."""
    _check_kind(model_type, encoder)
    if custom or temperature <= 0:
        msg = f"custom {custom}, temperature {temperature}; expected 0 and a positive number"
        raise KernelError(msg)
    longest = scalar_int(max_length, "max_length")
    prompt, mask = _prompt(input_ids, attention_mask, pad_token_id, longest)
    masks = vocab_mask, prefix_vocab_mask

    def warm(scores: Array) -> Array:
        scores = scores / np.float32(temperature)
        return scores if presence_mask is None else scores - presence_mask * np.float32(presence_penalty)

    rules = _rules(prompt, eos_token_id, min_length, repetition_penalty, no_repeat_ngram_size, masks)
    rules = replace(rules, further=(warm,))
    random = ctx.rng(None if seed is None else _float(seed, 0.0))
    last = np.zeros((len(prompt), 0), np.float32)

    def draw(scores: Array) -> Array:
        nonlocal last
        last = _most_probable(scores, top_p, min_tokens_to_keep, filter_value)
        shares = np.cumsum(onnx("Softmax", 13, last, axis=-1).astype(np.float64), 1)
        return np.asarray((random.random((len(shares), 1)) * shares[:, -1:] >= shares).sum(1))

    sequences = _one_by_one(_Decoder(decoder, init_decoder, prompt, mask), rules, prompt, longest, pad_token_id, draw)
    return sequences, last


def _most_probable(scores: Array, top_p: float, least: int, filtered: float) -> Array:
    """Scores where all but the most probable words, which together have `top_p`, have the value of those left out."""
    if not 0 < top_p < 1:
        return scores
    order = np.argsort(scores, 1, kind="stable")
    shares = np.cumsum(onnx("Softmax", 13, np.take_along_axis(scores, order, 1), axis=-1), 1)
    out = shares <= 1 - top_p
    out[:, scores.shape[1] - max(least, 1) :] = False
    result = scores.copy()
    np.put_along_axis(result, order, np.where(out, np.float32(filtered), np.take_along_axis(scores, order, 1)), 1)
    return result


class _Hypotheses:
    """The best sequences of one entry of the batch that have ended."""

    def __init__(self, most: int, length_penalty: float, early_stopping: bool) -> None:
        self._most, self._penalty, self._early = most, length_penalty, early_stopping
        self.found: list[tuple[float, Array]] = []  # by falling score
        self.done = False

    def add(self, sequence: Array, total: float) -> None:
        """Take up a sequence with the sum of its scores, if it is among the best."""
        self.found.append((total / len(sequence) ** self._penalty, sequence.copy()))
        self.found.sort(key=lambda item: -item[0])
        del self.found[self._most :]

    def settle(self, best: float, length: int) -> None:
        """Whether nothing that goes on can be better."""
        if len(self.found) == self._most:
            self.done = self.done or self._early or self.found[-1][0] >= best / length**self._penalty


@kernel("BeamSearch", since=1, domain=MICROSOFT)
def beam_search_1(
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
    _decoder_start_token_id: int = -1,  # of models with an encoder
    early_stopping: int = 0,
    encoder: Body | None = None,
    eos_token_id: int,
    init_decoder: Body | None = None,
    model_type: int = 0,
    no_repeat_ngram_size: int = 0,
    pad_token_id: int,
    _vocab_size: int = -1,  # told by the scores
) -> tuple[Array, Array]:
    """The likeliest of several sequences that are followed at a time, and the score of each."""
    _check_kind(model_type, encoder)
    if decoder_input_ids is not None or (logits_processor is not None and logits_processor.any()):
        msg = "decoder_input_ids and logits_processor belong to models with an encoder; expected neither"
        raise KernelError(msg)
    longest, beams = scalar_int(max_length, "max_length"), scalar_int(num_beams, "num_beams")
    wanted = scalar_int(num_return_sequences, "num_return_sequences")
    prompt, mask = _prompt(input_ids, attention_mask, pad_token_id, longest)
    if not 1 <= wanted <= beams:
        msg = f"num_return_sequences {wanted} of num_beams {beams}; expected 1 up to that"
        raise KernelError(msg)
    check_size((len(prompt), beams, longest), np.int32)
    masks = vocab_mask, prefix_vocab_mask
    rules = _rules(prompt, eos_token_id, min_length, repetition_penalty, no_repeat_ngram_size, masks)
    rules = replace(rules, repeats=beams)
    state = _Decoder(decoder, init_decoder, np.repeat(prompt, beams, 0), np.repeat(mask, beams, 0))
    penalty = _float(length_penalty, 1.0)
    ended = [_Hypotheses(beams, penalty, bool(early_stopping)) for _ in prompt]
    _follow(state, rules, np.repeat(prompt, beams, 0), longest, pad_token_id, ended)
    sequences = full((len(prompt), wanted, longest), pad_token_id, np.int32)
    scores = full((len(prompt), wanted), 0, np.float32)
    for entry, best in enumerate(ended):
        for rank, (score, sequence) in enumerate(best.found[:wanted]):
            sequences[entry, rank, : len(sequence)] = sequence
            scores[entry, rank] = score
    return sequences, scores


def _follow(state: _Decoder, rules: _Rules, sequences: Array, longest: int, pad: int, ended: list[_Hypotheses]) -> None:
    """Let beams (batch · beams, length) go on until they are as long as they may be or cannot become better."""
    batch, beams = len(ended), rules.repeats
    totals = np.tile(np.where(np.arange(beams) > 0, np.float32(-1e9), np.float32(0)), (batch, 1))
    while sequences.shape[1] < longest:
        likely = np.array(onnx("LogSoftmax", 13, state.scores(), axis=-1))
        scores = rules.apply(likely, sequences) + totals.reshape(-1, 1)
        words = scores.shape[1]
        rows = scores.reshape(batch, beams * words)
        order = np.argsort(-rows, 1, kind="stable")[:, : 2 * beams]
        tokens = np.full((batch, beams), pad, np.int32)
        sources = np.zeros((batch, beams), np.int64)
        for entry, best in enumerate(ended):
            if best.done:
                sources[entry] = entry * beams
                totals[entry] = 0
                continue
            taken = 0
            for rank, place in enumerate(order[entry].tolist()):
                beam, token = divmod(place, words)
                source = entry * beams + beam
                if token == rules.eos:
                    if rank < beams:
                        best.add(sequences[source], float(rows[entry, place]))
                    continue
                tokens[entry, taken], sources[entry, taken] = token, source
                totals[entry, taken] = rows[entry, place]
                taken += 1
                if taken == beams:
                    break
            best.settle(float(rows[entry, order[entry, 0]]), sequences.shape[1])
        picked = sources.reshape(-1)
        sequences = np.concatenate([sequences[picked], tokens.reshape(-1, 1)], 1)
        if all(best.done for best in ended):
            return
        if sequences.shape[1] < longest:
            state.go_on(tokens.reshape(-1), picked)
    for entry, best in enumerate(ended):
        if not best.done:
            for beam in range(beams):
                best.add(sequences[entry * beams + beam], float(totals[entry, beam]))
