"""The formal attributes of a function: required, with a default, renamed, removed; the body and calls follow."""

from __future__ import annotations

import pytest

from onnx_workbench.model.edits import function_attributes as formals
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.attributes import make_attribute
from tests.model import builders


@pytest.fixture
def document():
    return builders.document(builders.BRANCHES)


def test_between_required_and_a_default(document):
    function = document.model.functions[0]
    before = to_bytes(document.model)
    builders.one_edit(document, formals.set_default, function, make_attribute("factor", 3.0))
    assert (function.attributes, function.attribute_defaults) == ((), (make_attribute("factor", 3.0),))
    builders.one_edit(document, formals.set_default, function, make_attribute("factor", 4.0))
    assert [d.value for d in function.attribute_defaults] == [4.0]
    builders.one_edit(document, formals.require, function, "factor")
    assert (function.attributes, function.attribute_defaults) == (("factor",), ())
    for _ in range(3):
        document.undo()
    assert to_bytes(document.model) == before


def test_a_new_name_is_followed_by_the_body_and_the_calls(document):
    function = document.model.functions[0]
    call = builders.node(document, "call")
    builders.one_edit(document, formals.rename, function, "factor", "gain")
    assert function.attributes == ("gain",)
    assert function.body.nodes.first.attributes["value_float"].reference == "gain"
    assert call.attributes["gain"].value == 2.0
    assert "factor" not in call.attributes
    document.undo()
    assert call.attributes["factor"].value == 2.0


def test_what_the_body_uses_stays(document):
    function = document.model.functions[0]
    with pytest.raises(ModelError, match="factor is used"), document.edit("Remove") as edit:
        formals.remove(edit, function, "factor")
    builders.one_edit(document, formals.require, function, "spare", 0)
    assert formals.formal_names(function) == ("spare", "factor")
    builders.one_edit(document, formals.remove, function, "spare")
    assert formals.formal_names(function) == ("factor",)


@pytest.mark.parametrize("name", ["", "factor"])
def test_taken_and_empty_names_are_refused(document, name):
    function = document.model.functions[0]
    builders.one_edit(document, formals.require, function, "other")
    with pytest.raises(ModelError), document.edit("Add") as edit:
        formals.require(edit, function, name)
    with pytest.raises(ModelError), document.edit("Rename") as edit:
        formals.rename(edit, function, "other", name)
