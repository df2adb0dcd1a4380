"""Operators of the specification's folder generator."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exec.kernels.harness import cases, check_case, operators


@pytest.mark.parametrize("case", cases(operators("generator")))
def test_onnx_case(case: Any) -> None:
    check_case(case)
