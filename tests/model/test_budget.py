"""What is refused beyond the budget, before it is made."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnx_workbench.model.budget import WINDOW_TENSOR, made_limit, process_budget, value_limit
from onnx_workbench.model.edits.sparse_tensors import to_dense
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.tensors.array_files import read_arrays, read_tensor
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.model.progress import Cancelled, Deadline

_TOO_MANY = WINDOW_TENSOR // 4 + 1  # floats


def test_a_tensor_is_as_large_as_what_is_stored_allows() -> None:
    assert made_limit(0) == WINDOW_TENSOR == 64 << 20
    assert made_limit(1 << 30) == 16 << 30
    assert value_limit() < process_budget()


def test_a_sparse_tensor_that_claims_much_is_not_made_dense() -> None:
    values, indices = ArrayTensor(np.ones(1, np.float32)), ArrayTensor(np.zeros(1, np.int64))
    with pytest.raises(ModelError, match="too large"):
        to_dense(SparseTensor(values, indices, (_TOO_MANY,)))
    with pytest.raises(ModelError, match="too large"):
        to_dense(SparseTensor(values, indices, (1 << 62,) * 40))
    assert to_dense(SparseTensor(values, indices, (1000,))).size == 1000


def test_an_archive_that_unpacks_to_much_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros(_TOO_MANY, np.float32))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ModelError, match="too large"):
        read_tensor(path)
    with pytest.raises(ModelError, match="at most"):
        list(read_arrays(path))
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["x.npy"]


def test_a_picture_that_unpacks_to_much_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    Image.new("L", (5000, 4000)).save(path)
    with pytest.raises(ModelError, match="too large"):
        read_tensor(path)


def test_work_with_a_deadline_is_cancelled_when_it_is_over() -> None:
    Deadline(None).check()
    Deadline(1000).check()
    over = Deadline(-1)
    with pytest.raises(Cancelled):
        over.check()
    assert over.cancelled
