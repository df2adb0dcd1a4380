"""A picture of the graph has what a run wrote on it: statistics beside edges, colours of nodes and their legend."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnx_workbench.viewer.program.settings import EDGE_NOTES
from tests.viewer.run.run_actions import make_bad, make_finite, run

pytestmark = pytest.mark.long


@pytest.fixture
def export(window, qtbot, workspace, tmp_path, monkeypatch):
    def export(name: str) -> Path:
        path = tmp_path / name
        monkeypatch.setattr("onnx_workbench.viewer.pictures.export_picture.ask_save", lambda *_args, **_more: path)
        workspace.trigger("file.export")
        qtbot.waitUntil(lambda: path.is_file() and not workspace.tasks.running)
        return path

    return export


def colour_by_size(qtbot, workspace):
    workspace.runs.overlays.choose("size")
    qtbot.waitUntil(lambda: bool(workspace.runs.overlays.numbers))


def test_statistics_colours_and_legend_are_in_a_scalable_picture(window, qtbot, workspace, export):
    window.settings.set(EDGE_NOTES, "range")
    make_finite(workspace)
    run(qtbot, workspace)
    colour_by_size(qtbot, workspace)
    text = export("graph.svg").read_text("utf-8")
    assert " … " in text
    assert "Elements of the output" in text
    assert "url(#heat)" in text


def test_outlines_and_alarms_are_in_it(window, qtbot, workspace, export):
    window.settings.set(EDGE_NOTES, "histogram")
    make_bad(workspace)
    run(qtbot, workspace)
    text = export("graph.svg").read_text("utf-8")
    assert 'class="br"' in text
    assert "NaN</text>" in text


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_a_legend_makes_the_picture_larger_and_covers_nothing(qtbot, workspace, export, suffix):
    make_finite(workspace)
    run(qtbot, workspace)
    before = export(f"before.{suffix}")
    colour_by_size(qtbot, workspace)
    after = export(f"after.{suffix}")
    if suffix == "pdf":
        assert after.read_bytes() != before.read_bytes()
        return
    with Image.open(before) as plain, Image.open(after) as coloured:
        assert coloured.height > plain.height
        strip = np.asarray(coloured.convert("RGB"))[plain.height :]
    assert len(np.unique(strip.reshape(-1, 3), axis=0)) > 30  # the colours of the scale
