"""What nodes that are pasted take from where they come to, and what they bring."""

import pytest

from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import copy_paste, nodes, values
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.unlink import unlink
from tests.model import builders
from tests.model.checking import legal
from tests.model.snapshots import assert_linked

pytestmark = pytest.mark.usefixtures("undo_restores")


def test_pasting_in_the_same_model_reconnects(chain):
    fragment = copy_paste.copy([builders.node(chain, "second"), builders.node(chain, "third")])
    relu, add = builders.one_edit(chain, copy_paste.paste, chain.model.graph, fragment)
    assert relu.inputs[0] is builders.value(chain, "a")
    assert add.inputs == (relu.outputs[0], builders.value(chain, "b"))
    assert legal(chain.model)


def test_pasting_into_another_model_brings_what_is_needed(chain, branches):
    fragment = copy_paste.copy([builders.node(branches, "choose"), builders.node(branches, "call")])
    choose, call = builders.one_edit(chain, copy_paste.paste, chain.model.graph, fragment)
    assert choose.inputs == (None,)
    assert call.inputs[0] is choose.outputs[0]
    assert chain.model.function("local", "scale") is not None
    assert chain.model.function("local", "scale") is not branches.model.functions[0]
    assert chain.model.opset_imports["local"] == 1
    assert_linked(chain.model)
    assert_linked(branches.model)


def test_what_was_copied_does_not_change_with_the_model_or_keep_it(chain, branches):
    """Functions of a document that was closed came without their nodes, and the clipboard kept the whole model."""
    model = load(to_bytes(branches.model))
    fragment = copy_paste.copy([next(node for node in model.graph.nodes if node.name == "call")])
    before = [node.op_type for node in model.function("local", "scale").body.nodes]
    assert [function.model for function in fragment.functions] == [None]
    for _ in unlink(model):
        pass
    builders.one_edit(chain, copy_paste.paste, chain.model.graph, fragment)
    assert [node.op_type for node in chain.model.function("local", "scale").body.nodes] == before
    assert before
    assert legal(chain.model)


def test_constants_come_along_under_free_names(chain):
    other = builders.document(builders.CHAIN.replace("1.0, 2.0", "9.0, 9.0"))
    fragment = copy_paste.copy([builders.node(other, "first")])
    (mul,) = builders.one_edit(chain, copy_paste.paste, chain.model.graph, fragment)
    assert mul.inputs[0] is builders.value(chain, "x")
    assert mul.inputs[1].name == "w_1"
    assert mul.inputs[1].initializer.numpy().tolist() == [9, 9, 3, 4]


CONSTANTS = """
g (float[2] x) => (float[2] y)
{
    [w] w = Constant <value: tensor = float[2] {1, 2}> ()
    [s] s = Constant <value_float: float = 0.5> ()
    [mul] m = Mul (x, w)
    [add] y = Add (m, s)
}
"""


def test_constant_nodes_come_along_as_initializers_do():
    """What a node was drawn with, its weights in Constants, was missing where it was pasted."""
    document = builders.document(CONSTANTS)
    fragment = copy_paste.copy([builders.node(document, "mul"), builders.node(document, "add")])
    assert fragment.size == 2
    other = builders.document(CONSTANTS.replace("{1, 2}", "{3, 4}"))
    mul, add = builders.one_edit(other, copy_paste.paste, other.model.graph, fragment)
    weight = mul.inputs[1].producer
    assert (mul.inputs[1].name, weight.name) == ("w_1", "w_1")
    assert weight.attributes["value"].value.numpy().tolist() == [1, 2]
    assert add.inputs == (mul.outputs[0], builders.value(other, "s"))  # which is the same there
    assert legal(other.model)
    assert_linked(other.model)


def test_constant_nodes_are_shared_where_they_were_copied():
    document = builders.document(CONSTANTS)
    fragment = copy_paste.copy([builders.node(document, "mul")])
    (mul,) = builders.one_edit(document, copy_paste.paste, document.model.graph, fragment)
    assert mul.inputs == (builders.value(document, "x"), builders.value(document, "w"))
    chosen = copy_paste.copy([builders.node(document, "w"), builders.node(document, "mul")])
    constant, mul = builders.one_edit(document, copy_paste.paste, document.model.graph, chosen)
    assert mul.inputs[1] is constant.outputs[0], "it was copied itself"
    assert constant is not builders.node(document, "w")


LATER = """
later (float[4] x, bool flag) => (float[4] y)
{
    [choose] z = If (flag) <
        then_branch: graph = yes () => (float[4] yes_out) { [yes] yes_out = Neg (x) },
        else_branch: graph = no () => (float[4] no_out) { [no] no_out = Abs (x) }
    >
    [early] e = Relu (x)
    [late] l = Exp (e)
    [last] y = Add (z, l)
}
"""


@pytest.mark.parametrize("place", ["body", "before", "nested"])
def test_nodes_whose_values_are_taken_come_before_what_is_pasted(place):
    document = builders.document(LATER)
    graph, choose = document.model.graph, builders.node(document, "choose")
    copied = builders.node(document, "last")
    if place == "nested":  # what the body of a pasted node captures
        builders.one_edit(document, values.connect, builders.node(document, "yes"), 0, builders.value(document, "l"))
        copied = choose
    before = to_bytes(document.model)
    with document.edit("Paste") as edit:
        if place == "body":
            (node,) = copy_paste.paste(edit, choose.bodies[0], copy_paste.copy([copied]))
        else:
            (node,) = copy_paste.paste(edit, graph, copy_paste.copy([copied]), before=next(iter(graph.nodes)))
    assert [p.rule for p in check_model(document.model) if p.rule in ("order", "cycle")] == []
    if place == "body":
        assert [value and value.name for value in node.inputs] == [None, "l"], "z would be a cycle"
    document.undo()
    assert to_bytes(document.model) == before


CALLS = """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[4] p, bool k) => (float[4] q, float[4] s)
    {
        [outer] q = local.outer (p)
        [both] s = If (k) <then_branch = t () => (float[4] u) { [inner] u = local.inner (p) },
                           else_branch = e () => (float[4] v) { [alone] v = local.alone (p) }>
    }
    <domain: "local", opset_import: ["" : 21, "local" : 1]> outer (v) => (o) { o = local.inner (v) }
    <domain: "local", opset_import: ["" : 21]> inner (v) => (o) { o = Abs (v) }
    <domain: "local", opset_import: ["" : 21]> alone (v) => (o) { o = Sin (v) }
"""


@pytest.mark.parametrize("how", ["paste", "merge"])
def test_different_functions_of_one_name_come_renamed(how):
    """What was pasted called the function of the name that was here, without a word."""
    here = builders.document(CALLS.replace("Abs", "Neg").replace("(o) { o = Sin (v)", "(out) { out = Sin (v)"))
    other, model = builders.document(CALLS), here.model
    before = to_bytes(model)
    with here.edit("Bring") as edit:
        if how == "paste":
            outer, both = copy_paste.paste(edit, model.graph, copy_paste.copy(list(other.model.graph.nodes)))
        else:
            outer, both = copy_paste.merge(edit, model.graph, other.model, prefix="more_")
    assert [f.name for f in model.functions] == ["outer", "inner", "alone", "outer_1", "inner_1"]
    assert [f.body.name for f in model.functions[3:]] == ["outer_1", "inner_1"]
    pasted = dict(zip(("outer", "inner"), model.functions[3:], strict=True))
    assert called_by(outer) is pasted["outer"]
    assert [called_by(node) for node in pasted["outer"].body.nodes] == [pasted["inner"]]
    assert [node.op_type for node in pasted["inner"].body.nodes] == ["Abs"]
    calls = [called_by(node) for body in both.bodies for node in body.nodes]
    assert calls == [pasted["inner"], model.function("local", "alone")]
    assert legal(model)
    assert_linked(model)
    assert to_bytes(load(to_bytes(model))) == to_bytes(model)
    here.undo()
    assert to_bytes(model) == before


def test_a_function_that_is_here_does_not_come_again():
    here, other = builders.document(CALLS), builders.document(CALLS)
    builders.one_edit(here, copy_paste.paste, here.model.graph, copy_paste.copy(list(other.model.graph.nodes)))
    assert [f.name for f in here.model.functions] == ["outer", "inner", "alone"]


RECURSION = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
g (float[2] x) => (float[2] y) { [call] y = f.Outer (x) }
<domain: "f", opset_import: ["" : 21, "f" : 1]> Inner (p) => (q) { [inmost] q = Relu (p) }
<domain: "f", opset_import: ["" : 21, "f" : 1]> Outer (p) => (q) { q = f.Inner (p) }"""


def test_a_call_is_not_pasted_into_its_own_function():
    document = builders.document(RECURSION)
    fragment = copy_paste.copy([builders.node(document, "call")])
    for function in document.model.functions:
        with pytest.raises(ModelError, match="would call itself"), document.edit("Paste") as edit:
            copy_paste.paste(edit, function.body, fragment)
    with pytest.raises(ModelError, match="would call itself"), document.edit("Add") as edit:
        nodes.add_node(edit, document.model.functions[0].body, "Outer", domain="f")
    with pytest.raises(ModelError, match="would call itself"), document.edit("Change") as edit:
        nodes.change_operator(edit, builders.node(document, "inmost"), "Outer", "f")
