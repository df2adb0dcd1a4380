"""Cast, CastLike and BitCast between all element types."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exec.kernels.harness import cases, check_case


@pytest.mark.parametrize("case", cases(["Cast", "CastLike", "BitCast"]))
def test_onnx_case(case: Any) -> None:
    check_case(case)
