"""Tensors as files of their own."""

import io
import os
import zipfile

import numpy as np
import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.array_files import (
    SUFFIXES,
    npz_members,
    read_tensor,
    write_array,
)
from onnx_workbench.model.io.tensors.packing import pack
from onnx_workbench.model.io.tensors.proto_tensor import is_stored_outside, storage_mark
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.text.elements import integer_range

E = ElementType
KINDS = [kind for kind in E if kind is not E.UNDEFINED]


def sample(kind):
    if kind is E.STRING:
        return ArrayTensor(np.array([["a", "b,c"], ["", 'd "e"']], object), kind)
    if kind.is_int:
        low, high = integer_range(kind)
        values = np.array([[low, high], [0, 1]], np.uint64 if kind is E.UINT64 else np.int64)
    else:
        values = np.array([[0.5, 2.0], [1.0, 4.0]])
    return ArrayTensor(values.astype(kind.numpy_dtype), kind, name="t")


def same(a, b):
    if a.element_type is E.STRING:
        return a.shape == b.shape and a.numpy().tolist() == b.numpy().tolist()
    return (a.element_type, a.shape) == (b.element_type, b.shape) and pack(a.numpy(), a.element_type) == pack(
        b.numpy(), b.element_type
    )


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pb", ".raw", ".csv"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.text)
def test_every_type_comes_back(tmp_path, kind, suffix):
    tensor, path = sample(kind), tmp_path / f"t{suffix}"
    if suffix == ".raw" and kind is E.STRING:
        with pytest.raises(ModelError, match="no raw bytes"):
            write_array(path, tensor)
        assert not list(tmp_path.iterdir())
        return
    write_array(path, tensor)
    assert same(read_tensor(path, tensor), tensor)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("", "arr_0"),
        ("file", "file"),
        ("/layer.0/w:0", "/layer.0/w:0"),
        ("gr\xfcn\udc80", "gr\xfcn?"),
        ("cut\0off", "cut?off"),
        ("n" * 70_000, "n" * 1000),
    ],
)
def test_an_archive_holds_a_tensor_by_its_name(tmp_path, name, key):
    path = tmp_path / "t.npz"
    tensor = ArrayTensor(np.arange(3.0), name=name)
    write_array(path, tensor)
    with np.load(path) as arrays:
        assert arrays.files == [key]
    assert same(read_tensor(path, tensor), tensor)


def damaged_archive():
    """An .npz whose compressed bytes are not what they were."""
    stream = io.BytesIO()
    np.savez_compressed(stream, np.arange(10_000))
    content = bytearray(stream.getvalue())
    content[100:200] = bytes(100)
    return bytes(content)


def packed_by_others():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", npy(np.zeros(2)))
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.npz", damaged_archive(), "is damaged"),
        ("t.npz", packed_by_others(), "compressed in a way that numpy does not write"),
        ("t.npy", npy(np.zeros(2, "U1")).replace(bytes(8), b"\xff" * 8), "The strings are damaged"),
        ("t.csv", b'"' + b"a" * 200_000 + b'",b\n', "is not a table"),
        ("t.npy", npy(np.zeros(2, "V8")), "no ONNX element type"),
        ("t.npy", npy(np.zeros(2, [("a", "i4")])), "no ONNX element type"),
        ("t.npy", npy(np.zeros(2, "M8[s]")), "no ONNX element type"),
    ],
    ids=["damaged", "packed", "characters", "long cell", "bytes", "records", "dates"],
)
@pytest.mark.parametrize("kind", [E.STRING, E.UNDEFINED, E.FLOAT], ids=lambda k: k.text)
def test_what_cannot_be_read_is_said(tmp_path, name, content, reason, kind):
    (tmp_path / name).write_bytes(content)
    like = ArrayTensor(np.zeros(2, np.float32), kind)
    if name == "t.csv" and kind is E.UNDEFINED:
        reason = "needs a type"
    with pytest.raises(ModelError, match=reason):
        read_tensor(tmp_path / name, like)


def test_numpy_reads_what_is_written(tmp_path):
    write_array(tmp_path / "t.npy", sample(E.FLOAT))
    assert np.load(tmp_path / "t.npy").tolist() == [[0.5, 2.0], [1.0, 4.0]]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 8])
@pytest.mark.parametrize("suffix", [".npy", ".pb", ".raw"])
def test_odd_shapes(tmp_path, shape, suffix):
    tensor = ArrayTensor(np.zeros(shape, np.float32))
    write_array(tmp_path / f"t{suffix}", tensor)
    assert read_tensor(tmp_path / f"t{suffix}", tensor).shape == shape


def test_large_values_of_a_message_come_back(tmp_path):
    tensor = ArrayTensor(np.arange(5000, dtype=np.int32))
    write_array(tmp_path / "t.pb", tensor)
    assert same(read_tensor(tmp_path / "t.pb"), tensor)


def test_pictures(tmp_path):
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    write_array(tmp_path / "t.png", ArrayTensor(pixels))
    assert read_tensor(tmp_path / "t.png").numpy().tolist() == pixels.tolist()
    write_array(tmp_path / "c.png", ArrayTensor(np.linspace(-1, 1, 75, dtype=np.float32).reshape(1, 3, 5, 5)))
    assert read_tensor(tmp_path / "c.png").shape == (5, 5, 3)
    with pytest.raises(ModelError, match="Not a picture"):
        write_array(tmp_path / "x.png", ArrayTensor(np.zeros((5, 6, 7), np.float32)))


def test_nothing_in_a_file_is_executed(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(ModelError, match="Python objects"):
        read_tensor(tmp_path / "t.npy")


def npy(shape, dtype="<f4", data=b""):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue() + data


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.npy", b""), ("t.npy", b"\x93NUMPY\x01\x00"), ("t.npy", npy((1 << 40, 1 << 20))), ("t.npy", npy((4,))),
        ("t.npz", b"PK"), ("t.npz", b""), ("t.pb", b"\xff\xff\xff"), ("t.pb", b"\x08\x05\x10\x01"),
        ("t.png", b"\x89PNG\r\n\x1a\n"), ("t.csv", b"1,2\n3\n"), ("t.csv", b"1,x\n"),
        ("t.raw", b"123"), ("t.txt", b"1"),
        ("t.npy", npy((1,), "<M8[s]", b"12345678")),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError):
        read_tensor(tmp_path / name, sample(E.FLOAT))


@pytest.mark.parametrize(
    ("name", "content", "title", "detail"),
    [
        ("t.npy", b"hello world", "t.npy is not a .npy file", "It begins with b'hello wo'; a .npy file begins with"),
        ("t.npy", b"PK\x03\x04", "t.npy is not a .npy file", "It looks like a .npz file; a .npy file begins with"),
        ("t.npz", npy((1,)), "t.npz is not a .npz file", "It looks like a .npy file; a .npz file begins with b'PK'."),
        ("t.npz", b"PK\x05\x06" + bytes(18), "t.npz has no arrays", "The archive holds no .npy file."),
        ("t.png", b"\xff\xd8\xff", "t.png is not a .png file", "It begins with "),
        ("t.png", b"", "t.png is empty", "It has no bytes; a .png file was expected."),
        ("t.csv", b"\n", "t.csv is empty", "It has no cells; a table of values was expected."),
    ],
)  # fmt: skip
def test_files_of_another_kind_are_reported_apart(tmp_path, name, content, title, detail):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_tensor(tmp_path / name, sample(E.FLOAT))
    assert caught.value.title == title
    assert caught.value.detail.startswith(detail)


def test_decimal_commas_are_read_where_semicolons_part_cells(tmp_path):
    (tmp_path / "t.csv").write_text("1,5;2\n-0,25;4\n", encoding="utf-8")
    assert read_tensor(tmp_path / "t.csv", sample(E.FLOAT)).numpy().tolist() == [[1.5, 2.0], [-0.25, 4.0]]
    (tmp_path / "t.csv").write_text("1,500;2,500\n1,000;4,000\n", encoding="utf-8")  # thousands, or parts of one?
    with pytest.raises(ModelError, match="1,500"):
        read_tensor(tmp_path / "t.csv", sample(E.FLOAT))
    (tmp_path / "t.csv").write_text("1,5;2\n3,5;4\n", encoding="utf-8")
    assert read_tensor(tmp_path / "t.csv", sample(E.STRING)).numpy().tolist() == [["1,5", "2"], ["3,5", "4"]]


def test_a_row_of_titles_is_left_out_of_a_table(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("width,height\n1,2\n3,4\n", encoding="utf-8")
    assert read_tensor(table, sample(E.FLOAT)).numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    table.write_text("x.y;a, b\n1,5;2\n3,5;4\n", encoding="utf-8")
    assert read_tensor(table, sample(E.FLOAT)).numpy().tolist() == [[1.5, 2.0], [3.5, 4.0]]
    assert read_tensor(table, sample(E.STRING)).numpy().shape == (3, 2)  # titles are texts as good as any
    for text, where in (("a,b\n1,2\n", "Row 1, column 1"), ("a,b\n1,2\n3,x\n", "Row 3, column 2"),
                        ("a,1\n2,3\n4,5\n", "Row 1, column 1"), ("a,b\n", "Row 1, column 1")):  # fmt: skip
        table.write_text(text, encoding="utf-8")  # as many cells as there are elements, wrong ones, or all there is
        with pytest.raises(ModelError) as caught:
            read_tensor(table, sample(E.FLOAT))
        assert caught.value.detail.startswith(where)


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 3, 4, 5), (4, 5, 3), (4, 5), (1, 4, 5), (1, 1, 4, 5), (4, 5, 1)])
def test_a_picture_comes_back_in_the_axes_of_its_tensor(tmp_path, shape):
    tensor = ArrayTensor(np.arange(np.prod(shape), dtype=np.uint8).reshape(shape))
    write_array(tmp_path / "t.png", tensor)
    assert same(read_tensor(tmp_path / "t.png", tensor), tensor)


def test_an_empty_tensor_comes_back_from_its_table(tmp_path):
    empty = ArrayTensor(np.zeros((2, 0), np.float32))
    write_array(tmp_path / "t.csv", empty)
    assert read_tensor(tmp_path / "t.csv", empty).shape == (2, 0)


def test_members_of_an_archive(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.ones(2, np.float32), b=np.zeros(3, np.float32))
    assert npz_members(tmp_path / "t.npz") == ["a", "b"]
    with pytest.raises(ModelError, match="2 arrays"):
        read_tensor(tmp_path / "t.npz")
    assert read_tensor(tmp_path / "t.npz", member="b").shape == (3,)
    with pytest.raises(ModelError, match="no array c"):
        read_tensor(tmp_path / "t.npz", member="c")
    with zipfile.ZipFile(tmp_path / "u.npz", "w") as archive:
        archive.writestr("x.npy", b"no array")
    with pytest.raises(ModelError):
        read_tensor(tmp_path / "u.npz")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(ModelError):
        read_tensor(tmp_path / "none.npy")
    with pytest.raises(ModelError):
        write_array(tmp_path / "no" / "t.npy", sample(E.FLOAT))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_may_never_end_is_not_read(tmp_path, suffix):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    with pytest.raises(ModelError, match="not a regular file"):
        read_tensor(tmp_path / f"pipe{suffix}", sample(E.FLOAT))
    with pytest.raises(ModelError, match="not a regular file"):
        npz_members(tmp_path / f"pipe{suffix}")


def test_where_values_are_to_be_stored():
    tensor = ArrayTensor(np.ones(2, np.float32), source=storage_mark(external=True))
    assert is_stored_outside(tensor)
    assert not is_stored_outside(ArrayTensor(np.ones(2, np.float32), source=storage_mark(external=False)))
