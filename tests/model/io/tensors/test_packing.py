import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper

from onnx_workbench.model.io.protobuf import TensorProto as LazyTensorProto
from onnx_workbench.model.io.tensors.packing import TYPED_FIELDS, decode_varints, group, pack, unpack
from onnx_workbench.model.io.tensors.proto_tensor import ProtoTensor, TensorFiles
from onnx_workbench.model.io.wire import encode_varint
from onnx_workbench.model.ir.types import ElementType

NUMBERS = [e for e in ElementType if e not in (ElementType.UNDEFINED, ElementType.STRING)]
NO_FILES = TensorFiles(None, None)


def arrays(element_type):
    """Arrays of every bit pattern a type has."""
    dtype = element_type.numpy_dtype
    if element_type.bits < 8:
        codes = st.lists(st.integers(0, (1 << element_type.bits) - 1), max_size=33)
        if element_type.is_int:
            low = -(1 << element_type.bits - 1) if element_type.text.startswith("int") else 0
            return codes.map(lambda c: (np.array(c, np.int8) + low).astype(dtype))
        return codes.map(lambda c: np.array(c, np.uint8).view(dtype))
    if element_type is ElementType.BOOL:
        return st.lists(st.booleans(), max_size=33).map(lambda v: np.array(v, np.bool_))
    return st.binary(max_size=16 * 33).map(
        lambda b: np.frombuffer(b[: len(b) // dtype.itemsize * dtype.itemsize], dtype)
    )


def same_bits(first, second):
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


@pytest.mark.long
@pytest.mark.parametrize("element_type", NUMBERS, ids=lambda e: e.text)
@given(st.data())
def test_bytes_and_back_for_every_type(element_type, data):
    array = data.draw(arrays(element_type))
    packed = pack(array, element_type)
    assert len(packed) == -(-array.size * element_type.bits // 8)
    assert same_bits(unpack(packed, element_type, array.size), array)


@pytest.mark.long
@pytest.mark.parametrize("element_type", NUMBERS, ids=lambda e: e.text)
@given(st.data())
def test_raw_data_means_what_onnx_says(element_type, data):
    array = data.draw(arrays(element_type))
    proto = LazyTensorProto(dims=array.shape, data_type=int(element_type), raw_data=pack(array, element_type))
    wanted = numpy_helper.to_array(onnx.TensorProto.FromString(proto.SerializeToString()))
    assert same_bits(ProtoTensor(proto, NO_FILES).numpy(), np.asarray(wanted))


@pytest.mark.parametrize("element_type", NUMBERS, ids=lambda e: e.text)
def test_typed_fields_mean_what_onnx_says(element_type):
    values = (
        [0, 1, 1, 0, 1, 1, 1]
        if element_type.is_int or element_type is ElementType.BOOL
        else [0.0, 1.0, 1.0, 2.0, 0.5, 4.0, 1.5]
    )
    proto = onnx.helper.make_tensor("t", int(element_type), [7], values)
    lazy = LazyTensorProto.FromString(proto.SerializeToString())
    assert len(getattr(lazy, TYPED_FIELDS[element_type])) > 0
    assert same_bits(ProtoTensor(lazy, NO_FILES).numpy(), np.asarray(numpy_helper.to_array(proto)))


@pytest.mark.long
@pytest.mark.parametrize("element_type", NUMBERS, ids=lambda e: e.text)
@given(st.data())
def test_a_part_of_a_tensor_is_that_part(element_type, data):
    array = data.draw(arrays(element_type))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, array.size)] * 2)))
    proto = LazyTensorProto(dims=array.shape, data_type=int(element_type), raw_data=pack(array, element_type))
    assert same_bits(ProtoTensor(proto, NO_FILES).read(start, stop), array[start:stop])


def test_four_float6_stand_in_three_bytes_lowest_bits_first():
    codes = np.array([0b000001, 0b000010, 0b000100, 0b100000], np.uint8).view(ml_dtypes.float6_e2m3fn)
    assert pack(codes, ElementType.FLOAT6E2M3) == bytes([0b10000001, 0b01000000, 0b10000000])
    assert group(ElementType.FLOAT6E3M2) == (4, 3)


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_packed_varints(values):
    data = b"".join(encode_varint(value) for value in values)
    assert decode_varints(data).tolist() == values


@pytest.mark.parametrize("data", [b"\x80", b"\x01\x80", b"\x80" * 10 + b"\x01"])
def test_packed_varints_that_are_none(data):
    with pytest.raises(ValueError, match=r"cut|more than ten"):
        decode_varints(data)


def test_values_keep_not_a_number_and_minus_zero():
    array = np.array([np.nan, -0.0, np.inf], np.float32)
    assert same_bits(unpack(pack(array, ElementType.FLOAT), ElementType.FLOAT, 3), array)


def test_every_element_type_of_the_format_is_known():
    assert {e.name: e.value for e in ElementType} == dict(TensorProto.DataType.items())
