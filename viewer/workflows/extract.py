"""Models made of parts of an open one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_workbench.exec.inspect.self_check import require_agreement
from onnx_workbench.model.edits.extract import Extraction
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.workflows.cut_parts import check_part, cut_parts

_SECONDS = 5.0  # that the parts are compared with the model for, before they open


def checked_parts(
    model: Model, cuts: Sequence[Extraction], rules: Mapping[str, str], progress: Progress
) -> list[Model]:
    """Return the parts as models, after they were compared with the whole; ModelError if they differ. From a reader."""
    parts = cut_parts(model, cuts, rules=rules, progress=progress)
    for part, of in zip(parts, cuts, strict=True):
        require_agreement(check_part(model, part, of.graph, time_limit=_SECONDS, progress=progress))
    return parts
