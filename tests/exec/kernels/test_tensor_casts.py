"""Cast, CastLike and BitCast between all element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.exec.kernels.harness import call, cases, check_case


@pytest.mark.parametrize("case", cases(["Cast", "CastLike", "BitCast"]))
def test_onnx_case(case: Any) -> None:
    check_case(case)


def test_old_files_may_have_the_number_of_the_type() -> None:
    assert call("Cast", [np.ones(2, np.float32)], opset=1, to=7).dtype == np.int64
