"""Scopes made convex, so that each can be drawn as one box: no path leaves a scope and comes back.

On every level, the graph of scopes and single nodes gets no cycles. Names often contradict this: an optimizer
drops the scope of the nodes that it fuses, and a shared layer has one name for all its calls.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.analysis.adjacency import Index, contracted_cycles
from onnx_workbench.model.analysis.name_scopes import Path
from onnx_workbench.model.progress import SILENT, Progress

#: Nodes on cycles that are looked at, over all rounds: of names that contradict each other on each of many levels,
#: the outer levels remain. 100,000 nodes take a second.
_MOST_WORK = 60_000, 1.5  # and per node
_MOST_JOINING = 1024  # scopes on one cycle up to which nodes between them are assigned to them
_LEAST_PART = 3  # nodes of an average part: smaller ones say less than the nodes themselves
_LEAST_SHARE = 0.7  # of a scope's nodes that its parts hold

_CALL = re.compile(r"(.*?)_(\d{1,4})", re.DOTALL)


def convex_paths(
    paths: list[Path], sources: Index, targets: Index, progress: Progress = SILENT
) -> tuple[list[Path], list[Path]]:
    """Return the paths of scopes that are convex, from those of N nodes in topological order, and the scopes left out.

    `sources` and `targets` [E] are the edges; those that lead backwards, of cycles, are ignored. On a cycle of scopes,
    nodes of no scope join the scope on both sides of them; then a layer that was called several times is divided into
    its calls, any other scope into convex parts, and one of too many parts is removed. Linear, about 3 µs a node.
    """
    return _Convexity(paths, sources, targets, progress).solve()


class _Convexity:
    def __init__(self, paths: list[Path], sources: Index, targets: Index, progress: Progress) -> None:
        forward = (sources >= 0) & (sources < targets)
        self._edges = np.stack([sources[forward], targets[forward]], 1)
        self._progress = progress
        self._numbers: dict[Path, int] = {}  # of each distinct path
        self._paths: list[Path] = []
        self._left_out: dict[Path, None] = {}
        self._named: tuple[int, set[Path]] | None = None  # scopes of a depth
        self._path = np.array([self._number(path) for path in progress.paced(paths)], np.int64)

    def _number(self, path: Path) -> int:
        number = self._numbers.setdefault(path, len(self._paths))
        if number == len(self._paths):
            self._paths.append(path)
        return number

    def solve(self) -> tuple[list[Path], list[Path]]:
        depth, work = 0, _MOST_WORK[0] + _MOST_WORK[1] * len(self._path)
        outer = np.zeros(len(self._path), np.int64)  # [N] the scope of depth `depth` around each node
        while True:
            self._progress.check()
            inner, is_deeper = self._scopes(depth, outer)
            if not is_deeper.any():
                break
            edges = self._edges[outer[self._edges[:, 0]] == outer[self._edges[:, 1]]]
            cycle = contracted_cycles(inner, edges)
            if (cycle < 0).all():
                depth, outer = depth + 1, inner
                continue
            if work < 0:
                self._left_out |= {path[: depth + 1]: None for path in self._paths if len(path) > depth}
                break
            work -= self._untangle(depth, inner, edges, cycle)
        return [self._paths[number][:depth] for number in self._path.tolist()], list(self._left_out)

    def _scopes(self, depth: int, outer: Index) -> tuple[Index, NDArray[np.bool_]]:
        """[N] the first node of the scope one level deeper, of the node itself where there is none; and which there is.

        A scope of a single node counts as none.
        """
        paced = self._progress.paced
        lengths = np.array([len(path) for path in paced(self._paths)])
        names: dict[str, int] = {}
        part = np.array([names.setdefault(p[depth], len(names)) if len(p) > depth else -1 for p in paced(self._paths)])
        is_deeper = lengths[self._path] > depth
        inner = np.arange(len(self._path))
        deeper = np.flatnonzero(is_deeper)
        keys = outer[deeper] * (len(names) + 1) + part[self._path[deeper]]
        _, first, number = np.unique(keys, return_index=True, return_inverse=True)
        inner[deeper] = deeper[first][number]
        return inner, is_deeper

    def _untangle(self, depth: int, unit: Index, edges: Index, cycle: Index) -> int:
        """Change the paths of nodes so that the cycles of a level become fewer; return the number of these nodes.

        `unit` [N] is the first node of each node's scope, `cycle` [N] the one it is on.
        """
        inside = np.flatnonzero(cycle >= 0)
        edges = edges[(cycle[edges[:, 0]] >= 0) & (cycle[edges[:, 0]] == cycle[edges[:, 1]])]
        for nodes, wires in zip(_by_group(inside, cycle[inside]), _by_group(edges, cycle[edges[:, 0]]), strict=True):
            self._progress.check()
            knot = _Knot(
                depth, {node: self._paths[self._path[node]] for node in nodes.tolist()}, wires, self._free_name
            )
            for node, path in knot.paths(unit).items():
                self._path[node] = self._number(path)
            self._left_out |= dict.fromkeys(knot.left_out)
        return len(inside)

    def _free_name(self, outer: Path, name: str) -> str:
        """Return a name that no scope inside `outer` has yet."""
        depth = len(outer)
        if self._named is None or self._named[0] != depth:
            self._named = depth, {path[: depth + 1] for path in self._paths}
        while (*outer, name) in self._named[1]:
            name += " "
        self._named[1].add((*outer, name))
        return name


def _by_group(rows: Index, group: Index) -> list[Index]:
    """Return the rows of each group, in order; `group` is that of each row, numbered from 0."""
    order = np.argsort(group, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(group))[:-1]) if len(rows) else []


class _Knot:
    """Scopes and nodes of one level that form cycles, and the nodes in them, in topological order."""

    def __init__(self, depth: int, paths: dict[int, Path], edges: Index, free_name: Callable[[Path, str], str]) -> None:
        self.left_out: list[Path] = []  # scopes that became none
        self._depth = depth
        self._paths = paths
        self._free_name = free_name
        self._before: dict[int, list[int]] = {node: [] for node in paths}
        self._after: dict[int, list[int]] = {node: [] for node in paths}
        for a, b in edges.tolist():
            self._before[b].append(a)
            self._after[a].append(b)

    def paths(self, unit: Index) -> dict[int, Path]:
        """Return the new paths of nodes."""
        depth = self._depth
        counts = Counter(int(unit[node]) for node in self._paths)
        scope = {node: int(unit[node]) if counts[int(unit[node])] > 1 else -1 for node in self._paths}
        joined = self._joined(scope)
        names = {scope[node]: path[: depth + 1] for node, path in self._paths.items() if scope[node] >= 0}
        changed = {node: names[home] for node, home in joined.items()}
        self._paths |= changed
        scope |= joined
        for knot in self._still_cyclic(scope):
            calls = self._calls(knot, scope)
            changed |= calls if calls is not None else self._parts(knot, scope)
        return changed

    def _joined(self, scope: dict[int, int]) -> dict[int, int]:
        """Return nodes of no scope that join one: the only one from which and to which a path through such nodes leads.

        A scope takes in at most as many nodes as it has.
        """
        bits: dict[int, int] = {}
        for home in scope.values():
            if home >= 0:
                bits.setdefault(home, 1 << len(bits))
        if len(bits) > _MOST_JOINING:
            return {}
        reached = {node: bits.get(home, 0) for node, home in scope.items()}
        reaching = dict(reached)
        free = [node for node, home in scope.items() if home < 0]
        for node in free:
            for other in self._before[node]:
                reached[node] |= reached[other]
        for node in reversed(free):
            for other in self._after[node]:
                reaching[node] |= reaching[other]
        homes = {bit: home for home, bit in bits.items()}
        joined = {node: homes[both] for node in free if (both := reached[node] & reaching[node]) in homes}
        guests, hosts = Counter(joined.values()), Counter(scope.values())
        return {node: home for node, home in joined.items() if guests[home] <= hosts[home]}

    def _still_cyclic(self, scope: dict[int, int]) -> list[list[int]]:
        """Return the nodes of each cycle of the scopes."""
        nodes = list(scope)
        number = {node: index for index, node in enumerate(nodes)}
        first: dict[int, int] = {}
        for index, node in enumerate(nodes):
            if scope[node] >= 0:
                first.setdefault(scope[node], index)
        unit = np.array([first[scope[node]] if scope[node] >= 0 else index for index, node in enumerate(nodes)])
        edges = [(number[a], number[b]) for a in nodes for b in self._after[a] if b in number]
        cycle = contracted_cycles(unit, np.array(edges, np.int64).reshape(-1, 2))
        parts = _by_group(np.flatnonzero(cycle >= 0), cycle[cycle >= 0])
        return [[nodes[index] for index in part] for part in parts]

    # -- calls of one layer --------------------------------------------------------------------------------------

    def _calls(self, knot: list[int], scope: dict[int, int]) -> dict[int, Path] | None:
        """Return the paths of the calls of shared layers: call k is in ``layer/part_k`` and ``layer_k/part``.

        None if the names do not say so, or the calls are not convex.
        """
        depth = self._depth
        present = {self._paths[node][depth] for node in knot if scope[node] >= 0}
        call: dict[int, tuple[str, int]] = {}
        for node in knot:
            if scope[node] < 0:
                continue
            base = _base(self._paths[node][depth], present)
            call[node] = (base, _call_number(self._paths[node], depth, base))
        numbers: dict[str, set[int]] = defaultdict(set)
        for base, number in call.values():
            numbers[base].add(number)
        if all(len(found) == 1 for found in numbers.values()):
            return None
        units = {key: index for index, key in enumerate(dict.fromkeys(call.values()))}
        if self._still_cyclic({node: units[call[node]] if node in call else -1 for node in knot}):
            return None
        titles = {
            (base, number): self._free_name(self._outer(knot), f"{base}, call {rank}" if len(found) > 1 else base)
            for base, found in numbers.items()
            for rank, number in enumerate(sorted(found), 1)
        }
        return {node: (*self._outer(knot), titles[key], *self._inside_call(node, key[1])) for node, key in call.items()}

    def _inside_call(self, node: int, number: int) -> Path:
        """Return the path of a node within a call, without the number of the call."""
        rest = self._paths[node][self._depth + 1 :]
        match = _CALL.fullmatch(rest[-1]) if rest and number else None
        return (*rest[:-1], match[1]) if match is not None and int(match[2]) == number else rest

    # -- convex parts --------------------------------------------------------------------------------------------

    def _parts(self, knot: list[int], scope: dict[int, int]) -> dict[int, Path]:
        """Divide scopes into runs of a topological order, which has no way back; remove those of too many."""
        runs: dict[int, list[list[int]]] = defaultdict(list)
        for home, nodes in _Sweep(knot, scope, self._before, self._after).runs():
            runs[home].append(nodes)
        poor = {home for home, found in runs.items() if len(found) > 1 and _is_poor(found)}
        if poor:
            self.left_out += [self._paths[runs[home][0][0]][: self._depth + 1] for home in poor]
            return {node: self._without_scope(node) for home in poor for run in runs[home] for node in run}
        result: dict[int, Path] = {}
        for found in runs.values():
            parts = [run for run in found if len(run) > 1]
            if len(found) > 1:
                result.update((run[0], self._outer(run)) for run in found if len(run) == 1)
            if len(parts) == 1:
                continue  # keeps its name
            for rank, run in enumerate(parts, 1):
                name = f"{self._paths[run[0]][self._depth]} ({rank} of {len(parts)})"
                title = self._free_name(self._outer(run), name)
                for node in run:
                    result[node] = (*self._outer(run), title, *self._paths[node][self._depth + 1 :])
        return result

    def _without_scope(self, node: int) -> Path:
        """Return the path without the scope of this level; an inner scope keeps its name to tell it from others."""
        path, depth = self._paths[node], self._depth
        if len(path) <= depth + 1:
            return path[:depth]
        return (*path[:depth], f"{path[depth]}/{path[depth + 1]}", *path[depth + 2 :])

    def _outer(self, nodes: Iterable[int]) -> Path:
        return self._paths[next(iter(nodes))][: self._depth]


def _base(name: str, present: set[str]) -> str:
    """Return ``layer`` for ``layer_2`` if there is a ``layer``."""
    match = _CALL.fullmatch(name)
    return match[1] if match is not None and match[1] in present else name


def _call_number(path: Path, depth: int, base: str) -> int:
    """Return the number of the call: exporters append it to the last scope."""
    match = _CALL.fullmatch(path[-1] if path[depth] == base else path[depth])
    return int(match[2]) if match is not None and (len(path) > depth + 1 or path[depth] != base) else 0


def _is_poor(runs: list[list[int]]) -> bool:
    """Return whether the parts of a scope say less than its nodes."""
    parts = [len(run) for run in runs if len(run) > 1]
    return not parts or sum(parts) < max(_LEAST_SHARE * sum(map(len, runs)), _LEAST_PART * len(parts))


@dataclass(slots=True, eq=False)
class _Sweep:
    """A topological order of nodes that stays in each scope as long as it can.

    Nodes of no scope come as soon as they can. Of the scopes, one that can be finished comes before others.
    """

    nodes: list[int]
    scope: dict[int, int]
    before: dict[int, list[int]]
    after: dict[int, list[int]]
    _waiting: dict[int, int] = field(default_factory=dict)  # per node: edges from nodes that are not done
    _entries: Counter[int] = field(default_factory=Counter)  # per scope: edges into it from nodes that are not done
    _ready: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _turns: list[tuple[int, int]] = field(default_factory=list)  # heap of (first ready node, scope)
    _finishable: list[int] = field(default_factory=list)

    def runs(self) -> list[tuple[int, list[int]]]:
        """Return the scopes in turn, each with the nodes that come before the next; one may come again."""
        inside = set(self.nodes)
        for node in self.nodes:
            befores = [other for other in self.before[node] if other in inside]
            self._waiting[node] = len(befores)
            own = self.scope[node]
            if own >= 0:
                self._entries[own] += sum(self.scope[other] != own for other in befores)
        for node in self.nodes:
            if not self._waiting[node]:
                self._make_ready(node)
        turns: list[tuple[int, list[int]]] = []
        while (home := self._next()) is not None:
            run: list[int] = []
            while self._ready[home]:
                node = self._ready[home].pop()
                run.append(node)
                self._finish(node)
            if home >= 0:
                turns.append((home, run))
        return turns

    def _next(self) -> int | None:
        if self._ready[-1]:
            return -1
        while self._finishable or self._turns:
            home = self._finishable.pop() if self._finishable else heappop(self._turns)[1]
            if self._ready[home]:
                return home
        return None

    def _make_ready(self, node: int) -> None:
        home = self.scope[node]
        if home >= 0:
            heappush(self._turns, (node, home))
            if not self._entries[home]:
                self._finishable.append(home)
        self._ready[home].append(node)

    def _finish(self, node: int) -> None:
        for other in self.after[node]:
            if other not in self._waiting:
                continue
            home = self.scope[other]
            if home >= 0 and home != self.scope[node]:
                self._entries[home] -= 1
                if not self._entries[home] and self._ready[home]:
                    self._finishable.append(home)
            self._waiting[other] -= 1
            if not self._waiting[other]:
                self._make_ready(other)
