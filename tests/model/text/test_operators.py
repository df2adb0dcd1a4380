"""Operators by name: with `::`, with a dot, without a domain."""

import pytest

from onnx_workbench.model.analysis.signatures import operator_for
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.operators import parse_operator
from tests.model import builders


@pytest.mark.parametrize(
    ("text", "op_type", "domain"),
    [
        ("Relu", "Relu", ""),
        (" Relu ", "Relu", ""),
        ("ai.onnx::Relu", "Relu", ""),
        ("ai.onnx.Relu", "Relu", ""),
        ("ai.onnx.ml.Scaler", "Scaler", "ai.onnx.ml"),
        ("my.dom.Foo", "Foo", "my.dom"),
        ("my.dom::Foo.v2", "Foo.v2", "my.dom"),
        ("local.Foo", "Foo", "local"),
        ("local::Foo", "Foo", "local"),
        ("other.Foo", "other.Foo", ""),
    ],
)
def test_a_dot_parts_what_can_be_a_domain(text, op_type, domain):
    assert parse_operator(text, {"", "local"}) == (op_type, domain)


@pytest.mark.parametrize("text", ["", "  ", "local::", "a b", "do main::Foo", "Foo\nBar", "my.dom."])
def test_what_cannot_be_a_name_is_refused(text):
    with pytest.raises(ModelError):
        parse_operator(text, {"local"})


def test_without_a_domain_it_is_that_of_whoever_has_it():
    node = builders.node(builders.document(), "first")
    node.graph.model.opset_imports = {"": 21, "local": 1}
    assert operator_for(node, "Tanh") == ("Tanh", "")
    node.domain = "local"
    assert operator_for(node, "Nobody") == ("Nobody", "local")
    assert operator_for(node, "Tanh") == ("Tanh", "")
    assert operator_for(node, "ai.onnx::Nobody") == ("Nobody", "")
