"""An older IR version is a claim: what in the model is newer is reported."""

from __future__ import annotations

import onnx
import pytest

from onnx_workbench.model.convert import claim_ir_version
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from tests.model import builders


def warnings(model, version):
    document = Document(model)
    report = builders.one_edit(document, claim_ir_version, version)
    assert model.ir_version == version
    return [remark.text for remark in report.warnings]


PLAIN = """
    <ir_version: 10, opset_import: ["" : 13]>
    g (float[2] x) => (float[2] y) { y = Relu (x) }
"""
FUNCTIONS = """
    <ir_version: 10, opset_import: ["" : 13, "far" : 1]>
    g (float[2] x) => (float[2] y) { y = far.f (x) }
    <domain: "far", opset_import: ["" : 13], overload: "other"> f <a: float = 1.0> (v) => (o)
    { o = Elu <alpha: float = @a> (v) }
"""


def test_a_model_without_newer_things_may_claim_any_version():
    for version in (3, 8, 10, 12):
        assert warnings(builders.model(PLAIN), version) == []


@pytest.mark.parametrize(("version", "expected"), [(7, (8, 9, 10)), (8, (9, 10)), (9, (10,)), (10, ())])
def test_functions_and_what_came_to_them_later(version, expected):
    reported = warnings(builders.model(FUNCTIONS), version)
    assert [int(text.rpartition(" ")[2]) for text in reported] == list(expected)


def test_each_kind_of_thing_is_reported_once_with_a_place():
    proto = builders.proto(PLAIN)
    for name in "ab":
        proto.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT4, [2], [1, 2]))
    proto.graph.node[0].metadata_props.add(key="scope", value="layer")
    proto.graph.quantization_annotation.add(tensor_name="x")
    document = Document(load(proto.SerializeToString()))
    report = builders.one_edit(document, claim_ir_version, 3)
    assert [remark.text for remark in report.warnings] == [
        "The model has initializers that are not inputs, which requires IR version 4",
        "The model has quantization annotations, which requires IR version 5",
        "The model has metadata of nodes and values, which requires IR version 10",
        "The model has values of type int4, which requires IR version 10",
    ]
    assert report.warnings[0].place is document.model.graph.initializers[0]
    document.undo()
    assert document.model.ir_version == 10
