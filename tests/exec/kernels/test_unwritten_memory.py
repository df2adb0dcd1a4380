"""No kernel returns memory that nobody wrote: results are the same whatever was in it before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.values.arrays import SparseArray
from tests.exec.kernels.harness import call, run_model, to_array
from tests.exec.kernels.test_microsoft import CASES
from tests.exec.test_backend_suite import CASE_MODULES, cases_of

_empty = np.empty


def filled(byte: int) -> Any:
    """numpy.empty, with a byte everywhere."""

    def empty(*args: Any, **options: Any) -> Any:
        result = _empty(*args, **options)
        if result.dtype != object and result.flags.c_contiguous:
            result.reshape(-1).view(np.uint8)[...] = byte
        return result

    return empty


def outcome(run: Any, byte: int) -> Any:
    """What a call returns where fresh memory is full of a byte, as comparable objects; None where it refuses."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(np, "empty", filled(byte))
        try:
            return comparable(run())
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
            return None


def comparable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [comparable(v) for v in value]
    if isinstance(value, SparseArray):
        return comparable(value.dense())
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tolist() if value.dtype == object else value.tobytes()
    return repr(value)


def without_elements(feeds: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The inputs as they are, and with all axes of one length cut to nothing."""
    yield dict(feeds)
    arrays = {name: x for name, x in feeds.items() if isinstance(x, np.ndarray)}
    for size in sorted({n for x in arrays.values() for n in x.shape})[:4]:
        cut = {name: x[tuple(slice(0 if n == size else n) for n in x.shape)] for name, x in arrays.items()}
        yield {**feeds, **cut}
    for name, x in arrays.items():
        for axis in range(min(x.ndim, 3)):
            yield {**feeds, name: x[(*(slice(None),) * axis, slice(0))]}


@pytest.mark.long
@pytest.mark.parametrize("module", CASE_MODULES)
def test_results_do_not_depend_on_what_was_in_memory(module: str) -> None:
    for case in cases_of(module):
        if "_expanded" in case.name:
            continue
        given = case.data_sets[0][0]
        inputs = [i.name for i in case.model.graph.input]
        feeds = {name: to_array(value) for name, value in zip(inputs, given, strict=True)}
        if sum(x.size for x in feeds.values() if isinstance(x, np.ndarray)) > 2000:
            continue
        for some in without_elements(feeds):
            first, second = (outcome(partial(run_model, case.model, some), byte) for byte in (0x3F, 0x41))
            shapes = {name: x.shape for name, x in some.items() if isinstance(x, np.ndarray)}
            assert first == second, f"{case.name} with {shapes}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [(name, inputs, more) for name, inputs, _, more in CASES],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_results_of_microsoft_operators_do_not_either(op_type: str, inputs: list[Any], attributes: Any) -> None:
    feeds = {str(index): None if x is None else np.asarray(x) for index, x in enumerate(inputs)}
    for some in without_elements(feeds):
        run = partial(call, op_type, list(some.values()), opset=1, domain="com.microsoft", outputs=4, **attributes)
        shapes = [None if x is None else x.shape for x in some.values()]
        assert outcome(run, 0x3F) == outcome(run, 0x41), f"{op_type} with {shapes}"
