"""Beside lists of thousands an edit costs at most one look at each: twice as many cost about twice as much, not four
times. Counted in lines of Python that run, which no other work on the machine changes.
"""

import sys

import pytest
from onnx import TensorProto, helper

from onnx_workbench.model.checks.checker import Checker
from onnx_workbench.model.edits import attributes, functions, initializers, interface, nodes, values
from onnx_workbench.model.edits.constants import set_default_values
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.types import ElementType, TensorType
from tests.model import builders
from tests.model.snapshots import assert_linked


def wide(count):
    """A node with so many inputs, a value with so many uses, a graph that takes and returns so many, and so many
    constants and functions, one of which takes and returns so many too.
    """
    made = [helper.make_node("Relu", ["x"], ["shared"], name="hub")]
    made += [helper.make_node("Neg", ["shared"], [f"a{i}"], name=f"n{i}") for i in range(count)]
    made += [
        helper.make_node("Concat", [f"a{i}" for i in range(count)], ["c"], axis=0, name="wide"),
        helper.make_node("Concat", [f"in{i}" for i in range(count)], ["d"], axis=0, name="from inputs"),
        helper.make_node("Concat", ["shared"] * count, ["e"], axis=0, name="of one"),
        helper.make_node("Relu", ["c"], ["y"], name="last"),
    ]
    made += [helper.make_node("Constant", [], [f"k{i}"], name=f"constant {i}", value_int=i) for i in range(count)]
    weights = [helper.make_tensor(f"w{i}", TensorProto.FLOAT, [1], [i]) for i in range(count)]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in [f"in{i}" for i in range(count)]]
    results = [helper.make_tensor_value_info(f"a{i}", TensorProto.FLOAT, [4]) for i in range(count)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    graph = helper.make_graph(made, "wide", [*inputs, x], [*results, y], weights)
    return Document(load(helper.make_model(graph, functions=functions_of(count)).SerializeToString()))


def functions_of(count):
    """One with so many inputs and outputs, and so many small ones, each of which calls the next."""
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    names = [[f"{side}{i}" for i in range(count)] for side in "pq"]
    each = [helper.make_node("Neg", [p], [q]) for p, q in zip(*names, strict=True)]
    calls = [helper.make_node(f"F{i + 1}", ["p"], ["q"], domain="local") for i in range(count)]
    small = [helper.make_function("local", f"F{i}", ["p"], ["q"], [call], imports) for i, call in enumerate(calls)]
    return [helper.make_function("local", "Wide", *names, each, imports), *small]


def node(edit, name):
    return builders.node(edit.model, name)


def body(edit):
    return edit.model.functions[0].body


def constants(edit):
    return [node for node in edit.model.graph.nodes if node.op_type == "Constant"]


def value(edit, name):
    return builders.value(edit.model, name)


EDITS = {
    "rename the node": lambda e: nodes.rename_node(e, node(e, "wide"), "other"),
    "an attribute": lambda e: attributes.set_attribute(e, node(e, "wide"), "axis", 1),
    "connect": lambda e: values.connect(e, node(e, "from inputs"), 3, value(e, "in9")),
    "grow": lambda e: values.connect(e, node(e, "wide"), len(node(e, "wide").inputs), value(e, "in9")),
    "disconnect": lambda e: values.disconnect(e, node(e, "wide"), 3),
    "rename what is used much": lambda e: values.rename_value(e, value(e, "shared"), "other"),
    "rename an input": lambda e: values.rename_value(e, value(e, "in5"), "other"),
    "type an output": lambda e: values.set_type(e, value(e, "a5"), TensorType(ElementType.FLOAT)),
    "add an input": lambda e: interface.add_input(e, e.model.graph),
    "add an output": lambda e: interface.add_output(e, e.model.graph, value(e, "shared")),
    "remove an output": lambda e: interface.remove_output(e, e.model.graph, value(e, "a5")),
    "set the batch": lambda e: interface.set_batch(e, e.model.graph, "N"),
    "insert on an edge": lambda e: nodes.insert_on_edge(e, value(e, "shared"), "Neg"),
    "bridge": lambda e: nodes.delete_and_bridge(e, [node(e, "hub")]),
    "delete": lambda e: nodes.delete(e, [node(e, "from inputs")]),
    "delete many inputs": lambda e: interface.remove_values(e, e.model.graph.inputs[:-1]),
    "delete many outputs": lambda e: interface.remove_values(e, e.model.graph.outputs[:-1]),
    "delete many constants": lambda e: interface.remove_values(e, list(e.model.graph.initializers)),
    "delete many formal inputs": lambda e: interface.remove_values(e, e.model.functions[0].body.inputs),
    "reverse formal inputs": lambda e: interface.reorder_inputs(e, body(e), body(e).inputs[::-1]),
    "reverse formal outputs": lambda e: interface.reorder_outputs(e, body(e), body(e).outputs[::-1]),
    "remove many functions": lambda e: functions.remove_functions(e, e.model.functions),
    "disconnect many": lambda e: values.disconnect_inputs(e, node(e, "of one"), range(len(node(e, "of one").inputs))),
    "many initializers to nodes": lambda e: initializers.initializers_to_constants(e, list(e.model.graph.initializers)),
    "many nodes to initializers": lambda e: initializers.constants_to_initializers(e, constants(e)),
    "default of many inputs": lambda e: [set_default_values(e, value, "1") for value in e.model.graph.inputs[:-1]],
    "change the operator": lambda e: nodes.change_operator(e, node(e, "wide"), "Sum"),
}


def lines(work):
    """How many lines of Python run."""
    count = 0

    def on_line(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return on_line

    before = sys.gettrace()
    sys.settrace(on_line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def cost(count, change):
    document = wide(count)
    checker = Checker(document)
    checker.run()

    def edit():
        builders.one_edit(document, change)

    return lines(edit) + lines(document.undo)


@pytest.mark.slow
@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_twice_as_many_cost_about_twice_as_much(change):
    assert cost(256, change) < 2.6 * cost(128, change)


@pytest.mark.long
@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_links_stay_whole(change):
    document = wide(32)
    builders.one_edit(document, change)
    assert_linked(document.model)
    document.undo()
    assert_linked(document.model)
