"""Element types of results and wrong types of inputs, as the operator's schema says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from onnx_workbench.model.inference.facts import Facts
from onnx_workbench.model.inference.operators.node_call import NodeCall
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, TensorType, Type
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.schemas.schema import Schema, type_text

_BY_TEXT = {f"tensor({kind.text})": kind for kind in ElementType}

#: What the specification says where neither an attribute nor an input gives the element type.
_DEFAULTS = {"ConstantOfShape": ElementType.FLOAT, "QuantizeLinear": ElementType.UINT8}
#: The input that gives the element type where the attribute is left out.
_FALLBACKS = {
    **dict.fromkeys(("EyeLike", "Bernoulli", "RandomNormalLike", "RandomUniformLike"), 0),
    "DequantizeLinear": 1,
}


def result_type(call: NodeCall, index: int) -> ElementType | Type | None:
    """Return the type of an output: an element type, or a whole type that is no dense tensor."""
    node, schema = call.node, call.schema
    own_traits = traits.of(node)
    if index == 0 and own_traits.type_attribute:
        wanted = call.attribute(own_traits.type_attribute)
        if isinstance(wanted, str):  # a name, as of Cast before version 6
            wanted = ElementType.__members__.get(wanted.upper())
        if wanted and wanted in ElementType.__members__.values():
            return ElementType(wanted)
    output = None if schema is None else schema.output(index)
    if schema is not None and output is not None:
        if len(output.types) == 1:
            return _BY_TEXT.get(next(iter(output.types)))
        if output.homogeneous and output.types:
            for number, value in enumerate(node.inputs):
                if value is not None and schema.types_by(number, output):
                    found = call.facts.element_type(value) or call.facts.other(value)
                    if found is not None:
                        return found
    if index or node.domain:
        return None
    if node.op_type == "ConstantOfShape" and (value := call.attribute("value")) is not None:
        kind: ElementType | None = value.element_type
        return kind
    fallback = _FALLBACKS.get(node.op_type)
    return _DEFAULTS.get(node.op_type) if fallback is None else call.kind(fallback)


def wrong_type(facts: Facts, schema: Schema, inputs: Sequence[Value | None], outputs: Sequence[Value | None]) -> str:
    """Return why an operator does not accept the types of its inputs, or cannot have that of an output; else empty."""
    kinds = tuple(facts.element_type(v) or facts.other(v) for v in inputs)
    return _reason(schema, kinds, tuple(facts.element_type(v) for v in outputs))


@lru_cache(4096)
def _reason(
    schema: Schema, inputs: tuple[ElementType | Type | None, ...], outputs: tuple[ElementType | None, ...]
) -> str:
    bound: dict[str, str] = {}
    for formal, kinds in ((schema.input, inputs), (schema.output, outputs)):
        for index, kind in enumerate(kinds):
            parameter = formal(index)
            text = type_text(TensorType(kind) if isinstance(kind, ElementType) else kind)
            if parameter is None or text is None:
                continue
            if parameter.types and text not in parameter.types:
                return f"{parameter.name} is {text}"
            if parameter.type_name in schema.type_constraints and parameter.homogeneous:
                other = bound.setdefault(parameter.type_name, text)
                if other != text:
                    return f"{parameter.name} is {text}, another {parameter.type_name} is {other}"
    return ""
