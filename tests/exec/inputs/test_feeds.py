"""Values for inputs are converted to the declared types."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from numpy.typing import NDArray

from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.session import Session
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Model

DENSE = np.array([[0, 2, 0], [1, 0, -3]], np.float32)
OTHER = np.arange(6, dtype=np.float32).reshape(3, 2)


def with_sparse_input() -> Model:
    text = """<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>
        g (sparse_tensor(float[2,3]) a, float[3,2] b) => (float[2,2] y) { y = com.microsoft.SparseToDenseMatMul(a, b) }
        """
    return load(onnx.parser.parse_model(text).SerializeToString())


class SciPyMatrix:
    """What is used of a matrix of scipy.sparse."""

    def __init__(self, dense: NDArray[np.float32]) -> None:
        self._dense = dense

    def toarray(self) -> NDArray[np.float32]:
        return self._dense

    tocoo = toarray


@pytest.mark.parametrize("given", [DENSE, DENSE.tolist(), SciPyMatrix(DENSE)], ids=["array", "list", "scipy"])
def test_a_sparse_input_takes_dense_values(given: object) -> None:
    result = Session(with_sparse_input()).run({"a": given, "b": OTHER})
    np.testing.assert_array_equal(result.outputs["y"], DENSE @ OTHER)
    assert str(result.info("a")) == "sparse float[2,3]"
    np.testing.assert_array_equal(result.values["a"].dense(), DENSE)


def test_random_values_are_made_for_a_sparse_input() -> None:
    model = with_sparse_input()
    result = Session(model).run(make_feeds(model.graph))
    assert result.ok
    np.testing.assert_allclose(result.outputs["y"], result.values["a"].dense() @ result.values["b"], rtol=1e-5)


def test_values_of_another_type_are_refused_for_a_sparse_input() -> None:
    with pytest.raises(ModelError, match="has another type"):
        Session(with_sparse_input()).run({"a": np.zeros((2, 3)), "b": OTHER})


INDEXING = {
    "RoiAlign": "(float[1,3,8,8] x, float[20,4] r, int64[20] i) => (float[20,3,1,1] y) { y = RoiAlign(x, r, i) }",
    "any batch": "(float[N,3,8,8] x, float[20,4] r, int64[20] i) => (float[20,3,1,1] y) { y = RoiAlign(x, r, i) }",
    "Gather": "(float[4,1] x, int64[20] i) => (float[4,20] y) { y = Gather<axis=1>(x, i) }",
    "GatherElements": "(float[1,20] x, int64[1,20] i) => (float[1,20] y) { y = GatherElements<axis=0>(x, i) }",
}


@pytest.mark.parametrize("case", INDEXING)
def test_random_indices_are_within_what_they_index(case: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 16]> g {INDEXING[case]}'
    model = load(onnx.parser.parse_model(text).SerializeToString())
    assert make_feeds(model.graph)["i"].max() == 0
    assert Session(model).run(make_feeds(model.graph)).ok
