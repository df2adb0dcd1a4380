"""A conversion that cannot be done names the node and the reason, and changes nothing."""

from __future__ import annotations

import pytest

from onnx_workbench.model.convert import opset, upgrade
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from tests.model.convert.conversions import made, to_opset
from tests.model.snapshots import snapshot


def refused(document: Document, version: int) -> str:
    """What is said of a conversion that is refused; nothing is changed."""
    state = snapshot(document.model)
    with pytest.raises(ModelError) as error:
        to_opset(document, version)
    assert snapshot(document.model) == state
    assert error.value.place in list(document.model.graph.nodes)
    return f"{error.value.title}: {error.value.detail}"


def test_an_input_that_has_to_be_an_attribute_but_is_computed():
    said = refused(made(1, "g (float[2,6] x, float[2] s) => (y, z) { y, z = Split<axis=1>(x, s) }"), 13)
    assert "its input 1 is computed while the model runs" in said


def test_an_adapter_that_fails_after_it_has_begun(monkeypatch):
    def fail(editor):
        editor.set("axis", 0)
        raise LookupError("nothing here")

    monkeypatch.setattr(opset, "UPWARD", {**upgrade.UPWARD, ("Softmax", 13): fail})
    said = refused(made(12, "g (float[2,3,4] x) => (float[2,3,4] y) { a = Neg(x) y = Softmax<axis=1>(a) }"), 13)
    assert "its adapter failed (LookupError: nothing here)" in said
