"""Beside lists of thousands an edit costs at most one look at each: twice as many cost about twice as much, not four
times. Counted in lines of Python that run, which no other work on the machine changes.
"""

import sys

import pytest
from onnx import TensorProto, helper

from model.checks.checker import Checker
from model.document import Document
from model.edits import attributes, interface, nodes, values
from model.io.read import load
from model.types import ElementType, TensorType
from tests.model import builders
from tests.model.snapshots import assert_linked


def wide(count):
    """A node with so many inputs, a value with so many uses, a graph that takes and returns so many."""
    made = [helper.make_node("Relu", ["x"], ["shared"], name="hub")]
    made += [helper.make_node("Neg", ["shared"], [f"a{i}"], name=f"n{i}") for i in range(count)]
    made += [
        helper.make_node("Concat", [f"a{i}" for i in range(count)], ["c"], axis=0, name="wide"),
        helper.make_node("Concat", [f"in{i}" for i in range(count)], ["d"], axis=0, name="from inputs"),
        helper.make_node("Concat", ["shared"] * count, ["e"], axis=0, name="of one"),
        helper.make_node("Relu", ["c"], ["y"], name="last"),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in [f"in{i}" for i in range(count)]]
    results = [helper.make_tensor_value_info(f"a{i}", TensorProto.FLOAT, [4]) for i in range(count)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    graph = helper.make_graph(made, "wide", [*inputs, x], [*results, y])
    return Document(load(helper.make_model(graph).SerializeToString()))


def node(edit, name):
    return builders.node(edit.model, name)


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
        with document.edit("Edit") as edit:
            change(edit)

    return lines(edit) + lines(document.undo)


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_twice_as_many_cost_about_twice_as_much(change):
    assert cost(256, change) < 2.6 * cost(128, change)


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_links_stay_whole(change):
    document = wide(32)
    with document.edit("Edit") as edit:
        change(edit)
    assert_linked(document.model)
    document.undo()
    assert_linked(document.model)
