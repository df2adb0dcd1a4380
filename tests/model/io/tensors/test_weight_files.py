"""Weight files: what is read from their headers, what of them is refused."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.weight_files import open_weights
from onnx_workbench.model.ir.types import ElementType


def safetensors(arrays, **more):
    header, data = dict(more), b""
    for name, (kind, array) in arrays.items():
        packed = array.tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def text(words):
    return struct.pack("<Q", len(words)) + words.encode()


def gguf(tensors, metadata=b"", entries=0, version=3, alignment=32):
    infos, data = b"", b""
    for name, (kind, array) in tensors.items():
        data += b"\0" * (-len(data) % alignment)
        shape = array.shape[::-1]
        infos += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", kind, len(data))
        data += array.tobytes()
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), entries) + metadata + infos
    return head + b"\0" * (-len(head) % alignment) + data


@pytest.fixture
def file(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def test_arrays_of_safetensors(file):
    matrix, half = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2], np.float16)
    path = file("w.safetensors", safetensors({"a": ("F32", matrix), "b": ("F16", half)}, __metadata__={"format": "pt"}))
    weights = open_weights(path)
    assert list(weights.arrays) == ["a", "b"]
    assert np.array_equal(weights.read("a").numpy(), matrix)
    assert weights.read("b").element_type is ElementType.FLOAT16
    assert np.array_equal(weights.read("b").numpy(), half)


def test_arrays_of_gguf_and_what_is_said_of_quantized_ones(file):
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    more = text("general.name") + struct.pack("<I", 8) + text("x")
    more += text("a.list") + struct.pack("<IIQ", 9, 8, 2) + text("one") + text("two")
    more += text("general.alignment") + struct.pack("<II", 4, 64)
    data = gguf({"t": (0, matrix), "q": (2, np.zeros(18, np.uint8)), "i": (26, np.int32([7]))}, more, 3, alignment=64)
    weights = open_weights(file("w.gguf", data))
    assert np.array_equal(weights.read("t").numpy(), matrix)
    assert weights.read("i").numpy().tolist() == [7]
    assert weights.arrays["q"].problem == "its type Q4_0 has no counterpart in ONNX"
    with pytest.raises(ModelError, match="Q4_0"):
        weights.read("q")


def test_arrays_of_npz(file, tmp_path):
    path = tmp_path / "w.npz"
    np.savez(path, a=np.ones((2, 3)), b=np.array([{}], object))
    weights = open_weights(path)
    assert weights.arrays["a"].shape == (2, 3)
    assert weights.arrays["a"].element_type is ElementType.DOUBLE
    assert np.array_equal(weights.read("a").numpy(), np.ones((2, 3)))
    assert "Python objects" in weights.arrays["b"].problem


HOSTILE = {
    "empty.safetensors": b"",
    "long.safetensors": struct.pack("<Q", 1 << 62) + b"{}",
    "nojson.safetensors": struct.pack("<Q", 2) + b"{]",
    "deep.safetensors": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "list.safetensors": struct.pack("<Q", 2) + b"[]",
    "entry.safetensors": struct.pack("<Q", 11) + b'{"a":{"x":1'[:11],
    "empty.gguf": b"",
    "other.gguf": b"GGML" + b"\0" * 100,
    "version.gguf": b"GGUF" + struct.pack("<IQQ", 99, 0, 0),
    "counts.gguf": b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0),
    "short.gguf": b"GGUF" + struct.pack("<IQQ", 3, 5, 0),
    "list.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 60),
    "kind.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77),
    "x.bin": b"1234",
    "x.npz": b"PK\3\4nonsense",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_broken_file_is_named(file, name):
    with pytest.raises(ModelError) as caught:
        open_weights(file(name, HOSTILE[name]))
    assert name in f"{caught.value.title} {caught.value.detail}"


@pytest.mark.parametrize(
    ("shape", "offsets", "problem"),
    [
        ([1 << 40], [0, 1 << 42], "the file ends at"),
        ([2], [0, 12], "it has 12 bytes; its type and shape need 8"),
        ([-1], [0, 0], "is not valid"),
        ([3] * 2000, [0, 0], "is not valid"),
    ],
)
def test_an_array_that_does_not_fit_is_not_read(file, shape, offsets, problem):
    entry = {"a": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}
    header = json.dumps(entry).encode()
    weights = open_weights(file("w.safetensors", struct.pack("<Q", len(header)) + header + b"\0" * 12))
    assert problem in weights.arrays["a"].problem
    with pytest.raises(ModelError):
        weights.read("a")


@given(st.data())
def test_changed_bytes_never_give_anything_but_a_message(tmp_path_factory, data):
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    suffix, good = data.draw(
        st.sampled_from(
            [
                ("safetensors", safetensors({"a": ("F32", matrix), "b": ("BOOL", np.array([True]))})),
                ("gguf", gguf({"a": (0, matrix)}, text("k") + struct.pack("<II", 4, 3), 1)),
            ]
        )
    )
    changed = bytearray(good)
    for at in data.draw(st.lists(st.integers(0, len(good) - 1), max_size=4)):
        changed[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / f"changed.{suffix}"
    path.write_bytes(bytes(changed[: data.draw(st.integers(0, len(changed)))]))
    try:
        weights = open_weights(path)
        for name in weights.arrays:
            weights.read(name)
    except ModelError:
        pass
