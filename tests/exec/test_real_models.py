"""Models that people use, against what ONNX Runtime gave for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.inputs.sources import read_npz
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.real_models import MANIFEST, RealModels

#: What ONNX Runtime's own optimisations change is no error of ours; nor is rounding in another order of summation.
LEAST, TIMES = 5e-5, 4
#: These are part of the backend suite.
ELSEWHERE = "onnx__light_"


@pytest.mark.long
@pytest.mark.parametrize("entry", [e for e in MANIFEST if not e["name"].startswith(ELSEWHERE)], ids=lambda e: e["name"])
def test_outputs_are_as_expected(entry: dict[str, Any], real_models: RealModels) -> None:
    folder = real_models / entry["name"]
    if not (folder / "inputs.npz").exists() or not (folder / "outputs.npz").exists():
        pytest.skip("no inputs and outputs beside the model")
    result = Session(load(folder / "model.onnx")).run(read_npz(folder / "inputs.npz"), values="outputs")
    assert result.ok, [str(f) for f in result.failures]
    outputs = result.outputs
    tolerance = max(LEAST, TIMES * (entry.get("opt_all_rel_err") or 0))
    expected = read_npz(folder / "outputs.npz")
    assert expected
    for name, value in expected.items():
        if name.endswith("__map_keys"):
            found = outputs[name.removesuffix("__map_keys")]
            values = expected[name.replace("__map_keys", "__map_values")]
            assert_maps(found, value, values)
        elif not name.endswith("__map_values"):
            assert_close(outputs[name], value, tolerance, name)


def assert_maps(found: list[dict[Any, Any]], keys: Any, values: Any) -> None:
    assert [list(m) for m in found] == [keys.tolist()] * len(found)
    np.testing.assert_allclose([list(m.values()) for m in found], values, rtol=1e-4, atol=1e-6)


def assert_close(found: Any, expected: Any, tolerance: float, name: str) -> None:
    assert found.shape == expected.shape, name
    if expected.dtype.kind != "f":
        assert found.tolist() == expected.tolist(), name
        return
    scale = max(float(np.abs(expected).max()), 1e-9) if expected.size else 1.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale, err_msg=name)
