import pytest

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import functions, nodes
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetInitializer
from onnx_workbench.model.ir.devices import NodeDeviceConfiguration
from tests.model import builders
from tests.model.snapshots import assert_linked, on_rollback, snapshot


@pytest.fixture
def document():
    return builders.document()


@pytest.fixture(autouse=True)
def _undone_at_the_end(document):
    with on_rollback(document):
        yield


def problems(document):
    return [p.rule for p in check_model(document.model) if p.severity == "error"]


def test_a_node_is_prepared_by_its_signature(document):
    with document.edit("Add") as edit:
        node = nodes.add_node(edit, document.model.graph, "LayerNormalization", [builders.value(document, "r")])
    assert [v and v.name for v in node.inputs] == ["r", None]
    assert len(node.outputs) == 1
    assert node.name == "LayerNormalization"
    assert node is document.model.graph.nodes.last


def test_constants_of_a_deleted_node_go_in_its_order():
    names = [f"w{number}" for number in range(40)]
    constants = ", ".join(f"float[1] {name} = {{1.0}}" for name in names)
    other = builders.document(f"""g () => (float[40] y) <{constants}>
        {{ [join] y = Concat <axis = 0> ({", ".join(reversed(names))}) }}""")
    builders.one_edit(other, nodes.delete, [builders.node(other, "join")])
    removed = [step.value.name for step in other.current.steps if isinstance(step, SetInitializer)]
    assert removed == names[::-1]


def test_a_new_domain_is_imported(document):
    with document.edit("Add") as edit:
        nodes.add_node(edit, document.model.graph, "TreeEnsemble", domain="ai.onnx.ml")
        nodes.add_node(edit, document.model.graph, "Whatever", domain="my.own")
    assert document.model.opset_imports["ai.onnx.ml"] >= 5
    assert document.model.opset_imports["my.own"] == 1


def test_a_node_added_early_gets_its_producers_before_it(document):
    with document.edit("Add") as edit:
        first = document.model.graph.nodes.first
        nodes.add_node(edit, document.model.graph, "Neg", [builders.value(document, "r")], before=first)
    assert problems(document) == []


def test_a_function_of_the_model_is_prepared_by_its_own_signature():
    other = builders.document(builders.BRANCHES)
    node = builders.one_edit(other, nodes.add_node, other.model.graph, "scale", domain="local")
    assert node.inputs == (None,)
    assert len(node.outputs) == 1


def test_deleting_takes_unused_constants_along(document):
    builders.one_edit(document, nodes.delete, [builders.node(document, "first")])
    assert [v.name for v in document.model.graph.initializers] == ["b"]
    assert problems(document) == ["undefined-value"]


def test_deleting_and_bridging_joins_what_is_left(document):
    with document.edit("Bridge") as edit:
        nodes.delete_and_bridge(edit, [builders.node(document, "second"), builders.node(document, "third")])
    assert [v.name for v in builders.node(document, "fourth").inputs] == ["a"]
    assert problems(document) == []


def test_bridging_the_last_node_keeps_the_name_of_the_output(document):
    builders.one_edit(document, nodes.delete_and_bridge, [builders.node(document, "fourth")])
    (output,) = document.model.graph.outputs
    assert output.name == "y"
    assert output.producer.name == "third"


CONSTANTS = """
g (float[2] x) => (float[2] y, float[2] z)
{
    [two] t = Constant <value_floats: floats = [2.0, 2.0]> ()
    [one] o = Constant <value_floats: floats = [1.0, 1.0]> ()
    [div] d = Div (t, x)
    [add] y = Add (d, o)
    [sub] z = Sub (d, o)
}
"""


def test_constants_that_only_a_deleted_node_used_go_with_it():
    """They stood about on the graph, where they had been drawn in the node."""
    document = builders.document(CONSTANTS)
    before = snapshot(document.model)
    builders.one_edit(document, nodes.delete, [builders.node(document, "div"), builders.node(document, "add")])
    assert [n.name for n in document.model.graph.nodes] == ["one", "sub"]
    document.undo()
    assert snapshot(document.model) == before


def test_no_constant_takes_the_place_of_a_bridged_node():
    document = builders.document(CONSTANTS)
    builders.one_edit(document, nodes.delete_and_bridge, [builders.node(document, "div")])
    assert [n.name for n in document.model.graph.nodes] == ["one", "add", "sub"]
    assert builders.node(document, "add").inputs[0] is builders.value(document, "x")


def test_a_node_without_data_input_cannot_be_bridged(document):
    node = builders.one_edit(document, nodes.add_node, document.model.graph, "RandomNormal", attributes={"shape": [2]})
    with pytest.raises(ModelError, match="cannot be bridged"), document.edit("Bridge") as edit:
        nodes.delete_and_bridge(edit, [node])


def test_a_node_whose_second_output_is_used_cannot_be_bridged():
    document = builders.document(
        """
        g (float[4, 2] x) => (float[4, 2] y, float[4, 2] z) {
            [split] a, b = Split <axis = 0, num_outputs = 2> (x)
            [left] y = Relu (a)
            [right] z = Neg (b)
        }
        """
    )
    split, right = builders.node(document, "split"), builders.node(document, "right")
    with pytest.raises(ModelError, match="Its output b is used"), document.edit("Bridge") as edit:
        nodes.delete_and_bridge(edit, [split])
    with pytest.raises(ModelError, match="Its output b is used"), document.edit("Bridge") as edit:
        nodes.delete_and_bridge(edit, [split, right])  # z would be b
    assert len(document.model.graph.nodes) == 3


def test_outputs_are_limited_by_operator_function_or_bodies():
    document = builders.document(BODIES)
    limits = {n.name: nodes.output_limits(document.model, n) for n in document.model.graph.nodes}
    assert limits["choose"] == (1, 1)
    branches = builders.model(builders.BRANCHES)
    for node in branches.graph.nodes:
        least, most = nodes.output_limits(branches, node)
        assert least <= len(node.outputs) <= most, node.title


BODIES = """
g (float[2] x, bool flag, int64 n) => (float[2] y, float[2] z)
{
    more = Constant <value = bool {1}> ()
    [choose] y = If (flag) <
        then_branch: graph = yes () => (float[2] a) { [inner] a = Neg (x) },
        else_branch: graph = no () => (float[2] b) { b = Abs (x) }
    >
    [repeat] z = Loop (n, more, y) <
        body: graph = turn (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity (c) t = Neg (s) }
    >
}
"""


def test_a_condition_does_not_take_the_place_of_what_it_chooses():
    document = builders.document(BODIES)
    with pytest.raises(ModelError, match="cannot be bridged"), document.edit("Bridge") as edit:
        nodes.delete_and_bridge(edit, [builders.node(document, "choose")])
    builders.one_edit(document, nodes.delete_and_bridge, [builders.node(document, "repeat")])
    assert [value.name for value in document.model.graph.outputs] == ["y", "y"]


def test_bridging_in_a_body_leaves_it_an_output_of_its_own():
    """A body that returns a value of the graph around it is refused by ONNX Runtime."""
    document = builders.document(BODIES)
    inner = builders.node(document, "inner")
    builders.one_edit(document, nodes.delete_and_bridge, [inner])
    assert (inner.op_type, [value.name for value in inner.outputs]) == ("Identity", ["a"])
    assert inner.inputs == (builders.value(document, "x"),)


def test_duplicates_are_wired_alike_and_named_anew(document):
    chosen = [builders.node(document, "third"), builders.node(document, "second")]
    second, third = builders.one_edit(document, nodes.duplicate, chosen)
    assert (second.name, third.name) == ("second_1", "third_1")
    assert second.inputs[0] is builders.value(document, "a")
    assert third.inputs[0] is second.outputs[0]
    assert third.inputs[1] is builders.value(document, "b")
    assert problems(document) == []


def test_duplicating_a_node_with_bodies_copies_them():
    other = builders.document(builders.BRANCHES)
    (copy,) = builders.one_edit(other, nodes.duplicate, [builders.node(other, "choose")])
    assert all(a is not b for a, b in zip(copy.bodies, builders.node(other, "choose").bodies, strict=True))
    assert_linked(other.model)
    assert [p.rule for p in check_model(other.model) if p.severity == "error"] == []


def test_changing_the_operator_keeps_what_fits(document):
    node = builders.node(document, "fourth")
    builders.one_edit(document, nodes.change_operator, node, "LogSoftmax")
    assert node.attributes["axis"].value == 1
    builders.one_edit(document, nodes.change_operator, node, "Relu")
    assert not node.attributes
    builders.one_edit(document, nodes.change_operator, builders.node(document, "first"), "Neg")
    assert len(builders.node(document, "first").inputs) == 1
    assert problems(document) == []


def test_a_function_is_called_by_an_overload_it_has():
    other = builders.document(builders.BRANCHES)
    call = builders.node(other, "call")
    with other.edit("Overload") as edit:
        functions.rename_function(edit, other.model.functions[0], domain="local", name="scale", overload="wide")
        nodes.change_operator(edit, call, "Relu")
        assert call.overload == ""
        nodes.change_operator(edit, call, "scale", "local")
        assert call.overload == "wide"
        functions.rename_function(edit, other.model.functions[0], domain="local", name="other", overload="wide")
        nodes.change_operator(edit, call, "other", "local")
        assert (call.op_type, call.overload) == ("other", "wide")
        functions.add_function(edit, "another")
        functions.add_function(edit, "another", overload="wide")
        nodes.change_operator(edit, call, "another", "local")
    assert (call.op_type, call.overload) == ("another", "wide")


def test_a_node_before_an_output_leaves_the_output_its_name(document):
    y = builders.value(document, "y")
    node = builders.one_edit(document, nodes.insert_on_edge, y, "Neg")
    (output,) = document.model.graph.outputs
    assert output is node.outputs[0]
    assert output.name == "y"
    assert problems(document) == []


def test_node_names_stay_unique(document):
    with pytest.raises(ModelError, match="named second already"), document.edit("Rename") as edit:
        nodes.rename_node(edit, builders.node(document, "first"), "second")


def test_outputs_in_use_cannot_be_dropped(document):
    builders.one_edit(document, nodes.set_output_count, builders.node(document, "first"), 3)
    assert len(builders.node(document, "first").outputs) == 3
    with pytest.raises(ModelError, match="Output a is used"), document.edit("Fewer") as edit:
        nodes.set_output_count(edit, builders.node(document, "first"), 0)


def test_device_configurations_must_exist(document):
    with pytest.raises(ModelError, match="No device configuration 'tpu'"), document.edit("Devices") as edit:
        nodes.set_device_configurations(edit, builders.node(document, "first"), (NodeDeviceConfiguration("tpu"),))


def test_what_takes_the_place_of_an_output_has_its_type(document):
    graph = document.model.graph
    output = graph.outputs[0]
    builders.one_edit(document, nodes.delete_and_bridge, [output.producer])
    assert graph.outputs[0] is not output
    assert graph.outputs[0].name == output.name
    assert graph.outputs[0].type == output.type
