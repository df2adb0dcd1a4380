"""What a kernel may ask of the run it is part of."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from onnx_workbench.exec.errors import LimitError
from onnx_workbench.model.ir.types import Type
from onnx_workbench.model.progress import SILENT, Progress

T = TypeVar("T")

#: What flows along an edge: ndarray, list (sequence), dict (map), SparseArray, or None (empty optional).
RuntimeValue = Any


class Body(Protocol):
    """A subgraph (If, Loop, Scan …) bound to the values it captures from outside."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the formal inputs, in order."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""

    @property
    def input_types(self) -> tuple[Type | None, ...]:
        """Declared types of the formal inputs, None where there is none."""

    @property
    def output_types(self) -> tuple[Type | None, ...]:
        """Declared types of the outputs, None where there is none: what a loop without a turn returns."""

    def __call__(self, inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run once; raises what a node inside raises."""

    def loop(self, state: T) -> AbstractContextManager[T]:
        """What a loop over it keeps between turns: `state`, or that of the turn which it was stopped in before.

        To be changed between turns only.
        """


@dataclass(frozen=True, slots=True)
class RegionNode:
    """One node of the region that Gradient differentiates, in terms of value names."""

    op_type: str
    domain: str
    opset: int
    inputs: tuple[str, ...]  # "" where an optional one is left out
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]  # as kernels get them; those the node has


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes that make one value out of given ones, in run order, and every value they read or made."""

    nodes: Sequence[RegionNode]
    values: Mapping[str, RuntimeValue]


#: Finds the nodes between the values given by name and the target, runs them on the given values (all else they
#: read comes from the run as it stands), and returns them with their values.
RegionRunner = Callable[[Mapping[str, RuntimeValue], str], Region]


class Limits:
    """The limits of one run: memory for a single result, the clock, and cancellation. Any thread."""

    __slots__ = ("deadline", "max_bytes", "progress")

    def __init__(
        self, max_bytes: int | None = None, deadline: float | None = None, progress: Progress = SILENT
    ) -> None:
        self.max_bytes = max_bytes
        self.deadline = deadline  # time.monotonic()
        self.progress = progress


_UNLIMITED = Limits()
_current = threading.local()


def current_limits() -> Limits:
    """The limits of the run on this thread; none outside a run."""
    limits: Limits = getattr(_current, "limits", _UNLIMITED)
    return limits


def set_limits(limits: Limits | None) -> None:
    """Put the limits of a run in force on this thread (None: no run)."""
    _current.limits = limits if limits is not None else _UNLIMITED


def checkpoint() -> None:
    """Called inside loops of long kernels: raises Cancelled, or LimitError past the time limit."""
    limits = current_limits()
    limits.progress.check()
    if limits.deadline is not None and time.monotonic() > limits.deadline:
        msg = "the run reached its time limit"
        raise LimitError(msg)


class Context:
    """Handed to kernels whose first parameter is `ctx`; one per node."""

    __slots__ = ("body_runner", "domain", "drawn", "node_name", "op_type", "opset", "opset_imports", "seed", "wanted")

    def __init__(
        self,
        op_type: str,
        opset: int,
        *,
        domain: str = "",
        wanted: Sequence[bool] = (True,),
        node_name: str = "",
        seed: int = 0,
        opset_imports: dict[str, int] | None = None,
        body_runner: RegionRunner | None = None,
    ) -> None:
        self.op_type = op_type
        self.opset = opset  # version of `domain` the model imports
        self.domain = domain
        self.wanted = tuple(wanted)  # per output of the node: has it a name
        self.node_name = node_name  # unlike that of any other node, though it has no name or runs in several calls
        self.drawn = 0  # generators given out in this run: those of a loop's body differ from turn to turn
        self.seed = seed  # of the run
        self.opset_imports = opset_imports or {}
        self.body_runner = body_runner  # only Gradient needs it

    @property
    def outputs(self) -> int:
        """How many outputs the node lists."""
        return len(self.wanted)

    def rng(self, seed: float | None = None) -> np.random.Generator:
        """A generator: from the node's own seed attribute if it has one, else from the run's seed and node name.

        Asked again in the same run, as in every turn of a loop, it is another one.
        """
        if seed is not None:
            entropy = np.frombuffer(np.float32(seed).tobytes(), np.uint32).tolist()
        else:
            entropy = [self.seed, zlib.crc32(self.node_name.encode("utf-8", "replace"))]
        if self.drawn:
            entropy.append(self.drawn)
        self.drawn += 1
        return np.random.default_rng(entropy)
