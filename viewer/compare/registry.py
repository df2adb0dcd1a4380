"""Registry of the comparisons of open documents. Light to import, as actions query it before any comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from onnx_workbench.viewer.compare.model_comparison import ModelComparison
    from onnx_workbench.viewer.run.workspace import Workspace

_comparisons: WeakKeyDictionary[Workspace, ModelComparison] = WeakKeyDictionary()


def comparison_of(workspace: Workspace) -> ModelComparison | None:
    """Return the comparison of a document, or None. The document emits `comparison_changed` at changes."""
    return _comparisons.get(workspace)


def set_comparison(workspace: Workspace, comparison: ModelComparison | None) -> None:
    """Set or remove the comparison of a document; called by `ModelComparison` only."""
    if comparison is None:
        _comparisons.pop(workspace, None)
    else:
        _comparisons[workspace] = comparison
    workspace.comparison_changed.emit()
