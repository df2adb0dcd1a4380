"""The Find panel."""

from __future__ import annotations

from tests.model import builders
from tests.viewer.run.run_actions import opened

#: No type of a value between x and y is declared.
QUANTIZED = """<ir_version: 10, opset_import: ["" : 13]>
main (float[1,2,4,4] x) => (float[1,3,4,4] y)
<uint8[3,2,1,1] wq = {10,200,128,90,255,0}, float ws = {0.02}, uint8 wz = {128}, float xs = {0.05}, uint8 xz = {128}>
{
  xq = QuantizeLinear (x, xs, xz)
  xd = DequantizeLinear (xq, xs, xz)
  w = DequantizeLinear (wq, ws, wz)
  c = Conv (xd, w)
  cq = QuantizeLinear (c, xs, xz)
  y = DequantizeLinear (cq, xs, xz)
}
"""


def test_shapes_and_types_that_are_inferred_are_found(window, qtbot, tmp_path):
    opened(window, qtbot, builders.model_file(tmp_path / "net.onnx", QUANTIZED))
    panel = window.docks.open("find")

    def found(query):
        panel.box.setText(query)
        return {item.name for item in panel.matches.items if item.name}

    qtbot.waitUntil(lambda: found("shape:1,3,4,4") == {"c", "cq", "y"})
    qtbot.waitUntil(lambda: {"xq", "cq", "wq"} <= found("dtype:uint8"))
    qtbot.waitUntil(lambda: "c" not in found("dtype:uint8"))
