"""Validation against the ONNX IR specification and operator schemas.

`check_model` finds all problems; `Checker` keeps those of a document that is edited.
"""

from onnx_workbench.model.checks.checker import Checker
from onnx_workbench.model.checks.models import check_model
from onnx_workbench.model.checks.problem import Fix, Problem, Severity

__all__ = ["Checker", "Fix", "Problem", "Severity", "check_model"]
