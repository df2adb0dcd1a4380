"""Decision trees as flat arrays, traversed level by level for all rows and trees of a block at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.values.arrays import Array, check_size, empty
from onnx_workbench.exec.values.limits import checkpoint

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
EQ = MODES.index("BRANCH_EQ")
#: Whether the true branch is taken, by mode and by the comparison of value and threshold: unordered, <, =, >.
_TAKEN = np.array(
    [[0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]], bool
).reshape(-1)  # fmt: skip
#: Rows times trees traversed together, so that the working arrays fit the cache.
_BLOCK = 1 << 15


@dataclass(slots=True, eq=False)
class Nodes:
    """Interior nodes and leaves of all trees by index; a leaf is its own child."""

    feature: Array  # intp
    threshold: Array  # float32 or float64
    mode: Array  # index in MODES, -1 at a leaf
    children: Array  # intp, [2·i] where the branch is not taken, [2·i + 1] where it is
    missing_true: Array | None  # bool: NaN takes the true branch
    roots: Array  # intp
    depth: int = 0

    def __post_init__(self) -> None:
        count = len(self.mode)
        if not count or not len(self.roots):
            msg = "the ensemble has no trees; expected at least one"
            raise KernelError(msg)
        for what, values in (("child", self.children), ("root", self.roots)):
            if values.min() < 0 or values.max() >= count:
                given = f"a {what} is node {values.min()} or {values.max()}; there are {count}"
                msg = f"{given}; expected within [0, {count - 1}]"
                raise KernelError(msg)
        if self.feature.min() < 0:
            msg = f"a feature has number {self.feature.min()}; expected numbers from 0"
            raise KernelError(msg)
        self.depth = self._longest_path()

    def _longest_path(self) -> int:
        level = distinct(self.roots)
        depth = 0
        while True:
            level = level[self.mode[level] >= 0]
            if not level.size:
                return depth
            depth += 1
            if depth > len(self.mode):
                msg = "the nodes of a tree form a cycle; expected every branch to end in a leaf"
                raise KernelError(msg)
            checkpoint()
            level = distinct(np.concatenate([self.children[2 * level], self.children[2 * level + 1]]))

    def leaves(self, x: Array) -> Array:
        """Return the leaf that each row reaches in each tree, [trees, rows]; x is a contiguous block of rows."""
        rows, width = x.shape
        if self.feature.max() >= width:
            given = f"a node asks for feature {self.feature.max()}; the input has {width}"
            msg = f"{given}; expected at least {self.feature.max() + 1}"
            raise KernelError(msg)
        flat = x.reshape(-1)
        starts = np.arange(rows) * width
        current = np.repeat(self.roots[:, None], rows, 1)
        only = int(self.mode.max())
        same = bool(((self.mode == only) | (self.mode < 0)).all())
        for _ in range(self.depth):
            places = self.feature.take(current)
            places += starts
            value = flat.take(places)
            threshold = self.threshold.take(current)
            taken = _COMPARE[only](value, threshold) if same else self._branch_taken(current, value, threshold)
            if self.missing_true is not None:
                taken |= np.isnan(value) & self.missing_true.take(current)
            current += current
            current += taken
            current = self.children.take(current)
        return current

    def _branch_taken(self, current: Array, value: Array, threshold: Array) -> Array:
        outcome = np.maximum(self.mode.take(current), 0) * 4
        outcome += value < threshold
        outcome += 2 * (value == threshold)
        outcome += 3 * (value > threshold)
        return _TAKEN.take(outcome)


_COMPARE = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


@dataclass(slots=True, eq=False)
class Votes:
    """The contributions of leaves to targets."""

    weights: Array  # [nodes] when there is one vote per leaf, else [nodes, targets]
    targets: Array | None  # [nodes], when there is one vote per leaf and more than one target
    voted: Array | None  # bool [nodes, targets] where MIN and MAX must distinguish no vote from a vote of 0
    count: int  # of targets


def build_votes(
    nodes: int, leaf: Array, target: Array, weight: Array, targets: int, *, aggregate: str, wide: bool
) -> Votes:
    """Build the votes from parallel lists; KernelError where a leaf or target is out of range."""
    if not len(leaf) == len(target) == len(weight):
        msg = f"{len(leaf)} leaf ids, {len(target)} target ids and {len(weight)} weights; expected as many of each"
        raise KernelError(msg)
    if len(target) and not 0 <= int(target.min()) <= int(target.max()) < targets:
        given = f"a vote is for target {target.min()} or {target.max()}; there are {targets}"
        msg = f"{given}; expected within [0, {targets - 1}]"
        raise KernelError(msg)
    dtype = np.dtype(np.float64 if wide else np.float32)
    single = len(distinct(leaf)) == len(leaf)
    if single and aggregate in ("SUM", "AVERAGE"):
        weights = np.zeros(nodes, dtype)
        weights[leaf] = weight
        if targets == 1:
            return Votes(weights, None, None, 1)
        chosen = np.zeros(nodes, np.intp)
        chosen[leaf] = target
        return Votes(weights, chosen, None, targets)
    check_size((nodes, targets), dtype)
    table = np.zeros((nodes, targets), dtype)
    np.add.at(table, (leaf, target), weight)
    voted = np.zeros((nodes, targets), bool)
    voted[leaf, target] = True
    return Votes(table, None, None if aggregate in ("SUM", "AVERAGE") else voted, targets)


def aggregate_scores(x: Array, nodes: Nodes, votes: Votes, aggregate: str) -> Array:
    """Return scores [N, targets] as float64: the votes of the leaves that each row reaches, aggregated over the
    trees.
    """
    if aggregate not in ("SUM", "AVERAGE", "MIN", "MAX"):
        msg = f"aggregate_function is {aggregate!r}; expected SUM, AVERAGE, MIN or MAX"
        raise KernelError(msg)
    x = np.ascontiguousarray(x, np.float64 if x.dtype == np.float64 else np.float32)
    if x.dtype != nodes.threshold.dtype and nodes.threshold.dtype == np.float64:
        x = x.astype(np.float64)
    scores = empty((len(x), votes.count), np.float64)
    trees = len(nodes.roots)
    step = max(1, _BLOCK // trees)
    for start in range(0, len(x), step):
        checkpoint()
        block = slice(start, start + step)
        scores[block] = _combined(nodes.leaves(x[block]), votes, aggregate)
    if aggregate == "AVERAGE":
        scores /= trees
    return scores


def _combined(leaves: Array, votes: Votes, aggregate: str) -> Array:
    trees, rows = leaves.shape
    if votes.targets is not None:
        places = votes.targets.take(leaves)
        places += np.arange(rows) * votes.count
        sums = np.bincount(places.reshape(-1), votes.weights.take(leaves).reshape(-1), rows * votes.count)
        return np.asarray(sums, np.float64).reshape(rows, votes.count)
    if votes.weights.ndim == 1:
        return np.asarray(votes.weights.take(leaves).sum(0, dtype=np.float64)[:, None])
    if votes.voted is None:
        total = np.zeros((rows, votes.count))
        for tree in range(trees):
            total += votes.weights.take(leaves[tree], 0)
        return total
    pick, start = (np.fmin, np.inf) if aggregate == "MIN" else (np.fmax, -np.inf)
    result = np.full((rows, votes.count), start)
    for tree in range(trees):
        voted = np.where(votes.voted.take(leaves[tree], 0), votes.weights.take(leaves[tree], 0), start)
        pick(result, voted, out=result)
    return np.where(np.isinf(result), 0.0, result)


def distinct(values: Array) -> Array:
    """Return the values in ascending order, each once. Quicker than numpy.unique, which hashes them first."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def numbers(values: Sequence[float] | Array | None, length: int, what: str) -> Array:
    """Return a node attribute as an array; KernelError unless it has one entry per node."""
    checkpoint()
    array = np.asarray(() if values is None else values)
    if array.ndim != 1 or len(array) != length:
        msg = f"{what} has {prod(array.shape)} entries; expected {length}"
        raise KernelError(msg)
    return array
