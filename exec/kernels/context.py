"""Services of a run for its kernels: random generators, subgraphs, the region of a gradient."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.model.ir.types import Type

T = TypeVar("T")


class Body(Protocol):
    """A subgraph (If, Loop, Scan …) with the outer values it captures."""

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
        """Declared types of the outputs, None where there is none: a loop without iterations returns such values."""

    def __call__(self, inputs: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """Run the body once; raises the exceptions of its nodes."""

    def loop(self, state: T) -> AbstractContextManager[T]:
        """Return the state of a loop over the body: `state`, or that of the iteration in which it was stopped.

        The state may be changed between iterations only.
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
    """The nodes that compute one value from given ones, in run order, and every value they read or produced."""

    nodes: Sequence[RegionNode]
    values: Mapping[str, RuntimeValue]


#: Finds the nodes between the values given by name and the target, runs them on the given values (other inputs keep the
#: values of the current run), and returns them with their values.
RegionRunner = Callable[[Mapping[str, RuntimeValue], str], Region]


class Context:
    """Passed to kernels whose first parameter is `ctx`; one per node."""

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
        self.wanted = tuple(wanted)  # per output of the node: whether it has a name
        self.node_name = node_name  # unique per node, even without a name or in several calls
        self.drawn = 0  # generators already created in this run: those in a loop body differ between iterations
        self.seed = seed  # of the run
        self.opset_imports = opset_imports or {}
        self.body_runner = body_runner  # only Gradient needs it

    @property
    def outputs(self) -> int:
        """Number of outputs that the node lists."""
        return len(self.wanted)

    def rng(self, seed: float | None = None) -> np.random.Generator:
        """Return a random generator, seeded by the node's seed attribute if it has one, else by run seed and node name.

        Each further call in the same run, as in every iteration of a loop, returns a different one.
        """
        if seed is not None:
            entropy = np.frombuffer(np.float32(seed).tobytes(), np.uint32).tolist()
        else:
            entropy = [self.seed, zlib.crc32(self.node_name.encode("utf-8", "replace"))]
        if self.drawn:
            entropy.append(self.drawn)
        self.drawn += 1
        return np.random.default_rng(entropy)
