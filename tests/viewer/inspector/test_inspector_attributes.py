"""Attributes through the inspector's widgets: shown, typed, chosen, stepped, converted, refused."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication

from onnx_workbench.model.edits.initializers import add_initializer
from onnx_workbench.model.history.steps import SetAttribute, SetField
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.tensors import ArrayTensor
from onnx_workbench.model.ir.types import ElementType, TensorType
from onnx_workbench.model.text.types import parse_type
from onnx_workbench.viewer.dialogs.edit_text import EditTextDialog
from tests.model import builders
from tests.viewer.inspector.inspector_actions import begin, index, press, relu, row, shown, write


def test_a_value_is_typed_and_taken_back(qtbot, panel, workspace):
    node, document = relu(workspace), workspace.document
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "alpha", text="0.25")
    assert node.attributes["alpha"].value == 0.25
    assert row(panel, "attributes", "alpha").text == "0.25"
    assert document.undo_title == "Set alpha of Relu_0"
    assert panel.tree.hasFocus()
    document.undo()
    assert row(panel, "attributes", "alpha").text == "0.5"


def test_f2_begins_and_esc_cancels(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    panel.activate()
    panel.tree.set_current(index(panel, "attributes", "alpha"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    editor = panel.tree.editor
    qtbot.keyClicks(editor, "9")
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert panel.tree.editor is None
    assert node.attributes["alpha"].value == 0.5
    assert not workspace.document.modified


def test_the_same_text_is_no_edit(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    editor = begin(qtbot, panel, "attributes", "alpha")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert not workspace.document.modified


def test_wrong_input_is_refused_at_the_field(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "alpha", text="much")
    assert panel.tree.editor is not None
    assert panel.tree.editor.text() == "much"
    assert "not a number" in panel.tree.fields.error_text
    assert "not a number" in panel.tree.editor.accessibleDescription()
    assert node.attributes["alpha"].value == 0.5
    assert not workspace.document.modified
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    assert panel.tree.fields.error_text == ""


def test_arrows_step_as_one_entry_and_esc_takes_them_back(qtbot, net):
    panel, workspace, _, _, concat = net
    workspace.selection.set([concat])
    editor = begin(qtbot, panel, "attributes", "axis")
    for _ in range(3):
        qtbot.keyClick(editor, Qt.Key.Key_Up)
    assert concat.attributes["axis"].value == 4
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    workspace.document.undo()
    assert concat.attributes["axis"].value == 1
    editor = begin(qtbot, panel, "attributes", "axis")
    qtbot.keyClick(editor, Qt.Key.Key_Down)
    assert concat.attributes["axis"].value == 0
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert concat.attributes["axis"].value == 1
    assert not workspace.document.modified


def test_lists_are_typed_with_or_without_brackets(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    assert row(panel, "attributes", "strides").text == "[1, 1]"
    write(qtbot, panel, "attributes", "strides", text="2, 2")
    assert conv.attributes["strides"].value == (2, 2)
    write(qtbot, panel, "attributes", "strides", text="[3,3]")
    assert conv.attributes["strides"].value == (3, 3)
    write(qtbot, panel, "attributes", "kernel_shape", text="2 2")
    assert conv.attributes["kernel_shape"].kind is AttributeKind.INTS


def test_a_choice_is_picked_from_the_list(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    editor = begin(qtbot, panel, "attributes", "auto_pad")
    editor.drop_down()
    assert editor.is_dropped_down
    shown = [editor.completer().popup().model().index(i, 0).data(Qt.ItemDataRole.EditRole) for i in range(4)]
    assert shown == ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]
    popup = editor.completer().popup()
    qtbot.mouseClick(
        popup.viewport(), Qt.MouseButton.LeftButton, pos=popup.visualRect(popup.model().index(3, 0)).center()
    )
    qtbot.waitUntil(lambda: "auto_pad" in conv.attributes)
    assert conv.attributes["auto_pad"].value == "VALID"
    assert panel.tree.editor is None


def test_attributes_are_added_renamed_converted_and_removed(qtbot, panel, workspace):
    node, document = relu(workspace), workspace.document
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "+", text="extra = [1, 2]")
    assert node.attributes["extra"] == make_attribute("extra", (1, 2))
    write(qtbot, panel, "attributes", "extra", text="more", column=0)
    assert "extra" not in node.attributes
    write(qtbot, panel, "attributes", "more", "kind", text="floats")
    assert node.attributes["more"] == make_attribute("more", (1.0, 2.0))
    press(qtbot, panel, "attributes", "more", title="Remove")
    assert "more" not in node.attributes
    for _ in range(4):
        document.undo()
    assert list(node.attributes) == ["alpha"]
    assert not document.modified


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("new: float = 2", AttributeKind.FLOAT, 2.0),
        ("new : ints=[1, 2]", AttributeKind.INTS, (1, 2)),
        ("new: string = a: b = c", AttributeKind.STRING, "a: b = c"),
        ("new: type_proto = float[N,3]", AttributeKind.TYPE_PROTO, parse_type("float[N,3]")),
        ("new: strings", AttributeKind.STRINGS, ()),
        ("alpha2 = 1", AttributeKind.INT, 1),
    ],
)
def test_a_new_attribute_may_be_written_with_its_kind(qtbot, panel, workspace, text, kind, value):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "+", text=text)
    added = node.attributes[list(node.attributes)[-1]]
    assert (added.kind, added.value) == (kind, value)


def test_new_nontext_attributes_begin_plain_and_open_their_field(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "+", text="weights: tensor")
    assert node.attributes["weights"].kind is AttributeKind.TENSOR
    write(qtbot, panel, "attributes", "+", text="body: graph = {}")
    assert "then open it" in panel.tree.fields.error_text
    editor = panel.tree.editor
    editor.selectAll()
    qtbot.keyClicks(editor, "body: grpah")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert "not an attribute type" in panel.tree.fields.error_text


def test_a_new_attribute_needs_a_value_and_a_free_name(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    write(qtbot, panel, "attributes", "+", text="beta")
    assert "needs a value" in panel.tree.fields.error_text
    editor = panel.tree.editor
    editor.selectAll()
    qtbot.keyClicks(editor, "alpha = 1")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert "already" in panel.tree.fields.error_text


def test_delete_puts_a_default_back(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    panel.activate()
    panel.tree.set_current(index(panel, "attributes", "strides"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert "strides" not in conv.attributes
    assert row(panel, "attributes", "strides").style == "muted"


def test_a_type_attribute_is_written_as_a_type(qtbot, workspace):
    node = relu(workspace)
    SetAttribute(node, "kind", make_attribute("kind", TensorType(ElementType.FLOAT))).apply()
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "kind", text="seq(int64[N])")
    assert str(node.attributes["kind"].value) == "seq(int64[N])"
    write(qtbot, panel, "attributes", "kind", text="sq(int64)")
    assert panel.tree.fields.error_text


def test_a_tensor_shows_its_first_values(qtbot, workspace):
    node = relu(workspace)
    SetAttribute(node, "value", make_attribute("value", ArrayTensor(np.array([1, 2, 3], np.int64)))).apply()
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert row(panel, "attributes", "value").text == "int64 [3] · 24 B"
    panel.tree.expand(panel.tree.rows.find("attributes", "value").siblingAtColumn(0))
    row(panel, "attributes", "value", "values")
    qtbot.waitUntil(lambda: row(panel, "attributes", "value", "values").text == "1, 2, 3")


def test_enter_on_the_first_values_opens_them_all(qtbot, workspace, received):
    node = relu(workspace)
    tensor = ArrayTensor(np.array([1, 2, 3], np.int64))
    SetAttribute(node, "own", make_attribute("own", tensor)).apply()
    constant = builders.one_edit(workspace.document, add_initializer, workspace.graph, tensor)
    panel = shown(qtbot, workspace)
    asked = received(workspace.action_requested)
    for item, path in ((node, ("attributes", "own", "values")), (constant, ("initializer", "values"))):
        workspace.selection.set([item])
        panel.tree.setCurrentIndex(index(panel, *path))
        qtbot.keyClick(panel.tree, Qt.Key.Key_Return)
    assert asked == ["panel.tensor", "panel.tensor"]


def test_a_double_click_on_a_tensor_opens_its_values_and_f2_the_name(qtbot, workspace, received):
    node = relu(workspace)
    SetAttribute(node, "own", make_attribute("own", ArrayTensor(np.array([1, 2, 3], np.int64)))).apply()
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    asked = received(workspace.action_requested)
    position = panel.tree.visualRect(index(panel, "attributes", "own")).topLeft() + QPoint(20, 5)
    qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    qtbot.mouseDClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert asked == ["panel.tensor"]
    assert panel.tree.editor is None
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    assert panel.tree.editor.text_now() == "own"


def test_a_body_is_gone_into(qtbot, panel, workspace):
    branch = workspace.model.graph.nodes[2]
    workspace.selection.set([branch])
    press(qtbot, panel, "attributes", "then_branch", title="Open then_branch")
    assert workspace.graph is branch.attributes["then_branch"].value


@pytest.fixture
def inside(qtbot, workspace):
    """The panel at the node of a function that has an attribute."""
    function = workspace.model.functions[0]
    builders.do(workspace.document, SetField(function, "attributes", ("where",)))
    panel = shown(qtbot, workspace)
    workspace.selection.set([function.body.nodes.first])
    return panel, function.body.nodes.first


def test_attributes_of_functions_are_referred_to(qtbot, inside):
    panel, node = inside
    write(qtbot, panel, "attributes", "axis", text="0")
    write(qtbot, panel, "attributes", "axis", "reference", text="where")
    assert node.attributes["axis"].reference == "where"
    assert row(panel, "attributes", "axis").text == "= where of the function"
    write(qtbot, panel, "attributes", "axis", text="nowhere")
    assert "no attribute nowhere" in panel.tree.fields.error_text


def test_a_value_typed_over_a_reference_takes_its_place(qtbot, inside):
    panel, node = inside
    write(qtbot, panel, "attributes", "axis", text="@where")
    assert node.attributes["axis"].reference == "where"
    write(qtbot, panel, "attributes", "axis", text="2")
    assert (node.attributes["axis"].reference, node.attributes["axis"].value) == ("", 2)
    write(qtbot, panel, "attributes", "axis", text="@2")
    assert "no attribute 2" in panel.tree.fields.error_text


def editor_of(panel, name):
    """The dialog that opens for an attribute too long for a field."""
    panel.tree.begin_edit(index(panel, "attributes", name))
    return next(w for w in QApplication.topLevelWidgets() if isinstance(w, EditTextDialog) and w.isVisible())


def test_a_long_list_is_edited_one_element_a_line(qtbot, workspace):
    node = relu(workspace)
    SetAttribute(node, "long", Attribute("long", AttributeKind.INTS, tuple(range(3_000)))).apply()
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert row(panel, "attributes", "long").text.startswith("3,000: [0, 1, 2")
    dialog = editor_of(panel, "long")
    assert dialog.note.text() == "3,000 elements"
    lines = dialog.text.toPlainText().split("\n")
    lines[7:9] = ["five,", "9,"]
    dialog.text.setPlainText("\n".join(lines))
    qtbot.waitUntil(lambda: "not a whole number" in dialog.error.text())
    assert not dialog.ok.isEnabled()
    dialog.text.setPlainText("\n".join([*lines[:7], "-5,", *lines[8:]]))
    qtbot.waitUntil(dialog.ok.isEnabled)
    qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    assert node.attributes["long"].value[6:9] == (6, -5, 9)
    workspace.document.undo()
    assert node.attributes["long"].value == tuple(range(3_000))


def test_strings_of_any_characters_are_kept_in_a_long_list(qtbot, panel, workspace):
    node = relu(workspace)
    begun = ("a, b", 'c"d\n\t', "\u00a0\u2028 bytes \udcff", "中文") * 1_000
    builders.do(workspace.document, SetAttribute(node, "texts", make_attribute("texts", begun)))
    workspace.selection.set([node])
    dialog = editor_of(panel, "texts")
    dialog.text.appendPlainText(',"more"')
    qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    assert node.attributes["texts"].value == (*begun, "more")


def test_an_attribute_is_described_and_its_kind_chosen(qtbot, net):
    panel, workspace, _, _, concat = net
    workspace.selection.set([concat])
    write(qtbot, panel, "attributes", "axis", "doc_string", text="which way")
    assert concat.attributes["axis"].doc_string == "which way"
    write(qtbot, panel, "attributes", "axis", text="2")
    assert concat.attributes["axis"].doc_string == "which way"
    write(qtbot, panel, "attributes", "axis", "kind", text="ints")
    assert concat.attributes["axis"].value == (2,)
    write(qtbot, panel, "attributes", "axis", "kind", text="number")
    assert "not an attribute type" in panel.tree.fields.error_text


def test_a_list_of_types_is_written(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "+", text="types = 1")
    write(qtbot, panel, "attributes", "types", "kind", text="types")
    write(qtbot, panel, "attributes", "types", text="float[1,N], seq(int64)")
    assert [str(t) for t in node.attributes["types"].value] == ["float[1,N]", "seq(int64)"]
    write(qtbot, panel, "attributes", "types", text="float[1,N], sequence of numbers")
    assert panel.tree.fields.error_text


@pytest.mark.parametrize("kind", ["tensors", "sparse tensors", "graphs"])
def test_lists_of_tensors_and_graphs_grow(qtbot, panel, workspace, kind):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "+", text="many = 1")
    write(qtbot, panel, "attributes", "many", "kind", text=kind)
    for _ in range(2):
        press(qtbot, panel, "attributes", "many", title=f"Add a {kind[:-1]}")
    titles = [action.title for action in row(panel, "attributes", "many").actions]
    assert ("Open values" in titles) == (kind != "graphs")
    assert len(node.attributes["many"].value) == 2
    assert row(panel, "attributes", "many", "element 1").text
    assert all(graph.owner is node for graph in node.attributes["many"].graphs)


def test_a_reference_becomes_a_value_again(qtbot, inside):
    panel, node = inside
    write(qtbot, panel, "attributes", "axis", text="0")
    write(qtbot, panel, "attributes", "axis", "doc_string", text="way")
    write(qtbot, panel, "attributes", "axis", "reference", text="where")
    assert (node.attributes["axis"].reference, node.attributes["axis"].doc_string) == ("where", "way")
    write(qtbot, panel, "attributes", "axis", "reference", text="")
    assert (node.attributes["axis"].reference, node.attributes["axis"].value) == ("", 1)


def test_references_are_written_as_the_graph_shows_them(qtbot, inside):
    panel, node = inside
    write(qtbot, panel, "attributes", "axis", text="@where")
    assert node.attributes["axis"].reference == "where"
    write(qtbot, panel, "attributes", "axis", text="@where")
    assert panel.tree.fields.error_text == ""
    for added, kind in (("odd: int = @where", "INT"), ("way: string = @where", "STRING"), ("mine: string = @home", "")):
        write(qtbot, panel, "attributes", "+", text=added)
        attribute = node.attributes[added.partition(":")[0]]
        if kind:
            assert (attribute.reference, attribute.kind.name) == ("where", kind)
        else:
            assert (attribute.reference, attribute.value) == ("", "@home")
    write(qtbot, panel, "attributes", "+", text="axes: ints = @nowhere")
    assert "no attribute nowhere" in panel.tree.fields.error_text
    assert "axes" not in node.attributes


def test_renaming_keeps_the_reference(qtbot, inside):
    panel, node = inside
    write(qtbot, panel, "attributes", "+", text="odd = 1")
    write(qtbot, panel, "attributes", "odd", "reference", text="where")
    write(qtbot, panel, "attributes", "odd", text="even", column=0)
    assert node.attributes["even"].reference == "where"


@pytest.mark.parametrize("begun", ["x" * 30_000, "bytes \udcff " + "y" * 30_000])
def test_a_long_text_is_edited_unless_it_has_changed(qtbot, panel, workspace, begun):
    node = relu(workspace)
    builders.do(workspace.document, SetAttribute(node, "text", make_attribute("text", begun)))
    workspace.selection.set([node])
    dialog = editor_of(panel, "text")
    dialog.text.moveCursor(QTextCursor.MoveOperation.End)
    qtbot.keyClicks(dialog.text, "!")
    builders.do(workspace.document, SetField(workspace.model, "producer_name", "me"))
    qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    assert node.attributes["text"].value == begun + "!"
    dialog = editor_of(panel, "text")
    workspace.document.undo()
    qtbot.mouseClick(dialog.ok, Qt.MouseButton.LeftButton)
    assert "has changed" in dialog.error.text()
    assert node.attributes["text"].value == begun
    dialog.reject()
