"""What the rules ask of a model that the file of a lone graph, function, node or tensor has no place for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx_workbench.model.checks.problem import Problem
from onnx_workbench.model.io.root_message import message_of
from onnx_workbench.model.ir.graph import Model, Node


def concerning(model: Model, problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems that what the model is kept as can have."""
    message = message_of(model)
    if message == "ModelProto":  # has a place for everything
        return iter(problems)
    return (problem for problem in problems if _can_have(message, problem, model))


def _can_have(message: str, problem: Problem, model: Model) -> bool:
    match message, problem.rule:
        case "FunctionProto", "opset-import":  # of its own for its nodes, but none for itself
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
