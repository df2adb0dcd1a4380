"""Rules about one node: its operator, inputs, outputs, attributes, types and subgraphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.value_types import TypeOf, declared_type
from onnx_workbench.model.checks.attributes import check_against, check_attributes, check_given
from onnx_workbench.model.checks.custom import check_custom
from onnx_workbench.model.checks.devices import check_devices_of
from onnx_workbench.model.checks.duplicate_metadata import check_keys
from onnx_workbench.model.checks.problem import Fix, Problem, error, warning
from onnx_workbench.model.checks.texts import check_texts
from onnx_workbench.model.checks.types import check_type
from onnx_workbench.model.edits.constants import zeros_of
from onnx_workbench.model.edits.initializers import add_initializer
from onnx_workbench.model.edits.nodes import import_domains, set_output_count
from onnx_workbench.model.edits.subgraph_interface import (
    carried_input,
    lacks_inputs_alone,
    least_outputs,
    return_all_carried,
    take_all,
)
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    SetGraphInputs,
    SetGraphOutputs,
    SetInput,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.schemas import Parameter, Schema
from onnx_workbench.model.schemas.schema import type_text

#: Operators that ONNX Runtime, whose optimizer writes some, has in ai.onnx at opsets where the standard has none.
RUN_BEYOND_STANDARD = frozenset({
    "Affine", "Crop", "DynamicSlice", "ImageScaler", "LayerNormalization", "MemcpyFromHost", "MemcpyToHost",
    "ParametricSoftplus", "Scale", "ScaledTanh", "SimplifiedLayerNormalization", "ThresholdedRelu",
})  # fmt: skip

_MOST_UNDEFINED = 100  # inputs of one node that are named one by one


def check_node(node: Node, imports: Mapping[str, int], model: Model) -> Iterator[Problem]:
    """Check all rules of one node. Linear in its size (the first call also loads the schemas)."""
    if not node.op_type:
        yield error("op-type", f"Node {node.name!r} has no operator type", node, "op_type must not be empty.")
        return
    yield from check_custom(node)
    function = model.function(*node.operator) if model.functions else None
    if not (node.inputs or node.outputs):
        yield error("arity", f"{node.title} has neither inputs nor outputs", node, "A node has one output or more.")
    elif not node.outputs:
        yield warning("arity", f"{node.title} has no output", node, "A node has one output or more.")
    yield from _check_inputs_defined(node)
    yield from check_attributes(node, model)
    yield from check_devices_of(node, model)
    yield from check_keys(node, node.title)
    yield from check_texts(node, node.title, _texts(node))
    for value in node.outputs:
        if value is not None:
            yield from check_keys(value, value.name)
            yield from check_type(value)
    if function is not None:
        yield from _check_call(node, function)
        return
    version = imports.get(node.domain)
    if version is None:
        yield _missing_import(node)
        version = schemas.newest_opset(node.domain)
    schema = schemas.find(node.op_type, version, node.domain)
    if schema is None:
        yield from _unknown_operator(node, version)
    else:
        yield from _check_signature(node, schema, version)
    if imports is not model.opset_imports:
        yield from _check_version_outside(node, schema, model)


def _texts(node: Node) -> Iterator[tuple[str, str]]:
    yield "name", node.name
    yield "operator", node.op_type
    yield "domain", node.domain
    yield "description", node.doc_string
    for name in node.attributes:
        yield "attribute", name


def _check_version_outside(node: Node, schema: Schema | None, model: Model) -> Iterator[Problem]:
    """Check that the model's import defines the same operator as that of the function which contains the node."""
    version = model.opset_imports.get(node.domain)
    outside = schemas.find(node.op_type, version, node.domain) if version is not None else schema
    if outside is not schema:
        here, there = (found.since_version if found is not None else "none" for found in (schema, outside))
        yield warning(
            "opset-disagreement",
            f"{node.title} is not the operator that the model imports",
            node,
            f"The function's import of {node.domain or 'ai.onnx'} has version {here} of {node.op_type}, the model's "
            f"{there}; they should have the same one.",
        )


def _missing_import(node: Node) -> Problem:
    domain = node.domain
    version = schemas.newest_opset(domain)

    def apply(edit: Transaction) -> None:
        import_domains(edit, node.graph.importer if node.graph is not None else None, {domain: version})

    return error(
        "opset-import",
        f"Domain {domain or 'ai.onnx'} of {node.title} is not imported",
        node,
        "Every operator's domain must be in opset_import.",
        Fix(f"Import {domain or 'ai.onnx'} version {version}", apply),
    )


def _unknown_operator(node: Node, version: int) -> Iterator[Problem]:
    known = schemas.versions(node.op_type, node.domain)
    if not node.domain and node.op_type in RUN_BEYOND_STANDARD:
        yield warning(
            "operator-version" if known else "operator",
            f"{node.op_type} is not an operator of ai.onnx{f' at opset {version}' if known else ''}",
            node,
            "ONNX Runtime and this program compute it; others may reject it.",
        )
    elif known:
        yield error(
            "operator-version",
            f"{node.op_type} does not exist at opset {version}",
            node,
            f"{node.domain or 'ai.onnx'} has it since version {known[0]}.",
        )
    elif node.domain in ("", "ai.onnx.ml", "ai.onnx.preview.training"):
        yield error(
            "operator",
            f"Unknown operator {node.op_type} in {node.domain or 'ai.onnx'}",
            node,
            "It is neither a standard operator nor a function of this model.",
        )


def _check_inputs_defined(node: Node) -> Iterator[Problem]:
    undefined = [(i, value) for i, value in enumerate(node.inputs) if value is not None and not value.is_defined]
    for index, value in undefined[:_MOST_UNDEFINED]:
        yield error(
            "undefined-value",
            f"{node.title} uses {value.name}, which nothing produces",
            node,
            f"Input {index} must name a graph input, an initializer or an output of another node.",
        )
    if len(undefined) > _MOST_UNDEFINED:
        message = f"{node.title} uses {len(undefined) - _MOST_UNDEFINED:,} more values that nothing produces"
        yield error("undefined-value", message, node)


def _check_call(node: Node, function: Function) -> Iterator[Problem]:
    for what, have, most in (
        ("input", len(node.inputs), len(function.body.inputs)),
        ("output", len(node.outputs), len(function.body.outputs)),
    ):
        if have > most:
            detail = f"Function {function.name} has {most}."
            yield error("arity", f"{node.title} has {have} {what}s", node, detail, _trim(node, what, most))
    yield from check_given(node, function)


def _check_signature(node: Node, schema: Schema, version: int) -> Iterator[Problem]:
    if schema.deprecated:
        newer = [v for v in schemas.versions(node.op_type, node.domain) if v <= version]
        yield error(
            "operator-deprecated",
            f"{node.op_type} is deprecated at opset {version}",
            node,
            f"It must not be used since version {newer[-1]}.",
        )
        return
    if not schema.is_signature_known:
        return
    yield from _check_arity(node, schema)
    yield from check_against(node, schema)
    yield from check_types(node, schema)
    yield from _check_bodies(node)


def _check_arity(node: Node, schema: Schema) -> Iterator[Problem]:
    none: frozenset[int] = frozenset()
    for what, actual, least, most, gaps in (
        ("input", node.inputs, schema.min_inputs, schema.max_inputs, none),
        ("output", node.outputs, schema.min_outputs, schema.max_outputs, schema.output_gaps),
    ):
        count = len(actual)
        if not least <= count <= most or count in gaps:
            expected = str(least) if least == most else f"{least} to {most}" if most < 1 << 20 else f"at least {least}"
            expected = f"{least} or {most}" if gaps else expected
            yield error(
                "arity",
                f"{node.title} has {count} {what}s",
                node,
                f"{schema} expects {expected}.",
                _trim(node, what, most),
            )
    for index, value in enumerate(node.inputs):
        parameter = schema.input(index)
        if value is None and parameter is not None and parameter.option == "single":
            yield error(
                "input-missing",
                f"Input {parameter.name} of {node.title} is not connected",
                node,
                f"{schema} requires it.",
            )
    for index, value in enumerate(node.outputs):
        parameter = schema.output(index)
        if value is None and parameter is not None and parameter.option == "single":
            yield error(
                "output-missing", f"Output {parameter.name} of {node.title} has no name", node, f"{schema} requires it."
            )


def _trim(node: Node, what: str, most: int) -> Fix | None:
    """Return the fix that drops surplus inputs if they are left out anyway, or surplus outputs if they are unused."""
    if what == "input" and all(v is None for v in node.inputs[most:]) and len(node.inputs) > most:
        return Fix(f"Drop empty inputs of {node.title}", lambda edit: edit.do(SetInputs(node, node.inputs[:most])))
    if what == "output" and len(node.outputs) > most and not any(v and v.uses for v in node.outputs[most:]):
        return Fix(f"Drop unused outputs of {node.title}", lambda edit: edit.do(SetOutputs(node, node.outputs[:most])))
    return None


def check_types(node: Node, schema: Schema, type_of: TypeOf = declared_type) -> Iterator[Problem]:
    """Check types against the schema's constraints and shared type variables; inferred types if known, else
    declared.
    """
    bound: dict[str, tuple[str, str]] = {}
    slots = (
        ("input", node.inputs, schema.input),
        ("output", node.outputs, schema.output),
    )
    for what, values, formal in slots:
        for index, value in enumerate(values):
            parameter = formal(index)
            text = type_text(type_of(value)) if value is not None else None
            if parameter is None or text is None or value is None:
                continue
            if parameter.types and text not in parameter.types:
                yield error(
                    "type",
                    f"{what.capitalize()} {parameter.name} of {node.title} is {text}",
                    node,
                    f"{value.name} must be one of: {', '.join(sorted(parameter.types))}.",
                )
            elif _is_bound(parameter, schema):
                other = bound.setdefault(parameter.type_name, (text, value.name))
                if other[0] != text:
                    yield error(
                        "type",
                        f"{value.name} of {node.title} is {text}, {other[1]} is {other[0]}",
                        node,
                        f"{schema} requires both to have the same type ({parameter.type_name}).",
                    )


def _is_bound(parameter: Parameter, schema: Schema) -> bool:
    return parameter.type_name in schema.type_constraints and parameter.homogeneous


def _check_bodies(node: Node) -> Iterator[Problem]:
    match node.op_type:
        case "If":
            yield from _expect(node, "then_branch", 0, len(node.outputs))
            yield from _expect(node, "else_branch", 0, len(node.outputs))
        case "Loop":
            yield from _check_fed(node, 2)
            carried = max(len(node.inputs) - 2, 0)
            yield from _expect(node, "body", carried + 2, len(node.outputs) + 1)
        case "SequenceMap":
            yield from _expect(node, "body", len(node.inputs), len(node.outputs))
        case "Scan":
            yield from _check_scan(node)


def _check_fed(node: Node, first: int) -> Iterator[Problem]:
    """Check the types that a subgraph gets from the inputs of its node, from index `first` on."""
    for index, value in enumerate(node.inputs[first:], first):
        if value is None:
            message = f"Input {index} of {node.title} is not connected"
            yield error("input-missing", message, node, "Its body requires it.", _begin_with_zeros(node, index))


def _begin_with_zeros(node: Node, index: int) -> Fix | None:
    """Connect zeros as the initial value of a carried input; scanned inputs are left open, as their length is
    unknown.
    """
    taken = carried_input(node, node.bodies[0], index) if node.bodies else None
    make = zeros_of(taken.type) if taken is not None else None
    if taken is None or make is None:
        return None
    name = taken.name

    def apply(edit: Transaction) -> None:
        assert node.graph is not None
        edit.do(SetInput(node, index, add_initializer(edit, node.graph, make(), name)))

    return Fix(f"Initialize {name} of {node.title} with zeros", apply)


def _check_scan(node: Node) -> Iterator[Problem]:
    count = node.attributes.get("num_scan_inputs")
    if count is None or not isinstance(count.value, int):
        return
    leading = 1 if node.graph is not None and node.graph.opset_imports.get("", 9) < 9 else 0
    yield from _check_fed(node, leading)
    inputs = len(node.inputs) - leading
    if not 1 <= count.value <= inputs:
        yield error("body", f"{node.title} scans {count.value} inputs", node, f"It has {inputs}.")
        return
    yield from _expect(node, "body", inputs, len(node.outputs))


def _expect(node: Node, name: str, inputs: int, outputs: int) -> Iterator[Problem]:
    attribute = node.attributes.get(name)
    if attribute is None or attribute.kind is not AttributeKind.GRAPH or not attribute.graphs:
        return
    body = attribute.graphs[0]
    model = body.model
    passed: Sequence[Value] = body.inputs
    # which requires every initializer among the inputs, after the others
    if model is not None and model.ir_version < 4:
        passed = [value for value in passed if value.initializer is None]
    if len(passed) != inputs:
        message = f"{name} of {node.title} has {len(passed)} inputs"
        yield error("body", message, body, *_fit_inputs(node, body, passed, inputs))
    if len(body.outputs) != outputs:
        message = f"{name} of {node.title} has {len(body.outputs)} outputs"
        yield error("body", message, body, f"{node.op_type} expects {outputs}.", _fit_outputs(node, body, outputs))
    elif len(passed) == inputs and outputs < least_outputs(node):
        yield error(
            "body",
            f"{name} of {node.title} has {outputs} outputs",
            body,
            f"{node.op_type} expects {least_outputs(node)} or more: one for each loop-carried value.",
            Fix(
                f"Pass the other values of {node.title} through unchanged",
                partial(return_all_carried, body=body, node=node),
            ),
        )


def _fit_inputs(node: Node, body: Graph, given: Sequence[Value], want: int) -> tuple[str, Fix | None]:
    """Return what is expected, and a fix that adapts the subgraph's inputs to the node's, where it is unambiguous."""
    expected = f"{node.op_type} expects {want}."
    extra = given[want:]
    if extra and not any(value.uses for value in extra):
        title = f"Remove the inputs {', '.join(value.name for value in extra)}, which the node does not pass"
        kept = tuple(value for value in body.inputs if value not in extra)
        return expected, Fix(title, lambda edit: edit.do(SetGraphInputs(body, kept)))
    if lacks_inputs_alone(node, body):
        title = f"Add body inputs for all inputs of {node.title} and pass them through unchanged"
        return expected, Fix(title, partial(take_all, body=body, node=node))
    if node.op_type == "If":
        return f"{expected} A branch refers to outer values by name.", None
    if not extra:
        return f"{expected} Add inputs to the body, or disconnect the last of {node.title}.", None
    counted = " and count it in num_scan_inputs if it is scanned" if node.op_type == "Scan" else ""
    return f"{expected} Connect {extra[0].name} as input {len(node.inputs)} of {node.title}{counted}.", None


def _fit_outputs(node: Node, body: Graph, want: int) -> Fix | None:
    """Give a node and its subgraph equally many outputs, without removing used ones."""
    count = len(body.outputs) - want
    if count < 0:
        return _remove_trailing_outputs(node, -count)
    if want < least_outputs(node):
        title = f"Add outputs to {node.title} for all outputs of its body"
        return Fix(title, lambda edit: set_output_count(edit, node, len(node.outputs) + count))
    return _return_less(body, want)


def _remove_trailing_outputs(node: Node, count: int) -> Fix | None:
    """Remove unused trailing outputs of a node that its subgraph does not return."""
    kept, extra = node.outputs[:-count], node.outputs[-count:]
    if count > len(node.outputs) or any(value is not None and value.uses for value in extra):
        return None
    return Fix(f"Drop unused outputs of {node.title}", lambda edit: edit.do(SetOutputs(node, kept)))


def _return_less(body: Graph, count: int) -> Fix:
    """Remove trailing outputs of a subgraph that its node does not have."""
    extra = ", ".join(value.name for value in body.outputs[count:])
    title = f"Remove the body outputs {extra}, which the node does not have"
    return Fix(title, lambda edit: edit.do(SetGraphOutputs(body, body.outputs[:count])))
