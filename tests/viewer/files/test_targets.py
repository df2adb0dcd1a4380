"""What the window does not let the user replace: data files of open models, and the files of other documents."""

from __future__ import annotations

import os
import shutil
from functools import partial

import numpy as np
import pytest
from PySide6.QtWidgets import QFileDialog

from onnx_workbench.viewer.files.save import SaveOptions
from tests.model.io.reader.test_ort_format import SMALL
from tests.model.io.saved_models import proto_of
from tests.viewer.opening import opened, rename
from tests.viewer.run.run_actions import compare_with, run
from tests.viewer.tensor_view.tensor_actions import look, panel_of


@pytest.fixture
def path(tmp_path):
    """A model in m.onnx with its weights in w.bin."""
    values = np.arange(1000, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(values.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(proto_of({"w": values}, external="w.bin").SerializeToString())
    return path


def titles(tab):
    return [message.title for message in tab.message_bar.messages]


def choose(monkeypatch, path):
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))


def test_save_as_does_not_replace_the_weights_of_the_model(window, qtbot, path, monkeypatch):
    tab = opened(window, qtbot, path)
    before = path.with_name("w.bin").read_bytes()
    choose(monkeypatch, path.with_name("w.bin"))
    window.files.saver.save_as(tab)
    qtbot.waitUntil(lambda: "w.bin holds weights of m.onnx" in titles(tab))
    assert path.with_name("w.bin").read_bytes() == before
    assert tab.path == path


def test_nor_those_of_another_document(window, qtbot, path):
    other = path.with_name("other.onnx")
    other.write_bytes(proto_of({"v": np.ones(3, np.float32)}).SerializeToString())
    opened(window, qtbot, path)
    tab = opened(window, qtbot, other)
    window.files.saver.save_with(tab, SaveOptions(path.with_name("w.bin")))
    qtbot.waitUntil(lambda: "w.bin holds weights of m.onnx" in titles(tab))


@pytest.mark.long
def test_nor_the_file_of_another_document_while_it_is_open(window, qtbot, path):
    other = path.with_name("other.onnx")
    other.write_bytes(proto_of({"v": np.ones(3, np.float32)}).SerializeToString())
    first, second = opened(window, qtbot, path), opened(window, qtbot, other)
    before = path.read_bytes()
    window.files.saver.save_with(second, SaveOptions(path))
    qtbot.waitUntil(lambda: "m.onnx is open" in titles(second))
    assert path.read_bytes() == before
    window.files.forget(first)
    window.files.saver.save_with(second, SaveOptions(path))
    qtbot.waitUntil(lambda: second.path == path)
    assert path.read_bytes() != before


@pytest.mark.long
@pytest.mark.parametrize(("name", "said"), [("m.onnx", "name for a model"), ("w.bin", "holds weights")])
def test_exports_replace_neither_models_nor_their_weights(window, qtbot, path, monkeypatch, name, said):
    tab = opened(window, qtbot, path)
    rename(tab, "edited")
    before = path.with_name(name).read_bytes()
    choose(monkeypatch, path.with_name(name))
    window.actions_binding.run("edit.export_script")
    assert any(said in title for title in titles(tab))
    assert path.with_name(name).read_bytes() == before


#: Every export of the window, with an extension that it writes, and whether it asks which once the file is chosen.
_EXPORTS = {
    "edit.export_script": ".jsonl", "file.export": ".svg", "file.export_view": ".png", "file.export_selection": ".pdf",
    "file.export_page": ".html", "run.save": ".npz", "values.export": ".npy", "values.save_picture": ".png",
    "values.save_view": ".png", "values.save_histogram": ".png",
}  # fmt: skip


@pytest.fixture
def exports(window, qtbot, path):
    """A document with an edit, a run, and all panels that export something; what does each export, by its extension."""
    other = path.with_name("other.onnx")
    other.write_bytes(proto_of({"v": np.ones((3, 4), np.float32)}).SerializeToString())
    opened(window, qtbot, path)
    tab = opened(window, qtbot, other)
    rename(tab, "edited")
    run(qtbot, tab.workspace)
    statistics, compared = (window.docks.open(name) for name in ("statistics", "compare"))
    compare_with(window, "Values: All nodes in float16")
    qtbot.waitUntil(lambda: statistics.save_button.isEnabled() and compared.save_button.isEnabled())
    tensor = panel_of(qtbot, window, next(iter(tab.workspace.model.graph.initializers)))
    look(qtbot, tensor, "Heat map", tensor.pane.picture)
    qtbot.waitUntil(tensor.pane.facts.histogram.isVisible)
    of_actions = [(partial(window.actions_binding.run, action), suffix) for action, suffix in _EXPORTS.items()]
    of_buttons = [(panel.save_button.click, ".csv") for panel in (statistics, compared)]
    return tab, [*of_actions, *of_buttons]


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "link"), reason="no links here")
def test_no_export_replaces_files_that_a_document_reads(exports, qtbot, path, monkeypatch):
    tab, all_of_them = exports
    shown = []
    monkeypatch.setattr(type(tab.message_bar), "show_message", lambda _, message: shown.append(message))

    def contents():
        return {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}

    path.with_name("notes.ini").write_text("of the user", encoding="utf-8")
    for number, (export, suffix) in enumerate(all_of_them):
        targets = [path.with_name(f"{name}{number}{suffix}") for name in ("soft", "hard", "link", "copy", "folder")]
        for name, link in zip(("w.bin", "m.onnx"), (targets[0], targets[2]), strict=True):
            link.symlink_to(name)
        targets[1].hardlink_to(path.with_name("w.bin"))
        targets[3].write_bytes(path.read_bytes())
        targets[4].mkdir()
        before = contents()
        for target in [*targets, path.with_name("notes.ini")]:
            shown.clear()
            choose(monkeypatch, target)
            export()
            qtbot.waitUntil(lambda: not tab.workspace.tasks.running)
            assert [message.severity for message in shown] == ["error"], target.name
            assert contents() == before, target.name
            reason = {
                "soft": "holds weights of m.onnx", "hard": "holds weights of m.onnx", "link": "a link to m.onnx, which",
                "copy": "holds a model", "fold": "cannot be written", "note": "is not a",
            }[target.name[:4]]  # fmt: skip
            assert reason in shown[0].title


@pytest.mark.long
def test_a_plot_is_not_written_under_a_name_of_another_kind(exports, path, monkeypatch):
    tab, all_of_them = exports
    _, (save_picture, _), *_ = [one for one in all_of_them if one[1] in (".npy", ".png")][1:]
    for name in ("values.npy", "graph.svg"):
        choose(monkeypatch, path.with_name(name))
        save_picture()
        assert any(title.startswith(f"{name} is a name for") for title in titles(tab))
        assert not path.with_name(name).exists()


@pytest.mark.long
def test_a_model_in_ort_format_is_saved_as_onnx(window, qtbot, tmp_path, monkeypatch):
    path = tmp_path / "small.ort"
    shutil.copy(SMALL, path)
    before = path.read_bytes()
    tab = opened(window, qtbot, path)
    rename(tab, "renamed")
    asked = []
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *given: (asked.append(given[2]) or given[2], ""))
    window.files.saver.save(tab)
    qtbot.waitUntil(lambda: tab.path == tmp_path / "small.onnx" and not tab.workspace.document.modified)
    assert asked == [str(tmp_path / "small.onnx")]
    assert path.read_bytes() == before
