"""Which comparison an open document is part of. Light to import: actions ask it before anything is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.run.workspace import Workspace

_comparisons: WeakKeyDictionary[Workspace, ModelComparison] = WeakKeyDictionary()


def comparison_of(workspace: Workspace) -> ModelComparison | None:
    """Return the comparison a document is part of, or None. Its signal `comparison_changed` tells of changes."""
    return _comparisons.get(workspace)


def set_comparison(workspace: Workspace, comparison: ModelComparison | None) -> None:
    """Enter or remove the comparison of a document; for `ModelComparison` alone."""
    if comparison is None:
        _comparisons.pop(workspace, None)
    else:
        _comparisons[workspace] = comparison
    workspace.comparison_changed.emit()
