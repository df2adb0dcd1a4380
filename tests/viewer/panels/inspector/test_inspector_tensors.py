"""What the inspector says of tensors: facts, first values, statistics and histogram."""

import numpy as np
import pytest

from model.progress import SILENT, Cancelled, Progress
from model.tensors import ArrayTensor
from viewer.panels.inspector.tensors import first_values, spread, statistics_rows, tensor_text


def test_statistics_are_said_of_the_finite_values():
    found = spread(ArrayTensor(np.array([np.nan, np.inf, -np.inf, 0, 1, 3], np.float32)), SILENT)
    rows = {row.key: row for row in statistics_rows(found)}
    assert rows["range"].text == "0 … 3"
    assert (rows["zeros"].text, rows["zeros"].note) == ("1", "16.7%")
    assert rows["odd"].text == "1 NaN, 2 infinite"
    assert sum(rows["histogram 0"].bars) == 3


def test_without_finite_values_and_of_equal_ones_there_is_no_histogram():
    nothing = statistics_rows(spread(ArrayTensor(np.full(3, np.nan, np.float32)), SILENT))
    assert [row.key for row in nothing] == ["zeros", "odd"]
    equal = statistics_rows(spread(ArrayTensor(np.ones(3, np.float32)), SILENT))
    assert [row.key for row in equal] == ["range", "mean", "zeros"]


def test_it_stops_when_asked():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        spread(ArrayTensor(np.ones(10, np.float32)), progress)


def test_first_values_of_every_kind():
    assert first_values(ArrayTensor(np.array([True, False]))) == "True, False"
    assert first_values(ArrayTensor(np.array(["a\n", "b"], object))) == "'a\\\\n', 'b'"
    assert first_values(ArrayTensor(np.array([1 + 2j], np.complex64))) == "1+2j"
    assert first_values(ArrayTensor(np.arange(100))).endswith("23 …")
    assert tensor_text(ArrayTensor(np.zeros((2, 3), np.int8))) == "int8 2×3 · 6 B"
