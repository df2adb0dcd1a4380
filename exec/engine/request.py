"""Requests for runs: everything that a run needs of the model and its caller."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_workbench.exec.engine.breakpoints import Condition
from onnx_workbench.exec.engine.snapshot import ModelSnapshot
from onnx_workbench.exec.inputs.feeds import Feeds
from onnx_workbench.exec.results.slot_map import Path, ValueKey


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run. `values`: keys or names to compute besides the `outputs`; None: all. `until`: the last node."""

    values: tuple[ValueKey | str, ...] | None = None
    outputs: bool = True
    until: tuple[Path, int] | None = None
    seed: int = 0
    max_tensor: int | None = None  # bytes of a single value
    memory_limit: int | None = None  # bytes of inputs, weights and values together
    time_limit: float | None = None  # seconds
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """Request for a run: made on the thread that owns the model, performed on any thread."""

    snapshot: ModelSnapshot
    feeds: Feeds
    options: RunOptions
    breakpoints: tuple[Condition, ...] = ()
