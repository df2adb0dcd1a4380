"""Values in .npz files are those that were written."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from onnx_workbench.exec.values.npz_files import write_npz


@pytest.mark.parametrize("dtype", ["f8", "i8", "u2", "c16", ">f4"])
def test_arrays_that_came_from_another_process_keep_their_type(tmp_path: Path, dtype: str) -> None:
    """Numpy does not take the type of an array that was pickled for one of its own."""
    array = pickle.loads(pickle.dumps(np.array([0.1 if dtype[-2] in "fc" else 300], dtype)))
    write_npz(tmp_path / "one.npz", [("x", array)])
    with np.load(tmp_path / "one.npz") as arrays:
        assert arrays["x"].dtype == array.dtype
        np.testing.assert_array_equal(arrays["x"], array)
