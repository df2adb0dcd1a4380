"""A window whose documents run, and a small network to run in it."""

import pytest

from onnx_workbench.viewer.program.settings import RUN_IN_PROCESS, Settings
from tests.model import builders
from tests.viewer.run.run_actions import opened

NET = """
<ir_version: 9, opset_import: ["" : 17]>
net (float[N, 3, 8, 8] x) => (float[N, 2] y)
<float[N, 4, 7, 7] c>
{
    w = Constant <value = float[4, 3, 3, 3] {WEIGHTS}> ()
    [conv] c = Conv <pads: ints = [1, 1, 1, 1]> (x, w)
    [log] l = Log (c)
    [relu] r = LeakyRelu <alpha: float = 0.5> (l)
    [mean] m = ReduceMean <axes: ints = [2, 3], keepdims: int = 0> (r)
    k = Constant <value = float[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}> ()
    [fc] y = MatMul (m, k)
}
""".replace("{WEIGHTS}", "{" + ", ".join(str(0.01 * (i % 7 + 1)) for i in range(108)) + "}")


@pytest.fixture
def window(make_window):
    """A window whose documents run in a thread of this process, which is quicker to start."""
    settings = Settings()
    settings.set(RUN_IN_PROCESS, False)
    return make_window(settings)


@pytest.fixture
def net(tmp_path):
    """The file of a small network, whose declared shape of c is wrong."""
    return builders.model_file(tmp_path / "net.onnx", NET)


@pytest.fixture
def workspace(window, qtbot, net):
    """The workspace of `net` in the window."""
    return opened(window, qtbot, net)
