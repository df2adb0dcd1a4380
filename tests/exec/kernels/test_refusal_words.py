"""What kernels say when they refuse something: what was found, and what was expected."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec import kernels
from onnx_workbench.exec.errors import KernelError, LimitError
from onnx_workbench.exec.values.limits import Limits, set_limits
from tests.exec.kernels.harness import call
from tests.exec.test_hostile import run_one

#: How an expectation can be worded.
EXPECTATION = re.compile(r"expected|\bneeds?\b|\bmust\b|is not one of|cannot be inferred")


def refusals(tree: ast.AST) -> Iterator[str]:
    """The source of the texts that a module's code makes KernelErrors of."""
    for node in ast.walk(tree):
        texts: dict[str, ast.expr] = {}
        blocks = [getattr(node, name, None) for name in ("body", "orelse")]
        for statement in (one for block in blocks if isinstance(block, list) for one in block):
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                texts[statement.targets[0].id] = statement.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "KernelError":
            if not isinstance(node.args[0], ast.Name):
                yield ast.unparse(node.args[0])
        elif "msg" in texts:
            yield ast.unparse(texts["msg"])


@pytest.mark.long
def test_every_refusal_names_what_was_expected() -> None:
    folder = Path(kernels.__path__[0])
    found = {
        (path.stem, text)
        for path in folder.rglob("*.py")
        if path.stem != "custom"  # passes on what extensions raise
        if "raise KernelError" in (source := path.read_text("utf-8"))
        for text in refusals(ast.parse(source))
    }
    assert len(found) > 300
    assert not [one for one in sorted(found) if not EXPECTATION.search(one[1])]


def texts(*values: str) -> Any:
    return np.array(values, object)


@pytest.mark.parametrize(
    ("to", "text", "report"),
    [
        (1, "Hello", "the text 'Hello' cannot be read as float; expected a number such as 1.5"),
        (7, "", "the text '' cannot be read as int64; expected a whole number such as 12"),
        (6, "inf", "the text 'inf' cannot be read as int32; expected a whole number such as 12"),
        (11, "x" * 99, f"the text '{'x' * 60}'… cannot be read as double; expected a number such as 1.5"),
    ],
)
def test_cast_names_the_text_that_is_no_number(to: int, text: str, report: str) -> None:
    with pytest.raises(KernelError) as raised:
        call("Cast", [texts("1", text, "2", "never asked")], opset=21, to=to)
    assert str(raised.value) == report
    (failure,) = run_one("", "Cast", [texts("1", text)], 1, {"to": to}).failures
    assert failure.reason == report


@pytest.mark.parametrize("op_type", ["Affine", "Scale"])
def test_an_unspecified_operator_says_what_its_kernel_takes(op_type: str) -> None:
    (failure,) = run_one("", op_type, [texts("a")], 1, {}).failures
    assert failure.reason.endswith("; expected x of numbers")
    (failure,) = run_one("com.microsoft.nchwc", "GlobalMaxPool", [texts("a")], 1, {}).failures
    assert "expected " in failure.reason


def test_what_is_too_large_is_written_as_values_are() -> None:
    set_limits(Limits(max_bytes=1 << 20))
    try:
        with pytest.raises(LimitError, match=r"^a result of float\[1000,1000\] needs 4,000,000 bytes, over the limit"):
            call("ConstantOfShape", [np.array([1000, 1000])], opset=9)
    finally:
        set_limits(None)
