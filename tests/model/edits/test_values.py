import pytest

from onnx_workbench.model.analysis.scoping import makes_cycle, unique_name
from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import attributes, constants, initializers, interface, names, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.types import ElementType, Shape, TensorType
from tests.model import builders
from tests.model.snapshots import assert_linked, snapshot


@pytest.fixture(params=["chain", "branches"])
def document(request):
    return builders.document(builders.CHAIN if request.param == "chain" else builders.BRANCHES)


def test_renaming_reaches_bodies(branches):
    builders.one_edit(branches, values.rename_value, builders.value(branches, "d"), "doubled")
    assert builders.node(branches, "inner").inputs[0].name == "doubled"
    assert check_model(branches.model) == []


def test_a_name_in_use_is_refused_also_across_bodies(branches):
    with pytest.raises(ModelError, match="named yes_out already"), branches.edit("Rename") as edit:
        values.rename_value(edit, builders.value(branches, "d"), "yes_out")
    with pytest.raises(ModelError, match="needs a name"), branches.edit("Rename") as edit:
        values.rename_value(edit, builders.value(branches, "d"), "")


def test_cycles_are_refused_with_the_reason(chain):
    first, c = builders.node(chain, "first"), builders.value(chain, "c")
    assert makes_cycle(first, c)
    with pytest.raises(ModelError, match="would be a cycle"), chain.edit("Connect") as edit:
        values.connect(edit, first, 1, c)


def test_a_cycle_through_a_body_is_refused(branches):
    inner, z = builders.node(branches, "inner"), builders.value(branches, "z")
    with pytest.raises(ModelError, match="would be a cycle"), branches.edit("Connect") as edit:
        values.connect(edit, inner, 0, z)


def test_values_of_a_body_are_not_visible_outside(branches):
    double, inside = builders.node(branches, "double"), builders.value(branches, "yes_out")
    with pytest.raises(ModelError, match="not visible"), branches.edit("Connect") as edit:
        values.connect(edit, double, 0, inside)


def test_connecting_fixes_the_order(chain):
    from onnx_workbench.model.edits.nodes import add_node

    graph = chain.model.graph
    late = builders.one_edit(chain, add_node, graph, "Neg", [builders.value(chain, "x")])
    builders.one_edit(chain, values.connect, builders.node(chain, "third"), 0, late.outputs[0])
    assert [n.name for n in graph.nodes].index("Neg") < [n.name for n in graph.nodes].index("third")
    assert [p for p in check_model(chain.model) if p.severity == "error"] == []
    chain.undo()
    assert graph.nodes.last is late


def test_variadic_inputs_grow_and_shrink(chain):
    from onnx_workbench.model.edits.nodes import add_node

    x = builders.value(chain, "x")
    with chain.edit("Add") as edit:
        node = add_node(edit, chain.model.graph, "Concat", [x], attributes={"axis": 0})
        values.connect(edit, node, 1, x)
        values.connect(edit, node, 2, builders.value(chain, "a"))
    assert [v.name for v in node.inputs] == ["x", "x", "a"]
    builders.one_edit(chain, values.disconnect, node, 0)
    assert [v.name for v in node.inputs] == ["x", "a"]
    assert_linked(chain.model)


def test_a_fixed_number_of_inputs_does_not_grow(chain):
    with pytest.raises(ModelError, match="takes at most 1 inputs"), chain.edit("Connect") as edit:
        values.connect(edit, builders.node(chain, "second"), 1, builders.value(chain, "x"))


def test_optional_inputs_leave_a_gap_or_go(chain):
    from onnx_workbench.model.edits.nodes import add_node

    x, a = builders.value(chain, "x"), builders.value(chain, "a")
    with chain.edit("Add") as edit:
        node = add_node(edit, chain.model.graph, "Clip", [x, a, a])
        values.disconnect(edit, node, 1)
    assert node.inputs == (x, None, a)
    builders.one_edit(chain, values.disconnect, node, 2)
    assert node.inputs == (x,)


def test_attributes_take_the_kind_of_the_signature(chain):
    node = builders.node(chain, "fourth")
    with chain.edit("Set") as edit:
        attributes.set_attribute(edit, node, "axis", -1)
        attributes.set_attribute(edit, node, "own", [1, 2.5])
    assert node.attributes["axis"].value == -1
    assert node.attributes["own"].value == (1.0, 2.5)
    for wrong in ("x", 1 << 63, [1]):
        with pytest.raises(ModelError), chain.edit("Set") as edit:
            attributes.set_attribute(edit, node, "axis", wrong)
    assert node.attributes["axis"].value == -1


def test_a_float_beyond_32_bits_is_refused(chain):
    with pytest.raises(ModelError, match="32 bits"), chain.edit("Set") as edit:
        attributes.set_attribute(edit, builders.node(chain, "fourth"), "alpha", 1e39)


def test_a_zero_gets_another_sign_also_in_the_file(chain):
    node = builders.node(chain, "fourth")
    with chain.edit("Set") as edit:
        attributes.set_attribute(edit, node, "alpha", 0.0)
        attributes.set_attribute(edit, node, "alphas", [0.0, 1.0])
    opened = Document(load(to_bytes(chain.model)))
    node = builders.node(opened, "fourth")
    with opened.edit("Set") as edit:
        attributes.set_attribute(edit, node, "alpha", -0.0)
        attributes.set_attribute(edit, node, "alphas", [-0.0, 1.0])
    assert opened.modified
    again = builders.node(Document(load(to_bytes(opened.model))), "fourth")
    assert [str(again.attributes[name].value) for name in ("alpha", "alphas")] == ["-0.0", "(-0.0, 1.0)"]


@pytest.mark.parametrize("place", ["name", "doc_string", "attribute"])
def test_an_unpaired_surrogate_is_refused_when_saving(chain, place):
    node, half = builders.node(chain, "fourth"), "a\ud83d"
    if place == "attribute":
        SetAttribute(node, "text", make_attribute("text", half)).apply()
    else:
        SetField(node, place, half).apply()
    with pytest.raises(ModelError, match="unpaired surrogate"):
        to_bytes(chain.model)


def test_function_attributes_can_be_referred_to_only_in_functions(branches):
    with pytest.raises(ModelError, match="not in a function"), branches.edit("Refer") as edit:
        attributes.refer_to_function_attribute(edit, builders.node(branches, "double"), "a", "factor")
    inside = next(iter(branches.model.functions[0].body.nodes))
    builders.one_edit(branches, attributes.refer_to_function_attribute, inside, "value_float", "factor")
    assert inside.attributes["value_float"].reference == "factor"


def test_the_batch_is_set_everywhere(chain):
    graph = chain.model.graph
    with chain.edit("Declare") as edit:
        values.set_type(edit, builders.value(chain, "a"), TensorType(ElementType.FLOAT, Shape(("N", 4))))
    builders.one_edit(chain, interface.set_batch, graph, 8)
    assert [v.type.shape.dims for v in (*graph.inputs[:1], *graph.outputs, builders.value(chain, "a"))] == [(8, 4)] * 3
    assert builders.value(chain, "w").initializer.shape == (4,)
    with pytest.raises(ModelError, match="cannot be a dimension"), chain.edit("Batch") as edit:
        interface.set_batch(edit, graph, -1)


def test_outputs_that_no_input_reaches_keep_their_shape(chain):
    graph = chain.model.graph
    with chain.edit("Return a constant") as edit:
        made = constants.add_constant(edit, graph, "fixed: int64[2,1] = 1, 2")
        node = initializers.initializer_to_constant(edit, made)
        values.set_type(edit, node.outputs[0], TensorType(ElementType.INT64, Shape((2, 1))))
        interface.add_output(edit, graph, node.outputs[0])
    builders.one_edit(chain, interface.set_batch, graph, 8)
    assert [v.type.shape.dims for v in graph.outputs] == [(8, 4), (2, 1)]


def test_inputs_and_outputs_come_and_go(chain):
    graph = chain.model.graph
    before = snapshot(chain.model)
    with chain.edit("Interface") as edit:
        added = interface.add_input(edit, graph, "x", TensorType(ElementType.FLOAT))
        interface.remove_input(edit, graph, builders.value(chain, "unused"))
        interface.add_output(edit, graph, builders.value(chain, "r"))
        interface.reorder_outputs(edit, graph, graph.outputs[::-1])
    assert added.name == "x_1"
    assert [v.name for v in graph.outputs] == ["r", "y"]
    assert_linked(chain.model)
    with pytest.raises(ModelError, match="Input x is used"), chain.edit("Remove") as edit:
        interface.remove_input(edit, graph, builders.value(chain, "x"))
    chain.undo()
    assert snapshot(chain.model) == before


def test_missing_node_names_are_given(branches):
    from onnx_workbench.model.history.steps import SetField

    unnamed = builders.graph(branches, "no").nodes.first
    assert unnamed.name == ""
    builders.do(branches, SetField(builders.node(branches, "call"), "name", "double"))
    builders.one_edit(branches, names.regenerate_node_names, branches.model, only_missing=True)
    for root in branches.model.root_graphs():
        found = [n.name for g in root.walk() for n in g.nodes]
        assert all(found)
        assert len(set(found)) == len(found)


def test_unique_names_count_on():
    assert unique_name("a", {"b"}) == "a"
    assert unique_name("a", {"a"}) == "a_1"
    assert unique_name("a_9", {"a_9", "a_10"}) == "a_11"
    assert unique_name("", {"value_1"}) == "value_2"


def test_an_output_that_begins_with_another_size_keeps_it():
    document = builders.document("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[1, 3] x) => (float[1, 3] y, int64[2, n] found, int64[n, 2] rows) {
            y = Relu (x) found = NonZero (x) rows = Transpose (found)
        }""")
    graph = document.model.graph
    builders.one_edit(document, interface.set_batch, graph, "batch")
    assert [value.type.shape.dims for value in (*graph.inputs, *graph.outputs)] == [
        ("batch", 3), ("batch", 3), (2, "n"), ("n", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "made"),
    [("a1", "a_2"), ("a_7", "a_8"), ("a_", "a_1"), ("a__1", "a__2"), ("7", "value_8"), ("_7", "value_8"),
     ("", "value_1"), ("a1234567890", "a1_234567891"), ("a\u0661", "a_2"), ("a\u00b2", "a\u00b2_1"), ("a\n2", "a\n_3")],
)  # fmt: skip
def test_a_unique_name_counts_up_the_number_at_its_end(wanted, made):
    assert unique_name(wanted, {wanted}) == made
