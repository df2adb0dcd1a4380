"""Cut, copy, paste, delete, bridge, duplicate, rename and adding, through menus and keys."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits.nodes import delete, delete_and_bridge, rename_node
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.viewer.canvas.rename_field import RenameField
from onnx_workbench.viewer.dialogs.convert import ConvertDialog
from onnx_workbench.viewer.document import clipboard
from onnx_workbench.viewer.popups.choice_popup import ChoicePopup
from onnx_workbench.viewer.popups.operator_palette import OperatorPalette, first_sentence
from tests.model import builders

NONE = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier


def ops(desk):
    return [node.op_type for node in desk.workspace.graph.nodes]


def key(desk, code, modifiers=NONE):
    desk.view.setFocus()
    desk.window.actions_binding.refresh()
    desk.qtbot.keyClick(desk.view, code, modifiers)


@pytest.mark.long
def test_delete_takes_nodes_and_undo_brings_them_back(desk, texts):
    before = texts()
    desk.select(desk.node("second"), desk.node("third"))
    key(desk, Qt.Key.Key_Delete)
    assert ops(desk) == ["Mul", "Softmax"]
    assert [v.name for v in desk.workspace.graph.initializers] == ["w"], "b was used by the deleted node alone"
    assert desk.workspace.selection.items == ()
    desk.run("edit.undo")
    assert texts() == before


def test_delete_and_bridge_joins_the_neighbours(desk):
    desk.select(desk.node("second"))
    key(desk, Qt.Key.Key_Delete, SHIFT)
    assert ops(desk) == ["Mul", "Add", "Softmax"]
    assert desk.node("third").inputs[0] is desk.node("first").outputs[0]


LONE = """
<ir_version: 10, opset_import: ["" : 21]>
g () => (float y) { [c] k = Constant <value_float = 1.0> () y = Relu (k) }
"""


@pytest.mark.long
def test_what_cannot_be_bridged_is_refused_with_the_reason(desk):
    desk.open(LONE)
    desk.select(desk.node("c"))
    desk.run("edit.delete_and_bridge")
    assert desk.messages() == ["c cannot be bridged"]
    assert ops(desk) == ["Constant", "Relu"]


@pytest.mark.long
def test_deleting_a_value_removes_its_wires_then_the_output(desk):
    r = desk.value("r")
    desk.select(r)
    key(desk, Qt.Key.Key_Delete)
    assert desk.node("third").inputs[0] is None
    assert desk.node("third").inputs[1] is desk.value("b")
    y = desk.value("y")
    desk.select(y)
    key(desk, Qt.Key.Key_Delete)
    assert y not in desk.workspace.graph.outputs
    desk.select(desk.value("unused"), desk.value("w"))
    key(desk, Qt.Key.Key_Delete)
    assert [v.name for v in desk.workspace.graph.inputs] == ["x"]
    assert [v.name for v in desk.workspace.graph.initializers] == ["b"]


@pytest.mark.long
def test_copy_and_paste_within_a_model_keeps_names_apart(desk):
    desk.select(desk.node("first"), desk.node("second"))
    key(desk, Qt.Key.Key_C, CTRL)
    key(desk, Qt.Key.Key_V, CTRL)
    assert sorted(ops(desk)) == ["Add", "Mul", "Mul", "Relu", "Relu", "Softmax"]
    pasted = desk.workspace.selection.nodes
    assert [node.op_type for node in pasted] == ["Mul", "Relu"]
    assert pasted[0].inputs[1] is desk.value("w"), "the same constant is shared"
    assert pasted[1].inputs[0] is pasted[0].outputs[0]
    assert len({node.name for node in desk.workspace.graph.nodes}) == 6


@pytest.mark.long
def test_paste_into_another_model_brings_constants(desk):
    desk.select(desk.node("first"))
    desk.run("edit.copy")
    desk.open(builders.BRANCHES, "other")
    desk.run("edit.paste")
    node = desk.workspace.selection.nodes[0]
    assert node.op_type == "Mul"
    assert node.inputs[0] is desk.value("x")
    assert node.inputs[1].initializer is not None
    assert node.inputs[1].name != "w", "that name was taken by another constant"


@pytest.mark.long
def test_paste_from_another_running_program(desk, monkeypatch):
    desk.select(desk.node("first"))
    desk.run("edit.copy")
    monkeypatch.setattr(clipboard, "_copied", {})  # as if this program had not copied it
    fragment = clipboard.copied()
    assert [node.op_type for node in fragment.graph.nodes] == ["Mul"]
    assert fragment.graph.initializers[0].initializer.numpy().tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.long
def test_other_programs_get_text(desk):
    desk.select(desk.node("fourth"))
    desk.run("edit.copy")
    assert QApplication.clipboard().text() == "[fourth] y = Softmax <axis = 1> (c)"


@pytest.mark.long
def test_cut_takes_them_out(desk):
    desk.select(desk.node("fourth"))
    key(desk, Qt.Key.Key_X, CTRL)
    assert ops(desk) == ["Mul", "Relu", "Add"]
    key(desk, Qt.Key.Key_V, CTRL)
    assert ops(desk) == ["Mul", "Relu", "Add", "Softmax"]


@pytest.mark.long
def test_paste_needs_nodes_on_the_clipboard(desk):
    QApplication.clipboard().setText("no nodes")
    desk.run("edit.paste")
    desk.window.actions_binding.refresh()
    assert not desk.window.actions_binding.qaction("edit.paste").isEnabled()


@pytest.mark.long
def test_nodes_of_several_graphs_are_not_copied(desk):
    desk.open(builders.BRANCHES)
    desk.select(desk.node("double"), desk.node("inner"))
    desk.run("edit.copy")
    assert desk.messages() == ["Select nodes of one graph"]


@pytest.mark.long
def test_duplicate_in_several_graphs_at_once(desk):
    desk.open(builders.BRANCHES)
    desk.select(desk.node("double"), desk.node("inner"))
    desk.run("edit.duplicate")
    copies = desk.workspace.selection.nodes
    assert [node.op_type for node in copies] == ["Add", "Mul"]
    assert [node.graph for node in copies] == [desk.node("double").graph, desk.node("inner").graph]


# -- renaming --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_rename_a_node_where_it_stands(desk):
    desk.select(desk.node("second"))
    key(desk, Qt.Key.Key_F2)
    field = desk.child(RenameField)
    assert field.text() == "second"
    field.selectAll()
    desk.qtbot.keyClicks(field, "gate")
    desk.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert desk.node("gate").op_type == "Relu"
    assert not desk.window.findChildren(RenameField) or not desk.window.findChildren(RenameField)[-1].isVisible()


@pytest.mark.long
def test_a_long_name_is_seen_whole_while_it_is_changed(desk):
    node = desk.node("second")
    builders.one_edit(desk.document, rename_node, node, "/encoder/layer.11/attention/output/dense/MatMul")
    desk.select(node)
    key(desk, Qt.Key.Key_F2)
    field = desk.child(RenameField)
    field.deselect()
    assert field.width() > field.fontMetrics().horizontalAdvance(field.text())
    assert desk.view.rect().contains(field.geometry())


@pytest.mark.long
def test_a_taken_name_is_refused_at_the_field(desk):
    desk.select(desk.value("r"))
    key(desk, Qt.Key.Key_F2)
    field = desk.child(RenameField)
    field.setText("a")
    desk.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert field.isVisible()
    assert "A value named a already exists" in field.error.text()
    desk.qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert not field.isVisible()
    assert desk.value("r").name == "r"


def test_bytes_of_a_name_that_are_not_utf8_outlive_a_change_in_place(desk):
    node = desk.node("second")
    builders.one_edit(desk.document, rename_node, node, "odd\udcff")
    desk.select(node)
    key(desk, Qt.Key.Key_F2)
    field = desk.child(RenameField)
    desk.qtbot.keyClick(field, Qt.Key.Key_End)
    desk.qtbot.keyClicks(field, "!")
    desk.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert node.name == "odd\udcff!"


def test_a_field_whose_node_is_gone_changes_nothing(desk):
    node = desk.node("second")
    desk.select(node)
    key(desk, Qt.Key.Key_F2)
    field = desk.child(RenameField)
    desk.qtbot.keyClicks(field, "x")
    builders.one_edit(desk.document, delete, [node])
    revision = desk.document.revision
    field.commit()
    assert not field.isVisible()
    assert (node.name, desk.document.revision) == ("second", revision)


def test_escape_keeps_the_name(desk):
    desk.select(desk.node("second"))
    key(desk, Qt.Key.Key_F2)
    field = desk.child(RenameField)
    desk.qtbot.keyClicks(field, "x")
    desk.qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert desk.node("second")
    assert not desk.document.modified


# -- the palette -----------------------------------------------------------------------------------------------


def palette(desk, text, modifiers=NONE):
    desk.run("node.add")
    popup = desk.child(OperatorPalette)
    desk.qtbot.keyClicks(popup.field, text)
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return, modifiers)
    return popup


def test_add_an_operator_by_itself(desk):
    palette(desk, "MatMul")
    node = desk.workspace.selection.nodes[0]
    assert (node.op_type, node.inputs) == ("MatMul", (None, None))
    assert node.graph is desk.workspace.graph


@pytest.mark.long
def test_functions_of_one_name_are_added_by_their_overloads(desk):
    wide, narrow = (Function("scale", "local", overload) for overload in ("wide", "narrow"))
    builders.do(desk.document, SetField(desk.document.model, "functions", (wide, narrow)))
    for function in (wide, narrow):
        palette(desk, f"scale:{function.overload}")
        node = desk.workspace.selection.nodes[0]
        assert node.operator == function.key


def test_add_after_the_selected_node(desk):
    desk.select(desk.node("second"))
    palette(desk, "Sigmoid")
    node = desk.workspace.selection.nodes[0]
    assert node.inputs == (desk.value("r"),)
    assert node.previous is desk.node("second")


def test_shift_leaves_it_unconnected(desk):
    desk.select(desk.node("second"))
    palette(desk, "Sigmoid", SHIFT)
    assert desk.workspace.selection.nodes[0].inputs == (None,)


def test_insert_on_an_edge(desk):
    desk.select(desk.value("r"))
    palette(desk, "Sigmoid")
    node = desk.workspace.selection.nodes[0]
    assert node.inputs == (desk.value("r"),)
    assert desk.node("third").inputs[0] is node.outputs[0]


def test_insert_beside_an_edge(desk):
    desk.select(desk.value("r"))
    palette(desk, "Sigmoid", SHIFT)
    assert desk.node("third").inputs[0] is desk.value("r")
    assert desk.workspace.selection.nodes[0].inputs == (desk.value("r"),)


def test_a_custom_operator_by_its_name(desk):
    palette(desk, "com.acme::Blend")
    node = desk.workspace.selection.nodes[0]
    assert (node.domain, node.op_type) == ("com.acme", "Blend")
    assert "com.acme" in desk.document.model.opset_imports


def test_functions_of_the_model_are_offered(desk):
    desk.open(builders.BRANCHES)
    palette(desk, "scale")
    node = desk.workspace.selection.nodes[0]
    assert (node.domain, node.op_type, len(node.inputs)) == ("local", "scale", 1)


def test_an_unknown_text_offers_nothing_when_it_is_no_name(desk):
    desk.run("node.add")
    popup = desk.child(OperatorPalette)
    popup.field.setText("two words")
    assert popup.matching() == []
    popup.close()


@pytest.mark.long
def test_the_palette_opens_inside_a_body_for_a_node_there(desk):
    desk.open(builders.BRANCHES)
    inner = desk.node("inner")
    desk.select(inner)
    palette(desk, "Relu")
    assert desk.workspace.selection.nodes[0].graph is inner.graph


@pytest.mark.long
def test_what_is_added_to_an_opened_body_is_shown_there(desk):
    desk.open(builders.BRANCHES)
    desk.view.expansion.expand(desk.box(desk.node("choose")))
    desk.settle()
    inner = desk.node("inner")
    for add in (lambda: palette(desk, "Relu"), lambda: desk.run("edit.duplicate")):
        desk.select(inner)
        add()
        desk.settle()
        made = desk.workspace.selection.nodes[0]
        assert made is not inner
        assert made.graph is inner.graph
        assert desk.workspace.graph is desk.workspace.model.graph
        assert desk.view.scene.drawing.boxes_of(made)


@pytest.mark.long
def test_the_breadcrumb_names_what_is_around_all_that_is_selected(desk):
    desk.open(builders.BRANCHES)
    choose, inner = desk.node("choose"), desk.node("inner")
    desk.view.expansion.expand(desk.box(choose))
    desk.settle()
    desk.select(inner)
    around = desk.view.navigator.trail()
    assert choose in [subject for _, subject in around]
    desk.select(desk.node("double"), inner)
    assert desk.view.navigator.trail() == []
    desk.select(inner, inner.outputs[0])
    assert desk.view.navigator.trail() == around


def test_an_operator_of_a_newer_opset_offers_to_convert_the_model(desk):
    desk.open(LONE.replace('"" : 21', '"" : 18'))
    desk.run("node.add")
    popup = desk.child(OperatorPalette)
    popup.field.setText("gelu")
    first, *others = popup.matching()
    assert first.note == "ai.onnx 20"
    assert first.detail == "Needs opset 20; this model imports 18. Enter converts first."
    assert "com.microsoft 1" in [choice.note for choice in others]
    before = ops(desk)
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    dialog = desk.child(ConvertDialog)
    assert dialog.opset.currentData() == 20
    assert (ops(desk), desk.workspace.model.opset_imports[""]) == (before, 18)  # nothing was done unasked
    dialog.reject()


AT_18 = """<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) {
    [first] a = Relu (x)
    [second] y = Neg (a)
}"""


def choose_gelu(desk, action="node.add", modifier=NONE):
    """Choose it in the palette; the dialog that converts for it, when it may be agreed to."""
    desk.run(action)
    popup = desk.child(OperatorPalette)
    popup.field.setText("gelu")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return, modifier)
    dialog = desk.child(ConvertDialog)
    assert dialog.ok.text() == "Convert and Use Gelu"
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    return dialog


def convert(desk, dialog):
    desk.qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    desk.qtbot.waitUntil(lambda: desk.workspace.model.opset_imports[""] == 20)
    desk.settle()


@pytest.mark.long
@pytest.mark.parametrize(("modifier", "wired"), [
    (NONE, ["Relu", "Gelu", "Neg"]), (SHIFT, ["Relu", "Neg"]),
])  # fmt: skip
def test_after_converting_the_operator_is_where_it_was_wanted(desk, modifier, wired):
    desk.open(AT_18)
    desk.select(desk.value("a"))
    dialog = choose_gelu(desk, modifier=modifier)
    desk.select(desk.node("second"))  # as one looks at what changes
    convert(desk, dialog)
    assert sorted(ops(desk)) == ["Gelu", "Neg", "Relu"]
    gelu = desk.workspace.selection.current
    assert (gelu.op_type, gelu.inputs) == ("Gelu", (desk.value("a"),))
    way = [desk.value("y").producer]
    while way[0].inputs[0].producer is not None:
        way.insert(0, way[0].inputs[0].producer)
    assert [node.op_type for node in way] == wired
    assert desk.messages()[-1] == "Converted to opset 20"
    assert desk.document.undo_title == "Add Gelu"
    desk.run("edit.undo")
    assert (ops(desk), desk.document.undo_title) == (["Relu", "Neg"], "Convert to opset 20")
    desk.run("edit.undo")
    assert desk.workspace.model.opset_imports[""] == 18


@pytest.mark.long
def test_after_the_conversion_the_operator_of_a_node_is_changed(desk):
    desk.open(AT_18)
    desk.select(desk.node("first"))
    convert(desk, choose_gelu(desk, "node.change_operator"))
    assert ops(desk) == ["Gelu", "Neg"]
    assert desk.node("first").op_type == "Gelu"


@pytest.mark.long
def test_an_operator_whose_place_vanished_is_reported(desk):
    desk.open(AT_18)
    desk.select(desk.node("second"))
    dialog = choose_gelu(desk)
    desk.run("edit.delete")
    desk.qtbot.waitUntil(lambda: not dialog.ok.isEnabled())
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    convert(desk, dialog)
    assert ops(desk) == ["Relu"]
    assert desk.messages()[-1] == "Gelu was not added"


@pytest.mark.long
def test_a_conversion_that_falls_short_of_the_operator_is_reported(desk):
    desk.open(AT_18)
    dialog = choose_gelu(desk)
    dialog.opset.setCurrentIndex(dialog.opset.findData(19))
    desk.qtbot.waitUntil(lambda: not dialog.ok.isEnabled())
    desk.qtbot.waitUntil(dialog.ok.isEnabled)
    desk.qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    desk.qtbot.waitUntil(lambda: desk.messages()[-1:] == ["Gelu is not available"])
    assert (ops(desk), desk.workspace.model.opset_imports[""]) == (["Relu", "Neg"], 19)


@pytest.mark.long
def test_an_older_function_is_offered_the_models_version(desk):
    desk.open("""<ir_version: 10, opset_import: ["" : 20, "local" : 1]> g (float x) => (float y) { y = local.f (x) }
        <domain: "local", opset_import: ["" : 18]> f (a) => (b) { [inner] b = Relu (a) }""")
    desk.workspace.navigation.reveal(next(iter(desk.workspace.model.functions[0].body.nodes)))
    desk.settle()
    desk.run("node.add")
    popup = desk.child(OperatorPalette)
    popup.field.setText("gelu")
    assert popup.matching()[0].detail == "Needs opset 20; this function imports 18. Enter converts first."
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    dialog = desk.child(ConvertDialog)
    assert dialog.opset.currentData() == 20
    dialog.reject()


def test_an_operator_of_a_newer_domain_opens_the_imports(desk):
    desk.open(LONE.replace('"" : 21', '"" : 21, "ai.onnx.ml" : 3'))
    desk.run("node.add")
    popup = desk.child(OperatorPalette)
    popup.field.setText("TreeEnsemble")
    chosen = popup.matching()[0]
    assert chosen.detail == "Needs ai.onnx.ml 5; this model imports 3. Enter shows the imports."
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert desk.workspace.selection.current is desk.workspace.model
    assert desk.messages()[-1] == "TreeEnsemble needs ai.onnx.ml 5"


def test_an_operator_that_is_there_already_is_offered_as_it_is(desk):
    desk.open(LONE.replace('"" : 21', '"" : 18'))
    desk.run("node.add")
    popup = desk.child(OperatorPalette)
    popup.field.setText("relu")
    assert [choice.detail for choice in popup.matching() if "From operator set" in choice.detail] == []
    assert len(popup.matching()) == len({(choice.title, choice.note.split()[0]) for choice in popup.matching()})
    popup.close()


@pytest.mark.long
def test_change_the_operator_of_several(desk):
    desk.select(desk.node("first"), desk.node("third"))
    desk.run("node.change_operator")
    popup = desk.child(OperatorPalette)
    desk.qtbot.keyClicks(popup.field, "Sub")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert ops(desk) == ["Sub", "Relu", "Sub", "Softmax"]


@pytest.mark.long
def test_a_node_deleted_while_its_new_operator_is_chosen_is_left_out(desk):
    desk.select(desk.node("first"), desk.node("third"))
    desk.run("node.change_operator")
    popup = desk.child(OperatorPalette)
    builders.one_edit(desk.workspace.document, delete_and_bridge, [desk.node("first")])
    desk.qtbot.keyClicks(popup.field, "Sub")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert ops(desk) == ["Relu", "Sub", "Softmax"]


@pytest.mark.long
def test_keys_of_the_graph_work_on_rows_of_the_outline(desk):
    desk.open(builders.BRANCHES)
    panel = desk.window.docks.open("outline")
    inner = desk.node("inner")
    panel.tree.setCurrentIndex(panel.model.index_of(inner))
    desk.qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    field = desk.child(RenameField)
    desk.qtbot.keyClicks(field, "renamed")
    desk.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert inner.name == "renamed"
    panel.tree.setCurrentIndex(panel.model.index_of(desk.node("double")))
    desk.qtbot.keyClick(panel.tree, Qt.Key.Key_Delete, SHIFT)
    assert ops(desk) == ["If", "scale"]
    panel.tree.setCurrentIndex(panel.model.index_of(desk.node("call")))
    desk.qtbot.keyClick(panel.tree, Qt.Key.Key_C, CTRL)
    desk.qtbot.keyClick(panel.tree, Qt.Key.Key_V, CTRL)
    assert ops(desk) == ["If", "scale", "scale"]
    desk.qtbot.waitUntil(lambda: len(panel.tree.selectionModel().selectedRows()) == 1)
    (row,) = panel.tree.selectionModel().selectedRows()
    assert row == panel.model.index_of(desk.workspace.graph.nodes[2])


# -- connecting by keyboard ------------------------------------------------------------------------------------


@pytest.mark.long
def test_connect_by_keyboard(desk):
    desk.select(desk.node("third"))
    desk.run("node.connect")
    popup = desk.child(ChoicePopup)
    assert [choice.title for choice in popup.matching()] == ["A", "B"]
    desk.qtbot.keyClicks(popup.field, "A")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    popup = desk.child(ChoicePopup)
    by_title = {choice.title: choice for choice in popup.matching()}
    assert "cycle" in by_title["c"].reason
    assert "cycle" in by_title["y"].reason
    desk.qtbot.keyClicks(popup.field, "x")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert desk.node("third").inputs[0] is desk.value("x")


@pytest.mark.long
def test_the_inputs_of_a_call_are_called_as_the_function_says(desk):
    desk.open(builders.BRANCHES)
    desk.select(desk.node("call"))
    desk.run("node.connect")
    popup = desk.child(ChoicePopup)
    assert [choice.title for choice in popup.matching()] == ["v"]
    popup.close()


def test_disconnect_by_keyboard(desk):
    desk.select(desk.node("third"))
    desk.run("node.connect")
    popup = desk.child(ChoicePopup)
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    popup = desk.child(ChoicePopup)
    desk.qtbot.keyClicks(popup.field, "nothing")
    desk.qtbot.keyClick(popup.field, Qt.Key.Key_Return)
    assert desk.node("third").inputs[0] is None


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2])
def test_outputs_come_and_go(desk, times):
    desk.open("""
        g (float[4] x) => (float[2] y) { [split] a, b = Split <axis = 0, num_outputs = 2> (x) [right] y = Relu (b) }
    """)
    desk.select(desk.node("split"))
    for _ in range(times):
        desk.run("node.add_output")
    assert len(desk.node("split").outputs) == 2 + times
    for _ in range(times + 1):
        desk.run("node.remove_output")
    assert desk.messages() == ["Output b is used"]


def test_outputs_are_as_many_as_the_operator_has(desk):
    desk.select(desk.node("second"))  # a Relu
    desk.window.actions_binding.refresh()
    for action in ("node.add_output", "node.remove_output"):
        assert not desk.window.actions_binding.qaction(action).isEnabled()


def test_the_first_sentence_of_an_operator_shows_no_markup():
    doc = "Product as of [numpy.matmul](https://numpy.org/doc/matmul.html).\nMore [of it](x)."
    assert first_sentence(doc) == "Product as of numpy.matmul."


def test_the_menu_of_a_constant_takes_values_from_a_file(desk):
    def titles(value):
        desk.select(desk.value(value))
        return [action.text() for action in desk.window.actions_binding.context_menu("value", desk.window).actions()]

    graph = desk.workspace.graph
    constant = next(value for value in graph.values() if value.initializer is not None)
    computed = next(node for node in graph.nodes if node.op_type != "Constant").outputs[0]
    assert "Import Values…" in titles(constant.name)
    assert "Import Values…" not in titles(computed.name)


def test_the_history_calls_one_node_by_its_name(desk):
    for action in ("edit.duplicate", "edit.copy", "edit.paste", "edit.cut"):
        desk.select(desk.node("first"))
        desk.run(action)
    titles, entry = [], desk.document.current
    while entry.parent is not None:
        titles.append(entry.title)
        entry = entry.parent
    assert titles == ["Cut first", "Paste first", "Duplicate first"]


@pytest.mark.long
@pytest.mark.parametrize("owner", ["body", "function"])
def test_nodes_are_added_and_pasted_into_the_graph_that_is_selected(desk, owner):
    desk.open(builders.BRANCHES)
    if owner == "body":
        chosen = graph = desk.node("inner").graph
    else:
        (chosen,) = desk.workspace.model.functions
        graph = chosen.body
    before = len(graph.nodes)
    desk.select(desk.node("double"))
    desk.run("edit.copy")
    desk.select(chosen)
    desk.run("edit.paste")
    assert len(graph.nodes) == before + 1
    desk.select(chosen)
    palette(desk, "Relu")
    assert graph.nodes.last.op_type == "Relu"
    assert desk.workspace.selection.items == (graph.nodes.last,)
