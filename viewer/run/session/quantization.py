"""Quantization of an open model on a copy: the samples, the loss, and the steps that make it an edit."""

from __future__ import annotations

import glob
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.exec.inputs.recipe import Recipe
from onnx_workbench.exec.inputs.sources import File
from onnx_workbench.exec.transform.quantization.plan import QuantizeOptions, name_of
from onnx_workbench.exec.transform.quantization.quantize import Quantization, QuantizationReport, measure_isolated
from onnx_workbench.exec.transform.quantization.ranges import Histogram, Scale
from onnx_workbench.model.ir.graph import Node
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.recovery.write_ahead import Recording, recording_of
from onnx_workbench.viewer.plots.plot import load_pyqtgraph
from onnx_workbench.viewer.workflows.working_copies import copy_model

if TYPE_CHECKING:
    from onnx_workbench.model.history.steps import Step
    from onnx_workbench.viewer.run.workspace import Workspace


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
    """Quantize a copy; a child process measures the loss. From a task. ModelError if data or options do not fit."""
    copy, revision = copy_model(workspace, progress)
    nodes = {name_of(node): copy.original(node) for part in copy.document.model.graphs() for node in part.nodes}
    images = (source.image for source in request.inputs.sources.values() if isinstance(source, File))
    kept = [glob.escape(name) for name in request.kept if name in nodes]
    options = replace(request.options, keep=[*request.options.keep, *kept])
    load_pyqtgraph()  # here rather than when the ranges are first shown, on the GUI thread
    measured = measure_isolated(
        copy.document.model,
        options,
        request.data or request.inputs,
        next(filter(None, images), None),
        reach=request.reach,
        alone=request.alone,
        progress=progress,
    )
    Quantization(copy, options).repeat(measured, progress)
    if request.data is None and request.inputs.is_random:
        measured.report.remarks.insert(0, "the inputs are random: ranges and losses for typical data may differ")
    return Trial(measured.report, nodes, measured.ranges, copy.steps(), recording_of(copy), revision)
