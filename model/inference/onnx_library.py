"""onnx's own inference without the rest of that package. For child processes only: it crashes on some files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from onnx_workbench.model.io.protobuf import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
)
from onnx_workbench.model.schemas.compiled_library import library

_ABOUT_TYPES = ("has inconsistent type", "has unsupported type")  # in the checker's messages
_TAG = re.compile(r"\[\w+Error\]|\(op_type:\w*(, node name: [^)]*)?\):?")  # prefix of a reason
_IR_VERSION = 10  # for functions in a model, unknown to single nodes


def infer_model(model: ModelProto) -> ModelProto | None:
    """Infer the types of inner values and outputs of a model; None where onnx cannot process it as a whole."""
    with suppress(Exception):  # its own errors and plain RuntimeErrors
        found = library().shape_inference.infer_shapes(model.SerializeToString())  # without data propagation
        return ModelProto.FromString(found)
    return None


class InferenceRefused(Exception):
    """A node that does not accept the types it is given (`is_type`), or their sizes; other errors are not reported."""

    def __init__(self, reason: str, is_type: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_type = is_type


def infer_node(
    node: NodeProto,
    domain: str,
    given: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
    imports: Mapping[str, int],
) -> list[TypeProto | None]:
    """Infer the types of a node's outputs, from those of all its inputs and the data of constant ones.

    Empty where unknown, as of an operator without a schema. Raises InferenceRefused for inputs it does not accept.
    """
    defs = library().defs
    newest = defs.schema_version_map()[""][1]
    try:
        schema = defs.get_schema(node.op_type, imports.get(domain, newest), domain)
    except (defs.SchemaError, TypeError):  # TypeError: a name that is no UTF-8, a version beyond 32 bits
        return []
    checker, inference = library().checker, library().shape_inference
    found: Mapping[str, bytes] = {}
    refused = None
    with suppress(Exception):  # plain RuntimeErrors
        try:
            found = schema._infer_node_outputs(
                node.SerializeToString(),
                {name: kind.SerializeToString() for name, kind in given.items()},
                {name: tensor.SerializeToString() for name, tensor in constants.items()},
                {},
                {"": 1, **imports},
                _IR_VERSION,
            )
        except inference.InferenceError as error:
            refused = _TAG.sub("", str(error)).strip(), False
        except checker.ValidationError as error:  # looking up the schema finds most of these errors as well
            if any(words in str(error) for words in _ABOUT_TYPES):
                refused = str(error), True
    if refused is not None:
        raise InferenceRefused(*refused)
    return [TypeProto.FromString(found[name]) if name in found else None for name in node.output] if found else []


def with_attributes(node: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """Return a node of a function with attribute references resolved; itself where it has none."""
    if not any(attribute.ref_attr_name in given for attribute in node.attribute):
        return node
    resolved = NodeProto.FromString(node.SerializeToString())
    for attribute in resolved.attribute:
        if attribute.ref_attr_name in given:
            name = attribute.name
            attribute.CopyFrom(given[attribute.ref_attr_name])
            attribute.name = name
    return resolved
