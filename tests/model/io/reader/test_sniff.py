import gzip
import io
import pickle
import zipfile

import onnx
import pytest
from google.protobuf import json_format, text_format
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import identify, load, load_operator_set
from onnx_workbench.model.io.reader.sniff import FileForm, FileFormat, sniff

TEXT = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
agraph (float[N, 4] x) => (float[N, 4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}>
{
    a = Mul (x, w)
    y = local.twice <axis: int = 1> (a)
}
<domain: "local", opset_import: ["" : 21]>
twice <axis> (p) => (q) { q = Add (p, p) }
"""


@pytest.fixture(scope="module")
def model():
    return onnx.parser.parse_model(TEXT)


def parts(model):
    """Every message that may stand alone."""
    return {
        "ModelProto": model,
        "GraphProto": model.graph,
        "FunctionProto": model.functions[0],
        "NodeProto": model.graph.node[1],
        "TensorProto": model.graph.initializer[0],
    }


def operator_set():
    return onnx.OperatorSetProto(
        magic="ONNXOPSET",
        ir_version=10,
        domain="com.example",
        opset_version=3,
        operator=[onnx.OperatorProto(op_type="Twist", since_version=2, doc_string="Twists.", status=onnx.EXPERIMENTAL)],
        functions=[
            onnx.parser.parse_function('<domain: "com.example", opset_import: ["" : 21]> f (a) => (b) { b = Neg(a) }')
        ],
    )


MESSAGES = ["ModelProto", "GraphProto", "FunctionProto", "NodeProto", "TensorProto"]


@pytest.mark.parametrize("name", MESSAGES)
def test_each_message_in_each_form_is_reported_and_opens(model, name):
    message = parts(model)[name]
    written = {
        FileForm.BINARY: message.SerializeToString(),
        FileForm.PROTOBUF_TEXT: text_format.MessageToString(message).encode(),
        FileForm.JSON: json_format.MessageToJson(message).encode(),
    }
    for form, data in written.items():
        assert identify(data) == FileFormat(form, name)
        opened = load(data)
        assert opened.source.format == FileFormat(form, name)
        assert opened.source.proto.SerializeToString() == message.SerializeToString()


@pytest.mark.long
def test_onnx_text_of_each_message_is_reported_and_opens(model):
    for name in ("ModelProto", "GraphProto", "FunctionProto", "NodeProto"):
        text = onnx.printer.to_text(parts(model)[name])
        assert identify(text.encode()) == FileFormat(FileForm.ONNX_TEXT, name), text
    assert load(TEXT.encode()).graph.name == "agraph"


@pytest.mark.parametrize("start", ["// a comment\n", "\n\n  ", "\ufeff"])
def test_text_may_begin_with_comments_or_a_mark(start):
    assert identify((start + TEXT.strip()).encode()).form is FileForm.ONNX_TEXT


def test_protobuf_text_may_begin_with_a_comment(model):
    data = b"# made by hand\n" + text_format.MessageToString(model).encode()
    assert identify(data) == FileFormat(FileForm.PROTOBUF_TEXT)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "text",
    ["a1," * 20_000, "a" * 60_000, 'k"' + "k" * 60_000, "{" + '\\"' * 30_000, "[" * 60_000, "a" + " " * 60_000 + "b"],
    ids=["commas", "one word", "a quote", "escapes", "brackets", "spaces"],
)
def test_long_text_of_another_kind_is_reported_at_once(text):
    with pytest.raises(ModelError, match="plain text"):
        identify(text.encode())


def test_control_characters_in_all_texts_do_not_hide_what_a_file_is():
    text = "\x1b[31mred\x07"
    node = onnx.helper.make_node("Neg", [text], [f"{text}y"], name=text, doc_string=text)
    graph = onnx.helper.make_graph([node], text, [], [], doc_string=text)
    model = onnx.ModelProto(producer_name=text, producer_version=text, domain=text, doc_string=text, graph=graph)
    model.metadata_props.add(key=text, value=text)
    for message in (model, graph):
        data = message.SerializeToString()
        assert sniff(data, len(data)) == FileFormat(FileForm.BINARY, type(message).__name__)


def test_an_operator_set_document_lists_operators_and_functions():
    for data in (operator_set().SerializeToString(), text_format.MessageToString(operator_set()).encode()):
        found = load_operator_set(data)
        assert (found.domain, found.version) == ("com.example", 3)
        assert [(o.name, o.since_version, o.is_experimental) for o in found.operators] == [("Twist", 2, True)]
        assert [v.name for v in found.functions[0].body.outputs] == ["b"]
        with pytest.raises(ModelError, match="operator-set document, not a model"):
            load(data)


def test_a_model_is_no_operator_set_document(model):
    with pytest.raises(ModelError, match="not an operator-set document"):
        load_operator_set(model.SerializeToString())


def test_every_model_of_the_onnx_package_is_reported(onnx_models):
    for path in onnx_models:
        assert identify(path) == FileFormat(FileForm.BINARY), path


def zipped(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x" * 20)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty file"),
        (bytes(1000), "zero bytes only"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer"),
        (b"\n <!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b"<html lang=en>", "web page"),
        (b'<?xml version="1.0"?><net name="m"/>', "XML"),
        (zipped("archive/data.pkl"), "PyTorch"),
        (zipped("a.npy"), "NumPy archive"),
        (zipped("model.onnx"), "zip archive"),
        (pickle.dumps([1.0, 2.0]), "pickle"),
        (b"\x1c\0\0\0TFL3\x14\0\0\0", "TensorFlow Lite"),
        (
            b"\x0a\x2b\x0a\x05input\x12\x0bPlaceholder*\x0b\x0a\x05dtype\x12\x020\x01*\x08\x0a\x05shape\x12",
            "a TensorFlow graph",
        ),
        (
            b"\x0a\x28\x0a\x01y\x12\x06MatMul\x1a\x01x\x1a\x01w\x22\x04/cpu*\x07\x0a\x01T\x12\x020\x01",
            "a TensorFlow graph",
        ),
        (b"\x08\x01\x12\xb0\x10\x0a\x90\x08\x12\x80\x08\x0a\x30\x0a\x03Add\x12", "SavedModel"),
        (b"\x08\x04\x12\x14\x0a\x0e\x0a\x05image\x1a\x05\x22\x03\x08\x01\x10\x02", "Core ML"),
        (b"PK\x03\x04" + bytes(26) + b"metadata.json{}", "Keras"),
        (b"ftrt\x61\0\0\0" + bytes(20), "TensorRT engine"),
        (b"ptrt\0\0\0\0" + bytes(20), "TensorRT engine"),
        (b'\x0c\0\0\0{"stride":8}ftrt' + bytes(20), "TensorRT engine"),
        (b"7767517\n3 3\nInput data 0 1 data\n", "ncnn"),
        (b"7767517\r\n3 3\r\nInput data 0 1 data\r\n", "ncnn"),
        (b"\xdd\x85\x76\0\x03\0\0\0\x03\0\0\0", "ncnn"),
        (b"\x47\x6b\x30\x01" + bytes(range(64)), "ncnn"),
        ((50).to_bytes(8, "little") + b'{"w":{"dtype":"F32"}}' + bytes(40), "safetensors"),
        (b"GGUF\x03\0\0\0", "GGUF"),
        (b"\x89HDF\r\n\x1a\n\0\0", "HDF5"),
        (gzip.compress(b"x"), "gzip"),
        (b"\x93NUMPY\x01\0", "NumPy array"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\x7fELF\x02\x01", "ELF"),
        (bytes(257) + b"ustar" + bytes(100), "tar archive"),
        ("Grüße".encode("utf-16"), "UTF-16"),
        (b"import torch\ntorch.save(1)", "program text"),
        (b"just some words", "plain text"),
        (b"{}", "plain text"),
        (b'{"weights": [1, 2]}', "plain text"),
        (b"\xde\xad\xbe\xef" * 10, "unknown kind"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",  # bytes may hold the time of day
)
def test_other_files_are_named_with_what_to_do(data, words):
    with pytest.raises(ModelError, match="not an ONNX model") as caught:
        load(data)
    assert words in caught.value.title
    if "image" not in words and words not in ("PNG", "ELF"):
        assert caught.value.detail


def sniffed(data):
    try:
        return sniff(data, len(data))
    except ModelError as error:
        return error


def is_recognized(found):
    return isinstance(found, FileFormat) or "not an ONNX model" in found.title


@given(st.binary(max_size=300))
def test_sniffing_never_fails_otherwise(data):
    assert is_recognized(sniffed(data))


@given(st.text(max_size=200))
def test_sniffing_text_never_fails_otherwise(text):
    assert is_recognized(sniffed(text.encode("utf-8", "surrogatepass")))
