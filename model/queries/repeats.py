"""Blocks that a graph repeats: equal operators, attributes and wiring, whatever the weights and names.

Nodes that are alike in their neighbourhood are seeds. All of them grow at once, node by node, as long as every one
can grow in the same way and none takes a node of another. The blocks that repeat most are kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

from model.graph import Graph, Node, Value
from model.progress import SILENT, Progress
from model.queries.labels import exact_label
from model.queries.scope import dependencies, run_order

_ROUNDS = 3  # how far around a node its neighbourhood is looked at to tell seeds apart
_MOST_SEEDS = 48  # classes of seeds that are grown; each costs at most the nodes of the graph
_PER_COUNT = 6  # of these with the same number of seeds
_NEARLY_ALL = 0.9  # of the occurrences of a block: seeds in as many are not grown again
_PASSES = 4  # searches, each among what the ones before left over


@dataclass(frozen=True, slots=True)
class Repeat:
    """One block and where it is: node n of every occurrence plays the same part. Occurrences are in graph order.

    Each occurrence is connected, no node is in two, and every one could become a single node without a cycle.
    """

    occurrences: tuple[tuple[Node, ...], ...]

    @property
    def size(self) -> int:
        """Nodes of one occurrence."""
        return len(self.occurrences[0])

    @property
    def saved(self) -> int:
        """Nodes that need not be told if the block is told once."""
        return (self.size - 1) * (len(self.occurrences) - 1)


def repeated_blocks(
    graph: Graph,
    progress: Progress = SILENT,
    *,
    among: Collection[Node] | None = None,
    least_nodes: int = 2,
) -> list[Repeat]:
    """The blocks that occur twice or more in a graph, in graph order; disjoint, and the same on every call.

    Nodes with bodies or with long tensors in attributes are in none. `among` looks at some nodes alone. Any thread,
    while nobody changes the model. Cost: nodes + edges, times the number of kinds of blocks.
    """
    nodes = run_order(graph)
    free = {n for n in nodes if among is None or n in among}
    labels = _labels(n for n in nodes if n in free)
    free.intersection_update(labels)
    found: list[Repeat] = []
    for _ in range(_PASSES):
        blocks = _Search(nodes, labels, free, progress).run()
        blocks = [b for b in blocks if b.size >= max(least_nodes, 2)]
        if not blocks:
            break
        found += blocks
        for block in blocks:
            free.difference_update(*block.occurrences)
    place = {node: index for index, node in enumerate(nodes)}
    return sorted(_without_cycles(nodes, found), key=lambda b: place[b.occurrences[0][0]])


def _labels(nodes: Iterable[Node]) -> dict[Node, int]:
    """A small number per node, the same for nodes that do the same; nodes that cannot be in a block have none."""
    numbers: dict[Hashable, int] = {}
    found = {}
    for node in nodes:
        label = exact_label(node)
        if label is not None:
            found[node] = numbers.setdefault(label, len(numbers))
    return found


class _Search:
    """One look at the free nodes: the best blocks that do not share a node."""

    def __init__(self, nodes: list[Node], labels: dict[Node, int], free: set[Node], progress: Progress) -> None:
        self._nodes = [n for n in nodes if n in free]
        self._labels = labels
        self._free = free
        self._progress = progress
        self._place = {node: index for index, node in enumerate(self._nodes)}

    def run(self) -> list[Repeat]:
        grown: list[Repeat] = []
        part_of: dict[Node, tuple[int, int, int]] = {}  # the last block that took a node, its size, the node's place
        for seeds in self._seeds():
            self._progress.check()
            parts = {part_of.get(seed) for seed in seeds}
            first = next(iter(parts))
            if len(parts) == 1 and first is not None and len(seeds) >= _NEARLY_ALL * first[1]:
                continue  # they would grow into that very block, or hardly a larger one
            block = self._grow(seeds)
            if len(block.occurrences[0]) > 1:
                for occurrence in block.occurrences:
                    for index, node in enumerate(occurrence):
                        part_of[node] = len(grown), len(seeds), index
                grown.append(block)
        chosen, taken = [], set[Node]()
        for block in sorted(grown, key=lambda b: (-b.saved, self._place[b.occurrences[0][0]])):
            if taken.isdisjoint(n for occurrence in block.occurrences for n in occurrence):
                taken.update(*block.occurrences)
                chosen.append(block)
        return chosen

    def _seeds(self) -> list[list[Node]]:
        """Classes of nodes that are alike, the numbers of members first that most nodes share: those are periods."""
        classes: dict[tuple[Node, ...], None] = {}
        numbers = {node: self._labels[node] for node in self._nodes}
        for _ in range(_ROUNDS + 1):
            members: dict[int, list[Node]] = defaultdict(list)
            for node in self._nodes:
                members[numbers[node]].append(node)
            classes.update((tuple(m), None) for m in members.values() if len(m) > 1)
            numbers = self._wider(numbers)
        weight: Counter[int] = Counter()
        by_count: dict[int, list[tuple[Node, ...]]] = defaultdict(list)
        for members_of in classes:
            weight[len(members_of)] += len(members_of)
            by_count[len(members_of)].append(members_of)
        order = sorted(weight, key=lambda count: (-weight[count], -count))
        chosen = [seeds for count in order for seeds in _spread(by_count[count], _PER_COUNT)]
        return [list(seeds) for seeds in chosen[:_MOST_SEEDS]]

    def _wider(self, numbers: dict[Node, int]) -> dict[Node, int]:
        """Numbers that tell apart what the neighbours tell apart."""
        seen: dict[Hashable, int] = {}
        wider = {}
        for node in self._nodes:
            before = tuple(_made_by(v, numbers) for v in node.inputs)
            after = tuple(sorted(_used_by(v, numbers)) if v is not None else () for v in node.outputs)
            wider[node] = seen.setdefault((numbers[node], before, tuple(map(tuple, after))), len(seen))
        return wider

    # -- growing -------------------------------------------------------------------------------------------------

    def _grow(self, seeds: list[Node]) -> Repeat:
        """The largest block around the seeds; inputs are followed first, for they are in order and consumers not."""
        rows = [seeds]  # by place in the block: that node of every occurrence
        owner = {node: (occurrence, 0) for occurrence, node in enumerate(seeds)}
        upward, downward = deque([0]), deque([0])

        def add(row: list[Node] | None) -> None:
            if row is None or not self._fits(row, owner):
                return
            owner.update((node, (occurrence, len(rows))) for occurrence, node in enumerate(row))
            upward.append(len(rows))
            downward.append(len(rows))
            rows.append(row)

        while upward or downward:
            if upward:
                row = rows[upward.popleft()]
                for index in range(len(row[0].inputs)):
                    add(_producers(row, index))
            else:
                for candidates in self._consumers(rows[downward.popleft()]):
                    add(candidates)
        return self._in_order(rows)

    def _fits(self, row: list[Node], owner: dict[Node, tuple[int, int]]) -> bool:
        """Whether these nodes are free, alike, and wired to the block alike in all occurrences."""
        label = self._labels.get(row[0])
        if label is None or len(set(row)) < len(row):
            return False
        if any(n in owner or n not in self._free or self._labels[n] != label for n in row):
            return False
        wires = _wires(row[0], 0, owner)
        return all(_wires(node, occurrence, owner) == wires for occurrence, node in enumerate(row))

    def _consumers(self, row: list[Node]) -> list[list[Node]]:
        """Nodes that use outputs of a row of nodes, in rows of their own where all occurrences have as many."""
        users: list[dict[Hashable, list[Node]]] = []
        for node in row:
            mine: dict[Hashable, list[Node]] = defaultdict(list)
            for output in node.outputs:
                for user, index in output.uses if output is not None else ():
                    if isinstance(user, Node) and user in self._free:
                        mine[output.index if output else 0, index, self._labels[user]].append(user)
            users.append(mine)
            if not mine:
                return []
        rows: list[list[Node]] = []
        for key, first in users[0].items():
            others = [mine.get(key, ()) for mine in users]
            if all(len(other) == len(first) for other in others):
                ordered = [sorted(other, key=self._place.__getitem__) for other in others]
                rows += [list(across) for across in zip(*ordered, strict=True)]
        return rows

    def _in_order(self, rows: list[list[Node]]) -> Repeat:
        """Places within the block and occurrences as the graph has them."""
        rows = sorted(rows, key=lambda row: self._place[row[0]])
        columns = sorted(zip(*rows, strict=True), key=lambda nodes: self._place[nodes[0]])
        return Repeat(tuple(columns))


def _spread(classes: list[tuple[Node, ...]], most: int) -> list[tuple[Node, ...]]:
    """Some of the classes, from all over the list."""
    if len(classes) <= most:
        return classes
    return [classes[i * (len(classes) - 1) // (most - 1)] for i in range(most)]


def _made_by(value: Value | None, numbers: dict[Node, int]) -> tuple[int, int]:
    if value is None or value.producer is None:
        return -1, 0
    return numbers.get(value.producer, -2), value.index


def _used_by(value: Value, numbers: dict[Node, int]) -> list[tuple[int, int]]:
    return [(numbers.get(user, -2) if isinstance(user, Node) else -3, index) for user, index in value.uses]


def _producers(row: list[Node], index: int) -> list[Node] | None:
    """Who makes the input of an index of each node, where all come out of the same output."""
    values = [node.inputs[index] for node in row]
    producers = [v.producer for v in values if v is not None and v.producer is not None]
    if len(producers) < len(row) or len({v.index for v in values if v is not None}) > 1:
        return None
    return producers


def _wires(node: Node, occurrence: int, owner: dict[Node, tuple[int, int]]) -> Hashable:
    """How a node is tied to the nodes that its occurrence has so far."""
    before = []
    for value in node.inputs:
        held = owner.get(value.producer) if value is not None and value.producer is not None else None
        inside = held is not None and held[0] == occurrence
        before.append((held[1], value.index) if inside and held is not None and value is not None else None)
    after = set()
    for output in node.outputs:
        for user, index in output.uses if output is not None else ():
            held = owner.get(user) if isinstance(user, Node) else None
            if held is not None and held[0] == occurrence and output is not None:
                after.add((output.index, held[1], index))
    return tuple(before), frozenset(after)


# -- cycles ----------------------------------------------------------------------------------------------------------


def _without_cycles(nodes: list[Node], blocks: list[Repeat]) -> list[Repeat]:
    """The blocks, cut down where turning every occurrence into one node would make nodes wait for each other."""
    while knotted := _knotted(nodes, blocks):
        trimmed: dict[Repeat, Repeat | None] = {block: _trim(block, inside) for block, inside in knotted.items()}
        if all(new is old for old, new in trimmed.items()):
            trimmed = {min(knotted, key=lambda b: b.saved): None}
        kept = [trimmed.get(block, block) for block in blocks]
        blocks = [block for block in kept if block is not None and block.size > 1]
    return blocks


def _knotted(nodes: list[Node], blocks: list[Repeat]) -> dict[Repeat, set[Node]]:
    """Blocks of which an occurrence would lie on a cycle, and the nodes of all cycles it is on."""
    unit = {node: index for index, node in enumerate(nodes)}
    unit |= {n: unit[occurrence[0]] for block in blocks for occurrence in block.occurrences for n in occurrence}
    edges = {
        (unit[value.producer], unit[node])
        for node in nodes
        for value in dependencies(node)
        if value.producer in unit and unit[value.producer] != unit[node]
    }
    waiting = _left_waiting(set(unit.values()), edges)
    if not waiting:
        return {}
    import networkx as nx

    rest = nx.DiGraph((a, b) for a, b in edges if a in waiting and b in waiting)
    knots = {u: n for n, knot in enumerate(nx.strongly_connected_components(rest)) if len(knot) > 1 for u in knot}
    members: dict[int, set[Node]] = defaultdict(set)
    for node in nodes:
        if unit[node] in knots:
            members[knots[unit[node]]].add(node)
    found: dict[Repeat, set[Node]] = {}
    for block in blocks:
        on = {knots[unit[occurrence[0]]] for occurrence in block.occurrences if unit[occurrence[0]] in knots}
        if on:
            found[block] = set().union(*(members[knot] for knot in on))
    return found


def _left_waiting(units: set[int], edges: set[tuple[int, int]]) -> set[int]:
    """What cannot be put in an order: the units on cycles and after them."""
    waiting = Counter(after for _, after in edges)
    followers: dict[int, list[int]] = defaultdict(list)
    for before, after in edges:
        followers[before].append(after)
    ready = [u for u in units if not waiting[u]]
    left = set(units)
    while ready:
        done = ready.pop()
        left.discard(done)
        for follower in followers[done]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return left


def _trim(block: Repeat, knot: set[Node]) -> Repeat:
    """The largest connected part of a block that no path leaves and enters again; the block itself if that is all."""
    late: set[int] = set()
    for occurrence in block.occurrences:
        late |= _entered_again(occurrence, knot)
    if not late:
        return block
    first = block.occurrences[0]
    place = {node: index for index, node in enumerate(first)}
    follows = {
        index: {place[n] for v in node.outputs if v is not None for n in v.consumers if n in place}
        for index, node in enumerate(first)
    }
    pending = list(late)
    while pending:
        new = follows[pending.pop()] - late
        late |= new
        pending += new
    import networkx as nx

    rest = nx.Graph((a, b) for a, after in follows.items() for b in after if a not in late and b not in late)
    rest.add_nodes_from(index for index in follows if index not in late)
    parts = sorted(nx.connected_components(rest), key=lambda part: (-len(part), min(part)))
    kept = sorted(parts[0]) if parts else [0]
    return Repeat(tuple(tuple(occurrence[i] for i in kept) for occurrence in block.occurrences))


def _entered_again(occurrence: tuple[Node, ...], knot: set[Node]) -> set[int]:
    """Places of an occurrence that depend on it by way of nodes outside."""
    place = {node: index for index, node in enumerate(occurrence)}
    pending = list(occurrence) if knot.issuperset(occurrence) else []
    seen: set[Node] = set()
    found: set[int] = set()
    while pending:
        node = pending.pop()
        for after in _followers(node):
            if after in place:
                if node not in place:
                    found.add(place[after])
            elif after in knot and after not in seen:
                seen.add(after)
                pending.append(after)
    return found


def _followers(node: Node) -> Iterable[Node]:
    """Nodes of the same graph that wait for a node, those holding a body that does included."""
    for value in node.outputs:
        for user, _ in value.uses if value is not None else ():
            graph = user if isinstance(user, Graph) else user.graph
            holder: Node | None = user if isinstance(user, Node) else None
            while graph is not None and graph is not node.graph:
                holder = graph.owner if isinstance(graph.owner, Node) else None
                graph = graph.parent
            if holder is not None and graph is node.graph:
                yield holder
