"""Find and replace: what is listed is what is done, over every kind of name and value, or nothing is."""

import dataclasses

import pytest

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.edits import attributes, names, nodes, properties
from onnx_workbench.model.edits.find_replace import find_replacements, replace_all
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.devices import ShardingSpec
from tests.model import builders
from tests.model.edits.rich_models import rich_bytes
from tests.model.snapshots import assert_linked, snapshot


@pytest.fixture(params=["chain", "branches"])
def document(request):
    return builders.document(builders.CHAIN if request.param == "chain" else builders.BRANCHES)


def found_in(document, pattern, replacement, *where, **options):
    return list(filter(None, find_replacements(document.model.graphs(), pattern, replacement, where, **options)))


def replace(document, *arguments, **options):
    found = found_in(document, *arguments, **options)
    builders.one_edit(document, replace_all, found)
    return [(r.before, r.after) for r in found]


def give(document, node, **values):
    with document.edit("Set") as edit:
        for name, value in values.items():
            attributes.set_attribute(edit, builders.node(document, node), name, value)


def values_of(document, node):
    return {name: a.value for name, a in builders.node(document, node).attributes.items()}


def test_find_and_replace_shows_before_it_does(document):
    found = found_in(document, "^(.)", r"new_\1", "value names", "node names", regex=True)
    assert all(r.after == f"new_{r.before}" for r in found)
    builders.one_edit(document, replace_all, found)
    assert all(v.name.startswith("new_") for g in document.model.graphs() for v in g.values())
    assert_linked(document.model)
    assert [p for p in check_model(document.model) if p.severity == "error"] == []


def test_whole_texts_by_an_expression_that_begins_with_flags(chain):
    before = [value.name for value in chain.model.graph.values()]
    pattern = f"(?i){before[0].upper()}"
    assert replace(chain, pattern, "other", "value names", regex=True, whole=True) == [(before[0], "other")]
    assert replace(chain, "(?x) other # that", "one", "value names", regex=True, whole=True) == [("other", "one")]
    assert replace(chain, "o|on(e)", r"other\1", "value names", regex=True, whole=True) == [("one", "othere")]
    assert not found_in(chain, "(?i)OTHER", "x", "value names", regex=True, whole=True)
    assert not found_in(chain, "(?i)THER", "x", "value names", regex=True, whole=True)


def test_replacing_into_one_name_twice_is_refused_whole(chain):
    before = snapshot(chain.model)
    with pytest.raises(ModelError, match="Two would be named same"):
        replace(chain, "first|second", "same", "node names", regex=True)
    with pytest.raises(ModelError, match="Two would be named second"):
        replace(chain, "first", "second", "node names")
    with pytest.raises(ModelError, match="A value would lose its name"):
        replace(chain, ".*", "", "value names", regex=True)
    assert snapshot(chain.model) == before


def test_names_may_change_places(chain):
    assert replace(chain, "first", "other", "node names") == [("first", "other")]
    found = found_in(chain, "other", "second", "node names") + found_in(chain, "second", "other", "node names")
    builders.one_edit(chain, replace_all, found)
    assert [n.name for n in chain.model.graph.nodes][:2] == ["second", "other"]


def test_wrong_expressions_are_refused_before_anything_is_looked_at(chain):
    for expression in ("(", "a{99999999999999999999}", "(" * 5000 + ")" * 5000):
        with pytest.raises(ModelError, match="not a regular expression"):
            find_replacements(chain.model.graphs(), expression, "", ["node names"], regex=True)
    assert not list(filter(None, find_replacements(chain.model.graphs(), "[[q]", "", ["node names"], regex=True)))
    for replacement in (r"\9", r"\g<x>", "\\"):
        with pytest.raises(ModelError, match="does not work"):
            find_replacements(chain.model.graphs(), "nowhere", replacement, ["node names"], regex=True)
    assert replace(chain, "first", "a\\1", "node names") == [("first", "a\\1")]


def test_an_attribute_called_name_is_not_the_name(chain):
    for node in ("first", "second"):
        give(chain, node, name="old")
    replace(chain, "old", "new", "attribute values")
    assert [builders.node(chain, node).attributes["name"].value for node in ("first", "second")] == ["new", "new"]


def test_values_of_attributes_of_every_plain_kind_are_replaced(chain):
    give(chain, "first", text="SAME_UPPER", whole=12, real=0.25, texts=["a,1", 'say "1"'], many=[1, 2, 1], reals=[0.25])
    found = replace(chain, "1", "31", "attribute values", nodes=[builders.node(chain, "first")])
    assert found == [("12", "312"), ('"a,1", "say \\"1\\""', '"a,31", "say \\"31\\""'), ("1, 2, 1", "31, 2, 31")]
    replace(chain, "0.25", "-1e3", "attribute values")
    replace(chain, "UPPER", "LOWER", "attribute values")
    assert values_of(chain, "first") == {
        "text": "SAME_LOWER", "whole": 312, "real": -1000.0, "texts": ("a,31", 'say "31"'), "many": (31, 2, 31),
        "reals": (-1000.0,),
    }  # fmt: skip
    chain.undo()
    assert values_of(chain, "first")["text"] == "SAME_UPPER"


def test_a_refusal_calls_a_node_by_the_name_it_has(chain):
    give(chain, "second", whole=12)
    with pytest.raises(ModelError, match="whole of second cannot be 1x"):
        replace(chain, "2|second", "x", "node names", "attribute values", regex=True)


def test_a_value_that_is_none_of_its_kind_is_refused_whole(chain):
    give(chain, "first", text="12")
    give(chain, "second", whole=12)
    with pytest.raises(ModelError, match="whole of second cannot be a2"):
        replace(chain, "1", "a", "attribute values")
    assert values_of(chain, "first") == {"text": "12"}


def test_names_of_attributes_are_replaced_with_their_values(chain):
    give(chain, "first", axis=1, other="axis")
    first = [builders.node(chain, "first")]
    found = replace(chain, "axis", "axes", "attribute values", "attribute names", nodes=first)
    assert found == [("axis", "axes"), ("axis", "axes")]
    assert values_of(chain, "first") == {"axes": 1, "other": "axes"}
    with pytest.raises(ModelError, match="cannot be the new name"):
        replace(chain, "axes", "other", "attribute names", nodes=first)


def test_a_search_can_be_interrupted(chain):
    steps = list(find_replacements(chain.model.graphs(), "nowhere", "", ["value names", "node names"]))
    assert set(steps) == {None}
    assert len(steps) >= len(list(chain.model.graph.nodes))


@pytest.fixture
def rich():
    return Document(load(rich_bytes()))


def test_bindings_and_shardings_follow_names_that_are_replaced(rich):
    (training,) = rich.model.training_info
    replace(rich, "^(w|b|w_new|w0)$", r"\1_2", "value names", regex=True)
    assert training.update_binding == (("w_2", "w_new_2"),)
    assert training.initialization_binding == (("w_2", "w0_2"),)
    (part,) = builders.node(rich, "first").device_configurations
    assert [spec.tensor_name for spec in part.sharding] == ["w_2"]
    rich.undo()
    assert to_bytes(rich.model) == rich_bytes()


def test_bindings_and_shardings_follow_names_that_change_places(rich):
    (training,) = rich.model.training_info
    found = found_in(rich, "w", "b", "value names", whole=True) + found_in(rich, "b", "w", "value names", whole=True)
    builders.one_edit(rich, replace_all, found)
    assert training.update_binding == (("b", "w_new"),)
    assert [s.tensor_name for s in builders.node(rich, "first").device_configurations[0].sharding] == ["b"]


def test_a_name_that_training_has_is_refused(rich):
    for before, after in (("y", "rate"), ("rate", "y")):
        with pytest.raises(ModelError, match=f"Two would be named {after}"):
            replace(rich, before, after, "value names", whole=True)
    with pytest.raises(ModelError, match="Two would be named same"):
        replace(rich, "^(y|rate)$", "same", "value names", regex=True)


def test_bindings_and_shardings_follow_names_made_anew(rich):
    (training,), first = rich.model.training_info, builders.node(rich, "first")
    with rich.edit("Bind and spread") as edit:
        properties.set_bindings(edit, training, update={"b": "w_new"})
        (part,) = first.device_configurations
        part = dataclasses.replace(part, sharding=(*part.sharding, ShardingSpec("a", (0, 1))))
        nodes.set_device_configurations(edit, first, (part,))
    weight = builders.value(rich, "b")
    with rich.edit("Names") as edit:
        names.regenerate_initializer_names(edit, rich.model)
        names.regenerate_value_names(edit, rich.model)
    assert weight.name != "b"
    assert training.update_binding == ((weight.name, "w_new"),)
    assert first.outputs[0].name == "first_output_0"
    assert [s.tensor_name for s in first.device_configurations[0].sharding] == ["w", "first_output_0"]
