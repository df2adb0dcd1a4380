"""Conversions of some nodes alone: those change, the others do not, and what comes out stays the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_workbench.model.analysis.node_subset import is_made, is_used, part_of, tensors_of, with_whole_functions
from onnx_workbench.model.convert import (
    PRECISIONS,
    PrecisionOptions,
    batch_places,
    convert_precision,
    extract_blocks,
    free_dimensions,
    freeze,
    inputs_of,
    strip,
    symbols_of,
)
from onnx_workbench.model.edits import names
from onnx_workbench.model.edits.declare_types import declare_all
from onnx_workbench.model.edits.functions import inline_calls
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.inference import infer
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import prepare, save, to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage
from onnx_workbench.model.ir.types import ElementType
from tests.model import builders
from tests.model.convert.conversions import fed, made, outputs
from tests.model.snapshots import assert_linked, snapshot

CHAIN = """g (float[2,3] x) => (float[2,3] y) <float[3] w = {1.1,2.0,3.0}>
 { a = Mul(x, w) b = Relu(a) c = Add(b, w) y = Neg(c) }"""
BRANCHES = """g (bool c, float[2] x) => (float[2] y) <float[2] w = {1.0,2.0}> {
 y = If (c) <then_branch = t () => (float[2] u) { s = Add(x, w) u = Relu(s) },
             else_branch = e () => (float[2] v) { v = Mul(x, w) }> }"""
CALLS = """<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[2] x) => (float[2] y)
 { a = f.Twice(x) b = f.Twice(a) y = f.Other(b) }
 <domain: "f", opset_import: ["": 17, "f": 1]> Twice (p) => (r) { q = f.Inner(p) r = Add(q, q) }
 <domain: "f", opset_import: ["": 17]> Inner (p) => (r) { r = Neg(p) }
 <domain: "f", opset_import: ["": 17]> Other (p) => (r) { r = Abs(p) }"""


def of(document, *operators):
    """The nodes of these operators, in whatever graph."""
    return [n for graph in document.model.graphs() for n in graph.nodes if n.op_type in operators]


def to_half(document, nodes, target="float16", source="float32", **wish):
    types = infer(document.model)
    with document.edit("Convert") as edit:
        asked = PrecisionOptions(PRECISIONS[source], PRECISIONS[target], among=part_of(nodes), **wish)
        return convert_precision(edit, asked, types.type_of)


def kinds(document):
    """What the output of every node is."""
    types = infer(document.model)
    made_here = (n for graph in document.model.graphs() for n in graph.nodes)
    return {n.op_type: types.type_of(n.outputs[0]).element_type for n in made_here if n.op_type != "Cast"}


def same_outputs(document, before, feeds, rtol=1e-6):
    assert_linked(document.model)
    onnx.checker.check_model(to_bytes(document.model))
    for name, array in outputs(document.model, feeds).items():
        np.testing.assert_allclose(array, before[name], rtol=rtol, atol=rtol)


# -- what belongs to a part --------------------------------------------------------------------------------------------


def test_a_part_has_the_bodies_of_its_nodes_and_what_they_make():
    document = made(17, BRANCHES)
    (branch,) = of(document, "If")
    nodes = part_of([branch])
    assert sorted(node.op_type for node in nodes) == ["Add", "If", "Mul", "Relu"]
    assert is_made(builders.value(document, "y"), nodes)
    assert not is_made(builders.value(document, "w"), nodes)
    assert is_used(builders.value(document, "w"), part_of(of(document, "Add")))


def test_a_part_has_the_constant_nodes_that_nothing_else_takes():
    text = """g (float[2] x) => (float[2] y)
     { w = Constant<value_floats=[1.0,2.0]>() v = Constant<value_floats=[3.0,4.0]>()
     a = Mul(x, w) b = Add(a, v) y = Sub(b, v) }"""
    document = made(17, text)
    before, feeds = outputs(document.model, fed(document.model)), fed(document.model)
    nodes = of(document, "Mul", "Add")
    assert sorted(node.op_type for node in part_of(nodes)) == ["Add", "Constant", "Mul"]
    to_half(document, nodes)
    same_outputs(document, before, feeds, rtol=1e-2)


def test_functions_belong_to_a_part_that_holds_all_their_calls():
    document = builders.document(CALLS)
    some, functions = with_whole_functions(of(document, "Other"), document.model)
    assert {f.name for f in functions} == {"Other"}
    assert {n.op_type for n in some} == {"Other", "Abs"}
    first = document.model.graph.nodes.first
    assert with_whole_functions([first], document.model)[1] == frozenset()
    both = [n for n in document.model.graph.nodes if n.op_type == "Twice"]
    assert {f.name for f in with_whole_functions(both, document.model)[1]} == {"Twice", "Inner"}


# -- precision ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_only_chosen_nodes_change_precision_with_casts_around(target):
    document = made(17, CHAIN)
    feeds = fed(document.model)
    before, state = outputs(document.model, feeds), snapshot(document.model)
    to_half(document, of(document, "Relu", "Add"), target)
    half = PRECISIONS[target]
    full = ElementType.FLOAT
    assert kinds(document) == {"Mul": full, "Relu": half, "Add": half, "Neg": full}
    assert builders.value(document, "w").initializer.element_type == full  # Mul takes it as it was
    assert [n.op_type for n in document.model.graph.nodes].count("Cast") == 3
    same_outputs(document, before, feeds, rtol=2e-2)
    document.undo()
    assert snapshot(document.model) == state


@pytest.mark.parametrize("parts", [("Mul", "Relu"), ("Relu", "Mul"), ("Relu", "Add"), ("Mul", "Add", "Relu")])
def test_parts_that_meet_leave_no_casts_between_them(parts):
    """Converted one after the other, the first cast back for the second, which cast anew."""
    document, together = made(17, CHAIN), made(17, CHAIN)
    for part in parts:
        to_half(document, of(document, part))
    to_half(together, of(together, *parts))
    assert kinds(document) == kinds(together)
    assert len(of(document, "Cast")) == len(of(together, "Cast"))
    feeds = fed(document.model)
    same_outputs(document, outputs(together.model, feeds), feeds)


def test_casts_of_the_model_go_where_they_lose_their_effect():
    """Nothing tells them from those of an earlier conversion; others stay."""
    text = "{ a = Relu(x) y = Cast<to = 10>(a) b = Neg(x) z = Cast<to = 10>(b) }"
    document = made(17, f"g (float[2] x) => (float16[2] y, float16[2] z) {text}")
    feeds = fed(document.model)
    before = outputs(document.model, feeds)
    to_half(document, of(document, "Relu"))
    made_by = {n.outputs[0].name: n.op_type for n in document.model.graph.nodes}
    assert (made_by["y"], made_by["z"]) == ("Relu", "Cast")
    same_outputs(document, before, feeds)


def test_the_whole_takes_the_weight_precision_of_its_part():
    """It could not be converted: the cast of the weight was in the way."""
    document = made(17, CHAIN)
    to_half(document, of(document, "Mul"))
    assert builders.value(document, "w").initializer.element_type == ElementType.FLOAT
    to_half(document, document.model.graph.nodes)
    assert set(kinds(document).values()) == {ElementType.FLOAT16}
    assert builders.value(document, "w").initializer.element_type == ElementType.FLOAT16
    assert len(of(document, "Cast")) == 2  # of the input and of the output
    onnx.checker.check_model(to_bytes(document.model))


def test_a_cast_that_others_need_stays_where_parts_meet():
    document = made(17, "g (float[2] x) => (float[2] y, float[2] z) { a = Abs(x) b = Relu(a) y = Neg(b) z = Exp(b) }")
    to_half(document, of(document, "Relu"))
    to_half(document, of(document, "Neg"))
    assert kinds(document)["Neg"] == ElementType.FLOAT16
    assert kinds(document)["Exp"] == ElementType.FLOAT
    (exp,) = of(document, "Exp")
    assert exp.inputs[0].producer.op_type == "Cast"
    assert len(of(document, "Cast")) == 3  # into Relu, out of it for Exp, and out of Neg
    onnx.checker.check_model(to_bytes(document.model))


def test_a_constant_that_chosen_nodes_alone_take_turns():
    document = made(17, "g (float[2] x) => (float[2] y) <float[2] w = {1.0,2.0}> { a = Mul(x, w) y = Neg(a) }")
    to_half(document, of(document, "Mul"))
    assert builders.value(document, "w").initializer.element_type == ElementType.FLOAT16
    assert kinds(document) == {"Mul": ElementType.FLOAT16, "Neg": ElementType.FLOAT}


def test_in_and_outputs_turn_with_the_nodes_around_them():
    text = "g (float[2] x, float[2] z) => (float[2] y, float[2] v) { a = Neg(x) y = Add(a, z) v = Abs(z) }"
    document = made(17, text)
    to_half(document, of(document, "Neg", "Add"), keep_interface=False)
    model = document.model
    shown = {v.name: v.type.element_type for v in (*model.graph.inputs, *model.graph.outputs)}
    half, full = ElementType.FLOAT16, ElementType.FLOAT
    assert shown == {"x": half, "z": full, "y": half, "v": full}
    onnx.checker.check_model(to_bytes(model))


@pytest.mark.parametrize("operators", [["Add"], ["Relu"], ["Add", "Relu"], ["If"], ["Mul"]])
def test_nodes_in_bodies_turn_by_themselves(operators):
    document = made(17, BRANCHES)
    feeds = {"c": np.array(True), "x": np.array([1.25, -3.0], np.float32)}
    before = outputs(document.model, feeds)
    to_half(document, of(document, *operators))
    turned = {name for name, kind in kinds(document).items() if kind == ElementType.FLOAT16}
    assert turned == ({"Add", "Relu", "If", "Mul"} if operators == ["If"] else set(operators))
    same_outputs(document, before, feeds)


@pytest.mark.parametrize("operators", [["Twice"], ["Other"], ["Inner"], ["Add"], ["Neg"], ["Abs", "Other"]])
def test_functions_turn_with_all_their_calls_or_keep_their_types(operators):
    document = builders.document(CALLS)
    feeds = {"x": np.array([1.25, -3.0], np.float32)}
    before = outputs(document.model, feeds)
    to_half(document, of(document, *operators))
    assert any(n.op_type == "Cast" for graph in document.model.graphs() for n in graph.nodes)
    same_outputs(document, before, feeds)


def test_one_of_two_calls_stays_as_it_is():
    document = builders.document(CALLS)
    state = snapshot(document.model)
    to_half(document, [document.model.graph.nodes.first])
    assert snapshot(document.model) == state


# -- dimensions --------------------------------------------------------------------------------------------------------

NAMED = """g (float[N,3] x, float[M,3] z) => (float[N,3] y, float[M,3] v)
 { a = Relu(x) y = Neg(a) v = Abs(z) }"""


def test_a_name_that_chosen_nodes_meet_becomes_a_number_everywhere():
    document = made(17, NAMED)
    types = infer(document.model)
    nodes = of(document, "Relu")
    assert symbols_of(nodes, document.model, types.type_of) == ["N"]
    builders.one_edit(document, freeze, {"N": 4}, nodes, types.type_of)
    assert [str(v.type) for v in document.model.graph.outputs] == ["float[4,3]", "float[M,3]"]


def test_a_name_that_chosen_nodes_do_not_meet_is_refused():
    document = made(17, NAMED)
    with pytest.raises(ModelError, match="selected nodes") as refused, document.edit("Freeze") as edit:
        freeze(edit, {"M": 4}, of(document, "Relu"))
    assert "The selection's names: N" in str(refused.value)


def test_names_are_met_in_formulas_too():
    document = made(17, "g (float[N,3] x) => (float[S] y) { a = Concat<axis=0>(x, x) b = Relu(a) y = ReduceMax(b) }")
    types = infer(document.model)
    assert symbols_of(of(document, "Relu"), document.model, types.type_of) == ["N"]


@pytest.mark.parametrize(("operator", "expected"), [("Relu", ["x"]), ("Abs", ["z"]), ("Neg", ["x"])])
def test_inputs_that_nodes_are_computed_from_become_free(operator, expected):
    document = made(17, NAMED.replace("[N", "[2").replace("[M", "[5"))
    graph = document.model.graph
    inputs = inputs_of(graph, of(document, operator))
    assert [value.name for value in inputs] == expected
    builders.one_edit(document, free_dimensions, graph, dict.fromkeys(batch_places(inputs), "batch"))
    assert [v.name for v in graph.inputs if v.type.shape.dims[0] == "batch"] == expected


def test_nodes_in_bodies_are_computed_from_what_feeds_the_body():
    text = """g (float[2,3] x) => (float[2,3] y) <int64 n = {2}, bool c = {1}> { y = Loop (n, c, x) <body = b
     (int64 i, bool k, float[2,3] s) => (bool kk, float[2,3] t) { kk = Identity(k) t = Abs(s) }> }"""
    document = made(17, text)
    assert [value.name for value in inputs_of(document.model.graph, of(document, "Abs"))] == ["x"]


def test_a_call_that_cannot_turn_is_reported_to_be_one():
    document = Document(builders.model(CALLS))
    (first, _), (other,) = of(document, "Twice"), of(document, "Other")
    why = "1 node stays float: Twice is called by other nodes too, or by a node that stays"
    assert [remark.text for remark in to_half(document, [first, other]).warnings] == [why]


# -- functions, names, texts, types ------------------------------------------------------------------------------------


def test_chosen_calls_are_inlined_with_the_calls_in_them():
    document = builders.document(CALLS)
    feeds = {"x": np.array([1.25, -3.0], np.float32)}
    before = outputs(document.model, feeds)
    first, _, last = document.model.graph.nodes
    with document.edit("Inline") as edit:
        assert inline_calls(edit, [first]) == 2
    assert [n.op_type for n in document.model.graph.nodes] == ["Neg", "Add", "Twice", "Other"]
    assert {f.name for f in document.model.functions} == {"Twice", "Inner", "Other"}
    with document.edit("Inline") as edit:
        assert inline_calls(edit, [last]) == 1
    assert {f.name for f in document.model.functions} == {"Twice", "Inner"}
    same_outputs(document, before, feeds)


def test_a_call_in_a_function_is_inlined_there():
    document = builders.document(CALLS)
    builders.one_edit(document, inline_calls, of(document, "Inner"))
    assert {f.name for f in document.model.functions} == {"Twice", "Other"}
    assert [n.op_type for n in document.model.function("f", "Twice").body.nodes] == ["Neg", "Add"]


def test_blocks_are_found_among_chosen_nodes():
    blocks = (f"a{i} = Relu(c{i}) b{i} = Sin(a{i}) c{i + 1} = Cos(b{i})" for i in range(4))
    document = made(17, f"g (float[2] c0) => (float[2] c4) {{ {' '.join(blocks)} }}")
    feeds = fed(document.model)
    before = outputs(document.model, feeds)
    nodes = list(document.model.graph.nodes)[:6]
    builders.one_edit(document, extract_blocks, among=nodes)
    (function,) = document.model.functions
    assert [n.op_type for n in document.model.graph.nodes] == [
        function.name,
        function.name,
        *["Relu", "Sin", "Cos"] * 2,
    ]
    same_outputs(document, before, feeds)


def test_only_chosen_nodes_get_new_names():
    document = made(17, CHAIN)
    mul, relu, add, neg = document.model.graph.nodes
    with document.edit("Name") as edit:
        assert names.regenerate_node_names(edit, document.model, among=[relu, neg]) == 2
        assert names.regenerate_value_names(edit, document.model, among=[add]) == 1
        assert names.regenerate_initializer_names(edit, document.model, among=[relu]) == 0
    assert [n.name for n in (mul, relu, add, neg)] == ["", "Relu_0", "", "Neg_0"]
    assert mul.outputs[0].name == "a"
    assert add.outputs[0].name.endswith("_output_0")
    with document.edit("Name") as edit:
        assert names.regenerate_initializer_names(edit, document.model, among=[add]) == 1


def test_a_chosen_node_gets_no_name_that_another_has():
    document = made(17, "g (float[2] x) => (float[2] y) { a = Relu(x) y = Relu(a) }")
    first, second = document.model.graph.nodes
    with document.edit("Name") as edit:
        names.regenerate_node_names(edit, document.model, among=[second])
        names.regenerate_node_names(edit, document.model, among=[first])
    assert [first.name, second.name] == ["Relu_1", "Relu_0"]


def described():
    proto = builders.proto(f'<ir_version: 8, opset_import: ["": 17]> {CHAIN}')
    proto.doc_string = proto.graph.doc_string = "whole"
    for node in proto.graph.node:
        node.doc_string = "text"
        node.metadata_props.add(key="k", value="v")
    proto.graph.initializer[0].doc_string = "weights"
    return Document(load(proto.SerializeToString()))


def test_texts_are_taken_from_chosen_nodes():
    document = described()
    mul, relu, add, neg = document.model.graph.nodes
    report = builders.one_edit(document, strip, ["doc", "metadata"], [relu])
    assert dict(report.summary()) == {"description removed": 1, "metadata removed": 1}
    assert [bool(n.doc_string) for n in (mul, relu, add, neg)] == [True, False, True, True]
    assert document.model.doc_string == "whole"
    with pytest.raises(ModelError, match="whole model"), document.edit("Strip") as edit:
        strip(edit, ["producer"], [relu])


def test_types_are_written_and_taken_away_for_chosen_nodes():
    document = builders.document(f'<ir_version: 8, opset_import: ["": 17]> {CHAIN}')
    inferred = infer(document.model)
    _, relu, _, _ = document.model.graph.nodes
    with document.edit("Write") as edit:
        assert declare_all(edit, inferred, [relu]) == 1
    declared = {v.name for v in document.model.graph.values() if v.type is not None and v.producer is not None}
    assert declared == {"b", "y"}
    with document.edit("Write") as edit:
        declare_all(edit, inferred)
        strip(edit, ["types"], [relu])
    assert {v.name for v in document.model.graph.values() if v.type is None and v.producer is not None} == {"b"}


def test_copies_of_nodes_come_with_those_in_their_bodies():
    document = made(17, BRANCHES)
    copy_of_model = WorkingCopy(document.model)
    copies = copy_of_model.copies(of(document, "If"))
    assert sorted(node.op_type for node in copies) == ["Add", "If", "Mul", "Relu"]
    assert copies.isdisjoint(n for graph in document.model.graphs() for n in graph.nodes)


# -- data files --------------------------------------------------------------------------------------------------------

TWO = """<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y)
 <float[3] w = {1.0,2.0,3.0}, float[3] v = {4.0,5.0,6.0}> { a = Mul(x, w) y = Add(a, v) }"""


def places(path):
    proto = onnx.load(path, load_external_data=False)
    return {t.name: bool(t.external_data) for t in proto.graph.initializer}


def test_constants_of_chosen_nodes_go_out_and_in_and_stay_there(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(to_bytes(builders.document(TWO).model))
    model = load(path)
    chosen = tensors_of([n for n in model.graph.nodes if n.op_type == "Mul"])
    save(model, path, Storage(DataLayout.ONE_FILE, threshold=0, among=chosen))
    assert places(path) == {"w": True, "v": False}
    save(model, path)  # it stays where it is
    assert places(path) == {"w": True, "v": False}
    save(model, path, Storage(DataLayout.INLINE, among=chosen))
    assert places(path) == {"w": False, "v": False}
    save(model, path)
    assert places(path) == {"w": False, "v": False}


def test_constants_of_chosen_nodes_come_in_from_data_files(tmp_path):
    path = tmp_path / "m.onnx"
    save(builders.document(TWO).model, path, Storage(DataLayout.FILE_PER_TENSOR, threshold=0))
    model = load(path)
    chosen = tensors_of([n for n in model.graph.nodes if n.op_type == "Add"])
    save(model, path, Storage(DataLayout.INLINE, among=chosen))
    assert places(path) == {"w": True, "v": False}
    save(model, path)
    assert places(path) == {"w": True, "v": False}
    onnx.checker.check_model(str(path))
    assert not prepare(model, path).plan.data_files


def test_unchosen_constants_are_copied_to_the_new_folder(tmp_path):
    path, other = tmp_path / "m.onnx", tmp_path / "other" / "m.onnx"
    other.parent.mkdir()
    save(builders.document(TWO).model, path, Storage(DataLayout.FILE_PER_TENSOR, threshold=0))
    model = load(path)
    chosen = tensors_of([n for n in model.graph.nodes if n.op_type == "Add"])
    save(model, other, Storage(DataLayout.INLINE, among=chosen))
    assert places(other) == {"w": True, "v": False}
    onnx.checker.check_model(str(other))
    save(model, other)
    assert places(other) == {"w": True, "v": False}
