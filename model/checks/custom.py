"""`node_check`, the decorator by which scripts and extensions add their own rules about nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from onnx_workbench.model import extensions
from onnx_workbench.model.checks.problem import Problem, warning
from onnx_workbench.model.errors import faults_to
from onnx_workbench.model.ir.graph import Node

#: Returns the messages about a node, none if it is valid.
NodeCheck = Callable[[Node], Iterable[str]]
F = TypeVar("F", bound=NodeCheck)

_MOST = 20  # messages about one node

_checks: dict[str, NodeCheck] = {}


def node_check(rule: str) -> Callable[[F], F]:
    """Register a function that checks a node: it yields a message for each problem, as text.

    `rule` is the short name of the rule. Problems are warnings, in the Problems panel and from ``check``. The function
    is called for every node when a model is checked and after each edit of a node, on any thread; an edit waits
    for it, so it should take only microseconds. It must change nothing. Registering a rule again replaces it.

    >>> import onnx_workbench as ow
    >>> @ow.node_check("no-relu")
    ... def has_no_relu(node):
    ...     if node.op_type == "Relu":
    ...         yield "Relu is not allowed here"
    >>> [problem.message for problem in ow.check(model) if problem.rule == "no-relu"]
    ['Relu is not allowed here']
    """

    def register(function: F) -> F:
        extensions.add("check", rule, _checks, function)
        return function

    return register


def check_custom(node: Node) -> Iterator[Problem]:
    """Yield the problems of a node found by added rules; an exception in a rule is reported as an error in its file."""
    for rule, function in _checks.items():
        messages: list[str] = []
        failed: list[BaseException] = []
        with faults_to(failed.append):
            messages += map(str, islice(function(node), _MOST))
        for message in messages:
            yield warning(rule, message, node)
        for error in failed:
            path = inspect.getsourcefile(function) or ""
            yield warning(rule, f"The rule {rule} cannot check this node", node, extensions.blame(error, path))
