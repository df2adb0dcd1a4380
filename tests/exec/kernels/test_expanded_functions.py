"""Function bodies of the specification, expanded: every node of them by our kernels."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from tests.exec.kernels.harness import cases, check_case

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def all_cases() -> list[Any]:
    schemas = onnx.defs.get_all_schemas()
    return [c for domain in DOMAINS for c in cases((s.name for s in schemas), domain=domain, expanded=True)]


@pytest.mark.parametrize("case", all_cases())
def test_expanded_case(case: Any) -> None:
    check_case(case)
