"""Autoregressive text decoders in subgraphs: decoder-only (GPT-2) and encoder-decoder (T5, Whisper).

A decoder keeps a key-value cache per layer. Where its subgraph has one or three further inputs, the caches are buffers
of the maximum length, filled in place, and the inputs give the current length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.context import Body
from onnx_workbench.exec.kernels.shared.dtypes import dtype_of
from onnx_workbench.exec.values.arrays import Array, RuntimeValue, check_size, full
from onnx_workbench.exec.values.limits import checkpoint
from onnx_workbench.model.ir.types import TensorType, Type


class Decoder(Protocol):
    """A decoder with the state of all its sequences."""

    def scores(self) -> Array:
        """Return the logits of the next token, (sequences, words) float32."""

    def append_token(self, tokens: Array, sources: Array | None = None) -> None:
        """Append a token to each sequence; `sources` gives the sequence that each one continues."""


@dataclass(frozen=True, slots=True)
class Room:
    """Sizes for a decoder: `beams` per batch entry, and the maximum length."""

    batch: int
    beams: int
    longest: int

    def last_inputs(self, count: int, length: int) -> list[Array]:
        """Return the last inputs of a decoder with buffers: the current length, and beam indices without shared
        history.
        """
        own = np.arange(self.beams, dtype=np.int32)[:, None]
        indirection = np.broadcast_to(own, (self.batch, self.beams, self.longest))
        return [np.array([length], np.int32), np.array([self.beams], np.int32), indirection][:count]

    def for_beams(self, values: Array) -> Array:
        """Repeat the values of each batch entry for its beams; checked against the memory limit first."""
        check_size((len(values), self.beams, *values.shape[1:]), values.dtype)
        return np.repeat(values, self.beams, 0)

    def buffer(self, layer: Array) -> Array:
        """Return a buffer of the maximum length that begins with keys or values (…, length, size)."""
        *front, length, size = layer.shape
        whole = full((*front, self.longest, size), 0, layer.dtype)
        whole[..., :length, :] = layer
        return whole


def _last_scores(logits: RuntimeValue, count: int, words: int) -> Array:
    if not isinstance(logits, np.ndarray) or logits.ndim != 3 or len(logits) != count or not logits.shape[1]:
        msg = f"the decoder gave scores of shape {np.shape(logits)}; expected ({count}, length, words)"
        raise KernelError(msg)
    return logits[:, -1, : words if words > 0 else None].astype(np.float32)


class LoneDecoder:
    """Decoder-only model such as GPT-2: takes tokens, positions, an attention mask and the cache of each layer.

    Returns logits, (sequences, length, words), and the caches, (2, sequences, heads, length, size).
    """

    def __init__(self, body: Body, first: Body | None, prompt: Array, mask: Array, words: int = -1) -> None:
        self._body = body
        self._first: Body | None = first or body
        self._ids = prompt
        self._mask = mask
        self._words = words
        positions = np.cumsum(mask, 1) - 1
        self._positions = np.where(mask != 0, positions, 0).astype(np.int32)
        shapes = [_heads(name, t, 5) for name, t in zip(body.output_names[1:], body.output_types[1:], strict=True)]
        self._layers = [full((2, len(prompt), heads, 0, size), 0, dtype) for heads, size, dtype in shapes]
        if len(body.input_names) != 3 + len(self._layers):
            msg = f"the decoder takes {', '.join(body.input_names)}; expected tokens, positions, mask and each layer"
            raise KernelError(msg)

    def scores(self) -> Array:
        """Return the logits of the next token, (sequences, words) float32."""
        checkpoint()
        body, self._first = self._first or self._body, None
        logits, *self._layers = body([self._ids, self._positions, self._mask, *self._layers])
        return _last_scores(logits, len(self._ids), self._words)

    def append_token(self, tokens: Array, sources: Array | None = None) -> None:
        """Append a token to each sequence; `sources` gives the sequence that each one continues."""
        if sources is not None:
            self._layers = [layer[:, sources] for layer in self._layers]
            self._mask, self._positions = self._mask[sources], self._positions[sources]
        self._ids = tokens.astype(np.int32)[:, None]
        self._positions = self._positions[:, -1:] + np.int32(1)
        self._mask = np.concatenate([self._mask, np.ones_like(self._ids)], 1)


def _heads(name: str, declared: Type | None, rank: int) -> tuple[int, int, np.dtype]:
    """Return heads, size and type of a declared cache, (…, heads, length, size)."""
    if isinstance(declared, TensorType) and declared.shape is not None and len(declared.shape.dims) == rank:
        heads, size = declared.shape.dims[-3], declared.shape.dims[-1]
        if isinstance(heads, int) and isinstance(size, int):
            return heads, size, dtype_of(declared.element_type)
    msg = f"{name!r} of the decoder has type {declared}; expected rank {rank}, (…, heads, length, size), both known"
    raise KernelError(msg)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Output of an encoder for its decoder, one entry per batch entry."""

    mask: Array | None
    hidden: Array | None = None
    logits: Array | None = None  # logits of the first token, where the encoder includes the first decoder step
    own: list[Array] = field(default_factory=list)  # self-attention cache of the prompt, per layer
    cross: list[Array] = field(default_factory=list)  # cross-attention keys and values


def encode(encoder: Body | None, source: Array, mask: Array | None, prompt: Array) -> Encoded:
    """Run an encoder once; `prompt` is the start of the decoder's sequences, (batch, length)."""
    by_name = {"encoder_input_ids": source, "encoder_attention_mask": mask, "decoder_input_ids": prompt}
    names = encoder.input_names if encoder is not None else ()
    if encoder is None or len(names) < 2 or any(by_name.get(name) is None for name in names):
        names_given = ", ".join(name for name, value in by_name.items() if value is not None)
        msg = f"the encoder takes {', '.join(names) or 'nothing'}; expected two or more of {names_given}"
        raise KernelError(msg)
    outputs = encoder([by_name[name] for name in names])
    if "decoder_input_ids" not in names:
        return Encoded(mask, cross=outputs)
    if len(outputs) < 6 or len(outputs) % 4 != 2:
        msg = f"the encoder gives {', '.join(encoder.output_names)}; expected scores, states and 4 for each layer"
        raise KernelError(msg)
    half = 1 + len(outputs) // 2
    return Encoded(mask, outputs[1], outputs[0], outputs[2:half], outputs[half:])


class EncodedDecoder:
    """Decoder of an encoder-decoder model such as T5 and Whisper: takes tokens and self and cross caches per layer.

    Returns logits, (sequences, length, words), the cache of each layer, (sequences, heads, length, size), and if
    `crossing` is not None, the products of queries and encoder keys, (sequences, heads, 1, frames).
    """

    def __init__(
        self, body: Body, encoded: Encoded, prompt: Array, room: Room, words: int, crossing: Array | None = None
    ) -> None:
        self._body, self._room, self._words = body, room, words
        self._count = room.batch * room.beams
        self._sequences = room.for_beams(prompt)
        self._logits = None if encoded.logits is None else room.for_beams(encoded.logits)
        self._pairs = crossing  # (layer, head) of each requested product
        self.crossed: Array | None = None  # (sequences, pairs, length, frames)
        self._fixed = self._of_encoder(encoded)
        self._cross = [room.for_beams(layer) for layer in encoded.cross]
        held = 1 + len(self._fixed)
        self._extra = len(body.input_names) - held - 2 * len(self._cross)
        expected = 1 + len(self._cross) + (len(self._cross) // 2 if crossing is not None else 0)
        if self._extra not in (0, 1, 3) or len(body.output_names) != expected:
            msg = (
                f"the decoder takes {', '.join(body.input_names)} and gives {', '.join(body.output_names)}; "
                f"expected keys and values of {len(self._cross) // 2} layers and of the encoder, as it gives them"
            )
            raise KernelError(msg)
        self._layers = [room.for_beams(layer) for layer in encoded.own] or self._no_layers(held)
        if self._extra:
            self._layers = [room.buffer(layer) for layer in self._layers]
        self._whole = _takes_sequences(body.input_types[0])

    def _of_encoder(self, encoded: Encoded) -> list[Array]:
        """Return the inputs between the tokens and the first layer: the same at every step."""
        by_name = {"encoder_attention_mask": encoded.mask, "encoder_hidden_states": encoded.hidden}
        inputs = []
        for name in self._body.input_names[1:]:
            if name not in by_name:
                break
            value = by_name[name]
            if value is None:
                msg = f"the decoder takes {name!r}, which the encoder does not give; expected an output of the encoder"
                raise KernelError(msg)
            inputs.append(self._room.for_beams(value))
        return inputs

    def _no_layers(self, start: int) -> list[Array]:
        """Return empty caches, by the declared shapes of the decoder's inputs."""
        named = zip(self._body.input_names[start:], self._body.input_types[start:], strict=True)
        shapes = [_heads(name, declared, 4) for (name, declared), _ in zip(named, self._cross, strict=False)]
        return [full((self._count, heads, 0, size), 0, dtype) for heads, size, dtype in shapes]

    def scores(self) -> Array:
        """Return the logits of the next token, (sequences, words) float32."""
        checkpoint()
        logits, self._logits = self._logits, None
        if logits is None:
            ids = self._sequences if self._whole else self._sequences[:, -1:]
            last_inputs = self._room.last_inputs(self._extra, self._sequences.shape[1] - 1)
            logits, *outputs = self._body([ids, *self._fixed, *self._layers, *self._cross, *last_inputs])
            self._layers = outputs[: len(self._cross)]
            self._keep_crossed(outputs[len(self._cross) :])
        return _last_scores(logits, self._count, self._words)

    def append_token(self, tokens: Array, sources: Array | None = None) -> None:
        """Append a token to each sequence; `sources` gives the sequence that each one continues."""
        if sources is not None:
            self._layers = [layer[sources] for layer in self._layers]
            self._sequences = self._sequences[sources]
            self.crossed = None if self.crossed is None else self.crossed[sources]
        self._sequences = np.concatenate([self._sequences, tokens.astype(np.int32)[:, None]], 1)

    def _keep_crossed(self, products: Sequence[Array]) -> None:
        if self._pairs is None:
            return
        layers, heads = self._pairs[:, 0], self._pairs[:, 1]
        if self._pairs.size and (layers.max() >= len(products) or heads.max() >= products[0].shape[1]):
            given = f"cross_qk_layer_head names {self._pairs.max(0).tolist()} of {len(products)} layers and their heads"
            msg = f"{given}; expected numbers below those"
            raise KernelError(msg)
        now = np.stack([products[layer][:, head] for layer, head in self._pairs.tolist()], 1)
        self.crossed = now if self.crossed is None else np.concatenate([self.crossed, now], 2)


def _takes_sequences(declared: Type | None) -> bool:
    """Return whether the decoder takes whole sequences of tokens: unless their length is declared as 1."""
    known = isinstance(declared, TensorType) and declared.shape is not None and len(declared.shape.dims) == 2
    return not (known and isinstance(declared, TensorType) and declared.shape and declared.shape.dims[1] == 1)
