"""Messages with the result of a run from the worker to the program, with delta encoding.

A result describes every value and node, and each read of a running run describes them all again. Most of it is
unchanged, so a `DeltaEncoder` sends the differences, and a `DeltaDecoder` applies them. Both store columns, which
cost the program next to nothing to read; lists of rows are sent in pieces, so that no other thread of the program has
to wait for one of them to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.inspect.statistics import Statistics, Summary, ValueInfo
from onnx_workbench.exec.results.node_table import NodeResult, NodeTable, State
from onnx_workbench.exec.results.slot_map import Path, SlotMap, Slots, Steps
from onnx_workbench.exec.results.summaries import SummaryTable

#: Entries of one piece of a long list: reading it takes about a millisecond.
_PIECE = 1000

_fields_of_node = attrgetter(*(f.name for f in fields(NodeResult)))
_fields_of_info = attrgetter(*(f.name for f in fields(ValueInfo)))

_SummaryFields = tuple[tuple[Any, ...], Statistics | None]
_Pieces = list[bytes]
_Column = NDArray[Any]
_T = TypeVar("_T")


@dataclass(slots=True)
class ResultHead:
    """State of a run as a whole, and the position of its Stepper."""

    seed: int
    seconds: float
    peak_bytes: int
    stopped: str
    notes: tuple[str, ...]
    reason: str
    last_node: tuple[Path, int] | None
    next_node: tuple[Path, int] | None
    position: int
    total: int


@dataclass(slots=True)
class ResultTables:
    """All of a result but its values, which are fetched on access. Read-only: messages share it."""

    head: ResultHead
    layout: SlotMap
    infos: SummaryTable
    nodes: NodeTable  # of the steps of the layout
    bodies: dict[Path, dict[int, Summary]]
    inner: list[NodeResult]


@dataclass(slots=True)
class _Span:
    """The part of a column in which it differs from that of the message before."""

    size: int  # of the whole
    start: int
    part: _Column


@dataclass(slots=True)
class _Tail:
    """End of a list from its first difference from the previous message."""

    start: int
    rest: _Pieces


@dataclass(slots=True)
class ResultMessage:
    """Delta of the tables to the previous message: None where they do not differ."""

    head: ResultHead
    slots: Slots | None
    steps: Steps | None
    outputs: tuple[int, ...]
    which: _Span | None
    infos: _Tail
    statistics: _Pieces  # (slot, Statistics)
    gone: list[int]  # slots without them now
    nodes: list[_Span | None]  # states, seconds, nbytes, causes
    failures: _Tail
    bodies: _Pieces  # (path, [(value, fields of its Summary)])
    inner: _Pieces


class DeltaEncoder:
    """The worker's side. One message at a time, sent in the order they were made."""

    def __init__(self) -> None:
        self._layout = _no_layout()
        self._infos = SummaryTable()
        self._nodes = NodeTable.blank(self._layout.steps.keys, State.WAITING)

    def message(self, tables: ResultTables) -> ResultMessage:
        """Return the delta that the other side lacks."""
        layout, infos, nodes = tables.layout, tables.infos, tables.nodes
        known, old = self._infos.statistics, self._layout
        fresh = ((slot, found) for slot, found in infos.statistics.items() if known.get(slot) != found)
        message = ResultMessage(
            tables.head,
            layout.table if layout.slots is not old.slots else None,
            layout.steps if layout.steps is not old.steps else None,
            layout.outputs,
            _span(self._infos.which, infos.which),
            _tail(self._infos.infos, infos.infos),
            _pack(fresh),
            [slot for slot in known if slot not in infos.statistics],
            list(map(_span, _columns(self._nodes), _columns(nodes))),
            _tail(self._nodes.failures, nodes.failures),
            _pack((path, [(v, _plain(s)) for v, s in found.items()]) for path, found in tables.bodies.items()),
            _pack(map(_fields_of_node, tables.inner)),
        )
        self._layout, self._infos, self._nodes = layout, infos, nodes
        return message


class DeltaDecoder:
    """The program's side. Takes every message, in the order they came."""

    def __init__(self) -> None:
        self._layout = _no_layout()
        self._infos = SummaryTable()
        self._nodes = NodeTable.blank(self._layout.steps.keys, State.WAITING)

    def tables(self, message: ResultMessage) -> ResultTables:
        """The tables as the worker has them. The names of the layout are with the snapshot."""
        old = self._layout
        slots = old.slots if message.slots is None else message.slots
        steps = old.steps if message.steps is None else message.steps
        self._layout = SlotMap(slots, message.outputs, {}, steps)
        self._infos = SummaryTable(
            _changed(self._infos.which, message.which),
            _longer(self._infos.infos, message.infos),
            _updated(self._infos.statistics, message),
        )
        states, seconds, nbytes, causes = map(_changed, _columns(self._nodes), message.nodes)
        failures = _longer(self._nodes.failures, message.failures)
        self._nodes = NodeTable(steps.keys, states, seconds, nbytes, causes, failures)
        bodies = {path: {v: _summary(s) for v, s in found} for path, found in _unpack(message.bodies)}
        inner = [NodeResult(*found) for found in _unpack(message.inner)]
        return ResultTables(message.head, self._layout, self._infos, self._nodes, bodies, inner)


def _no_layout() -> SlotMap:
    return SlotMap({}, (), {}, Steps.of([]))


def _columns(nodes: NodeTable) -> tuple[_Column, ...]:
    return nodes.states, nodes.seconds, nodes.nbytes, nodes.causes


def _span(before: _Column, now: _Column) -> _Span | None:
    if len(before) != len(now):
        return _Span(len(now), 0, now)
    differing = np.flatnonzero(before != now)
    if not len(differing):
        return None
    return _Span(len(now), int(differing[0]), now[differing[0] : differing[-1] + 1])


def _changed(before: _Column, span: _Span | None) -> _Column:
    if span is None:
        return before
    now = np.empty(span.size, span.part.dtype) if span.size != len(before) else before.copy()
    now[span.start : span.start + len(span.part)] = span.part
    return now


def _tail(before: Sequence[object], now: Sequence[object]) -> _Tail:
    pairs = enumerate(zip(before, now, strict=False))
    same = min(len(before), len(now))
    start = next((place for place, (old, new) in pairs if old is not new and old != new), same)
    return _Tail(start, _pack(now[start:]))


def _longer(before: Sequence[_T], tail: _Tail) -> Sequence[_T]:
    if tail.start == len(before) and not tail.rest:
        return before
    return [*before[: tail.start], *_unpack(tail.rest)]


def _updated(before: Mapping[int, Statistics], message: ResultMessage) -> Mapping[int, Statistics]:
    if not message.statistics and not message.gone:
        return before
    now = {**before, **dict(_unpack(message.statistics))}
    for slot in message.gone:
        del now[slot]
    return now


def _plain(found: Summary) -> _SummaryFields:
    return _fields_of_info(found.info), found.statistics


def _summary(found: _SummaryFields) -> Summary:
    return Summary(ValueInfo(*found[0]), found[1])


def _pack(entries: Iterable[Any]) -> _Pieces:
    every = list(entries)
    return [bytes(ForkingPickler.dumps(every[start : start + _PIECE])) for start in range(0, len(every), _PIECE)]


def _unpack(pieces: _Pieces) -> Iterator[Any]:
    for piece in pieces:
        yield from ForkingPickler.loads(piece)
