import numpy as np
import onnx
import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader import read
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.reader.sniff import FileForm, FileFormat
from onnx_workbench.model.io.text_formats import parse, print_message
from onnx_workbench.model.io.writer.save import save

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
agraph (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }
"""


@pytest.mark.long
def test_mistakes_in_onnx_text_are_reported_with_their_place():
    with pytest.raises(ModelError, match="ONNX text is not valid") as caught:
        load(TEXT.replace("Relu (x)", "Relu ((x)").encode())
    assert caught.value.detail == "Line 3, column 55: Expected character ) not found. It found `(x) }`."


@pytest.mark.parametrize(
    ("data", "title", "detail"),
    [
        (b'ir_version: 8\ngraph { node { op_type: "Relu" ', "protobuf text is not valid", "2:"),
        (b"ir_version: eight", "protobuf text is not valid", "1:13"),
        (b"ir_version: 8 graph { no_such_field: 1 }", "protobuf text is not valid", "no_such_field"),
        (b'{"irVersion": "8", "graph": {"node": [}}', "protobuf JSON is not valid", ""),
        (b'{"irVersion": "8", "graph": {"noSuchField": 1}}', "protobuf JSON is not valid", "noSuchField"),
        (b'{"irVersion": "eight"}', "protobuf JSON is not valid", "eight"),
    ],
)
def test_mistakes_in_protobuf_text_and_json_are_reported(data, title, detail):
    with pytest.raises(ModelError, match=title) as caught:
        load(data)
    assert detail in caught.value.detail


@pytest.mark.parametrize("depth", [50, 400, 100_000])
def test_text_that_nests_deep_is_refused_or_read(depth):
    for data in (
        b"graph { node { attribute { " * 1 + b"g { node { attribute { " * depth + b"} } } " * depth + b"} } }",
        b'{"graph": {"node": [{"attribute": ['
        + b'{"g": {"node": [{"attribute": [' * depth
        + b"]}]}}" * depth
        + b"]}]}}",
    ):
        title = "not valid"
        try:
            load(b"ir_version: 8 " + data if data[:1] == b"g" else data)
        except ModelError as error:
            title = error.title
        assert "not valid" in title


def test_text_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(read, "TEXT_LIMIT", 10)
    with pytest.raises(ModelError, match="too long"):
        load(TEXT.encode())


@pytest.mark.long
@pytest.mark.parametrize("form", [FileForm.JSON, FileForm.PROTOBUF_TEXT, FileForm.ONNX_TEXT])
def test_names_that_are_no_utf8_keep_a_model_out_of_text(tmp_path, form):
    data = onnx.parser.parse_model(TEXT).SerializeToString().replace(b"agraph", b"agrap\xff")
    with pytest.raises(ModelError, match="cannot be written as"):
        save(load(data), tmp_path / "m", form=form)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", [FileForm.JSON, FileForm.PROTOBUF_TEXT])
def test_unknown_fields_are_left_out_of_text_with_a_warning(tmp_path, form):
    proto = onnx.parser.parse_model(TEXT)
    saved = save(load(proto.SerializeToString() + b"\xc0\x3e\x01"), tmp_path / "m", form=form)
    assert "unknown" in saved.left_out[0]
    assert not save(load(proto.SerializeToString()), tmp_path / "m", form=form).left_out
    assert load(tmp_path / "m").source.proto.SerializeToString() == proto.SerializeToString()


def test_what_onnx_text_leaves_out_is_reported(tmp_path):
    proto = onnx.parser.parse_model(TEXT)
    assert not save(load(proto.SerializeToString()), tmp_path / "m", form=FileForm.ONNX_TEXT).left_out
    proto.graph.input[0].doc_string = "what the syntax has no words for"
    proto.graph.node[0].doc_string = "nor for this"
    proto.graph.node[0].metadata_props.add(key="a", value="b")
    (report,) = save(load(proto.SerializeToString()), tmp_path / "m", form=FileForm.ONNX_TEXT).left_out
    assert "cannot express descriptions of nodes, values; metadata of nodes." in report


def test_onnx_text_loses_nothing_of_raw_values(tmp_path):
    proto = onnx.parser.parse_model(TEXT)
    numbers = np.array([1 / 3, 1e-30, -0.0, np.inf, 3.4e38], np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "kept"))
    assert proto.graph.initializer[-1].raw_data
    assert not save(load(proto.SerializeToString()), tmp_path / "m", form=FileForm.ONNX_TEXT).left_out
    assert load(tmp_path / "m").graph.initializers[0].initializer.numpy().tobytes() == numbers.tobytes()


def test_onnx_text_is_reported_to_lose_what_it_does_and_no_more(tmp_path):
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("extra", float("nan")))
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("more", [1.0, float("nan")]))
    assert not save(load(proto.SerializeToString()), tmp_path / "m", form=FileForm.ONNX_TEXT).left_out
    proto.graph.sparse_initializer.add().values.CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "s"))
    later = b"\xa2\x38\x03abc"  # field 900, of three bytes
    weights = onnx.numpy_helper.from_array(np.ones(1, np.float32), "kept")
    weights.doc_string = "of what use they are"
    proto.graph.initializer.append(weights)
    (report,) = save(load(proto.SerializeToString() + later), tmp_path / "m", form=FileForm.ONNX_TEXT).left_out
    lost = "descriptions of tensors; sparse initializers of graphs; unknown fields of the model."
    assert f"cannot express {lost}" in report


def test_onnx_text_is_written_without_the_files_that_hold_values(tmp_path):
    """They may be anywhere, and need not be there."""
    proto = onnx.parser.parse_model(TEXT)
    tensor = onnx.TensorProto(name="far", data_type=1, dims=[2], raw_data=b"8 bytes.", data_location=1)
    tensor.external_data.add(key="location", value="gone.bin")
    proto.graph.node.add(op_type="Constant", output=["c"]).attribute.add(name="value", type=4, t=tensor)
    (report,) = save(load(proto.SerializeToString()), tmp_path / "m", form=FileForm.ONNX_TEXT).left_out
    assert "cannot express values of tensors." in report


DEFAULTS = """
<ir_version: 10, opset_import: ["" : 18, "f" : 1]>
g (float[2] x) => (float[2] y) {
    a = f.F <beta = 2.0> (x) b = f.G (a) c = f.H <z = 1> (b) y = f.F <beta = 1.0, alpha = 3.0> (c)
}
<domain: "f", opset_import: ["" : 18]> F <beta, alpha: float = 1.5, names: strings = ["a>b (", "c"]> (x) => (y)
    { c = Constant <value_float: float = @alpha> () y = Mul (x, c) }
<domain: "f", opset_import: ["" : 18]> G (x) => (y) { y = Relu (x) }
<domain: "f", opset_import: ["" : 18]> H <z> (x) => (y) { y = Relu (x) }
"""


def test_onnx_text_keeps_the_attribute_defaults_of_functions(tmp_path):
    """onnx's printer leaves them out, so that references to them lead nowhere."""
    model = load(onnx.parser.parse_model(DEFAULTS).SerializeToString())
    assert save(model, tmp_path / "out.onnxtxt").left_out == ()
    again = load(tmp_path / "out.onnxtxt")
    for function, other in zip(model.functions, again.functions, strict=True):
        assert function.attributes == other.attributes
        report = [(a.name, a.value) for a in function.attribute_defaults]
        assert report == [(a.name, a.value) for a in other.attribute_defaults]
    assert [a.name for a in again.functions[0].attribute_defaults] == ["alpha", "names"]


FLOATS = st.one_of(
    st.sampled_from([3.4028234663852886e38, -3.4028234663852886e38, 1.401298464324817e-45, -0.0, 1.1754943508222875e-38,
                     float("inf"), float("-inf"), float("nan"), 0.1, 16777217.0]),
    st.floats(width=32),
)  # fmt: skip
NUMBERS = {
    TensorProto.FLOAT: ("float_data", FLOATS),
    TensorProto.DOUBLE: ("double_data", st.one_of(st.floats(), FLOATS, st.just(3.4028235e38), st.just(1.7e308))),
    TensorProto.INT64: ("int64_data", st.integers(-(1 << 63), (1 << 63) - 1)),
    TensorProto.UINT64: ("uint64_data", st.integers(0, (1 << 64) - 1)),
    TensorProto.INT32: ("int32_data", st.integers(-(1 << 31), (1 << 31) - 1)),
    TensorProto.FLOAT16: ("int32_data", st.integers(0, 65535)),
    TensorProto.BFLOAT16: ("int32_data", st.integers(0, 65535)),
    TensorProto.BOOL: ("int32_data", st.integers(0, 1)),
    TensorProto.UINT8: ("int32_data", st.integers(0, 255)),
    TensorProto.STRING: ("string_data", st.one_of(st.binary(max_size=6), st.text(max_size=6).map(str.encode))),
}  # fmt: skip


@pytest.mark.parametrize("form", [FileForm.JSON, FileForm.PROTOBUF_TEXT])
@given(data=st.data())
def test_a_text_form_holds_every_value_of_every_type(form, data):
    model = onnx.parser.parse_model(TEXT)
    for kind, (field, numbers) in NUMBERS.items():
        values = data.draw(st.lists(numbers, max_size=3), str(kind))
        tensor = model.graph.initializer.add(data_type=kind, dims=[len(values)], name=f"t{kind}")
        getattr(tensor, field).extend(values)
    model.graph.node[0].attribute.add(name="f", type=1, f=data.draw(FLOATS))
    model.graph.node[0].attribute.add(name="fs", type=6, floats=data.draw(st.lists(FLOATS, max_size=3)))
    printed = print_message(model, form)
    assert not printed.left_out
    again = parse(printed.data, FileFormat(form, "ModelProto"))
    assert again.SerializeToString() == model.SerializeToString() or str(again) == str(model)  # one NaN is any


def test_json_that_protobuf_writes_itself_is_read():
    """It rounds the largest float up, and then refuses it as too large."""
    model = onnx.parser.parse_model(TEXT)
    model.graph.node[0].attribute.add(name="f", type=1, f=3.4028234663852886e38)
    text = json_format.MessageToJson(model)
    assert "3.4028235e+38" in text
    assert load(text.encode()).graph.nodes.first.attributes["f"].value == 3.4028234663852886e38
    for wrong in ("3.5e+38", "1e+400"):
        with pytest.raises(ModelError, match="JSON is not valid"):
            load(text.replace("3.4028235e+38", wrong).encode())


@pytest.mark.parametrize("number", [3.4028234663852886e38, -3.4028234663852886e38, 1.401298464324817e-45, 0.1])
def test_onnx_text_holds_every_float_or_says_what_it_loses(number):
    model = onnx.parser.parse_model(TEXT)
    model.graph.node[0].attribute.add(name="f", type=1, f=number)
    model.graph.initializer.add(data_type=1, dims=[1], name="t").float_data.append(number)
    printed = print_message(model, FileForm.ONNX_TEXT)
    again = parse(printed.data, FileFormat(FileForm.ONNX_TEXT, "ModelProto"))
    numbers = again.graph.node[0].attribute[0].f, again.graph.initializer[0].float_data[0]
    assert printed.left_out or numbers == (model.graph.node[0].attribute[0].f, model.graph.initializer[0].float_data[0])
