"""Mixed precision: the fewest nodes to keep in float32 for outputs to stay near those of float32."""

from __future__ import annotations

import glob
from collections.abc import Collection

from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.transform.convert import ConvertOptions, attempt
from onnx_workbench.exec.transform.sensitivity import Reference, Sweep
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference import infer
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.progress import SILENT, Progress

_SAMPLES = 2


def kept_to_reach(model: Model, options: ConvertOptions, reach: float, progress: Progress = SILENT) -> list[str]:
    """Return the fewest nodes to keep in float32 with which all outputs have at least a ratio of signal to noise, in
    decibels, on random inputs: patterns of names, or operators for nodes without one.

    Nodes that cost most alone are kept first. Cost: a conversion and two runs for each node of the main graph, unless
    none needs to be kept. ModelError: the precision is not a lower one, or the ratio cannot be reached.
    """
    if options.precision not in ("float16", "bfloat16"):
        raise ModelError("There is nothing to reach", "Expected the precision float16 or bfloat16.")
    type_of = infer(model, progress=progress).type_of
    kinds = {node: [type_of(value) for value in node.outputs if value is not None] for node in model.graph.nodes}
    parts = list(
        dict.fromkeys(
            glob.escape(node.name) if node.name else node.op_type
            for node, types in kinds.items()
            if node.op_type != "Constant"
            and any(isinstance(kind, TensorType) and kind.element_type is ElementType.FLOAT for kind in types)
        )
    )
    feeds = [make_feeds(model.graph, seed=seed) for seed in range(_SAMPLES)]
    reference = Reference(model, feeds, progress=progress)

    def change(converted: Collection[str]) -> Model:
        chosen = set(converted)
        keep = [*options.keep, "inputs-outputs", *(part for part in parts if part not in chosen)]
        return attempt(
            WorkingCopy(model, progress), ConvertOptions(precision=options.precision, keep=keep), progress
        ).after

    if reference.noise(change(parts), progress=progress).least >= reach:
        return []
    return Sweep(parts, change, reference, "Converting each node alone", progress).fewest(reach)
