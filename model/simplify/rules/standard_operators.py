"""Replace operators of com.microsoft by standard ones, by rules from resources/standard-operators.txt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files

from onnx_workbench.model.schemas.microsoft import DOMAIN
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass
from onnx_workbench.model.simplify.pattern_rules import Rule, rules_in

_NAME = "standard_operators"


@cache
def _rules() -> tuple[Rule, ...]:
    text = (files("onnx_workbench.resources") / "standard-operators.txt").read_bytes()
    return tuple(replace(rule, name=_NAME) for rule in rules_in(text))


def _find(context: MatchContext) -> Iterator[Match]:
    left = dict.fromkeys(node for node in context.all_nodes() if node.domain == DOMAIN and context.is_chosen(node))
    for rule in _rules() if left else ():
        for match in rule.as_pass().find(context):
            if match.nodes[0] in left:  # none of the rules before
                del left[match.nodes[0]]
                yield match
    refusals = {refusal.place: key for key, refusal in context.refusals.items() if refusal.pass_id == _NAME}
    for place, key in refusals.items():
        if place not in left:  # another rule for the operator applied
            del context.refusals[key]
    for node in left:
        if node not in refusals:
            context.refuse(_NAME, node, f"no standard operators are known for this {node.op_type}")


STANDARD = Pass(
    _NAME,
    "Standard operators",
    "Replaces operators of com.microsoft, which ONNX Runtime writes into optimized models, by standard ones.",
    _find,
    is_default=False,
    may_grow=True,
)
