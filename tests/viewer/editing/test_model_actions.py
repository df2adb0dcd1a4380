"""New models, saving with options, cutting, splitting, merging, scripts and operator sets, through the window."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import onnx
import pytest
from PySide6.QtCore import Qt
from shiboken6 import isValid

from onnx_workbench.exec.session import Session
from onnx_workbench.model import schemas
from onnx_workbench.model.checks import Checker
from onnx_workbench.model.edits import nodes
from onnx_workbench.model.edits.constants import add_constant
from onnx_workbench.model.edits.values import set_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.io.writer.storage_plan import DataLayout
from onnx_workbench.viewer.actions.model import export_script, merge_file, replay_script
from onnx_workbench.viewer.dialogs.custom_operators import CustomOperatorsDialog
from onnx_workbench.viewer.dialogs.extract import ExtractDialog
from onnx_workbench.viewer.dialogs.merge import MergeDialog, Place
from onnx_workbench.viewer.dialogs.new_model import NewModelDialog, parse_interface
from onnx_workbench.viewer.dialogs.save_options import SaveOptionsDialog
from onnx_workbench.viewer.dialogs.text_prompt import TextPrompt
from onnx_workbench.viewer.extensions import custom_operators
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from onnx_workbench.viewer.popups.operator_palette import OperatorPalette
from tests.model import builders


def names(values):
    return [value.name for value in values]


# -- new -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_new_model_is_valid_and_runs(window, qtbot):
    from tests.viewer.editing.conftest import Desk

    desk = Desk(window, qtbot)
    desk.run("file.new")
    dialog = desk.child(NewModelDialog)
    dialog.inputs.setPlainText("a: float[batch,3]\nb: float[batch,3]")
    dialog.outputs.setPlainText("y: float[batch,3]")
    dialog.try_create()
    desk.settle()
    assert window.tab.modified
    assert window.tab.path is None
    desk.select(desk.node("Identity_0"))
    desk.run("edit.delete_and_bridge")
    desk.run("edit.undo")
    desk.select(desk.node("Identity_0"))
    desk.run("node.change_operator")
    palette = desk.child(OperatorPalette)
    desk.qtbot.keyClicks(palette.field, "Add")
    desk.qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    node = desk.node("Identity_0")
    desk.run("node.connect")
    from onnx_workbench.viewer.popups.connect import choose_value

    popup = choose_value(window, desk.workspace, node, 1)
    desk.qtbot.keyClicks(popup.field, "b")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    onnx.checker.check_model(onnx.load_from_string(to_bytes(desk.document.model)), full_check=True)
    one = np.ones((2, 3), np.float32)
    result = Session(desk.document.model).run({"a": one, "b": one})
    assert result.values["y"].tolist() == [[2.0] * 3] * 2


def test_what_is_not_understood_stays_in_the_dialog(desk):
    desk.run("file.new")
    dialog = desk.child(NewModelDialog)
    dialog.inputs.setPlainText("x float")
    dialog.try_create()
    assert "Line 1 is not understood" in dialog.error.text()
    dialog.inputs.setPlainText("x: floot[3]")
    dialog.try_create()
    assert "floot" in dialog.error.text()
    assert dialog.isVisible()
    assert len(desk.window.tabs()) == 1


def test_interfaces_in_text_form():
    found = parse_interface("x: float[batch,3]\n\ny : seq(int64[?])")
    assert [(name, str(type_)) for name, type_ in found] == [("x", "float[batch,3]"), ("y", "seq(int64[?])")]


# -- saving ----------------------------------------------------------------------------------------------------


def save(desk, action, path, layout=None, form=0):
    desk.run(action)
    dialog = desk.child(SaveOptionsDialog)
    dialog.path.setText(str(path))
    dialog.form.setCurrentIndex(form)
    if layout is not None:
        dialog.layout_choice.setCurrentIndex(dialog.layout_choice.findData(layout))
        dialog.threshold.setValue(1)
    dialog.try_save()
    desk.qtbot.waitUntil(path.exists)


@pytest.mark.long
def test_a_copy_leaves_the_document_where_it_is(desk, tmp_path):
    save(desk, "file.save_copy", tmp_path / "copy.onnx")
    desk.qtbot.waitUntil(lambda: desk.messages() == ["A copy was saved as copy.onnx"])
    assert desk.document.path is None
    assert len(load(tmp_path / "copy.onnx").graph.nodes) == 4


@pytest.mark.long
def test_weights_in_a_data_file(desk, tmp_path):
    save(desk, "file.save_options", tmp_path / "m.onnx", DataLayout.ONE_FILE)
    desk.qtbot.waitUntil(lambda: desk.document.path == tmp_path / "m.onnx")
    assert len(list(tmp_path.glob("m.onnx.*.data"))) == 1
    again = load(tmp_path / "m.onnx")
    assert builders.value(again, "w").initializer.numpy().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_weights_of_the_selection_in_a_data_file(desk, tmp_path):
    desk.select(desk.node("first"))
    desk.run("file.save_options")
    dialog = desk.child(SaveOptionsDialog)
    assert not dialog.scope.isEnabled()  # where weights are now is for all
    dialog.path.setText(str(tmp_path / "m.onnx"))
    dialog.layout_choice.setCurrentIndex(dialog.layout_choice.findData(DataLayout.ONE_FILE))
    dialog.threshold.setValue(1)
    dialog.scope.setCurrentIndex(1)
    assert dialog.scope.currentText() == "the selection (1 tensor)"
    assert dialog.explanation.text().endswith("To data files: 1 tensor, 16 B.")
    dialog.try_save()
    desk.qtbot.waitUntil(lambda: desk.document.path == tmp_path / "m.onnx")
    (data,) = tmp_path.glob("m.onnx.*.data")
    assert data.stat().st_size == 16


def test_types_of_the_selection_are_written(desk):
    desk.workspace.types.start()
    desk.qtbot.waitUntil(lambda: desk.workspace.types.inferred is not None)
    desk.select(desk.node("second"))
    desk.run("model.write_selected_types")
    desk.qtbot.waitUntil(lambda: desk.document.undo_title == "Write inferred types of 1 node")
    assert {n.name: n.outputs[0].type is not None for n in desk.document.model.graph.nodes} == {
        "first": False, "second": True, "third": False, "fourth": True,
    }  # fmt: skip


def test_the_form_can_be_chosen(desk, tmp_path):
    save(desk, "file.save_options", tmp_path / "m.txt", form=4)
    assert (tmp_path / "m.txt").read_text().startswith("{")


@pytest.mark.long
def test_shapes_and_texts_do_not_count_towards_data_files(desk, tmp_path):
    """They stay in the model at any threshold."""
    desk.open("""
    g (float[4] x) => (float[2,2] y)
    <int64[2] shape = {2, 2}, string[1] text = {"a"}, float[4] w = {1, 2, 3, 4}>
    {
        z = Add (x, w)
        y = Reshape (z, shape)
    }
    """)
    desk.run("file.save_options")
    dialog = desk.child(SaveOptionsDialog)
    dialog.layout_choice.setCurrentIndex(dialog.layout_choice.findData(DataLayout.ONE_FILE))
    dialog.threshold.setValue(0)
    desk.qtbot.waitUntil(lambda: dialog.explanation.text().endswith("To data files: 1 tensor, 16 B."))
    dialog.path.setText(str(tmp_path / "m.onnx"))
    dialog.try_save()
    desk.qtbot.waitUntil(lambda: desk.document.path == tmp_path / "m.onnx")
    (data,) = tmp_path.glob("m.onnx.*.data")
    assert data.stat().st_size == 16


@pytest.mark.long
def test_the_weights_of_constants_are_counted(desk, tmp_path):
    """A model that keeps its weights in Constants was said to have none, while they went to a data file."""
    desk.open("""
    g (float[4] x) => (float[4] y)
    <float[2] unused = {1, 2}>
    {
        c = Constant <value: tensor = float[4] {1, 2, 3, 4}> ()
        y = Add (x, c)
    }
    """)
    desk.run("file.save_options")
    dialog = desk.child(SaveOptionsDialog)
    desk.qtbot.waitUntil(lambda: dialog.explanation.text().endswith("2 tensors, 24 B."))
    dialog.layout_choice.setCurrentIndex(dialog.layout_choice.findData(DataLayout.ONE_FILE))
    dialog.threshold.setValue(16)
    assert dialog.explanation.text().endswith("To data files: 1 tensor, 16 B.")
    dialog.path.setText(str(tmp_path / "m.onnx"))
    dialog.try_save()
    desk.qtbot.waitUntil(lambda: desk.document.path == tmp_path / "m.onnx")
    (data,) = tmp_path.glob("m.onnx.*.data")
    assert data.stat().st_size == 16


@pytest.mark.long
def test_weights_are_counted_while_the_dialog_is_open(desk):
    model = desk.document.model
    with desk.document.edit("Add many") as edit:
        for number in range(1000):
            add_constant(edit, model.graph, f"more{number}: float[2] = 1")
    desk.run("file.save_options")
    dialog = desk.child(SaveOptionsDialog)
    assert dialog.explanation.text().endswith("Counting the tensors…")
    with desk.document.edit("Add one more") as edit:  # what was counted so far is another model
        add_constant(edit, model.graph, "last: float[2] = 1")
    count = f"{len(model.graph.initializers):,} tensors"
    desk.qtbot.waitUntil(lambda: count in dialog.explanation.text())
    dialog.reject()


@pytest.mark.long
def test_a_folder_that_is_not_there_is_reported(desk, tmp_path):
    desk.run("file.save_options")
    dialog = desk.child(SaveOptionsDialog)
    dialog.path.setText("")
    dialog.try_save()
    assert "Write a file name" in dialog.error.text()


# -- functions and parts ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_into_a_function_and_back(desk):
    desk.select(desk.node("second"), desk.node("third"))
    desk.run("node.extract_function")
    dialog = desk.child(TextPrompt)
    dialog.fields[0].setText("Gate")
    dialog.try_accept()
    assert [f.name for f in desk.document.model.functions] == ["Gate"]
    assert [n.op_type for n in desk.workspace.graph.nodes] == ["Mul", "Gate", "Softmax"]
    desk.run("node.inline")
    inlined = ["Mul", "Relu", "Add", "Softmax"]
    desk.qtbot.waitUntil(lambda: [n.op_type for n in desk.workspace.graph.nodes] == inlined)
    assert desk.document.undo_title == "Inline Gate"
    assert [node.op_type for node in desk.workspace.selection.nodes] == ["Relu", "Add"]
    desk.run("model.inline_all")
    desk.qtbot.waitUntil(lambda: desk.document.model.functions == ())


@pytest.mark.long
def test_a_detour_is_refused_in_the_dialog(desk):
    desk.select(desk.node("first"), desk.node("third"))
    desk.run("node.extract_function")
    dialog = desk.child(TextPrompt)
    dialog.try_accept()
    assert "second lies between its nodes" in dialog.error.text()
    dialog.reject()


@pytest.mark.long
def test_extract_opens_a_tab(desk):
    desk.select(desk.node("second"), desk.node("third"))
    desk.run("model.extract")
    desk.child(ExtractDialog).ok.click()
    desk.qtbot.waitUntil(lambda: len(desk.window.tabs()) == 2)
    desk.settle()
    graph = desk.workspace.graph
    assert (names(graph.inputs), names(graph.outputs), names(graph.initializers)) == (["a"], ["c"], ["b"])
    assert desk.window.tab.modified


@pytest.mark.long
def test_everything_between(desk):
    desk.select(desk.value("a"), desk.value("c"))
    desk.run("edit.select_between")
    assert [n.name for n in desk.workspace.selection.nodes] == ["third", "second"]
    desk.select(desk.value("a"), desk.value("c"))
    desk.run("model.extract_between")
    desk.child(ExtractDialog).ok.click()
    desk.settle()
    assert [n.name for n in desk.workspace.graph.nodes] == ["second", "third"]


@pytest.mark.long
def test_what_else_lies_between_takes_becomes_an_input(desk):
    """Inputs and outputs alone are refused there: z comes from nowhere."""
    desk.open("""g (float[2] x, float[2] z) => (float[2] y, float[2] s) {
        [one] a = Relu (x) [two] b = Add (a, z) [three] c = Neg (b) [four] s = Sin (b) [five] y = Exp (c) }""")
    desk.select(desk.value("a"), desk.value("c"))
    desk.run("model.extract_ends")
    dialog = desk.child(ExtractDialog)
    assert "Also needed: " in dialog.error.text()
    dialog.reject()
    desk.run("model.extract_between")
    desk.child(ExtractDialog).ok.click()
    desk.settle()
    graph = desk.workspace.graph
    assert [n.name for n in graph.nodes] == ["two", "three"]
    assert (names(graph.inputs), names(graph.outputs)) == (["a", "z"], ["b", "c"])


@pytest.mark.long
def test_by_inputs_and_outputs(desk):
    desk.select(desk.value("a"), desk.value("c"))
    desk.run("model.extract_ends")
    desk.child(ExtractDialog).ok.click()
    desk.settle()
    graph = desk.workspace.graph
    assert (names(graph.inputs), names(graph.outputs)) == (["a"], ["c"])


@pytest.mark.long
def test_split_in_two(desk):
    desk.select(desk.value("r"))
    desk.run("model.split")
    desk.child(ExtractDialog).ok.click()
    desk.settle()
    first, second = (tab.workspace.graph for tab in desk.window.tabs()[1:])
    assert (names(first.inputs), names(first.outputs)) == (["x", "unused"], ["r"])
    assert (names(second.inputs), names(second.outputs)) == (["r"], ["y"])


@pytest.mark.long
def test_a_model_is_split_at_what_nodes_compute_alone(desk):
    binding = desk.window.actions_binding

    def offered(*values):
        desk.select(*(desk.value(name) for name in values))
        binding.refresh()
        return binding.qaction("model.split").isEnabled()

    assert offered("r")
    assert offered("x", "r")
    assert not offered("x")


@pytest.mark.long
def test_parts_merged_give_the_whole(desk):
    desk.select(desk.value("r"))
    desk.run("model.split")
    desk.child(ExtractDialog).ok.click()
    desk.settle()
    second = desk.window.tabs()[2].workspace
    desk.window.area.activate(desk.window.tabs()[1])
    desk.run("model.merge_tab")
    popup = desk.child(ChoicePopup)
    desk.qtbot.keyClicks(popup.field, second.title)
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    desk.qtbot.waitUntil(lambda: desk.window.findChild(MergeDialog) is not None)
    dialog = desk.child(MergeDialog)
    assert dialog.connections() == {"r": "r"}
    merged(desk, dialog)
    desk.settle()
    assert [n.op_type for n in desk.workspace.graph.nodes] == ["Mul", "Relu", "Add", "Softmax"]
    desk.run("edit.undo")
    assert [n.op_type for n in desk.workspace.graph.nodes] == ["Mul", "Relu"]


@pytest.mark.long
def test_closing_a_document_during_a_merge_asks_nothing(desk, tmp_path):
    (tmp_path / "other.onnx").write_bytes(to_bytes(builders.document().model))
    desk.window.files.open([tmp_path / "other.onnx"])
    desk.qtbot.waitUntil(lambda: len(desk.window.tabs()) == 2)
    tab, other = desk.window.tabs()
    desk.window.area.activate(tab)
    desk.run("model.merge_tab")
    desk.qtbot.keyClick(desk.child(ChoicePopup).field, Qt.Key.Key_Return)
    desk.window.files.forget(tab)
    desk.qtbot.waitUntil(lambda: tab not in desk.window.tabs())
    desk.qtbot.waitUntil(lambda: not other.workspace.tasks.running)
    assert desk.window.findChild(MergeDialog) is None


def merged(desk, dialog):
    dialog.apply()
    desk.qtbot.waitUntil(lambda: not isValid(dialog))


@pytest.mark.long
def test_merge_from_a_file_with_other_names_and_clashes(desk, tmp_path):
    other = builders.document()
    with other.edit("Rename") as edit:
        for named in (*other.model.graph.values(), *other.model.graph.nodes):
            edit.do(SetField(named, "name", f"in_{named.name}"))
    with other.edit("Clash") as edit:
        from onnx_workbench.model.edits.values import rename_value

        rename_value(edit, builders.value(other, "in_r"), "r")
    path = tmp_path / "other.onnx"
    path.write_bytes(to_bytes(other.model))
    merge_file(desk.window.actions_binding.context, path)
    desk.qtbot.waitUntil(lambda: desk.window.findChild(MergeDialog) is not None)
    dialog = desk.child(MergeDialog)
    dialog.set_place(Place.AFTER)
    dialog.feed("in_x", "y")
    dialog.keep.click()
    dialog.prefix.setText("b/")
    assert "Names in use, changed by the prefix" in dialog.state.text()
    merged(desk, dialog)
    assert builders.value(desk.document, "b/r").producer.op_type == "Relu"
    assert names(desk.workspace.graph.outputs) == ["y", "in_y"]
    assert [p for p in Checker(desk.document).run() if p.severity == "error"] == []


@pytest.mark.long
def test_a_model_of_another_operator_set_is_made_to_fit_first(desk, tmp_path):
    path = tmp_path / "older.onnx"
    text = """<ir_version: 8, opset_import: ["" : 11]> older (float[N,4] y) => (float[N] total)
        { total = ReduceSum <axes = [1], keepdims = 0> (y) }"""
    path.write_bytes(to_bytes(builders.model(text)))
    merge_file(desk.window.actions_binding.context, path)
    desk.qtbot.waitUntil(lambda: desk.window.findChild(MergeDialog) is not None)
    assert desk.messages() == ["older.onnx was converted to match"]
    merged(desk, desk.child(MergeDialog))
    total = builders.value(desk.document, "total").producer
    assert total.inputs[0] is builders.value(desk.document, "y")
    assert total.inputs[1].initializer.numpy().tolist() == [1]
    assert [p for p in Checker(desk.document).run() if p.severity == "error"] == []


# -- scripts and operator sets ---------------------------------------------------------------------------------


@pytest.mark.long
def test_a_script_replays_on_another_export(desk, tmp_path):
    desk.select(desk.node("second"))
    desk.run("edit.delete_and_bridge")
    context = desk.window.actions_binding.context
    export_script(context, tmp_path / "edits.jsonl")
    assert desk.messages() == ["1 edit written to edits.jsonl."]
    desk.open()
    replay_script(context, tmp_path / "edits.jsonl")
    assert [n.op_type for n in desk.workspace.graph.nodes] == ["Mul", "Add", "Softmax"]
    assert desk.document.undo_title == "Delete and bridge second"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_script_that_may_never_end_is_not_read(desk, tmp_path):
    os.mkfifo(tmp_path / "edits.jsonl")
    with pytest.raises(ModelError, match="not a regular file"):
        replay_script(desk.window.actions_binding.context, tmp_path / "edits.jsonl")


@pytest.mark.long
def test_an_operator_set_is_listed_and_offered(desk, tmp_path):
    from onnx_workbench.model.io.protobuf import message_class

    document = message_class("OperatorSetProto")()
    document.magic, document.ir_version, document.domain, document.opset_version = "ONNXOPSET", 10, "com.acme", 1
    operator = document.operator.add()
    operator.op_type, operator.since_version, operator.doc_string = "Blend", 1, "Mixes two. Not more."
    path = tmp_path / "acme.onnxopset"
    path.write_bytes(document.SerializeToString())
    desk.window.files.open([path])
    desk.qtbot.waitUntil(lambda: desk.window.findChild(CustomOperatorsDialog) is not None)
    dialog = desk.child(CustomOperatorsDialog)
    assert dialog.tree.topLevelItem(0).child(0).text(0) == "Blend"
    assert schemas.find("Blend", 1, "com.acme") is not None
    dialog.tree.setCurrentItem(dialog.tree.topLevelItem(0))
    desk.qtbot.mouseClick(dialog.remove_button, Qt.MouseButton.LeftButton)
    assert schemas.find("Blend", 1, "com.acme") is None
    assert custom_operators.documents().opened == []
    dialog.close()


@pytest.mark.long
def test_an_action_for_one_node_says_so_of_very_many(desk):
    with desk.workspace.document.edit("Many") as edit:
        for number in range(1100):
            nodes.add_node(edit, desk.workspace.graph, "Abs", name=f"many{number}")
    before = desk.workspace.document.revision
    desk.run("edit.select_all")
    desk.run("node.to_initializer")
    assert desk.messages()[-1] == "No Constant node is selected"
    desk.run("model.type_rule")
    assert desk.messages()[-1] == "No custom operator is selected"
    assert desk.workspace.document.revision == before


@pytest.mark.long
def test_action_and_fix_give_an_output_its_known_shape(desk):
    value = desk.value("r")
    known = desk.workspace.types
    desk.qtbot.waitUntil(lambda: known.inferred is not None)
    SetField(value, "type", replace(known.type_of(value), shape=None)).apply()
    shape = known.type_of(value).shape
    desk.select(value)
    desk.run("graph.make_output")
    assert value.type.shape == shape
    builders.one_edit(desk.document, set_type, value, replace(value.type, shape=None))
    problems = desk.workspace.problems
    problems.start()

    def fixes():
        return [p.fix for p in problems.all if p.rule == "interface-shape" and p.fix is not None]

    desk.qtbot.waitUntil(lambda: bool(fixes()))
    builders.one_edit(desk.document, fixes()[0].apply)
    assert value.type.shape == shape


@pytest.mark.long
def test_values_change_their_part(desk):
    desk.select(desk.value("r"))
    desk.run("graph.make_output")
    assert names(desk.workspace.graph.outputs) == ["y", "r"]
    desk.run("graph.remove_output")
    assert names(desk.workspace.graph.outputs) == ["y"]
    desk.select(desk.value("w"), desk.value("b"))
    desk.run("value.to_constant")
    assert [n.op_type for n in desk.workspace.graph.nodes].count("Constant") == 2
    desk.select(*[n for n in desk.workspace.graph.nodes if n.op_type == "Constant"])
    desk.run("node.to_initializer")
    assert set(names(desk.workspace.graph.initializers)) == {"w", "b"}
    desk.select(desk.value("w"))
    desk.run("value.to_input")
    assert "w" in names(desk.workspace.graph.inputs)
    desk.run("graph.remove_unused_inputs")
    desk.qtbot.waitUntil(lambda: "unused" not in names(desk.workspace.graph.inputs))


@pytest.mark.long
def test_a_constant_node_becomes_an_initializer_or_an_input(desk):
    """Constants stand as rows in the nodes that take them: a click there selects the value."""
    desk.select(desk.value("w"))
    desk.run("value.to_constant")
    desk.select(desk.value("w"))
    desk.run("node.to_initializer")
    assert desk.value("w").initializer is not None
    assert desk.workspace.selection.current is desk.value("w")
    desk.run("value.to_constant")
    desk.select(desk.value("w"))
    desk.run("value.to_input")
    assert desk.value("w") in desk.workspace.graph.inputs
    assert desk.document.undo_title == "Make w an input"
    desk.run("edit.undo")
    assert desk.value("w").producer.op_type == "Constant"


@pytest.mark.long
def test_constants_of_bodies_and_functions_are_not_made_inputs(desk):
    desk.open(builders.BRANCHES)
    inner = desk.node("inner")
    with desk.document.edit("Constant") as edit:
        made = nodes.add_node(edit, inner.graph, "Constant", attributes={"value_float": 1.0})
    desk.select(made)
    before = desk.document.revision
    desk.run("value.to_input")
    assert desk.messages()[-1] == "Only the main graph takes inputs in this way"
    assert desk.document.revision == before


def test_an_input_becomes_a_constant_with_values_that_are_asked_for(desk):
    x = desk.value("x")
    desk.select(x)
    desk.run("value.only_constant")
    dialog = desk.child(TextPrompt)
    dialog.fields[0].setText("0.5")
    dialog.try_accept()
    assert "leaves dimensions open" in dialog.error.text()
    dialog.fields[0].setText("float[2,4] = 0.5")
    dialog.try_accept()
    assert x in desk.workspace.graph.initializers
    assert not x.is_input
    desk.run("value.to_input")
    assert x.is_input
    assert x.initializer is None


def test_the_batch_dimension_everywhere(desk):
    desk.run("graph.batch")
    dialog = desk.child(TextPrompt)
    dialog.fields[0].setText("8")
    dialog.try_accept()
    desk.qtbot.waitUntil(lambda: str(desk.value("x").type) == "float[8,4]")
    assert str(desk.value("y").type) == "float[8,4]"
    assert "The batch dimension is 8" in desk.messages()[-1]
    report = desk.window.tab.message_bar.messages[-1].detail
    assert report == "the first size of 2 inputs is 8 (was N, 4)"


def test_the_palette_finds_the_tools_by_the_names_of_their_commands(desk):
    """What the command line calls a tool is what people type first."""
    desk.select(desk.node("second"))
    desk.run("help.palette")
    palette = desk.window.palette_popup
    for command, title in (
        ("extract", "Extract Selection"),
        ("split", "Split the Model"),
        ("merge", "Merge"),
        ("simplify", "Simplify"),
        ("convert", "Convert"),
        ("infer", "Write Inferred Types"),
    ):
        palette.field.setText(command)
        assert palette.matching()[0].title.startswith(title), (command, [e.title for e in palette.matching()[:3]])
    palette.close()
