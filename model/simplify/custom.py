"""`simplify_pass`, the decorator by which scripts and extensions add passes of their own to the simplifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from onnx_workbench.model import extensions
from onnx_workbench.model.simplify.passes import Match, Pass

if TYPE_CHECKING:
    from onnx_workbench.model.simplify.context import MatchContext

FindMatches = Callable[["MatchContext"], Iterable[Match]]
F = TypeVar("F", bound=FindMatches)

_passes: dict[str, Pass] = {}


def simplify_pass(identifier: str, *, title: str = "", default: bool = True) -> Callable[[F], F]:
    """Register a function that finds possible simplifications: it yields a `Match` for each.

    The function gets a context with facts about a model: `context.all_nodes()` and `context.nodes("Relu")` to search,
    `context.array(value)` for a constant, `context.users(value)`. A match has a description, the nodes that it replaces
    and a function that replaces them, called with a rewriter: `rewriter.replace_node(node, "Add", (x, x))`, and
    `replace_value`, `add_node`, `set_inputs`, `set_attribute`. It may be called before the next match is requested, or
    never. Matches outside the chosen nodes are ignored. Passes run off the GUI thread, on a copy of the model whose
    outputs are compared with those of the original.

    `identifier` is the name for ``simplify --only``, `title` the label in the Simplify dialog; the docstring describes
    the pass there. With `default` false it runs only on request. It runs after the program's own passes, repeatedly as
    long as it finds matches. Registering a pass again replaces it. ValueError: the program has a pass of this name.

    >>> import onnx_workbench as ow
    >>> @ow.simplify_pass("double_negation")
    ... def double_negation(context):
    ...     "Removes two Neg in a row."
    ...     for node in context.nodes("Neg"):
    ...         before = context.producer(node.inputs[0], "Neg")
    ...         if before is not None and context.can_replace(node.outputs[0], before.inputs[0]):
    ...             def apply(rewriter, node=node, before=before):
    ...                 rewriter.replace_value(node.outputs[0], before.inputs[0])
    ...             yield ow.Match("both can go", (before, node), apply)
    >>> ow.simplify(model, only=["double_negation"]).report.applied
    {'double_negation': 1}
    """
    from onnx_workbench.model.simplify.pass_list import PASSES

    if any(one.id == identifier for one in PASSES):
        msg = f"{identifier!r} is a pass of the program"
        raise ValueError(msg)

    def register(function: F) -> F:
        name = title or identifier.replace("_", " ").capitalize()
        one = Pass(identifier, name, extensions.about(function), partial(_find, identifier, function), default)
        extensions.add("pass", identifier, _passes, one)
        return function

    return register


def custom_passes() -> tuple[Pass, ...]:
    """Return the passes added by scripts and extensions."""
    return tuple(_passes.values())


def _find(identifier: str, function: FindMatches, context: MatchContext) -> Iterator[Match]:
    """Yield the matches among the chosen nodes; an exception in a pass is reported as an error in its file."""
    title = f"The pass {identifier} failed"
    matches = iter(extensions.call(title, function, function, context))
    while True:
        match = extensions.call(title, function, next, matches, None)
        if match is None:
            return
        if not isinstance(match, Match):
            msg = f"{title}: it yields {type(match).__name__}, expected Match"
            raise TypeError(msg)
        if all(map(context.is_chosen, match.nodes)):
            yield replace(match, apply=partial(extensions.call, title, function, match.apply))
