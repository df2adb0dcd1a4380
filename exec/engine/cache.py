"""Value cache of a session, keyed by token: outputs of steps, values inside their bodies, summaries.

A token says how a value is computed from the inputs, so entries hold for the present values of the inputs only.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from onnx_workbench.exec.engine.bodies import SubgraphRecord
from onnx_workbench.exec.results.values import distinct_bytes
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import Summary

#: Number of runs for which the summaries of values that exceeded the budget are kept.
_REMEMBERED = 64


@dataclass(slots=True)
class CacheEntry:
    """Result of one step in an earlier run: its values, or their summaries if they did not fit the memory budget."""

    values: tuple[RuntimeValue, ...] | None
    seconds: float
    nbytes: int
    run: int
    inputs: int = 0  # mask, see PlanStep
    inside: SubgraphRecord | None = None  # of its bodies
    summaries: tuple[Summary | None, ...] = ()

    @property
    def held(self) -> int:
        """Bytes of all its values."""
        return 0 if self.values is None else self.nbytes + (self.inside.nbytes if self.inside is not None else 0)

    def all_values(self) -> Iterator[RuntimeValue]:
        """Return all values, including those in its bodies."""
        yield from self.values or ()
        if self.inside is not None:
            yield from self.inside.made


@dataclass(slots=True)
class ValueCache:
    """LRU cache of values computed by earlier runs, keyed by token.

    Its contents must not refer to an engine: a reference cycle would keep hundreds of megabytes alive until the garbage
    collector runs.
    """

    budget: int
    entries: dict[int, CacheEntry] = field(default_factory=dict)
    run: int = 0
    insides: dict[int, SubgraphRecord] = field(default_factory=dict)  # of bodies that depend on constants only

    @property
    def has_summaries(self) -> bool:
        """Whether some entries are summaries alone."""
        return any(entry.values is None for entry in self.entries.values())

    def tokens(self) -> set[int]:
        """Return the tokens of all entries; evicts summaries of old runs."""
        oldest = self.run - _REMEMBERED
        self.entries = {t: entry for t, entry in self.entries.items() if entry.values is not None or entry.run > oldest}
        return set(self.entries)

    def clear(self) -> None:
        """Evict all values."""
        self.entries.clear()

    def drop(self, inputs: int) -> None:
        """Release all values that depend on these inputs, which have changed: no later run can reuse them."""
        self.entries = {token: entry for token, entry in self.entries.items() if not entry.inputs & inputs}

    def retain(self, tokens: Container[int]) -> None:
        """Evict the body values of constant steps that have none of these tokens."""
        self.insides = {token: inside for token, inside in self.insides.items() if token in tokens}

    @property
    def old_bytes(self) -> int:
        """Total size of the values of older runs in bytes; views count in full."""
        return sum(entry.held for entry in self.entries.values() if entry.run != self.run)

    def evict_old(self) -> None:
        """Evict the values of older runs."""
        self.entries = {t: entry for t, entry in self.entries.items() if entry.run == self.run or entry.values is None}

    def trim(self) -> None:
        """Evict the values of older runs until the rest fits."""
        if all(e.run == self.run for e in self.entries.values()):
            return
        if sum(e.held for e in self.entries.values()) <= self.budget:
            return  # even with views counted in full
        total = distinct_bytes(v for e in self.entries.values() for v in e.all_values())
        if total <= self.budget:
            return
        old = sorted((e.run, token) for token, e in self.entries.items() if e.run != self.run and e.values is not None)
        for _, token in old:
            if total <= self.budget:
                return
            total -= self.entries.pop(token).held
