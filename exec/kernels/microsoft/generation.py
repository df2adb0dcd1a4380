"""Autoregressive text generation around a decoder in a subgraph: greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Body, Context
from onnx_workbench.exec.kernels.microsoft.decoders import LoneDecoder
from onnx_workbench.exec.kernels.microsoft.logits_processing import Rules, number, rules, warmer
from onnx_workbench.exec.kernels.microsoft.onnx_calls import MICROSOFT, onnx
from onnx_workbench.exec.kernels.registry import kernel
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.values.arrays import Array, full


def prompt_and_mask(input_ids: Array, attention_mask: Array | None, pad: int, max_length: int) -> tuple[Array, Array]:
    """Return the prompt tokens and their attention mask."""
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


def _one_by_one(
    decoder: LoneDecoder, token_rules: Rules, prompt: Array, max_length: int, pad: int, choose: Callable[[Array], Array]
) -> Array:
    """Return sequences (batch, max_length): the prompt, then chosen tokens up to the end token."""
    sequences = full((len(prompt), max_length), pad, np.int32)
    length = prompt.shape[1]
    sequences[:, :length] = prompt
    ended = np.zeros(len(prompt), bool)
    for index in range(length, max_length):
        tokens = choose(token_rules.apply(decoder.scores(), sequences[:, :index])).astype(np.int32)
        tokens[ended] = pad
        ended |= tokens == token_rules.eos
        tokens[ended] = pad if pad != token_rules.eos else tokens[ended]
        sequences[:, index] = tokens
        if ended.all():
            break
        decoder.append_token(tokens)
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
    vocab_size: int = -1,
) -> Array:
    """Greedy search: the most likely token at each step."""
    _check_kind(model_type, encoder)
    longest = scalar_int(max_length, "max_length")
    prompt, mask = prompt_and_mask(input_ids, attention_mask, pad_token_id, longest)
    masks = vocab_mask, prefix_vocab_mask
    token_rules = rules(prompt, eos_token_id, min_length, repetition_penalty, no_repeat_ngram_size, masks)
    state = LoneDecoder(decoder, init_decoder, prompt, mask, vocab_size)
    return _one_by_one(state, token_rules, prompt, longest, pad_token_id, lambda scores: scores.argmax(1))


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
    vocab_size: int = -1,
) -> tuple[Array, Array]:
    """Top-p sampling; also returns the last filtered scores."""
    _check_kind(model_type, encoder)
    if custom or temperature <= 0:
        msg = f"custom {custom}, temperature {temperature}; expected 0 and a positive number"
        raise KernelError(msg)
    longest = scalar_int(max_length, "max_length")
    prompt, mask = prompt_and_mask(input_ids, attention_mask, pad_token_id, longest)
    masks = vocab_mask, prefix_vocab_mask

    def less_if_present(scores: Array, _: Array) -> Array:
        return scores if presence_mask is None else scores - presence_mask * np.float32(presence_penalty)

    token_rules = rules(prompt, eos_token_id, min_length, repetition_penalty, no_repeat_ngram_size, masks)
    token_rules = replace(token_rules, further=(warmer(temperature), less_if_present))
    random = ctx.rng(None if seed is None else number(seed, 0.0))
    last = np.zeros((len(prompt), 0), np.float32)

    def draw(scores: Array) -> Array:
        nonlocal last
        last = _most_probable(scores, top_p, min_tokens_to_keep, filter_value)
        shares = np.cumsum(onnx("Softmax", 13, last, axis=-1).astype(np.float64), 1)
        return np.asarray((random.random((len(shares), 1)) * shares[:, -1:] >= shares).sum(1))

    sequences = _one_by_one(
        LoneDecoder(decoder, init_decoder, prompt, mask, vocab_size), token_rules, prompt, longest, pad_token_id, draw
    )
    return sequences, last


def _most_probable(scores: Array, top_p: float, least: int, filtered: float) -> Array:
    """Top-p filter: keep the most probable tokens that together have `top_p`, set the others to `filtered`."""
    if not 0 < top_p < 1:
        return scores
    order = np.argsort(scores, 1, kind="stable")
    shares = np.cumsum(onnx("Softmax", 13, np.take_along_axis(scores, order, 1), axis=-1), 1)
    out = shares <= 1 - top_p
    out[:, scores.shape[1] - max(least, 1) :] = False
    result = scores.copy()
    np.put_along_axis(result, order, np.where(out, np.float32(filtered), np.take_along_axis(scores, order, 1)), 1)
    return result
