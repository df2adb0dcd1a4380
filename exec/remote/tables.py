"""What a run gave as messages from the worker to the program: only what differs from the message before.

A result tells of every value and node, and a look at a run that goes on tells it all again. Most of it is as it was,
so a `Teller` sends what is not, and a `Listener` puts it together again. Long lists travel in pieces, so that no
other thread of the program has to wait for one of them to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import Any

from exec.inspection.statistics import Statistics, Summary, ValueInfo
from exec.plan import Layout, Path, StepLayout, ValueKey
from exec.results import NodeResult

#: Entries of one piece of a long list: reading it takes about a millisecond.
_PIECE = 1000

_fields_of_step = attrgetter(*(f.name for f in fields(StepLayout)))
_fields_of_node = attrgetter(*(f.name for f in fields(NodeResult)))
_fields_of_info = attrgetter(*(f.name for f in fields(ValueInfo)))

_NodeFields = tuple[Any, ...]
_SummaryFields = tuple[tuple[Any, ...], Statistics | None]
_Pieces = list[bytes]


@dataclass(slots=True)
class ResultHead:
    """What is told of a run as a whole, and where its Stepper stands."""

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
    """All of a result but its values, which are fetched when someone looks. To be read only: messages share it."""

    head: ResultHead
    layout: Layout
    infos: dict[int, Summary]  # by slot
    nodes: list[NodeResult]
    bodies: dict[Path, dict[int, Summary]]
    inner: list[NodeResult]


@dataclass(slots=True)
class ResultMessage:
    """How the tables differ from those of the message before. Without a layout that is as it was."""

    head: ResultHead
    slots: _Pieces | None
    steps: _Pieces
    outputs: tuple[int, ...]
    infos: _Pieces  # (slot, fields of its Summary)
    gone: list[int]  # slots without one now
    count: int  # of nodes
    nodes: _Pieces  # (place, fields of its NodeResult)
    bodies: _Pieces  # (path, [(value, fields of its Summary)])
    inner: _Pieces


class Teller:
    """The worker's side. One message at a time, sent in the order they were made."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._infos: dict[int, Summary] = {}
        self._nodes: list[_NodeFields] = []

    def message(self, tables: ResultTables) -> ResultMessage:
        """What the other side lacks."""
        layout = tables.layout
        is_new = layout is not self._layout
        if is_new:
            self._layout, self._infos, self._nodes = layout, {}, []
        infos, before = tables.infos, self._infos
        nodes = list(map(_fields_of_node, tables.nodes))
        known = self._nodes
        fresh = ((slot, _plain(found)) for slot, found in infos.items() if before.get(slot) != found)
        message = ResultMessage(
            tables.head,
            _pack(layout.slots.items()) if is_new else None,
            _pack(map(_fields_of_step, layout.steps)) if is_new else [],
            layout.outputs,
            _pack(fresh),
            [slot for slot in before if slot not in infos],
            len(nodes),
            _pack((i, node) for i, node in enumerate(nodes) if i >= len(known) or known[i] != node),
            _pack((path, [(v, _plain(s)) for v, s in found.items()]) for path, found in tables.bodies.items()),
            _pack(map(_fields_of_node, tables.inner)),
        )
        self._infos, self._nodes = infos, nodes
        return message


class Listener:
    """The program's side. Takes every message, in the order they came."""

    def __init__(self) -> None:
        self._layout = Layout({}, (), {}, [])
        self._infos: dict[int, Summary] = {}
        self._nodes: list[NodeResult] = []

    def tables(self, message: ResultMessage) -> ResultTables:
        """The tables as the worker has them. The names of the layout are with the snapshot."""
        if message.slots is not None:
            steps = [StepLayout(*step) for step in _unpack(message.steps)]
            slots: dict[ValueKey, int] = dict(_unpack(message.slots))
            self._layout = Layout(slots, message.outputs, {}, steps)
            self._infos, self._nodes = {}, []
        infos = dict(self._infos)
        infos.update((slot, _summary(found)) for slot, found in _unpack(message.infos))
        for slot in message.gone:
            infos.pop(slot, None)
        nodes = self._nodes[: message.count]
        for place, found in _unpack(message.nodes):
            nodes[place : place + 1] = [NodeResult(*found)]
        self._infos, self._nodes = infos, nodes
        bodies = {path: {v: _summary(s) for v, s in found} for path, found in _unpack(message.bodies)}
        inner = [NodeResult(*found) for found in _unpack(message.inner)]
        return ResultTables(message.head, self._layout, infos, nodes, bodies, inner)


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
