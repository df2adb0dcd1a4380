"""What only a file can hold: two of what there may be one of."""

from __future__ import annotations

import onnx.parser
import pytest

from model.checks import check_model
from model.document import Document
from model.edits import attributes, properties
from model.io.read import load
from tests.model import builders


def errors(model):
    return [problem for problem in check_model(model) if problem.severity == "error"]


def test_an_attribute_is_found_twice_until_the_node_is_edited():
    proto = onnx.parser.parse_model(builders.CHAIN)
    node = next(n for n in proto.graph.node if n.name == "fourth")
    node.attribute.add().CopyFrom(node.attribute[0])
    document = Document(load(proto.SerializeToString()))
    fourth = builders.node(document, "fourth")
    assert [(p.rule, p.place) for p in errors(document.model)] == [("duplicate-attribute", fourth)]
    with document.edit("Mend") as edit:
        attributes.set_attribute(edit, fourth, "more", 1)
    assert [p.rule for p in errors(document.model)] == ["attribute-unknown"]


PLACES = {
    "model": (lambda p: p, lambda m: m),
    "graph": (lambda p: p.graph, lambda m: m.graph),
    "node": (lambda p: p.graph.node[0], lambda m: m.graph.nodes[0]),
    "input": (lambda p: p.graph.input[0], lambda m: m.graph.inputs[0]),
    "output": (lambda p: p.graph.output[0], lambda m: m.graph.outputs[0]),
    "function": (lambda p: p.functions[0], lambda m: m.functions[0]),
    "body": (lambda p: p.graph.node[1].attribute[0].g, lambda m: m.graph.nodes[1].bodies[0]),
    "inner node": (
        lambda p: p.graph.node[1].attribute[0].g.node[0], lambda m: m.graph.nodes[1].bodies[0].nodes[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_a_key_of_metadata_is_found_twice_until_it_is_edited(name):
    holder, place = PLACES[name]
    proto = onnx.parser.parse_model(builders.BRANCHES)
    for text in ("first", "second"):
        holder(proto).metadata_props.add(key="note", value=text)
    document = Document(load(proto.SerializeToString()))
    where = place(document.model)
    assert [(p.rule, p.place) for p in errors(document.model)] == [("duplicate-metadata", where)]
    with document.edit("Mend") as edit:
        properties.set_metadata(edit, where, "note", "one")
    assert errors(document.model) == []


def test_a_key_of_a_tensors_metadata_is_found_twice():
    proto = onnx.parser.parse_model(builders.BRANCHES)
    for text in ("first", "second"):
        proto.graph.initializer[0].metadata_props.add(key="note", value=text)
    model = load(proto.SerializeToString())
    assert [(p.rule, p.place) for p in errors(model)] == [("duplicate-metadata", builders.value(model, "w"))]
