"""Changing values of tensors: each edit, each element type, and every place a tensor can stand."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.edits import sparse_tensors, tensors
from onnx_workbench.model.edits.tensors import TensorLocation
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.tensors.packing import pack
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.ir.types import ElementType
from tests.model import builders
from tests.model.builders import document, node, value

E = ElementType
KINDS = [kind for kind in E if kind is not E.UNDEFINED]


def tensor(values, kind=E.FLOAT):
    return ArrayTensor(np.array(values, kind.numpy_dtype), kind, name="t")


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.text)
def test_every_type_is_edited_and_undone(kind):
    owner = document()
    w = value(owner, "w")
    place = TensorLocation(w)
    start = tensor([["1", "0"], ["1", "1"]], E.STRING) if kind is E.STRING else tensor([[1, 1], [1, 1]], kind)
    builders.one_edit(owner, tensors.set_tensor_at, place, start)
    builders.one_edit(owner, tensors.set_tensor_at, place, tensors.set_element(start, (0, 1), "1"))
    with owner.edit("Fill") as edit:
        text = "true" if kind is E.BOOL else "1"
        tensors.set_tensor_at(edit, place, tensors.fill(tensors.tensor_at(place), [(slice(None), 0)], text))
    made = tensors.tensor_at(place)
    assert made.element_type is kind
    assert made.numpy().dtype == kind.numpy_dtype
    assert w.type is None or w.type.element_type is kind
    owner.undo()
    owner.undo()
    assert tensors.tensor_at(place) is start
    owner.undo()
    assert tensors.tensor_at(place).numpy().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x*0.5", [[-0.5, 0], [1, 2]]), ("clip(x, 0, 1)", [[0, 0], [1, 1]]), ("where(x<0, 0, x)", [[0, 0], [2, 4]]),
        ("-x**2", [[-1, 0], [-4, -16]]), ("x - mean(x)", [[-2.25, -1.25], [0.75, 2.75]]), ("i", [[0, 1], [2, 3]]),
        ("(x > 0) * x", [[0, 0], [2, 4]]), ("2**-1 + 0*x", [[0.5, 0.5], [0.5, 0.5]]), ("abs(x)//2", [[0, 0], [1, 2]]),
        ("where((x>0) & (x<3), 9, ~(x>0))", [[1, 1], [9, 0]]), ("max(x)", [[4, 4], [4, 4]]),
    ],
)  # fmt: skip
def test_expressions(text, expected):
    made, rounded = tensors.compute(tensor([[-1, 0], [2, 4]]), text)
    assert made.numpy().tolist() == expected
    assert rounded == 0


def test_an_expression_may_be_for_a_part():
    made, _ = tensors.compute(tensor([[1, 2], [3, 4]]), "x*10 + i", [(slice(0, 2), slice(1, 2))])
    assert made.numpy().tolist() == [[1, 20], [3, 41]]


@pytest.mark.parametrize("kind", [E.FLOAT, E.INT64, E.BFLOAT16, E.INT4], ids=lambda k: k.text)
def test_a_scalar_is_computed_with_too(kind):
    scalar = tensors.reshape(tensor([3], kind), ())
    made, _ = tensors.compute(scalar, "x*2 + i")
    assert (made.shape, float(made.numpy())) == ((), 6.0)
    made, _ = tensors.compute(tensor([[1, 2], [3, 4]], kind), "x + 1", [(0, 1), (1, slice(0, 1))])
    assert made.numpy().astype(float).tolist() == [[1, 3], [4, 4]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x +", "not an expression"),
        ("y", "not supported here"), ("x.real", "not supported here"), ("__import__('os')", "no function"),
        ("(lambda: 1)()", "not supported here"),
        ("[x]", "not supported here"), ("x if x else 1", "not supported here"), ("sin(x, 1)", "takes 1"),
        ("min(x, 1)", "takes only x"), ("'a'", "not supported here"), ("x" + "+x" * 999, "too long"),
        ("-" * 300 + "x", "nested"),
        ("1" + "0" * 30, "too large"), ("f(x)", "no function"), ("x[0]", "not supported here"),
        ("1 < x < 2", "not supported here"),
        ("x := 3", "not an expression"),
    ],
)  # fmt: skip
def test_only_arithmetic_has_a_meaning(text, reason):
    with pytest.raises(ModelError, match=reason):
        tensors.compute(tensor([1.0]), text)


def test_powers_of_constants_do_not_run_away():
    made, _ = tensors.compute(tensor([1.0]), "0*x + 9**9**9*0")
    assert made.shape == (1,)


def test_nothing_wraps_around():
    with pytest.raises(ModelError, match="300 does not fit uint8"):
        tensors.compute(tensor([100, 1], E.UINT8), "x*3")
    with pytest.raises(ModelError, match="64 bits"):
        tensors.compute(tensor([1 << 62], E.INT64), "x*4")
    with pytest.raises(ModelError, match="does not fit uint64"):
        tensors.compute(tensor([1], E.UINT64), "0.0 - x")


def test_fractions_of_whole_numbers_are_rounded_and_counted():
    made, rounded = tensors.compute(tensor([1, 2, 3], E.INT4), "x*0.5")
    assert made.numpy().astype(int).tolist() == [0, 1, 2]
    assert rounded == 2


@given(st.sampled_from([k for k in KINDS if k.is_float or k.is_int]), st.lists(st.integers(0, 1), min_size=1))
def test_x_is_what_it_was(kind, values):
    before = tensor(values, kind) if kind is not E.FLOAT8E8M0 else tensor([2.0] * len(values), kind)
    after, rounded = tensors.compute(before, "x")
    assert pack(after.numpy(), kind) == pack(before.numpy(), kind)
    assert rounded == 0


def test_a_block_is_pasted_whole_or_not_at_all():
    before = tensor(np.zeros((3, 3)))
    rows = tensors.read_block("1\t2\r\n3\t4\r\n")
    made = tensors.paste(before, rows, lambda r, c: (r + 1, c))
    assert made.numpy().tolist() == [[0, 0, 0], [1, 2, 0], [3, 4, 0]]
    with pytest.raises(ModelError, match="Row 2, column 1"):
        tensors.paste(before, [["1"], ["no"]], lambda r, c: (r, c))
    assert before.numpy().sum() == 0


def test_commas_within_a_number_do_not_cut_it_in_two():
    assert tensors.read_block("1,500.25") == [["1,500.25"]]
    assert tensors.read_block("-1,500.25\n12,345,678.5") == [["-1,500.25"], ["12,345,678.5"]]
    assert tensors.read_block("1,500") == [["1", "500"]]
    assert tensors.read_block("1,500.25\n2,0.5") == [["1", "500.25"], ["2", "0.5"]]
    with pytest.raises(ModelError, match="1,500"):
        tensors.paste(tensor(np.zeros((1, 2))), [["1,500.25"]], lambda r, c: (r, c))


def test_decimal_commas_of_a_spreadsheet_are_points():
    assert tensors.read_block("0,5\t-1,25\n3\t1,500") == [["0.5", "-1.25"], ["3", "1.500"]]
    assert tensors.read_block("1,5e-3;2") == [["1.5e-3", "2"]]
    for unclear in ("1,500\t2", "1,500\t2,250", "0,5\t1.5", "1,2,3\t0,5", "0,5\ta,b"):
        assert tensors.read_block(unclear) == [unclear.split("\t")]


def test_a_column_of_decimal_commas_is_one_where_it_cannot_be_two():
    assert tensors.read_block("0,5\r\n-1,25\r\n3\r\n") == [["0.5"], ["-1.25"], ["3"]]
    assert tensors.read_block("0,5\n1,5", room=1) == [["0.5"], ["1.5"]]
    assert tensors.read_block("0,5\n1,5", room=2) == [["0", "5"], ["1", "5"]]
    assert tensors.read_block("1,2,3\n4,5,6", room=1) == [["1", "2", "3"], ["4", "5", "6"]]
    assert tensors.read_block("0,5", room=1) == [["0", "5"]]
    assert tensors.read_block("1,500\n2,250", room=1) == [["1,500"], ["2,250"]]  # to be refused: thousands?


def test_a_comma_in_a_cell_of_a_spreadsheet_separates_nothing():
    assert tensors.read_block("0,5\n", cells=True) == [["0.5"]]
    assert tensors.read_block("0,5\r\n1,5\r\n", room=2, cells=True) == [["0.5"], ["1.5"]]
    assert tensors.read_block("1,500", cells=True) == [["1,500"]]  # to be refused: thousands?
    assert tensors.read_block("1 2\t3", cells=True) == [["1 2", "3"]]


@pytest.mark.parametrize("text", ["1\t2\n3\t4", "1,2\n3,4\n", "1;2\r\n3;4", "1 2\n3 4"])
def test_blocks_of_spreadsheets_and_csv(text):
    assert tensors.read_block(text) == [["1", "2"], ["3", "4"]]


def test_shapes():
    before = tensor(np.arange(6))
    assert tensors.reshape(before, (2, -1)).shape == (2, 3)
    assert tensors.reshape(tensor([1.0]), ()).shape == ()
    for shape in ((4, 2), (-1, -1), (-2, 3), (4, -1)):
        with pytest.raises(ModelError):
            tensors.reshape(before, shape)


def test_types_change_with_a_report():
    made, report = tensors.retype(tensor([0.1, 1, 70000]), E.FLOAT16, lambda a, k: a.astype(k.numpy_dtype))
    assert made.element_type is E.FLOAT16
    assert (report.total, report.changed, report.overflowed) == (3, 2, 1)


def test_constants_and_attributes_are_places():
    owner = document()
    first = node(owner, "first")
    builders.do(owner, SetAttribute(first, "t", make_attribute("t", (tensor([1.0]), tensor([2.0])))))
    places = list(tensors.tensor_locations(first))
    assert places == [TensorLocation(first, "t", 0), TensorLocation(first, "t", 1)]
    builders.one_edit(owner, tensors.set_tensor_at, places[1], tensor([9.0]))
    assert [t.numpy().tolist() for t in first.attributes["t"].value] == [[1.0], [9.0]]
    owner.undo()
    assert tensors.tensor_at(places[1]).numpy().tolist() == [2.0]


def sparse(indices, values=(5.0, 7.0), shape=(3, 4)):
    return SparseTensor(tensor(values), ArrayTensor(np.array(indices, np.int64)), shape)


@pytest.mark.parametrize("indices", [[1, 11], [[0, 1], [2, 3]]])
def test_sparse_elements(indices):
    before = sparse(indices)
    assert np.flatnonzero(sparse_tensors.to_dense(before).numpy()).tolist() == [1, 11]
    made = sparse_tensors.set_element(before, (1, 0), "6")
    assert sparse_tensors.linear_indices(made).tolist() == [1, 4, 11]
    assert made.values.numpy().tolist() == [5, 6, 7]
    assert made.indices.numpy().ndim == np.ndim(indices)
    gone = sparse_tensors.set_element(made, (0, 1), "0")
    assert sparse_tensors.linear_indices(gone).tolist() == [4, 11]
    again = sparse_tensors.to_sparse(sparse_tensors.to_dense(gone))
    assert sparse_tensors.to_dense(again).numpy().tolist() == sparse_tensors.to_dense(gone).numpy().tolist()


@pytest.mark.parametrize(
    "hostile", [sparse([1, 99]), sparse([-1, 2]), sparse([[0, 9], [0, 0]]), sparse([1, 2], shape=(1 << 40, 1 << 40))]
)
def test_hostile_sparse_tensors_are_refused(hostile):
    with pytest.raises(ModelError):
        sparse_tensors.linear_indices(hostile)


def test_bfloat16_keeps_its_type():
    made, _ = tensors.compute(ArrayTensor(np.array([1.5], ml_dtypes.bfloat16)), "x*2")
    assert made.numpy().dtype == ml_dtypes.bfloat16


def test_where_values_are_stored_is_kept_through_edits_and_saves(tmp_path):
    owner = document()
    w = value(owner, "w")
    place = TensorLocation(w)

    def saved(name):
        save(owner.model, tmp_path / name)
        return value(load(tmp_path / name), "w").initializer

    builders.one_edit(owner, tensors.set_tensor_at, place, tensors.store(w.initializer, external=True))
    builders.one_edit(owner, tensors.set_tensor_at, place, tensors.set_element(w.initializer, (0,), "9"))
    outside = saved("outside.onnx")
    assert outside.storage == "external"
    assert outside.numpy().tolist() == [9, 2, 3, 4]
    builders.one_edit(owner, tensors.set_tensor_at, place, tensors.store(w.initializer, external=False))
    assert saved("inside.onnx").storage == "inline"
