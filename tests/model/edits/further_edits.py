"""What AnyEdits has no rule of its own for: one small edit by each of the other functions of model.edits.

Each takes the machine, the edit and some numbers to choose by; what it cannot be done to, `chosen` refuses.
"""

import re
from dataclasses import replace

import numpy as np

from onnx_workbench.model.diff import compare
from onnx_workbench.model.edits import (
    apply_difference,
    attributes,
    constants,
    copy_paste,
    devices,
    function_attributes,
    functions,
    initializers,
    interface,
    names,
    nodes,
    properties,
    tensor_metadata,
    tensors,
    values,
)
from onnx_workbench.model.edits.edit_message import MessageEdit
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.attributes import AttributeKind, make_attribute
from onnx_workbench.model.ir.devices import DeviceConfiguration, NodeDeviceConfiguration, ShardingSpec
from onnx_workbench.model.ir.graph import Graph, QuantizationAnnotation, TrainingInfo
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders


def chosen(thing):
    """What was chosen; refused when there is nothing of the kind."""
    if thing is None:
        raise ModelError("Nothing of that kind", "")
    return thing


def one(things, number):
    things = list(things)
    return chosen(things[number % len(things)] if things else None)


def function(m, a):
    return one(m.document.model.functions, a)


def attribute(m, a, b):
    node = chosen(m.node(a))
    return node, one(node.attributes, b)


def initializer(m, a):
    return one((v for g in m.document.model.graphs() for v in g.initializers), a)


def some_calls(m, a, b):
    model = m.document.model
    keys = {f.key for f in model.functions}
    calls = [n for g in model.graphs() for n in g.nodes if (n.domain, n.op_type, n.overload) in keys]
    return [one(calls, a)] if b % 2 else calls


def configuration(m, a):
    return one(m.document.model.configurations, a)


def training(m, a):
    return one(m.document.model.training_info, a)


def tensor(a):
    return ArrayTensor(np.full((a % 3 + 1,), a % 7, np.float32))


def target(m, a, b):
    model = m.document.model
    return one((model, m.graph(b), m.node(b), m.value(b), *model.functions), a)


def place(m, a):
    owners = [v for g in m.document.model.graphs() for v in g.initializers]
    owners += [n for g in m.document.model.graphs() for n in g.nodes]
    found = [place for owner in owners for place in tensors.tensor_locations(owner)]
    return one(found, a)


def part(b):
    return "indices" if b % 4 == 1 else "values"


def rename_tensor_metadata(m, e, a, b, text):
    where = place(m, a)
    tensor = tensors.tensor_at(where)
    of = {"values": getattr(tensor, "values", tensor), "indices": getattr(tensor, "indices", tensor)}[part(b)]
    tensor_metadata.rename_tensor_metadata(e, where, one(of.metadata, b), text, part(b))


def edit_message(m, e, a, b, text):
    """Edit the message of any object: nothing, a text in it, or an unknown field."""
    found = [m.document.model, *m.document.model.functions, *m.document.model.training_info]
    for graph in m.document.model.graphs():
        found += [graph, *graph.nodes, *graph.values()]
    message = MessageEdit(one(found, a))
    lines = message.text.splitlines(keepends=True)
    at = b % (len(lines) + 1)
    outside = [n for n in range(len(lines) + 1) if not "".join(lines[:n]).count("{") - "".join(lines[:n]).count("}")]
    if b % 3 == 0:
        lines.insert(one(outside, at), f"unknown {{ number: 1007 varint: {b % 9} }}\n")
    elif b % 3 == 1 and at < len(lines):
        lines[at] = re.sub(r": \d+$", f": {b % 5}", lines[at], flags=re.MULTILINE)
    elif at < len(lines):
        del lines[at]
    message.apply(e, "".join(lines))


def merge(m, e, a, b, _text):
    other = builders.model(builders.CHAIN)
    feeds = {"x": m.value(b).name} if b % 2 and m.value(b) is not None else {}
    copy_paste.merge(e, m.document.model.graph, other, feeds, prefix="other_", keep_outputs=bool(a % 2))


def take_over(m, e, a, b, _text):
    comparison = compare(m.document.model, builders.model(builders.CHAIN if a % 2 else builders.BRANCHES))
    found = comparison.differences
    if b % 3:
        apply_difference.apply_difference(e, comparison, one(found, b), "old")
    else:
        apply_difference.apply_differences(e, comparison, found[: b % 7], "old")


def replace_uses(m, e, a, b, _text):
    old, new = chosen(m.value(a)), chosen(m.value(b))
    reasons = (values.why_not_connect(node, new) for node in old.consumers)
    returned = [user for user, _ in old.uses if isinstance(user, Graph)]
    if any(reasons) or not all(values.is_visible(new, graph) for graph in returned):
        raise ModelError("It cannot stand there", "")
    nodes.replace_uses(e, old, new)
    for node in old.consumers:
        values.ensure_order(e, new, node)


def sort(m, e, a, b, _text):
    """Files that can be run stand in order: a node is moved first."""
    node = chosen(m.node(a))
    nodes.move_before(e, node, one(node.graph.nodes, b))
    nodes.sort_nodes(e, node.graph)


def shard(m, e, a, b, _text):
    node = one((n for g in m.document.model.graphs() for n in g.nodes if n.device_configurations), a)
    names_ = [v.name for v in (*node.inputs, *node.outputs) if v is not None]
    spec = ShardingSpec(one(names_, b), (0,))
    first, *others = node.device_configurations
    nodes.set_device_configurations(e, node, (replace(first, sharding=(spec,) if b % 3 else ()), *others))


def annotate(m, e, a, b, _text):
    graph, value = m.graph(a), chosen(m.value(b))
    annotation = QuantizationAnnotation(value, (("SCALE_TENSOR", value),))
    properties.set_quantization_annotations(e, graph, (annotation,) if b % 3 else ())


def bind(m, e, a, b, _text):
    weights = [v.name for v in m.document.model.graph.initializers]
    properties.set_bindings(e, training(m, a), update={one(weights, b): "y"} if b % 2 else {})


EDITS = {
    "rename attribute": lambda m, e, a, b, t: attributes.rename_attribute(e, *attribute(m, a, b), t),
    "describe attribute": lambda m, e, a, b, t: attributes.describe_attribute(e, *attribute(m, a, b), t),
    "refer": lambda m, e, a, b, t: attributes.refer_to_function_attribute(e, chosen(m.node(a)), "alpha", t),
    "add constant": lambda m, e, a, b, t: constants.add_constant(e, m.graph(a), f"{t or 'k'} = {b % 9}"),
    "rename configuration": lambda m, e, a, b, t: devices.rename_configuration(e, configuration(m, a), t),
    "remove configuration": lambda m, e, a, b, t: devices.remove_configuration(e, configuration(m, a)),
    "spread": lambda m, e, a, b, t: nodes.set_device_configurations(
        e, chosen(m.node(b)), (NodeDeviceConfiguration(configuration(m, a).name),)
    ),
    "spread anew": lambda m, e, a, b, t: nodes.set_device_configurations(e, chosen(m.node(a)), ()),
    "shard": shard,
    "require": lambda m, e, a, b, t: function_attributes.require(e, function(m, a), t),
    "default": lambda m, e, a, b, t: function_attributes.set_default(e, function(m, a), make_attribute(t or "x", 1)),
    "remove formal": lambda m, e, a, b, t: function_attributes.remove(
        e, function(m, a), one(function_attributes.formal_names(function(m, a)), b)
    ),
    "refer as written": lambda m, e, a, b, t: function_attributes.refer_as_written(
        e, chosen(m.node(a)), "alpha", f"@{t}", AttributeKind.FLOAT
    ),
    "rename formal": lambda m, e, a, b, t: function_attributes.rename(
        e, function(m, a), one(function_attributes.formal_names(function(m, a)), b), t
    ),
    "add function": lambda m, e, a, b, t: functions.add_function(e, t),
    "remove function": lambda m, e, a, b, t: functions.remove_function(e, function(m, a)),
    "remove functions": lambda m, e, a, b, t: functions.remove_functions(e, e.model.functions[a % 2 :: 1 + b % 2]),
    "rename function": lambda m, e, a, b, t: functions.rename_function(e, function(m, a), name=t),
    "signature": lambda m, e, a, b, t: functions.set_signature(
        e, function(m, a), inputs=function(m, a).body.inputs[::-1], outputs=function(m, a).body.outputs[: 1 + b % 2]
    ),
    "inline": lambda m, e, a, b, t: functions.inline_call(
        e, one((n for g in m.document.model.graphs() for n in g.nodes if n.domain == "local"), a)
    ),
    "inline some": lambda m, e, a, b, t: functions.inline_calls(e, some_calls(m, a, b)),
    "add initializer": lambda m, e, a, b, t: initializers.add_initializer(e, m.document.model.graph, tensor(a), t),
    "remove initializer": lambda m, e, a, b, t: initializers.remove_initializer(e, initializer(m, a)),
    "set tensor": lambda m, e, a, b, t: initializers.set_tensor(e, initializer(m, a), tensor(b)),
    "set constant": lambda m, e, a, b, t: initializers.set_constant_tensor(
        e, one((n for g in m.document.model.graphs() for n in g.nodes if n.op_type == "Constant"), a), tensor(b)
    ),
    "put": lambda m, e, a, b, t: tensors.set_tensor_at(e, place(m, a), tensor(b)),
    "remove values": lambda m, e, a, b, t: interface.remove_values(e, list(m.graph(a).values())[b % 9 :: 1 + b % 3]),
    "some inputs of a node": lambda m, e, a, b, t: values.disconnect_inputs(
        e, chosen(m.node(a)), range(len(chosen(m.node(a)).inputs))[b % 2 :: 1 + b % 3]
    ),
    "initializers to nodes and back": lambda m, e, a, b, t: initializers.constants_to_initializers(
        e, initializers.initializers_to_constants(e, list(initializer(m, a).graph.initializers)[b % 2 :])[::2]
    ),
    "remove output": lambda m, e, a, b, t: interface.remove_output(e, m.graph(a), one(m.graph(a).outputs, b)),
    "some outputs": lambda m, e, a, b, t: (
        interface.remove_outputs(e, m.graph(a), kept := list(m.graph(a).outputs)[b % 2 :: 2]),
        interface.add_outputs(e, m.graph(a), [*kept[::-1], *(v for v in m.graph(a).inputs[:b] if v not in kept)]),
    ),
    "redirect output": lambda m, e, a, b, t: interface.redirect_output(
        e, m.graph(a), b % len(chosen(m.graph(a).outputs or None)), chosen(m.value(b))
    ),
    "reorder": lambda m, e, a, b, t: (
        interface.reorder_inputs(e, m.graph(a), m.graph(a).inputs[::-1]),
        interface.reorder_outputs(e, m.graph(b), m.graph(b).outputs[::-1]),
    ),
    "dimension": lambda m, e, a, b, t: interface.set_dimension(e, chosen(m.value(a)), b % 3, t or None),
    "batch": lambda m, e, a, b, t: interface.set_batch(e, m.graph(a), b % 9),
    "substitute": lambda m, e, a, b, t: interface.substitute_dimensions(e, m.graph(a), {"N": b % 9}),
    "default of an input": lambda m, e, a, b, t: constants.set_default_values(
        e, chosen(m.value(a)), t if b % 2 else f"float[2] = {b % 9}"
    ),
    "constant only": lambda m, e, a, b, t: interface.input_to_initializer_only(e, m.graph(a), initializer(m, b)),
    "constant to input": lambda m, e, a, b, t: interface.initializer_to_input(
        e, initializer(m, a).graph, initializer(m, a), keep_default=bool(b % 2)
    ),
    "constants to inputs and back": lambda m, e, a, b, t: (
        interface.initializers_to_inputs(
            e, initializer(m, a).graph, fed := list(initializer(m, a).graph.initializers), keep_default=True
        ),
        interface.inputs_to_initializers_only(e, initializer(m, a).graph, fed[b % 2 :]),
        interface.remove_inputs(e, initializer(m, a).graph, fed[: b % 2]),
    ),
    "node names": lambda m, e, a, b, t: names.regenerate_node_names(e, e.model, only_missing=bool(a % 2)),
    "value names": lambda m, e, a, b, t: names.regenerate_value_names(e, e.model),
    "initializer names": lambda m, e, a, b, t: names.regenerate_initializer_names(e, e.model),
    "sort": sort,
    "unused inputs": lambda m, e, a, b, t: interface.remove_unused_inputs(e, e.model.graph),
    "replace uses": replace_uses,
    "output count": lambda m, e, a, b, t: nodes.set_output_count(e, chosen(m.node(a)), b % 4),
    "produce output": lambda m, e, a, b, t: nodes.produce_output(e, chosen(m.node(a)), b % 4),
    "drop output": lambda m, e, a, b, t: nodes.drop_output(
        e, chosen(m.node(a)), b % len(chosen(chosen(m.node(a)).outputs or None))
    ),
    "move": lambda m, e, a, b, t: nodes.move_before(e, chosen(m.node(a)), one(chosen(m.node(a)).graph.nodes, b)),
    "IR version": lambda m, e, a, b, t: properties.set_ir_version(e, a % 15),
    "text": lambda m, e, a, b, t: properties.set_text(e, target(m, a, b), "doc_string", t),
    "remove documentation": lambda m, e, a, b, t: properties.remove_documentation(e, e.model),
    "model version": lambda m, e, a, b, t: properties.set_model_version(e, a),
    "rename metadata": lambda m, e, a, b, t: properties.rename_metadata(
        e, target(m, a, b), one(target(m, a, b).metadata, b), t
    ),
    "configurations": lambda m, e, a, b, t: properties.set_configurations(
        e, (*e.model.configurations, DeviceConfiguration(t or "gpu", 2))
    ),
    "annotate": annotate,
    "add training": lambda m, e, a, b, t: properties.add_training(e, TrainingInfo(None, Graph("step"))),
    "remove training": lambda m, e, a, b, t: properties.remove_training(e, training(m, a)),
    "training graph": lambda m, e, a, b, t: properties.set_training_graph(
        e, training(m, a), "algorithm", Graph("again") if b % 2 else None
    ),
    "bind": bind,
    "edit message": edit_message,
    "merge": merge,
    "take over": take_over,
    "name a tensor": lambda m, e, a, b, t: tensor_metadata.set_tensor_name(e, place(m, a), t, part(b)),
    "describe a tensor": lambda m, e, a, b, t: tensor_metadata.describe_tensor(e, place(m, a), t, part(b)),
    "metadata of a tensor": lambda m, e, a, b, t: tensor_metadata.set_tensor_metadata(
        e, place(m, a), t, str(b % 9) if b % 3 else None, part(b)
    ),
    "rename metadata of a tensor": rename_tensor_metadata,
    "types": lambda m, e, a, b, t: values.set_types(
        e, {chosen(m.value(n)): TensorType(ElementType.FLOAT, Shape((b % 5,))) for n in (a, b)}
    ),
}

#: Functions that need no edit of their own here, and why.
ELSEWHERE = {
    "subgraph_interface.add_body_inputs": "by add_input and initializers_to_inputs",
    "subgraph_interface.add_body_outputs": "by add_outputs",
    "subgraph_interface.return_all_carried": "by a fix of model.checks, see test_subgraph_interface",
    "subgraph_interface.remove_body_inputs": "by remove_inputs",
    "subgraph_interface.remove_body_outputs": "by remove_outputs",
    "subgraph_interface.take_all": "by a fix of model.checks, see test_subgraph_interface",
    "functions.call_instead": "by extract_function",
    "functions.replace_by_body": "by inline_call",
    "inlining.insert_body": "by inline_call, and by rewriting",
    "inlining.take_out": "by extract_function and inline_call, and by rewriting",
    "nodes.bridge": "by delete_and_bridge",
    "nodes.import_operators": "by initializer_to_constant and inline_call, in models of other domains",
    "nodes.import_domains": "by import_operators, inline_call, rename_function and paste",
    "nodes.drop_unused_constants": "by delete, delete_and_bridge and extract_function",
    "initializers.define_constant": "by add_constant and paste",
    "initializers.fit_type": "by set_tensor and set_tensor_at",
    "values.ensure_order": "by connect and replace_uses",
    "values.update_sharding_names": "by insert_on_edge, redirect_output and delete_and_bridge",
    "values.update_name_references": "by rename_value, replace_all and the names made anew",
    "properties.set_opset": "a rule of AnyEdits",
    "declare_types.declare": "by declare_all",
    "declare_types.declare_all": "after an inference, see tests/model/inference",
}
