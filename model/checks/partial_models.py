"""Filter for files with a lone graph, function, node or tensor, which cannot store all that the rules require."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx_workbench.model.checks.problem import Problem
from onnx_workbench.model.io.root_message import message_of
from onnx_workbench.model.ir.graph import Model, Node


def concerning(model: Model, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Return the problems that apply to the model's root message."""
    message = message_of(model)
    if message == "ModelProto":  # can store everything
        return iter(problems)
    return (problem for problem in problems if _can_have(message, problem, model))


def _can_have(message: str, problem: Problem, model: Model) -> bool:
    match message, problem.rule:
        case "FunctionProto", "opset-import":  # for its nodes, but has no field of its own for it
            return isinstance(problem.place, Node)
        case _, "opset-import" | "model-domain":
            return False
        case "GraphProto", _:
            return True
        case _, "graph-name":
            return problem.place is not model.graph
        case ("NodeProto", "interface-type") | ("TensorProto", "value-name" | "unused-initializer"):
            return False
    return True
