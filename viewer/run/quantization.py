"""Quantization of an open model on a copy: the samples, the loss, and the steps that make it an edit."""

from __future__ import annotations

import glob
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.inputs.sources import File, Random
from onnx_workbench.exec.transform.quantization.calibration import Sample, samples_of, split
from onnx_workbench.exec.transform.quantization.plan import QuantizeOptions, name_of
from onnx_workbench.exec.transform.quantization.quantize import Quantization, QuantizationReport
from onnx_workbench.exec.transform.quantization.ranges import Histogram, Scale
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.write_ahead import Recording, recording_of
from onnx_workbench.viewer.plots.plot import load_pyqtgraph
from onnx_workbench.viewer.workflows.working_copies import copy_model

if TYPE_CHECKING:
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.viewer.run.workspace import Workspace

_SEEDS = 4  # random samples, of which one is kept aside


@dataclass(frozen=True, slots=True)
class Request:
    """What to try; equal for equal choices. Without `data`, a file or folder, samples are the inputs of the Run panel.

    `kept`: names of nodes to keep in float besides the patterns of the options; those that are gone do not matter.
    """

    options: QuantizeOptions
    inputs: Recipe = field(compare=False)
    data: Path | None = None
    reach: float | None = None
    alone: bool = False
    kept: Collection[str] = ()
    stamp: Hashable = None  # of the inputs, where they matter


@dataclass(frozen=True, slots=True)
class Trial:
    """A quantization of a copy of the model of a revision; `nodes` of the real model by the names in the report.

    `ranges`: the distributions of values by name, and the ranges chosen.
    """

    report: QuantizationReport
    nodes: Mapping[str, Node]
    ranges: Mapping[str, tuple[Histogram, Scale]]
    steps: Sequence[Step]
    recording: Recording | None
    revision: int


def attempt(workspace: Workspace, request: Request, progress: Progress) -> Trial:
    """Quantize a copy and measure the loss. From a task. ModelError if data or options do not fit."""
    copy, revision = copy_model(workspace, progress)
    graph = copy.document.model.graph
    nodes = {name_of(node): copy.original(node) for part in copy.document.model.graphs() for node in part.nodes}
    if request.data is None:
        samples = _samples_of_run(request.inputs)
    else:
        images = (source.image for source in request.inputs.sources.values() if isinstance(source, File))
        samples = samples_of(request.data, graph, next(filter(None, images), None))
    kept = [glob.escape(name) for name in request.kept if name in nodes]
    options = replace(request.options, keep=[*request.options.keep, *kept])
    work = Quantization(copy, options, split(samples))
    load_pyqtgraph()  # here rather than when the ranges are first shown, on the GUI thread
    report = work.run(reach=request.reach, alone=request.alone, progress=progress)
    if request.data is None and _is_random(request.inputs):
        report.remarks.insert(0, "the inputs are random: ranges and losses for typical data may differ")
    return Trial(report, nodes, work.ranges, copy.steps(), recording_of(copy), revision)


def _is_random(inputs: Recipe) -> bool:
    return any(isinstance(source, Random) for source in inputs.sources.values())


def _samples_of_run(inputs: Recipe) -> list[Sample]:
    """Return the inputs of the Run panel, with several seeds where some of them are random."""
    if not _is_random(inputs):
        return [Sample("the input of the Run panel", inputs.make)]
    return [
        Sample(f"the input of the Run panel with seed {seed}", replace(inputs, seed=seed).make)
        for seed in range(inputs.seed, inputs.seed + _SEEDS)
    ]
