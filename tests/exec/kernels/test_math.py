"""Operators of the specification's folder math."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exec.kernels.harness import cases, check_case, operators

OPERATORS = operators("math")


@pytest.mark.parametrize("case", cases(OPERATORS))
def test_onnx_case(case: Any) -> None:
    check_case(case)
