"""What the inspector says of tensors: facts, first values, statistics and histogram."""

import numpy as np
import pytest

from model.progress import SILENT, Cancelled, Progress
from model.tensors import ArrayTensor
from viewer.jobs import Jobs
from viewer.panels.inspector.tensors import Numbers, first_values, spread, statistics_rows, tensor_rows, tensor_text
from viewer.text import display


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


def test_what_a_tensor_says_of_itself_is_shown_as_plain_text(qtbot):
    tensor = ArrayTensor(np.ones(2), doc_string="<b>made</b>\nby hand", metadata={"origin": "layer\u202e3"})
    rows = {row.key: row for row in tensor_rows(tensor, Numbers(Jobs(), lambda: None))}
    assert rows["tensor doc_string"].text == display("<b>made</b>\nby hand")
    assert (rows["metadata origin"].label, rows["metadata origin"].text) == ("origin", display("layer\u202e3"))
    silent = tensor_rows(ArrayTensor(np.ones(0)), Numbers(Jobs(), lambda: None))
    assert "tensor doc_string" not in {row.key for row in silent}
