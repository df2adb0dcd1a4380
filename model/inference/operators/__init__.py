"""What operators do with types: one rule per operator, from the facts about its inputs to those about its outputs.

`outputs_of` applies the rule of a node, `contents_of` that of the elements of small integer tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from onnx_workbench.model.inference.operators.contents import contents_of
from onnx_workbench.model.inference.operators.cutting import CUTTING
from onnx_workbench.model.inference.operators.microsoft import MICROSOFT, OTHER_DOMAINS
from onnx_workbench.model.inference.operators.ml import ML
from onnx_workbench.model.inference.operators.node_call import Found, NodeCall, Rule, broadcast, same_as
from onnx_workbench.model.inference.operators.products import OTHERS, PREVIEW, TRAINING, reduced
from onnx_workbench.model.inference.operators.reshaping import RESHAPING
from onnx_workbench.model.inference.operators.sequences import SEQUENCES
from onnx_workbench.model.inference.operators.spatial import SPATIAL
from onnx_workbench.model.schemas import traits

#: Operators that runtimes add to the standard domain.
RUNTIMES: Mapping[str, Rule] = dict.fromkeys(("MemcpyFromHost", "MemcpyToHost"), same_as(0))

#: Rules by domain and operator.
RULES: Mapping[str, Mapping[str, Rule]] = {
    "": {**RESHAPING, **CUTTING, **SPATIAL, **OTHERS, **SEQUENCES, **RUNTIMES},
    "com.microsoft": MICROSOFT,
    "ai.onnx.ml": ML,
    "ai.onnx.preview": PREVIEW,
    "ai.onnx.preview.training": TRAINING,
    **OTHER_DOMAINS,
}


def rule_of(op_type: str, domain: str) -> Rule | None:
    """Return the rule of an operator: its own, or that of its traits; None without one."""
    own = RULES.get(domain, {}).get(op_type)
    if own is not None:
        return own
    own_traits = traits.find(op_type, domain)
    if own_traits.shape_of is not None:
        return _of_shape(own_traits.shape_of)
    if own_traits.broadcasts:
        return _broadcast
    return reduced if own_traits.is_reduction else None


@cache
def _of_shape(index: int) -> Rule:
    """Return the rule of an operator whose first output has the shape of an input."""
    return lambda call: (call.facts.other(call.input(index)) or call.dims(index),)


def _broadcast(call: NodeCall) -> Sequence[Found]:
    is_aligned = traits.of(call.node).is_aligned_before_7 or call.node.op_type == "PRelu"
    inputs = [call.dims(index) for index in range(len(call.node.inputs))]
    return (inputs[0] if is_aligned and call.opset < 7 and not call.node.domain else broadcast(*inputs),)


__all__ = ["RULES", "contents_of", "rule_of"]
