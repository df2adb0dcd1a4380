"""Every rule of the ONNX IR specification and of operator signatures.

`check_model` finds all problems at once; `Checker` keeps them up to date while a document is edited.
"""

from onnx_workbench.model.checks.checker import Checker
from onnx_workbench.model.checks.models import check_model
from onnx_workbench.model.checks.problem import Fix, Problem, Severity

__all__ = ["Checker", "Fix", "Problem", "Severity", "check_model"]
