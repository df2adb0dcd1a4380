"""Find repeated blocks of a graph: equal edges, and equal operators and attributes or what else makes nodes equivalent.

Nodes with equal neighbourhood hashes are seeds. All seeds grow simultaneously, node by node, as long as each can grow
in the same way without taking a node of another. The blocks that save most are kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.analysis.adjacency import OUTSIDE, Adjacency, Index, contracted_cycles
from onnx_workbench.model.analysis.reachable import reachable
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import SILENT, Progress

_ROUNDS = 3  # radius of the neighbourhood hashes of seeds
_MOST_SEEDS = 48  # classes of seeds that are grown; each is at most linear in the graph
_PER_COUNT = 6  # of these with the same number of seeds
_NEARLY_ALL = 0.9  # share of a block's occurrences: seeds in as many are not grown again
_MOST_PORTS = 1 << 20
_PASSES = 4  # searches, each among the remaining nodes


#: Key of equivalent nodes; None for a node that is like no other.
LabelOf = Callable[[Node], Hashable | None]


@dataclass(frozen=True, slots=True)
class Repeat:
    """One block and its occurrences: node n of every occurrence has the same role. Occurrences are in graph order.

    Each occurrence is connected, they are disjoint, and each is convex: it could become a single node without a cycle.
    """

    occurrences: tuple[tuple[Node, ...], ...]

    @property
    def size(self) -> int:
        """Number of nodes of one occurrence."""
        return len(self.occurrences[0])

    @property
    def saved(self) -> int:
        """Number of nodes saved by writing the block once."""
        return (self.size - 1) * (len(self.occurrences) - 1)


def repeated_blocks(
    whole: Adjacency,
    label_of: LabelOf,
    progress: Progress = SILENT,
    *,
    among: Collection[Node] | None = None,
    least_nodes: int = 2,
    edges: Index | None = None,
) -> list[Repeat]:
    """Return the disjoint blocks that occur at least twice in a graph, in graph order; deterministic.

    Nodes of equal labels are equivalent, those without one are in no block. `among` restricts the search. `edges`
    [E, 2] are more dependencies, from lower to higher nodes, that make cycles as those of the adjacency do. Any thread,
    while the model does not change. Some 10 µs a node, as much for each node of a block, and 0.1 ms for each node of an
    occurrence.
    """
    chosen = np.arange(len(whole.nodes))
    if among is not None:
        wanted = set(among)
        chosen = np.array([i for i, node in enumerate(whole.nodes) if node in wanted], np.int64)
    searched = whole if among is None else whole.only(chosen)
    labels = _labels(searched, label_of, progress)
    convexity = _Convexity(len(whole.nodes), whole.edges() if edges is None else np.concatenate([whole.edges(), edges]))
    convex: list[Index] = []
    for _ in range(_PASSES):
        free = labels >= 0
        for block in convex:
            free[np.searchsorted(chosen, block)] = False
        new = [chosen[block] for block in _Search(searched, labels, free, progress).run()]
        new = [block for block in new if block.shape[1] >= max(least_nodes, 2)]
        if not new:
            break
        convex = convexity.applied([*convex, *new])
    convex.sort(key=lambda block: int(block[0, 0]))
    return [Repeat(tuple(tuple(whole.nodes[n] for n in nodes) for nodes in block.tolist())) for block in convex]


def _labels(wiring: Adjacency, label_of: LabelOf, progress: Progress) -> Index:
    """[N] a small number, equal for equivalent nodes; -1 for nodes that cannot be in a block.

    A node that stands for a scope may have another number of inputs than one of the same label.
    """
    numbers: dict[Hashable, int] = {}
    found, inputs = np.full(len(wiring.nodes), -1), np.diff(wiring.starts).tolist()
    for index, node in enumerate(progress.paced(wiring.nodes)):
        label = label_of(node)
        if label is not None:
            found[index] = numbers.setdefault((label, inputs[index]), len(numbers))
    return found


class _Search:
    """One search among the free nodes for the best disjoint blocks."""

    def __init__(self, wiring: Adjacency, labels: Index, free: NDArray[np.bool_], progress: Progress) -> None:
        self._wiring = wiring
        self._labels = labels
        self._free = free
        self._progress = progress
        self._nodes = np.flatnonzero(free)
        self._occurrence = np.full(len(free), -1)  # in the block that is growing
        self._spot = np.zeros(len(free), np.int64)  # the node's index in that block

    def run(self) -> list[Index]:
        """Return each block as [occurrences, nodes], both in graph order."""
        grown: list[Index] = []
        part = np.full((len(self._free), 2), -1)  # the last block that took a node, and the node's index in it
        for seeds in self._seeds():
            self._progress.check()
            last = part[seeds[0]]
            if last[0] >= 0 and (part[seeds] == last).all() and len(seeds) >= _NEARLY_ALL * len(grown[last[0]]):
                continue  # they would grow into the same block, or a barely larger one
            block = self._grow(seeds)
            if block.shape[1] > 1:
                part[block, 0] = len(grown)
                part[block, 1] = np.arange(block.shape[1])
                grown.append(block)
        chosen, taken = [], np.zeros(len(self._free), bool)
        for block in sorted(grown, key=lambda b: (-(b.shape[0] - 1) * (b.shape[1] - 1), int(b[0, 0]))):
            if not taken[block].any():
                taken[block] = True
                chosen.append(block)
        return chosen

    def _seeds(self) -> list[Index]:
        """Return classes of equivalent nodes, those of the most frequent class sizes first: these are periods."""
        classes: dict[bytes, Index] = {}
        numbers = self._labels.copy()
        for _ in range(_ROUNDS + 1):
            self._progress.check()
            by_number = self._nodes[np.argsort(numbers[self._nodes], kind="stable")]
            first = np.flatnonzero(np.diff(numbers[by_number], prepend=-1))
            sizes = np.diff(first, append=len(by_number))
            members = [
                by_number[at : at + size] for at, size in zip(first.tolist(), sizes.tolist(), strict=True) if size > 1
            ]
            classes.update((m.tobytes(), m) for m in sorted(members, key=lambda m: int(m[0])))
            numbers = self._wider(numbers)
        weight: Counter[int] = Counter()
        by_count: dict[int, list[Index]] = defaultdict(list)
        for alike in classes.values():
            weight[len(alike)] += len(alike)
            by_count[len(alike)].append(alike)
        order = sorted(weight, key=lambda count: (-weight[count], -count))
        chosen = [seeds for count in order for seeds in _spread(by_count[count], _PER_COUNT)]
        return chosen[:_MOST_SEEDS]

    def _wider(self, numbers: Index) -> Index:
        """Return hashes that include the neighbours' hashes (Weisfeiler-Lehman)."""
        wiring = self._wiring
        free_numbers = np.where(self._free, numbers, OUTSIDE)
        count = len(free_numbers)

        def number_of(who: Index) -> Index:
            return np.where(who >= 0, free_numbers[np.maximum(who, 0)], who)

        hashes = _mixed(free_numbers)
        owner = np.repeat(np.arange(count), np.diff(wiring.starts))
        position = np.arange(len(owner)) - wiring.starts[owner]
        np.add.at(hashes, owner, _mixed(number_of(wiring.makers), wiring.outputs, position))
        owner = np.repeat(np.arange(count), np.diff(wiring.use_starts))
        np.add.at(hashes, owner, _mixed(number_of(wiring.users), wiring.use_outputs, wiring.use_inputs, count))
        wider = np.full(count, -1)
        wider[self._nodes] = np.unique(hashes[self._nodes], return_inverse=True)[1]
        return wider

    # -- growing -------------------------------------------------------------------------------------------------

    def _grow(self, seeds: Index) -> Index:
        """Grow the largest block around the seeds; inputs are followed first, as they are ordered and users are not."""
        rows = [seeds]  # by index in the block: that node of every occurrence
        upward, downward = deque([0]), deque([0])
        self._occurrence[seeds], self._spot[seeds] = np.arange(len(seeds)), 0

        def add(row: Index) -> None:
            if self._add_node(row, len(rows)):
                upward.append(len(rows))
                downward.append(len(rows))
                rows.append(row)

        while upward or downward:
            self._progress.check()
            if upward:
                for row in self._producers(rows[upward.popleft()]):
                    add(row)
            else:
                for row in self._consumers(rows[downward.popleft()]):
                    add(row)
        block = np.array(rows)
        self._occurrence[block] = -1
        block = block[np.argsort(block[:, 0])]
        return block[:, np.argsort(block[0])].T

    def _add_node(self, row: Index, spot: int) -> bool:
        """Add a node to each occurrence, if they are free, equivalent, and connected alike to the block."""
        label = self._labels[row[0]]
        fits = self._free[row].all() and (self._labels[row] == label).all() and (self._occurrence[row] < 0).all()
        if not fits or not self._are_distinct(row) or not self._are_wired_alike(row):
            return False
        self._occurrence[row], self._spot[row] = np.arange(len(row)), spot
        return True

    def _are_distinct(self, row: Index) -> bool:
        self._spot[row] = np.arange(len(row))  # none of them is in the block
        return bool((self._spot[row] == np.arange(len(row))).all())

    def _are_wired_alike(self, row: Index) -> bool:
        """Return whether these nodes are connected alike to the nodes of their occurrences."""
        wiring, count = self._wiring, len(row)
        owner, at = wiring.of(wiring.starts, row)
        held = self._block_indices(wiring.makers[at], owner)
        before = np.where(held >= 0, held * _MOST_PORTS + wiring.outputs[at], -1).reshape(count, -1)
        if (before != before[0]).any():
            return False
        owner, at = wiring.of(wiring.use_starts, row)
        held = self._block_indices(wiring.users[at], owner)
        owner, at, held = owner[held >= 0], at[held >= 0], held[held >= 0]
        if len(owner) % count or (np.bincount(owner, minlength=count) != len(owner) // count).any():
            return False
        after = (held * _MOST_PORTS + wiring.use_outputs[at]) * _MOST_PORTS + wiring.use_inputs[at]
        after = after[np.lexsort((after, owner))].reshape(count, -1)
        return not (after != after[0]).any()

    def _block_indices(self, nodes: Index, occurrence: Index) -> Index:
        """Return the block index of nodes already in their occurrence, -1 for others."""
        inner = np.maximum(nodes, 0)
        return np.where((nodes >= 0) & (self._occurrence[inner] == occurrence), self._spot[inner], -1)

    def _producers(self, row: Index) -> Iterator[Index]:
        """Return the producers of each input of a row of nodes, where all use the same output index."""
        wiring = self._wiring
        for index in range(int(wiring.starts[row[0] + 1] - wiring.starts[row[0]])):
            at = wiring.starts[row] + index
            makers, outputs = wiring.makers[at], wiring.outputs[at]
            if (makers >= 0).all() and (outputs == outputs[0]).all():
                yield makers

    def _consumers(self, row: Index) -> Iterator[Index]:
        """Return users of the outputs of a row of nodes, as rows where all occurrences have equally many."""
        wiring, count = self._wiring, len(row)
        owner, at = wiring.of(wiring.use_starts, row)
        users = wiring.users[at]
        mine = (users >= 0) & self._free[np.maximum(users, 0)]
        owner, at, users = owner[mine], at[mine], users[mine]
        ports = wiring.use_outputs[at] * _MOST_PORTS + wiring.use_inputs[at]
        keys = ports * (len(self._free) + 1) + self._labels[users]
        order = np.lexsort((users, owner, keys))
        owner, users, keys = owner[order], users[order], keys[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        for start, size in zip(first.tolist(), np.diff(first, append=len(keys)).tolist(), strict=True):
            if size % count:
                continue
            part = slice(start, start + size)
            across = owner[part].reshape(count, -1)
            if (across == np.arange(count)[:, None]).all():
                yield from users[part].reshape(count, -1).T


def _spread(classes: list[Index], most: int) -> list[Index]:
    """Return evenly spaced classes from the list."""
    if len(classes) <= most:
        return classes
    return [classes[i * (len(classes) - 1) // (most - 1)] for i in range(most)]


def _mixed(*columns: Index | int) -> NDArray[np.uint64]:
    """Hash columns; collisions have a probability of about 2 ** -64."""
    hashes = np.full(np.shape(columns[0]), len(columns), np.uint64)
    for column in columns:  # splitmix64
        hashes = (hashes + np.asarray(column, np.int64).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes = hashes ^ (hashes >> np.uint64(31))
    return hashes


# -- cycles ----------------------------------------------------------------------------------------------------------


class _Convexity:
    """Trims or removes blocks [occurrences, nodes] whose contraction to single nodes would create cycles."""

    def __init__(self, count: int, edges: Index) -> None:
        self._count = count
        self._edges = edges

    def applied(self, blocks: list[Index]) -> list[Index]:
        """Return the blocks, of which those on cycles are trimmed, or the least of them removed."""
        while knotted := self._knotted(blocks):
            trimmed = {number: self._trimmed(blocks[number], knot) for number, knot in knotted.items()}
            if all(new.shape == blocks[number].shape for number, new in trimmed.items()):
                trimmed = {min(knotted, key=lambda number: _saved(blocks[number])): np.zeros((1, 1), np.int64)}
            kept = [trimmed.get(number, block) for number, block in enumerate(blocks)]
            blocks = [block for block in kept if block.shape[1] > 1]
        return blocks

    def _knotted(self, blocks: list[Index]) -> dict[int, dict[int, list[int]]]:
        """Return blocks with an occurrence on a cycle, and the followers of the nodes on all its cycles."""
        unit = np.arange(self._count)
        for block in blocks:
            unit[block] = block[:, :1]
        knot = contracted_cycles(unit, self._edges)
        if (knot < 0).all():
            return {}
        edges = self._edges[(knot[self._edges[:, 0]] >= 0) & (knot[self._edges[:, 0]] == knot[self._edges[:, 1]])]
        followers: list[dict[int, list[int]]] = [{} for _ in range(knot.max() + 1)]
        for a, b in edges.tolist():
            followers[knot[a]].setdefault(a, []).append(b)
        followers_of: dict[int, dict[int, list[int]]] = {}
        for number, block in enumerate(blocks):
            on = np.unique(knot[block[:, 0]])
            if (on >= 0).any():
                followers_of[number] = {a: after for one in on[on >= 0].tolist() for a, after in followers[one].items()}
        return followers_of

    def _trimmed(self, block: Index, knot: dict[int, list[int]]) -> Index:
        """Return the largest connected convex part of a block; the block itself if it is convex."""
        late: set[int] = set()
        for occurrence in block.tolist():
            late |= _entered_again(occurrence, knot)
        if not late:
            return block
        position = {node: index for index, node in enumerate(block[0].tolist())}
        inner = self._edges[np.isin(self._edges, block[0]).all(1)].tolist()
        follows: dict[int, set[int]] = {index: set() for index in position.values()}
        for a, b in inner:
            follows[position[a]].add(position[b])
        late = set(reachable(late, follows.__getitem__))
        import networkx as nx

        rest = nx.Graph((a, b) for a, after in follows.items() for b in after if a not in late and b not in late)
        rest.add_nodes_from(index for index in follows if index not in late)
        parts = sorted(nx.connected_components(rest), key=lambda part: (-len(part), min(part)))
        return block[:, sorted(parts[0]) if parts else [0]]


def _saved(block: Index) -> int:
    occurrences, nodes = block.shape
    return int((occurrences - 1) * (nodes - 1))


def _entered_again(occurrence: list[int], knot: dict[int, list[int]]) -> set[int]:
    """Return indices of nodes of an occurrence that depend on it through nodes outside."""
    position = {node: index for index, node in enumerate(occurrence)}
    behind = reachable(occurrence, lambda node: (after for after in knot.get(node, ()) if after not in position))
    outside = (node for node in behind if node not in position)
    return {position[after] for node in outside for after in knot.get(node, ()) if after in position}
