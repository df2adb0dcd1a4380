"""Mixed precision: the fewest nodes that stay in float32 for outputs to reach a ratio of signal to noise."""

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import onnx_workbench as ow
from onnx_workbench.viewer.cli.main import main

#: A difference of large numbers, which float16 rounds away, and products, which it does not.
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 16] x) => (float[4, 16] y) <float one = {3000.0}> {
    [large] a = Add (x, one)
    [small] b = Sub (a, one)
    [half] c = Mul (b, b)
    [last] y = Tanh (c)
}
"""


def model() -> ow.Model:
    return ow.load(onnx.parser.parse_model(TEXT).SerializeToString())


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_nodes_that_need_float32_keep_it(precision):
    assert ow.convert(model(), precision=precision, reach=-100).kept == ()
    changed = model()
    converted = ow.convert(changed, precision=precision, keep=["inputs-outputs"], reach=35)
    assert converted.is_applied
    assert {"large", "small"} <= set(converted.kept)
    assert "half" not in converted.kept or "last" not in converted.kept
    assert any(node.op_type == "Cast" for node in changed.graph.nodes)
    feeds = {"x": np.random.default_rng(3).uniform(-1, 1, (4, 16)).astype(np.float32)}
    exact, found = (ow.Session(one).run(feeds).values["y"] for one in (model(), changed))
    assert ((exact - found) ** 2).sum() < (exact**2).sum() / 10**3


def test_a_ratio_that_cannot_be_reached_is_refused(tmp_path: Path, capsys):
    ow.save(model(), tmp_path / "m.onnx")
    command = ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o.onnx")]
    assert main([*command, "--precision", "bfloat16", "--reach", "500"]) == 2
    assert "500 dB cannot be reached" in capsys.readouterr().err
    assert not (tmp_path / "o.onnx").exists()
    assert main([*command, "--reach", "30"]) == 2
    assert main([*command, "--precision", "float16", "--reach", "50"]) == 0
    assert "kept in float32: large" in capsys.readouterr().out
