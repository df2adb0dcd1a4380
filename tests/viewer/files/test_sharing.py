"""Sharing what is seen: a reference to a node that the command line takes, and the graph as a web page."""

from __future__ import annotations

import json
import re

import pytest
from PySide6.QtWidgets import QApplication, QFileDialog

import onnx_workbench as ow
from onnx_workbench.model.io.writer.save import save
from onnx_workbench.viewer.cli.main import main
from onnx_workbench.viewer.compare.registry import comparison_of
from onnx_workbench.viewer.program.single_instance import OpenMessage
from tests.model import builders
from tests.viewer.opening import opened, run, titles


@pytest.fixture
def branches(tmp_path):
    path = tmp_path / "my branches.onnx"
    save(builders.model(builders.BRANCHES), path)
    return path


def selected(window):
    return window.tab.workspace.selection.current


@pytest.mark.long
def test_a_node_of_a_file_that_is_being_opened_is_shown(window, qtbot, branches):
    window.files.open([branches])
    window.files.go_to(branches, "inner")
    qtbot.waitUntil(lambda: window.tab is not None and getattr(selected(window), "name", "") == "inner")
    assert window.tab.workspace.graph is selected(window).graph
    window.files.go_to(branches, "choose")
    assert selected(window).op_type == "If"
    assert window.tab.workspace.graph is window.tab.workspace.model.graph


@pytest.mark.long
def test_a_node_without_a_name_is_found_by_what_it_computes(window, qtbot, branches):
    opened(window, qtbot, branches)
    window.files.go_to(branches, "no_out")
    assert selected(window).op_type == "Neg"
    window.files.go_to(branches, "x")
    assert selected(window) is window.tab.workspace.model.graph.inputs[0]


@pytest.mark.long
def test_a_node_that_does_not_exist_is_reported_with_names_like_it(window, qtbot, branches):
    tab = opened(window, qtbot, branches)
    window.files.go_to(branches, "chose")
    assert titles(tab) == ["There is no node 'chose'"]
    assert "choose" in tab.message_bar.messages[0].detail


def test_one_file_is_needed_for_a_node(capsys, branches):
    for arguments in (["--goto", "inner"], [str(branches), str(branches), "--goto", "inner"], ["-", "--goto", "a"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "--goto shows a node of one file" in capsys.readouterr().err


def test_the_node_reaches_the_program_that_is_open():
    request = OpenMessage(("/a b",), "t", "/encoder/MatMul")
    assert OpenMessage.from_bytes(request.to_bytes()) == request
    assert OpenMessage.from_bytes(json.dumps({"open": ["/a"], "token": "", "goto": 1}).encode()) is None
    assert OpenMessage.from_bytes(json.dumps({"open": ["/a"], "token": ""}).encode()) == OpenMessage(("/a",))


@pytest.mark.long
def test_a_reference_is_copied_as_the_command_line_takes_it(window, qtbot, branches):
    tab = opened(window, qtbot, branches)
    workspace = tab.workspace
    workspace.selection.set([workspace.graph.nodes.first])
    run(window, "edit.copy_reference")
    assert QApplication.clipboard().text() == "'my branches.onnx' --goto double"
    workspace.selection.set([workspace.graph.inputs[1]])
    run(window, "edit.copy_reference")
    assert QApplication.clipboard().text() == "'my branches.onnx' --goto flag"
    unnamed = next(node for graph in workspace.model.graphs() for node in graph.nodes if node.op_type == "Neg")
    workspace.navigation.reveal(unnamed)
    run(window, "edit.copy_reference")
    assert QApplication.clipboard().text() == "'my branches.onnx' --goto no_out"


def exported(window, qtbot, monkeypatch, path):
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    run(window, "file.export_page")
    qtbot.waitUntil(path.exists)
    qtbot.waitUntil(lambda: f"{path.name} is written." in titles(window.tab))
    return json.loads(re.search(r'id="graph">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


@pytest.mark.long
def test_a_web_page_is_written_with_values_of_the_last_run(window, qtbot, tmp_path, monkeypatch, branches):
    tab = opened(window, qtbot, branches)
    data = exported(window, qtbot, monkeypatch, tmp_path / "before.html")
    assert data["title"] == "my branches.onnx"
    assert not data["hasRun"]
    run(window, "run.run")
    qtbot.waitUntil(lambda: tab.workspace.results.current is not None and not tab.workspace.runs.is_running)
    data = exported(window, qtbot, monkeypatch, tmp_path / "after.html")
    assert data["hasRun"]
    double = next(value for value in data["values"] if value["name"] == "d")
    assert {"Minimum", "Maximum"} <= dict(double["run"]).keys()


@pytest.mark.long
def test_the_page_of_compared_models_has_both_as_one_graph(window, qtbot, tmp_path, monkeypatch):
    document = builders.document()
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    save(document.model, old)
    with document.edit("Edit") as edit:
        ow.edits.change_operator(edit, builders.node(document, "second"), "Elu")
        ow.edits.delete_and_bridge(edit, [builders.node(document, "first")])
    save(document.model, new)
    first, second = opened(window, qtbot, old), opened(window, qtbot, new)
    window.area.compare(first, second)
    qtbot.waitUntil(lambda: comparison_of(second.workspace).result is not None)
    for tab in (second, first):  # whichever is in front; the values are those of the newer one
        window.area.activate(tab)
        data = exported(window, qtbot, monkeypatch, tmp_path / f"page of {tab.path.name}.html")
        assert data["title"] == "old.onnx and new.onnx"
        kinds = {node["name"]: node.get("kind") for node in data["nodes"]}
        assert kinds["second"] == "changed"
        assert kinds["first"] == "removed"
        assert data["hasDifferences"]
        assert data["hasRun"] == (tab is first)
        run(window, "run.run")
        qtbot.waitUntil(lambda: second.workspace.results.current is not None and not second.workspace.runs.is_running)


def test_a_notebook_frames_the_page_with_scripts_only(qapp):
    page = ow.show(builders.model())
    text = page._repr_html_()
    assert text.startswith('<iframe sandbox="allow-scripts" ')
    assert text.count("<") == 2
    assert "html" not in repr(page)
