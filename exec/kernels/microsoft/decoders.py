"""Decoders of text in subgraphs, fed from token to token: alone as GPT-2's, or after an encoder as T5's and Whisper's.

A decoder keeps keys and values of all tokens so far, layer by layer. Where its subgraph lists one input or three more
after them, they are buffers of the greatest length that it fills in place, told how many tokens they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.allocation import Array, check_size, full
from onnx_workbench.exec.kernels.context import Body, RuntimeValue, checkpoint
from onnx_workbench.exec.kernels.shared.dtypes import dtype_of
from onnx_workbench.model.ir.types import TensorType, Type


class Decoder(Protocol):
    """A decoder with the state of all its sequences."""

    def scores(self) -> Array:
        """Scores of the words that may come next, (sequences, words) float32."""

    def go_on(self, tokens: Array, sources: Array | None = None) -> None:
        """Add a token to each sequence; `sources` says which sequence each is the continuation of."""


@dataclass(frozen=True, slots=True)
class Room:
    """For how many sequences a decoder works: `beams` for each entry of the batch, of so many tokens at most."""

    batch: int
    beams: int
    longest: int

    def told(self, count: int, length: int) -> list[Array]:
        """The last inputs of a decoder that fills buffers: their length so far, and that beams share no history."""
        own = np.arange(self.beams, dtype=np.int32)[:, None]
        indirection = np.broadcast_to(own, (self.batch, self.beams, self.longest))
        return [np.array([length], np.int32), np.array([self.beams], np.int32), indirection][:count]

    def for_beams(self, values: Array) -> Array:
        """Values of each entry of the batch for each of its beams; held against the memory limit first."""
        check_size((len(values), self.beams, *values.shape[1:]), values.dtype)
        return np.repeat(values, self.beams, 0)

    def buffer(self, layer: Array) -> Array:
        """Keys or values (…, length, size) at the start of a buffer for the greatest length."""
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
    """As of GPT-2: it takes tokens, their positions, a mask of all tokens so far and what it gave of each layer.

    It gives the scores of each word, (sequences, length, words), and the layers, (2, sequences, heads, length, size).
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
        """Scores of the words that may come next, (sequences, words) float32."""
        checkpoint()
        body, self._first = self._first or self._body, None
        logits, *self._layers = body([self._ids, self._positions, self._mask, *self._layers])
        return _last_scores(logits, len(self._ids), self._words)

    def go_on(self, tokens: Array, sources: Array | None = None) -> None:
        """Add a token to each sequence; `sources` says which sequence each is the continuation of."""
        if sources is not None:
            self._layers = [layer[:, sources] for layer in self._layers]
            self._mask, self._positions = self._mask[sources], self._positions[sources]
        self._ids = tokens.astype(np.int32)[:, None]
        self._positions = self._positions[:, -1:] + np.int32(1)
        self._mask = np.concatenate([self._mask, np.ones_like(self._ids)], 1)


def _heads(name: str, declared: Type | None, rank: int) -> tuple[int, int, np.dtype]:
    """Heads, size and type of the keys and values that a value declares, (…, heads, length, size)."""
    if isinstance(declared, TensorType) and declared.shape is not None and len(declared.shape.dims) == rank:
        heads, size = declared.shape.dims[-3], declared.shape.dims[-1]
        if isinstance(heads, int) and isinstance(size, int):
            return heads, size, dtype_of(declared.element_type)
    msg = f"{name!r} of the decoder has type {declared}; expected rank {rank}, (…, heads, length, size), both known"
    raise KernelError(msg)


@dataclass(frozen=True, slots=True)
class Encoded:
    """What an encoder gives its decoder, an entry for each of the batch."""

    mask: Array | None
    hidden: Array | None = None
    logits: Array | None = None  # of the first word, where the encoder begins the decoder too
    own: list[Array] = field(default_factory=list)  # keys and values of the prompt, of each layer
    cross: list[Array] = field(default_factory=list)  # those of what was encoded


def encode(encoder: Body | None, source: Array, mask: Array | None, prompt: Array) -> Encoded:
    """Run an encoder once; `prompt` is what the decoder begins with, (batch, length)."""
    given = {"encoder_input_ids": source, "encoder_attention_mask": mask, "decoder_input_ids": prompt}
    names = encoder.input_names if encoder is not None else ()
    if encoder is None or len(names) < 2 or any(given.get(name) is None for name in names):
        known = ", ".join(name for name, value in given.items() if value is not None)
        msg = f"the encoder takes {', '.join(names) or 'nothing'}; expected two or more of {known}"
        raise KernelError(msg)
    outputs = encoder([given[name] for name in names])
    if "decoder_input_ids" not in names:
        return Encoded(mask, cross=outputs)
    if len(outputs) < 6 or len(outputs) % 4 != 2:
        msg = f"the encoder gives {', '.join(encoder.output_names)}; expected scores, states and 4 for each layer"
        raise KernelError(msg)
    half = 1 + len(outputs) // 2
    return Encoded(mask, outputs[1], outputs[0], outputs[2:half], outputs[half:])


class EncodedDecoder:
    """As of T5 and Whisper: it takes tokens, what it gave of each layer, and of each layer what the encoder gave.

    It gives scores, (sequences, length, words), keys and values of each layer, (sequences, heads, length, size), and
    if `crossing` is not None, the products of queries and keys of the encoder, (sequences, heads, 1, frames).
    """

    def __init__(
        self, body: Body, encoded: Encoded, prompt: Array, room: Room, words: int, crossing: Array | None = None
    ) -> None:
        self._body, self._room, self._words = body, room, words
        self._count = room.batch * room.beams
        self._sequences = room.for_beams(prompt)
        self._logits = None if encoded.logits is None else room.for_beams(encoded.logits)
        self._pairs = crossing  # (layer, head) of each product that is wanted
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
        """What the inputs after the tokens are, up to the first layer: the same at every token."""
        given = {"encoder_attention_mask": encoded.mask, "encoder_hidden_states": encoded.hidden}
        found = []
        for name in self._body.input_names[1:]:
            if name not in given:
                break
            value = given[name]
            if value is None:
                msg = f"the decoder takes {name!r}, which the encoder does not give; expected an output of the encoder"
                raise KernelError(msg)
            found.append(self._room.for_beams(value))
        return found

    def _no_layers(self, start: int) -> list[Array]:
        """The keys and values of no token, by the declared shapes of those the decoder takes."""
        named = zip(self._body.input_names[start:], self._body.input_types[start:], strict=True)
        shapes = [_heads(name, declared, 4) for (name, declared), _ in zip(named, self._cross, strict=False)]
        return [full((self._count, heads, 0, size), 0, dtype) for heads, size, dtype in shapes]

    def scores(self) -> Array:
        """Scores of the words that may come next, (sequences, words) float32."""
        checkpoint()
        logits, self._logits = self._logits, None
        if logits is None:
            ids = self._sequences if self._whole else self._sequences[:, -1:]
            told = self._room.told(self._extra, self._sequences.shape[1] - 1)
            logits, *outputs = self._body([ids, *self._fixed, *self._layers, *self._cross, *told])
            self._layers = outputs[: len(self._cross)]
            self._keep_crossed(outputs[len(self._cross) :])
        return _last_scores(logits, self._count, self._words)

    def go_on(self, tokens: Array, sources: Array | None = None) -> None:
        """Add a token to each sequence; `sources` says which sequence each is the continuation of."""
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
    """Whether tokens are asked for from the first on: unless their number is declared to be 1."""
    known = isinstance(declared, TensorType) and declared.shape is not None and len(declared.shape.dims) == 2
    return not (known and isinstance(declared, TensorType) and declared.shape and declared.shape.dims[1] == 1)
