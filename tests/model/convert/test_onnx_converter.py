"""onnx's converter takes the nodes that no adapter here can convert, one by one; what it cannot do is told."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_workbench.model.convert import convert_opset, onnx_converter, opset, upgrade
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.writer.save import to_bytes
from tests.model.convert.conversions import fed, made, outputs, to_opset
from tests.model.snapshots import assert_linked, snapshot

#: Between nodes that are converted here, and with a constant that both take.
TEXT = """g (float[2,3,4] x) => (float[2,3,4] y) <float[4] w = {1.0,2.0,3.0,4.0}>
 { a = Mul(x, w) b = Softmax<axis=1>(a) c = Add(b, w) y = ReduceSum<axes=[1],keepdims=1>(c) z = Neg(b) }"""
SPLIT = "g (float[2,6] x, float[2] s) => (y, z) { y, z = Split<axis=1>(x, s) }"


@pytest.fixture
def without_softmax(monkeypatch):
    """As if the adapter for Softmax did not know what to do, after it had begun."""

    def refuse(rewriter):
        rewriter.set("axis", 0)
        rewriter.report.warn("begun", rewriter.node)
        raise rewriter.unable("it is not known")

    monkeypatch.setattr(opset, "UPWARD", {**upgrade.UPWARD, ("Softmax", 13): refuse})


def test_a_node_that_is_refused_here_is_converted_by_onnx(without_softmax):
    document = made(12, TEXT.replace("y = ReduceSum<axes=[1],keepdims=1>(c) z = Neg(b)", "y = Neg(c)"))
    feeds = fed(document.model)
    softmax = next(node for node in document.model.graph.nodes if node.op_type == "Softmax")
    with document.edit("Describe") as edit:
        edit.do(SetField(softmax, "name", "soft"))
        edit.do(SetField(softmax, "metadata", {"key": "value"}))
    before, state = outputs(document.model, feeds), snapshot(document.model)
    weights = document.model.graph.initializers[0].initializer
    report = to_opset(document, 13)
    said = dict(report.summary())
    assert said["Softmax was converted by onnx's version converter"] == 1
    assert "begun" not in [remark.text for remark in report.warnings]
    assert_linked(document.model)
    onnx.checker.check_model(to_bytes(document.model))
    assert [v.name for v in document.model.graph.outputs] == ["y"]
    assert document.model.graph.initializers[0].initializer is weights
    heir = next(node for node in document.model.graph.nodes if node.op_type == "Softmax")
    assert (heir.name, dict(heir.metadata)) == ("soft", {"key": "value"})
    for name, array in outputs(document.model, feeds).items():
        np.testing.assert_allclose(array, before[name], rtol=1e-6)
    document.undo()
    assert snapshot(document.model) == state


def test_what_the_version_cannot_say_is_not_left_to_onnx():
    """Its converter adds tensors of [2, 3] and [2, 1] in version 6, which has no such addition."""
    said = refused(made(7, "g (float[2,3] x, float[2,1] z) => (y) { y = Add(x, z) }"), 6)
    assert "did not broadcast before version 7" in said
    assert "Nor by" not in said


def test_a_node_in_a_body_is_too(without_softmax):
    text = """g (bool c, float[2,3,4] x) => (float[2,3,4] y) { y = If (c)
     <then_branch = t () => (float[2,3,4] u) { u = Softmax<axis=1>(x) },
      else_branch = e () => (float[2,3,4] v) { v = Neg(x) }> }"""
    document = made(12, text)
    feeds = {"c": np.array(True), "x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    before = outputs(document.model, feeds)
    to_opset(document, 13)
    onnx.checker.check_model(to_bytes(document.model))
    np.testing.assert_allclose(outputs(document.model, feeds)["y"], before["y"], rtol=1e-6)


def refused(document: Document, version: int) -> str:
    """What is said of a conversion that is refused; nothing is changed."""
    state = snapshot(document.model)
    with pytest.raises(ModelError) as error:
        to_opset(document, version)
    assert snapshot(document.model) == state
    assert error.value.place in list(document.model.graph.nodes)
    return f"{error.value.title}: {error.value.detail}"


def test_what_neither_can_do_is_told_with_both_reasons():
    said = refused(made(1, SPLIT), 13)
    assert "its input 1 is computed while the model runs" in said
    assert "Nor by onnx's version converter: it rejects the node: No Adapter" in said


def test_a_converter_that_hangs_is_ended_and_told(monkeypatch):
    monkeypatch.setattr(onnx_converter, "_SECONDS", 0)
    assert "Nor by onnx's version converter: it took longer than 0 s" in refused(made(1, SPLIT), 13)


def test_a_converter_that_needs_too_much_is_ended_and_told(monkeypatch):
    monkeypatch.setattr(onnx_converter, "GIB", 1 << 20)
    assert "Nor by onnx's version converter: " in refused(made(1, SPLIT), 13)


@pytest.mark.parametrize("spoil", ["same", "other version", "no output", "unknown", "nonsense"])
def test_what_does_not_pass_is_not_taken(without_softmax, monkeypatch, spoil):
    def converted(given, _version, _progress):
        return [spoiled(message) for message in given]

    def spoiled(message):
        model = onnx.ModelProto.FromString(message)
        (node,) = model.graph.node
        if spoil == "other version":
            node.op_type = "ReduceSum"
            node.attribute[0].CopyFrom(onnx.helper.make_attribute("axes", [1]))
        elif spoil == "no output":
            node.output[0] = "elsewhere"
        elif spoil == "unknown":
            node.op_type = "Softmux"
        return b"\xff\xff" if spoil == "nonsense" else model.SerializeToString()

    monkeypatch.setattr(onnx_converter, "_converted", converted)
    assert "it is not known" in refused(made(12, TEXT), 13)


# -- the way a person chose ------------------------------------------------------------------------------------------


def said_by(document: Document, version: int, converter: opset.Converter, differ=None) -> list[str]:
    """The lines of the report of a conversion, after which the model is valid and computes the same."""
    feeds = fed(document.model)
    before = outputs(document.model, feeds)
    with document.edit("Convert") as edit:
        report = convert_opset(edit, version, lambda value: value.type, converter=converter, differ=differ)
    onnx.checker.check_model(to_bytes(document.model))
    for name, array in outputs(document.model, feeds).items():
        np.testing.assert_allclose(array, before[name], rtol=1e-6)
    return [text for text, _ in report.summary()]


TWO = "g (float[2,3,4] x) => (float[2,3,4] y) { a = Softmax<axis=1>(x) b = Softmax<axis=1>(a) y = Neg(b) }"
BY_ONNX = "Softmax was converted by onnx's version converter"
NOT_BY_ONNX = "Softmax was converted by own adapters, not onnx's version converter: "


@pytest.fixture
def asked(monkeypatch):
    """How many nodes each process was given."""
    counts, convert = [], onnx_converter._converted

    def counted(given, version, progress):
        counts.append(len(given))
        return convert(given, version, progress)

    monkeypatch.setattr(onnx_converter, "_converted", counted)
    return counts


def test_adapters_come_first_unless_told_otherwise(asked):
    assert BY_ONNX not in said_by(made(12, TWO), 13, "auto")
    assert asked == []


def test_onnx_comes_first_where_it_was_chosen_and_is_asked_once(asked):
    document = made(12, TWO.replace("Neg(b)", "ReduceSum<axes=[1]>(b)").replace("float[2,3,4] y", "float[2,1,4] y"))
    said = said_by(document, 13, "onnx")
    assert BY_ONNX in said
    assert asked == [2]  # two kinds of nodes that are other since version 13, of three nodes


def test_onnx_is_not_asked_where_own_adapters_were_chosen(without_softmax, asked):
    document = made(12, TWO)
    with pytest.raises(ModelError, match="Softmax cannot be converted") as error, document.edit("Convert") as edit:
        convert_opset(edit, 13, lambda value: value.type, converter="own")
    assert "onnx" not in error.value.detail
    assert asked == []


def test_where_onnx_gives_other_outputs_adapters_step_in():
    said = said_by(made(12, TWO), 13, "onnx", lambda _before, _after: "output o0 (by up to 3)")
    assert NOT_BY_ONNX + "its outputs differ: output o0 (by up to 3)" in said
    assert BY_ONNX not in said


def test_where_onnx_crashes_adapters_step_in_for_that_node_alone(monkeypatch):
    convert = onnx_converter._converted

    def crashing(given, version, progress):
        if any(b"Softmax" in message for message in given):
            raise ModelError("it crashed on this model", "Its process ended with SIGSEGV")
        return convert(given, version, progress)

    monkeypatch.setattr(onnx_converter, "_converted", crashing)
    document = made(12, TWO.replace("Neg(b)", "ReduceSum<axes=[1]>(b)").replace("float[2,3,4] y", "float[2,1,4] y"))
    said = said_by(document, 13, "onnx")
    assert NOT_BY_ONNX + "it crashed on this model: Its process ended with SIGSEGV" in said
    assert "ReduceSum was converted by onnx's version converter" in said


@pytest.mark.parametrize("chosen", ["auto", "own", "onnx"])
def test_what_the_version_cannot_say_is_refused_in_every_way(chosen):
    document = made(7, "g (float[2,3] x, float[2,1] z) => (y) { y = Add(x, z) }")
    with pytest.raises(ModelError, match="Add cannot be converted"), document.edit("Convert") as edit:
        convert_opset(edit, 6, lambda value: value.type, converter=chosen)
