"""Values for inputs: from declared shapes, files, pictures and test data folders; and values into files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PIL import Image

from onnx_workbench.exec.inputs import sources
from onnx_workbench.exec.inputs.images import ImageOptions, declared_size
from onnx_workbench.exec.inputs.sources import (
    Constant,
    File,
    Random,
    Range,
    contradictions,
    data_sets,
    make_feeds,
    read_npz,
    read_value,
    symbols,
)
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.values.npz_files import write_npz
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.types import ElementType, SequenceType, Shape, SparseTensorType, TensorType
from onnx_workbench.model.progress import Cancelled, Progress
from tests.exec.texts import parse

MODEL = """g (float[batch,3,H,W] image, int64[batch,seq] ids, float[N] scale, bool[2] b, string[2] s, seq(float[2]) q)
  => (float[batch,3,H,W] y) { y = Identity(image) }"""


def test_symbols_get_sensible_sizes_once() -> None:
    assert symbols(parse(MODEL).graph) == {"batch": 1, "H": 224, "W": 224, "seq": 8, "N": 1}


@pytest.mark.parametrize("how", ["given", "file", "constant"])
def test_sizes_are_those_of_the_values_that_are_there(how: str, tmp_path: Path) -> None:
    model = parse("g (float[N, M] a, float[N, 3] x, float[M] b) => (float[N, 3] y) { y = Neg(x) }")
    x = np.ones((5, 3), np.float32)
    np.save(tmp_path / "x.npy", x)
    source = Constant(x.tolist()) if how == "constant" else File(tmp_path / "x.npy")
    known: dict[str, Any] = {"given": {"x": x}} if how == "given" else {"sources": {"x": source}}
    feeds = make_feeds(model.graph, sizes={"M": 7}, **known)
    assert {name: np.shape(value) for name, value in feeds.items()} == {"a": (5, 7), "x": (5, 3), "b": (7,)}
    assert np.shape(make_feeds(model.graph, sources={"x": Constant([[1.0]])}, sizes={"N": 2})["x"]) == (2, 3)


def test_sizes_without_a_name_need_not_be_equal() -> None:
    document = Document(parse("g (float[N, N] x) => (float[N, N] y) { y = Neg(x) }"))
    graph = document.model.graph
    for unknown in (None, "", "?", -1):
        with document.edit("Declare") as edit:
            edit.do(SetField(graph.inputs[0], "type", TensorType(ElementType.FLOAT, Shape((unknown, unknown)))))
        assert contradictions(graph, {"x": np.ones((2, 3), np.float32)}) == []
        assert list(symbols(graph)) == ["x[0]", "x[1]"]
        assert np.shape(make_feeds(graph, sizes={"x[0]": 2, "x[1]": 3})["x"]) == (2, 3)


def test_contradicting_sizes_are_reported_by_name_and_number() -> None:
    graph = parse("g (float[N, 3] x, float[N] b, float[M] m) => (float[N, 3] y) { y = Neg(x) }").graph
    given = {"x": np.ones((2, 3), np.float32), "b": np.ones(5, np.float32)}
    assert contradictions(graph, make_feeds(graph, given=given)) == ["N is 2 in 'x' and 5 in 'b'"]
    assert contradictions(graph, make_feeds(graph, given={"x": given["x"]})) == []
    sizes = {"N": 4, "M": 3}
    alone = {name: value for name, value in given.items() if name == "x"}
    assert contradictions(graph, make_feeds(graph, given=alone, sizes=sizes), sizes) == ["N is 2 in 'x' and 4 in 'b'"]
    assert contradictions(graph, alone, sizes) == ["N is 2 in 'x', but 4 was chosen"]


def test_feeds_have_the_declared_types_and_consistent_sizes() -> None:
    model = parse(MODEL)
    feeds = make_feeds(model.graph, sizes={"batch": 2, "H": 5, "W": 6, "seq": 4}, seed=1)
    assert feeds["image"].shape == (2, 3, 5, 6)
    assert feeds["ids"].shape == (2, 4)
    assert feeds["ids"].dtype == np.int64
    assert feeds["b"].dtype == np.bool_
    assert all(isinstance(t, str) for t in feeds["s"])
    assert [q.shape for q in feeds["q"]] == [(2,)]
    again = make_feeds(model.graph, sizes={"batch": 2, "H": 5, "W": 6, "seq": 4}, seed=1)
    np.testing.assert_array_equal(feeds["image"], again["image"])
    assert Session(model).run(feeds).ok


def test_numbers_stay_inside_the_table_they_index() -> None:
    model = parse("g (int64[100] i) => (float[100,1] y) <float[3,1] t = {1, 2, 3}> { y = Gather(t, i) }")
    ids = make_feeds(model.graph)["i"]
    assert set(ids.tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Constant(2), [2, 2, 2]),
        (Constant([1, 2, 3]), [1, 2, 3]),
        (Range(1, 0.5), [1, 1.5, 2]),
        (Random("normal", 5, 0), [5, 5, 5]),
    ],
)
def test_sources(source: Any, expected: list[float]) -> None:
    model = parse("g (float[3] x) => (float[3] y) { y = Neg(x) }")
    np.testing.assert_allclose(make_feeds(model.graph, sources={"x": source})["x"], expected)


def test_scalars_of_every_element_type() -> None:
    numeric = [kind.text for kind in ElementType if kind not in (ElementType.UNDEFINED, ElementType.STRING)]
    for kind in (*numeric, "string"):
        model = parse(f"g ({kind} x) => ({kind} y) {{ y = Identity(x) }}")
        made = make_feeds(model.graph)["x"]
        assert isinstance(made, np.ndarray), kind
        assert made.shape == (), kind


@pytest.mark.parametrize("source", [Constant(3), Range(3.0, 1.0), Random("normal", 3, 0)])
def test_a_source_for_a_scalar_gives_a_scalar(source: Any) -> None:
    model = parse("g (float x) => (float y) { y = Neg(x) }")
    made = make_feeds(model.graph, sources={"x": source})["x"]
    assert np.shape(made) == ()
    assert made == 3


def test_a_constant_that_does_not_fit_is_refused() -> None:
    model = parse("g (float[3] x) => (float[3] y) { y = Neg(x) }")
    with pytest.raises(ModelError, match="'x'") as raised:
        make_feeds(model.graph, sources={"x": Constant([1, 2])})
    assert raised.value.detail == "its shape is [2]; declared float[3]"


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(["a", "ä"]), np.arange(3, dtype=">i4")])
def test_numpy_files(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "b.npz", only=array)
    for found in (read_value(tmp_path / "a.npy"), read_value(tmp_path / "b.npz")):
        assert found.tolist() == array.tolist()
        assert found.dtype.isnative


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ModelError, match=r"a\.npy") as refused:
        read_value(tmp_path / "a.npy")
    assert refused.value.detail == "It holds Python objects, which may run code."


@pytest.mark.long
@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.pb", "a.csv", "a.png", "a.xyz"])
def test_broken_files_are_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\x00garbage")
    with pytest.raises(ModelError) as refused:
        read_value(tmp_path / name)
    assert name in f"{refused.value.title} {refused.value.place}"
    with pytest.raises(ModelError):
        read_value(tmp_path / f"missing-{name}")


def test_tables_and_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("u,v\n1,2\n3,4.5\n")
    np.testing.assert_array_equal(read_value(tmp_path / "a.csv"), np.array([[1, 2], [3, 4.5]], np.float32))
    (tmp_path / "b.txt").write_text("one\nzwei ü\n", "utf-8")
    assert read_value(tmp_path / "b.txt").tolist() == ["one", "zwei ü"]
    (tmp_path / "c.txt").write_text("1 2\n3;4.5\n\n")
    numbers = read_value(tmp_path / "c.txt", TensorType(ElementType.DOUBLE))
    np.testing.assert_array_equal(numbers, np.array([[1, 2], [3, 4.5]], np.float64))
    (tmp_path / "d.csv").write_text("1\n2\n3\n")
    vector = TensorType(ElementType.INT64, Shape((3,)))
    assert read_value(tmp_path / "d.csv", vector).tolist() == [1, 2, 3]
    (tmp_path / "d.csv").write_text(f"{2**53 + 1}\n")
    assert read_value(tmp_path / "d.csv", vector).tolist() == [2**53 + 1]
    (tmp_path / "f.tsv").write_text("true\tfalse\n0\t1\n")
    flags = TensorType(ElementType.BOOL, Shape((1, 4)))
    assert read_value(tmp_path / "f.tsv", flags).tolist() == [[True, False, False, True]]
    (tmp_path / "e.txt").write_text("1 2\n3 four\n")
    with pytest.raises(ModelError, match="'four' is not accepted"):
        read_value(tmp_path / "e.txt", vector)


def test_messages(tmp_path: Path) -> None:
    array = np.array([1.5, 2], ml_dtypes.bfloat16)
    (tmp_path / "t.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    assert read_value(tmp_path / "t.pb").dtype == ml_dtypes.bfloat16
    sequence = numpy_helper.from_list([np.ones(2, np.float32), np.zeros(1, np.float32)])
    (tmp_path / "s.pb").write_bytes(sequence.SerializeToString())
    found = read_value(tmp_path / "s.pb", SequenceType(TensorType(ElementType.FLOAT)))
    assert [v.shape for v in found] == [(2,), (1,)]


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[..., 0], pixels[..., 2] = 255, 51
    Image.fromarray(pixels).save(tmp_path / "p.png")
    return tmp_path / "p.png"


def image_type(kind: ElementType, *dims: Any) -> TensorType:
    return TensorType(kind, Shape(dims))


@pytest.mark.parametrize(
    ("dims", "layout", "size"),
    [
        (("N", "C", 64, 48), None, (64, 48)),
        (("N", 64, 48, 3), None, (64, 48)),
        (("N", 64, 48, 32), "NHWC", (64, 48)),
        (("N", 3, "H", 48), None, None),
        ((64, 48), None, None),
    ],
)
def test_the_size_of_pictures_that_a_type_declares(dims: Any, layout: Any, size: Any) -> None:
    assert declared_size(TensorType(ElementType.FLOAT, Shape(dims)), layout) == size


def test_pictures(picture: Path) -> None:
    chw = read_value(File(picture), image_type(ElementType.FLOAT, "n", 3, 2, 3))
    assert chw.shape == (1, 3, 2, 3)
    np.testing.assert_allclose(chw[0, :, 0, 0], [1, 0, 0.2], atol=1e-6)
    hwc = read_value(File(picture), image_type(ElementType.UINT8, None, None, None, 3))
    assert (hwc.shape, hwc.dtype) == ((1, 4, 6, 3), np.uint8)
    options = ImageOptions(size=(2, 2), channels="BGR", mean=(0.2, 0, 0), std=(1, 1, 0.5), fit="crop")
    bgr = read_value(File(picture, image=options), image_type(ElementType.FLOAT16, 3, None, None))
    assert (bgr.shape, bgr.dtype) == ((3, 2, 2), np.float16)
    np.testing.assert_allclose(bgr[:, 0, 0], [0, 0, 2], atol=1e-3)
    assert read_value(File(picture), image_type(ElementType.FLOAT, 1, 1, 8, 8)).shape == (1, 1, 8, 8)


def test_test_data_folders(tmp_path: Path) -> None:
    folder = Path(onnx.__file__).parent / "backend/test/data/simple/test_sequence_model4"
    from onnx_workbench.model.io.reader.read import load

    model = load(folder / "model.onnx")
    (found,) = data_sets(folder, model.graph)
    assert set(found.inputs) == {v.name for v in model.graph.inputs}
    outputs = Session(model).run(found.inputs).outputs
    for name, expected in found.outputs.items():
        np.testing.assert_allclose(outputs[name], expected)
    extra = tmp_path / "test_data_set_0"
    extra.mkdir()
    (extra / "output_7.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="output_7"):
        data_sets(tmp_path, model.graph)


def test_values_go_into_a_file_that_plain_numpy_reads(tmp_path: Path) -> None:
    values = {
        "a/b:0": np.arange(3.0),
        "small": np.array([1.5, 2], ml_dtypes.bfloat16),
        "nibbles": np.array([1, -2], ml_dtypes.int4),
        "texts": np.array(["x", "ü"], object),
        "sequence": [np.ones(2), np.zeros(1)],
        "map": {"k": 2.0},
        "nothing": None,
    }
    write_npz(tmp_path / "o.npz", values.items())
    found = read_npz(tmp_path / "o.npz")
    np.testing.assert_array_equal(found["a/b:0"], values["a/b:0"])
    assert found["small"].tolist() == [1.5, 2]
    assert found["nibbles"].tolist() == [1, -2]
    assert found["texts"].tolist() == ["x", "ü"]
    assert found["sequence[1]"].tolist() == [0]
    assert found["map__keys"].tolist() == ["k"]
    assert found["map__values"].tolist() == [2.0]


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_pictures_of_sixteen_bits_keep_their_brightness(tmp_path: Path, name: str) -> None:
    pixels = np.array([[0, 255, 256], [32768, 65279, 65535]], np.uint16)
    if name == "a.pgm":
        (tmp_path / name).write_bytes(b"P5 3 2 65535\n" + pixels.astype(">u2").tobytes())
    else:
        Image.fromarray(pixels).save(tmp_path / name)
    found = read_value(File(tmp_path / name, image=ImageOptions(scale=1, channels="L")))
    np.testing.assert_array_equal(found, [[[[0, 0, 1], [128, 254, 255]]]])


def test_a_picture_of_other_numbers_than_brightness_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.ones((2, 3), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ModelError, match="8 or 16 bits"):
        read_value(File(tmp_path / "a.tif"))


def npy_header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def external_tensor() -> bytes:
    proto = onnx.TensorProto(dims=[1], data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
    proto.external_data.add(key="location", value="secret.bin")
    return proto.SerializeToString()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def zipped(content: bytes, *names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("a.npy",):
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.npz", b"PK\x03\x04garbage", "zip"),
        ("a.npz", zipped(npy_header((1 << 42,)) + b"1234"), "4 bytes of values"),
        ("a.npy", npy_header((1 << 42,)) + b"1234", "4 bytes of values"),
        ("a.npz", zipped(npy_header((1 << 42,), "<U0")), "0 bytes of values"),
        ("a.npz", zipped(npy_header((0, 1 << 99))), "Maximum allowed dimension"),
        ("a.npy", npy_header((2,)).replace(b"(2,)", b"(2,("), "Its header is invalid"),
        ("a.npy", npy_header((2,)).replace(b"<f4", b",f4"), "Its header is invalid"),
        ("a.npy", npy_header((1,), "<U1") + b"\xff\xff\xff\xff", "maximum character"),
        ("a.npy", npy(np.array(["2020-02-02"], "datetime64[D]")), "datetime64"),
        ("a.npz", zipped(npy(np.zeros(2, [("a", "f4"), ("b", "i8")]))), "array 'a'.*no ONNX element type"),
        ("a.csv", b"a" * 200_000, "field"),
        ("a.pb", external_tensor(), "another file"),
        ("a.pb", b"garbage", "its bytes are not a tensor"),
        (
            "a.pb",
            onnx.TensorProto(dims=[2], data_type=1, raw_data=b"1234").SerializeToString(),
            "cannot take the shape",
        ),
        ("a.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "identify"),
    ],
)
def test_hostile_files_are_refused_without_believing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(b"abcd")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=problem) as found:
        read_value(tmp_path / name)
    assert str(found.value).count("cannot be read") <= 1, "the same is said twice"


def test_reading_many_arrays_is_cancelled_between_two(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros(1), b=np.array([object()], object))
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        read_npz(tmp_path / "a.npz", progress=progress)


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.txt"])
def test_long_texts_are_refused_with_their_size_and_the_limit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("1" * 11)
    monkeypatch.setattr(sources, "_LONGEST_TEXT", 10)
    with pytest.raises(ModelError, match=r"it has 11 bytes; at most 10 .*; \.npy and \.npz files may be larger"):
        read_value(tmp_path / name)


def test_an_archive_is_refused_that_unpacks_to_more_than_may_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}.npy" for number in range(20)]
    (tmp_path / "a.npz").write_bytes(zipped(npy(np.zeros(1000)), *names))
    assert len(read_npz(tmp_path / "a.npz")) == 20
    monkeypatch.setattr(sources, "default_input_limit", lambda: 100_000)  # more than each of them has
    with pytest.raises(ModelError, match="at most 100,000"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("uint8", Constant(300)),
        ("uint8", Constant(1.5)),
        ("bool", Constant("fasle")),
        ("bool", Constant("[True, False]")),
        ("uint8", Random(low=0, high=300)),
        ("int64", Random(low=0, high=float("inf"))),
        ("int64", Random(low=0, high=1e30)),
        ("int64", Random(low=5, high=2)),
        ("float", Random("normal", 0, -1)),
        ("float", Random("uniform", 0, float("inf"))),
        ("float", Constant(10**400)),
        ("string", Range()),
    ],
)
def test_numbers_that_do_not_fit_are_refused(kind: str, source: Any) -> None:
    model = parse(f"g ({kind}[2] x) => ({kind}[2] y) {{ y = Identity(x) }}")
    with pytest.raises(ModelError, match="'x'"):
        make_feeds(model.graph, sources={"x": source})


@pytest.mark.parametrize(("kind", "source"), [("float", Random(low=8)), ("int64", Random(low=8, high=1))])
def test_bounds_in_the_wrong_order_are_reported_with_both_numbers(kind: str, source: Random) -> None:
    model = parse(f"g ({kind}[2] x) => ({kind}[2] y) {{ y = Neg(x) }}")
    with pytest.raises(ModelError) as found:
        make_feeds(model.graph, sources={"x": source})
    assert found.value.detail == "the range is 8 to 1; expected the smaller number first"


@pytest.mark.parametrize(
    ("kind", "constant", "reason"),
    [
        ("float", "hello", "'hello' is not a number; declared float[2]"),
        ("int64", "hello", "'hello' is not a valid int64; declared int64[2]"),
        ("float", {"a": 1}, "a number was expected; declared float[2]"),
        ("float", [[1, 2], [3]], "its rows have different lengths; declared float[2]"),
    ],
)
def test_why_a_constant_does_not_fit_is_reported_in_plain_words(kind: str, constant: Any, reason: str) -> None:
    model = parse(f"g ({kind}[2] x) => ({kind}[2] y) {{ y = Identity(x) }}")
    with pytest.raises(ModelError) as found:
        make_feeds(model.graph, sources={"x": Constant(constant)})
    assert found.value.detail == reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("garbage.npy", "It begins with b'no array'; a .npy file begins with"),
        ("folder", "it is a folder"),
        ("long.npy", "Its header is invalid: Header info length (60000) is large"),
        ("long.json", "a number has more than 4300 digits"),
        ("x.foo", "its suffix is .foo; expected one of .npy, "),
        ("x", "its suffix is missing; expected one of .npy, "),
    ],
)
def test_why_a_file_gives_no_value_is_reported_in_plain_words(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "garbage.npy").write_bytes(b"no array at all")
    (tmp_path / "long.npy").write_bytes(b"\x93NUMPY\x02\x00" + (60_000).to_bytes(4, "little") + b"(" * 60_000)
    (tmp_path / "long.json").write_text("9" * 5000)
    with pytest.raises(ModelError) as found:
        read_value(tmp_path / name)
    assert found.value.detail.startswith(reason)


@pytest.mark.parametrize("size", [-1, 1 << 50])
def test_sizes_that_no_value_can_have_are_refused(size: int) -> None:
    model = parse("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    with pytest.raises(ModelError, match="'x'"):
        make_feeds(model.graph, sizes={"n": size})


@pytest.mark.parametrize("content", [[300], [1.5], [float("nan")], None])
def test_a_feed_of_plain_python_must_fit_the_declared_type(content: Any) -> None:
    model = parse("g (uint8[n] x) => (uint8[n] y) { y = Identity(x) }")
    with pytest.raises(ModelError, match="'x'"):
        Session(model).run({"x": content})
    assert Session(model).run({"x": [255, 1.0]}).outputs["y"].tolist() == [255, 1]


def test_nested_inputs_get_nested_values() -> None:
    model = parse("g (optional(seq(float[2])) x, string[2] s) => (string[2] y) { y = Identity(s) }")
    feeds = make_feeds(model.graph, sources={"x": Constant(1), "s": Constant(5)})
    assert [v.tolist() for v in feeds["x"]] == [[1, 1]]
    assert feeds["s"].tolist() == ["5", "5"]


def test_test_data_without_a_number_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    (folder / "input_x.pb").write_bytes(numpy_helper.from_array(np.ones(2, np.float32)).SerializeToString())
    with pytest.raises(ModelError, match="input_x"):
        data_sets(tmp_path, parse("g (float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }").graph)


def test_sparse_messages(tmp_path: Path) -> None:
    values, indices = np.array([2.0], np.float32), np.array([3], np.int64)
    sparse = onnx.SparseTensorProto(
        values=numpy_helper.from_array(values), indices=numpy_helper.from_array(indices), dims=[5]
    )
    (tmp_path / "s.pb").write_bytes(sparse.SerializeToString())
    found = read_value(tmp_path / "s.pb", SparseTensorType(ElementType.FLOAT, Shape((5,))))
    assert found.dense().tolist() == [0, 0, 0, 2, 0]


def test_names_of_values_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "o.npz"
    keys = write_npz(path, [("file", np.ones(1)), ("x[0]", np.zeros(1)), ("x", [np.ones(1)]), ("a\udc80", np.ones(2))])
    assert keys == ["file", "x[0]", "x[0]~2", "a?"]
    assert list(read_npz(path)) == keys

    def failing() -> Iterator[tuple[str, Any]]:
        yield "x", np.ones(1)
        msg = "it was not computed"
        raise LookupError(msg)

    with pytest.raises(LookupError):
        write_npz(path, failing())
    assert list(read_npz(path)) == keys, "the file of before is gone"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("kind", "least", "most"), [("uint8", 0, 255), ("int8", -128, 127), ("int64", 0, 1)])
def test_pixels_and_quantized_numbers_use_their_whole_range(kind: str, least: int, most: int) -> None:
    model = parse(f"g ({kind}[5000] x, {kind}[9] mask) => ({kind}[5000] y) {{ y = Identity(x) }}")
    feeds = make_feeds(model.graph, seed=0)
    assert (feeds["x"].min(), feeds["x"].max()) == (least, most)
    assert feeds["mask"].tolist() == [1] * 9


@pytest.mark.long
def test_an_archive_is_refused_that_unpacks_to_much_more_than_it_has(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros(70 << 20, np.int8))
    np.savez(tmp_path / "plain.npz", x=np.zeros(70 << 20, np.int8))
    with pytest.raises(ModelError, match=r"73,400,\d+ bytes, packed into 71,\d+; at most 67,108,864 are read"):
        read_npz(tmp_path / "bomb.npz")
    assert read_npz(tmp_path / "plain.npz")["x"].size == 70 << 20
