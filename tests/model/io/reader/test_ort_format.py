"""ONNX Runtime's own format: a small file of it in this folder, real models where ONNX Runtime is installed, damage.

small.ort was written by ONNX Runtime 1.32 from this text:
    <ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "local" : 1], producer_name: "hand",
     doc_string: "a model", metadata_props: ["author": "x"]>
    g (float[N, 3] x, bool flag, string[2] words) => (float[N, 3] y, int64[2] codes, float last)
    <float[1, 3] w = {1, 2, 3}> {
      a = Mul (x, w)
      t = local.twice (a)
      y = If (flag) <then_branch = then () => (float[N, 3] p) { p = Add (t, w) },
                     else_branch = other () => (float[N, 3] q) { q = Neg (t) }>
      codes = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"], values_int64s = [7, 8], default_int64 = -1> (words)
      s = SequenceConstruct (a, t)
      i = Constant <value_int = 1> ()
      e = SequenceAt (s, i)
      last = ReduceMax <keepdims = 0> (e)
    }
    <domain: "local", opset_import: ["" : 17]> twice (v) => (o) { o = Elu <alpha = 0.5> (v) }
"""

import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.reader.sniff import FileForm
from onnx_workbench.model.io.writer.save import save
from tests.real_models import RealModels

SMALL = Path(__file__).with_name("small.ort")


def test_everything_of_a_model_is_read():
    model = load(SMALL)
    assert model.source.format.form is FileForm.ORT
    assert model.source.problems == ()
    assert (model.producer_name, model.doc_string, model.metadata) == ("hand", "a model", {"author": "x"})
    assert model.model_version == 0
    graph = model.graph
    assert [node.op_type for node in graph.nodes] == [
        "Mul", "LabelEncoder", "Elu", "If", "SequenceConstruct", "SequenceAt", "ReduceMax"
    ]  # fmt: skip
    assert {value.name: str(value.type) for value in graph.inputs} == {
        "x": "float[N,3]", "flag": "bool[]", "words": "string[2]"
    }  # fmt: skip
    (branch,) = (node for node in graph.nodes if node.op_type == "If")
    assert [[node.op_type for node in body.nodes] for body in branch.bodies] == [["Neg"], ["Add"]]


def test_the_model_runs():
    x = np.array([[-1, 2, 3]], np.float32)
    result = Session(load(SMALL)).run({"x": x, "flag": np.array(True), "words": np.array(["b", "?"], object)})
    scaled = x * np.array([1, 2, 3], np.float32)
    elu = np.where(scaled > 0, scaled, 0.5 * np.expm1(scaled))
    assert np.allclose(result.values["y"], elu + np.float32([1, 2, 3]))
    assert result.values["codes"].tolist() == [8, -1]
    assert result.values["last"] == 9


def test_it_is_saved_as_onnx_and_never_as_ort(tmp_path):
    model = load(SMALL)
    save(model, tmp_path / "model.onnx")
    again = load(tmp_path / "model.onnx")
    assert [node.op_type for node in again.graph.nodes] == [node.op_type for node in model.graph.nodes]
    for name in ("model.ort", "copy.ORT"):
        with pytest.raises(ModelError, match="ORT format is not written"):
            save(model, tmp_path / name)
    assert not (tmp_path / "model.ort").exists()


@given(st.data())
def test_changed_bytes_give_a_model_or_a_message(data):
    changed = bytearray(SMALL.read_bytes())
    for at in data.draw(st.lists(st.integers(8, len(changed) - 1), max_size=6)):
        changed[at] = data.draw(st.sampled_from([0, 1, 2, 4, 8, 0x7F, 0x80, 0xFF, data.draw(st.integers(0, 255))]))
    part = bytes(changed[: data.draw(st.integers(8, len(changed)))])
    with suppress(ModelError):
        load(part)


@pytest.mark.long
@pytest.mark.parametrize("offset", [0x7FFF_FFFF, 0xFFFF_FFFF, 0])
def test_any_offset_that_leads_elsewhere_gives_a_model_or_a_message(offset):
    data = SMALL.read_bytes()
    for at in range(8, len(data) - 4, 4):
        with suppress(ModelError):
            load(data[:at] + offset.to_bytes(4, "little") + data[at + 4 :])


def test_texts_that_are_repeated_without_end_are_refused():
    """Outputs of the graph: a vector of a million entries that lead to one text of a megabyte."""
    text, count = b"x" * (1 << 20), 1 << 20

    def table(fields, body):  # fields: place → offset in the table, behind 4 bytes to the vtable, which lies before it
        places = [fields.get(place, 0) for place in range(max(fields) + 1)]
        vtable = struct.pack(f"<HH{len(places)}H", 4 + 2 * len(places), 4 + len(body), *places)
        vtable += b"\0" * (-len(vtable) % 4)
        return vtable, struct.pack("<i", len(vtable)) + body

    model_v, model = table({7: 4}, struct.pack("<I", 0))
    graph_v, graph = table({6: 4}, struct.pack("<I", 4))  # the vector follows at once
    session_v, session = table({1: 4}, struct.pack("<I", 4 + len(model_v)))
    model = model[:4] + struct.pack("<I", 4 + len(graph_v))
    vector = struct.pack("<I", count) + b"".join(struct.pack("<I", 4 * (count - i)) for i in range(count))
    head = struct.pack("<I", 8 + len(session_v)) + b"ORTM"
    data = head + session_v + session + model_v + model + graph_v + graph + vector
    data += struct.pack("<I", len(text)) + text
    with pytest.raises(ModelError, match="repeated too often"):
        load(data)


@pytest.mark.long
@pytest.mark.parametrize("file", RealModels().files(), ids=lambda file: file.parent.name)
def test_real_models_open_in_ort_format(file, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.log_severity_level = 4
    with errors_to(lambda error: pytest.skip(f"ONNX Runtime does not load it: {error}")):
        session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    model = load(tmp_path / "model.ort")
    assert [value.name for value in model.graph.outputs] == [value.name for value in session.get_outputs()]
    assert not model.source.problems
