"""The inspector through its widgets: what is shown, edited with mouse and keyboard, refused and taken back."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QLineEdit

from model import schemas
from model.attributes import Attribute, AttributeKind, make_attribute
from model.document import Document
from model.edits import attributes, nodes
from model.graph import DeviceConfiguration, Graph, Model, Node, Value
from model.steps import InsertNode, SetAttribute, SetField, SetGraphInputs, SetInitializer
from model.tensors import ArrayTensor
from model.types import ElementType, Shape, TensorType
from viewer.panels.inspector import InspectorPanel
from viewer.panels.inspector.lists import ListWindow
from viewer.text import type_text
from viewer.workspace import Workspace


@pytest.fixture(autouse=True)
def _signatures():
    schemas.preload()


@pytest.fixture
def panel(qtbot, workspace):
    return shown(qtbot, workspace)


def shown(qtbot, workspace):
    panel = InspectorPanel(workspace)
    qtbot.addWidget(panel)
    panel.resize(380, 900)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


def index(panel, *path):
    found = panel.tree.rows.find(*path)
    assert found.isValid(), path
    parent = found.siblingAtColumn(0).parent()
    while parent.isValid():
        panel.tree.expand(parent)
        parent = parent.parent()
    panel.tree.scrollTo(found)
    return found


def row(panel, *path):
    found = panel.tree.rows.row(panel.tree.rows.find(*path))
    assert found is not None, path
    return found


def begin(qtbot, panel, *path, column=1):
    """Double-click a cell; returns the field that opened."""
    found = index(panel, *path).siblingAtColumn(column)
    area = panel.tree.visualRect(found)
    position = area.topLeft()
    position += area.center() - area.topLeft()
    position.setX(area.left() + 12)
    qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    qtbot.mouseDClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert panel.tree.editor is not None, path
    return panel.tree.editor


def write(qtbot, panel, *path, text, column=1):
    """Double-click, type, Enter."""
    editor = begin(qtbot, panel, *path, column=column)
    editor.selectAll()
    qtbot.keyClick(editor, Qt.Key.Key_Delete)
    qtbot.keyClicks(editor, text)
    modifier = Qt.KeyboardModifier.ControlModifier if editor.field.lines else Qt.KeyboardModifier.NoModifier
    qtbot.keyClick(editor, Qt.Key.Key_Return, modifier)


def press(qtbot, panel, *path, title):
    """Click the button of a row."""
    found = index(panel, *path)
    for action, area in panel.tree.buttons(found):
        if action.title == title:
            qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=area.center())
            return
    raise AssertionError([a.title for a, _ in panel.tree.buttons(found)])


def choose(panel, *path, titles):
    """Trigger an entry of a row's context menu, through submenus."""
    menu = panel.tree.menu(index(panel, *path))
    for title in titles[:-1]:
        menu = next(a.menu() for a in menu.actions() if a.text() == title)
    action = next(a for a in menu.actions() if a.text().partition("\t")[0] == titles[-1])
    action.trigger()


def relu(workspace):
    return workspace.model.graph.nodes.first


def conv_workspace():
    """A Conv with a weight, a Cast, a Concat and a Constant."""
    graph = Graph("net")
    x = Value("x", TensorType(ElementType.FLOAT, Shape((1, 3, 8, 8))))
    flags = Value("flags", TensorType(ElementType.BOOL, Shape((2,))))
    SetGraphInputs(graph, (x, flags)).apply()
    weight = Value("w")
    SetInitializer(graph, weight, ArrayTensor(np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2) - 4)).apply()
    conv = Node(
        "Conv", (x, weight), (Value("c"),), name="conv", attributes={"strides": make_attribute("strides", (1, 1))}
    )
    InsertNode(graph, conv).apply()
    cast = Node("Cast", (conv.outputs[0],), (Value("h"),), name="cast", attributes={"to": make_attribute("to", 10)})
    InsertNode(graph, cast).apply()
    concat = Node(
        "Concat", (x, conv.outputs[0]), (Value("y"),), name="cat", attributes={"axis": make_attribute("axis", 1)}
    )
    InsertNode(graph, concat).apply()
    model = Model(graph, opset=18)
    return Workspace(Document(model), title="net"), conv, cast, concat


@pytest.fixture
def net(qtbot):
    workspace, conv, cast, concat = conv_workspace()
    panel = shown(qtbot, workspace)
    yield panel, workspace, conv, cast, concat
    workspace.close()


# -- what is shown --------------------------------------------------------------------------------------------


def test_it_shows_the_selection_and_the_graph_without_one(panel, workspace):
    assert row(panel, "owner").text == "main graph"
    workspace.selection.set([relu(workspace)])
    assert row(panel, "op_type").text == "Relu"
    assert row(panel, "inputs", "input 0").text == "x"
    assert row(panel, "inputs", "input 0").label == "X"
    assert row(panel, "inputs", "input 0").note == "float batch×3"
    workspace.selection.set([workspace.model])
    assert row(panel, "ir_version").text == "10"
    workspace.selection.clear()
    assert row(panel, "owner").text == "main graph"


def test_the_way_back_leads_to_what_was_shown(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    workspace.selection.set([workspace.model])
    qtbot.mouseClick(panel.head.back, Qt.MouseButton.LeftButton)
    assert workspace.selection.items == (relu(workspace),)
    qtbot.mouseClick(panel.head.model, Qt.MouseButton.LeftButton)
    assert workspace.selection.items == (workspace.model,)


def test_defaults_are_greyed_and_missing_ones_named(net):
    panel, workspace, conv, cast, _ = net
    workspace.selection.set([conv])
    group = row(panel, "attributes", "group")
    assert (group.text, group.style, group.note) == ("1", "muted", "default")
    with workspace.document.edit("Remove") as edit:
        attributes.remove_attribute(edit, cast, "to")
    workspace.selection.set([cast])
    assert (row(panel, "attributes", "to").text, row(panel, "attributes", "to").style) == ("required", "error")


def test_element_types_are_shown_and_set_by_name(qtbot, net):
    panel, workspace, _, cast, _ = net
    workspace.selection.set([cast])
    assert row(panel, "attributes", "to").text == "float16"
    write(qtbot, panel, "attributes", "to", text="int8")
    assert cast.attributes["to"].value == ElementType.INT8
    write(qtbot, panel, "attributes", "to", text="7")
    assert row(panel, "attributes", "to").text == "int64"


def test_documentation_is_that_of_the_opset_and_holds_no_html(net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    assert "Conv" in panel.help.title.text()
    assert "convolution" in panel.help.text.toPlainText().lower()
    panel.tree._set_current(index(panel, "attributes", "auto_pad"))
    assert panel.help.title.text().startswith("Conv.auto_pad")


def test_texts_of_files_stay_plain_text(qtbot):
    graph = Graph("<b>g</b>")
    node = Node("<i>Op</i>", name="<img src=x>\u202e", domain="odd")
    InsertNode(graph, node).apply()
    workspace = Workspace(Document(Model(graph, opset=18)), title="hostile")
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert row(panel, "name").text == "<img src=x>\\u202e"
    assert not panel.tree.rows.find("op_type").data(Qt.ItemDataRole.ToolTipRole)
    workspace.close()


# -- attributes -----------------------------------------------------------------------------------------------


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
    panel.tree._set_current(index(panel, "attributes", "alpha"))
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
    choose(panel, "attributes", "more", titles=["Change kind", "floats"])
    assert node.attributes["more"] == make_attribute("more", (1.0, 2.0))
    press(qtbot, panel, "attributes", "more", title="Remove")
    assert "more" not in node.attributes
    for _ in range(4):
        document.undo()
    assert list(node.attributes) == ["alpha"]
    assert not document.modified


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
    panel.tree._set_current(index(panel, "attributes", "strides"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert "strides" not in conv.attributes
    assert row(panel, "attributes", "strides").style == "muted"


def test_a_type_attribute_is_written_as_a_type(qtbot, workspace):
    node = relu(workspace)
    node._attributes["kind"] = make_attribute("kind", TensorType(ElementType.FLOAT))
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "kind", text="seq(int64[N])")
    assert str(node.attributes["kind"].value) == "seq(int64[N])"
    write(qtbot, panel, "attributes", "kind", text="sq(int64)")
    assert panel.tree.fields.error_text


def test_a_tensor_shows_its_first_values(qtbot, workspace):
    node = relu(workspace)
    node._attributes["value"] = make_attribute("value", ArrayTensor(np.array([1, 2, 3], np.int64)))
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert row(panel, "attributes", "value").text == "int64 3 · 24 B"
    panel.tree.expand(panel.tree.rows.find("attributes", "value").siblingAtColumn(0))
    row(panel, "attributes", "value", "values")
    qtbot.waitUntil(lambda: row(panel, "attributes", "value", "values").text == "1, 2, 3")


def test_a_body_is_gone_into(qtbot, panel, workspace):
    branch = workspace.model.graph.nodes[2]
    workspace.selection.set([branch])
    press(qtbot, panel, "attributes", "then_branch", title="Open then_branch")
    assert workspace.graph is branch.attributes["then_branch"].value


def test_attributes_of_functions_are_referred_to(qtbot, workspace):
    function = workspace.model.functions[0]
    with workspace.document.edit("Signature") as edit:
        edit.do(SetField(function, "attributes", ("where",)))
    node = function.body.nodes.first
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "attributes", "axis", text="0")
    choose(panel, "attributes", "axis", titles=["Take from function attribute", "where"])
    assert node.attributes["axis"].reference == "where"
    assert row(panel, "attributes", "axis").text == "= where of the function"
    write(qtbot, panel, "attributes", "axis", text="nowhere")
    assert "no attribute nowhere" in panel.tree.fields.error_text


# -- node -----------------------------------------------------------------------------------------------------


def test_name_domain_and_operator_are_changed(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "name", text="first")
    assert node.name == "first"
    write(qtbot, panel, "op_type", text="Elu")
    assert node.op_type == "Elu"
    assert row(panel, "attributes", "alpha").style == "normal"
    write(qtbot, panel, "op_type", text="local::Twice")
    assert (node.domain, node.op_type) == ("local", "Twice")
    assert row(panel, "op_type").note == "function of the model"
    write(qtbot, panel, "op_type", text="Relu")
    assert (node.domain, node.op_type) == ("", "Relu")


def test_a_taken_name_is_refused(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    write(qtbot, panel, "name", text="Neg_1")
    assert "already" in panel.tree.fields.error_text
    assert relu(workspace).name == "Relu_0"


def test_operators_are_offered_while_typing(qtbot, panel, workspace):
    workspace.selection.set([relu(workspace)])
    editor = begin(qtbot, panel, "op_type")
    editor.selectAll()
    qtbot.keyClicks(editor, "softm")
    model = editor.completer().model()
    assert [model.index(i, 0).data(Qt.ItemDataRole.EditRole) for i in range(2)] == [
        "Softmax",
        "SoftmaxCrossEntropyLoss",
    ]


def test_inputs_are_connected_and_disconnected(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    assert row(panel, "inputs", "input 2").style == "muted"
    write(qtbot, panel, "inputs", "input 2", text="w")
    assert conv.inputs[2].name == "w"
    press(qtbot, panel, "inputs", "input 2", title="Disconnect")
    assert len(conv.inputs) == 2
    write(qtbot, panel, "inputs", "input 0", text="y")
    assert "cycle" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "inputs", "input 0", text="nothing")
    assert "no value named nothing" in panel.tree.fields.error_text


def test_variadic_inputs_grow_and_shrink(qtbot, net):
    panel, workspace, _, _, concat = net
    workspace.selection.set([concat])
    write(qtbot, panel, "inputs", "+", text="x")
    assert [v.name for v in concat.inputs] == ["x", "c", "x"]
    press(qtbot, panel, "inputs", "input 0", title="Disconnect")
    assert [v.name for v in concat.inputs] == ["c", "x"]


def test_values_are_offered_with_what_fits_first(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv])
    editor = begin(qtbot, panel, "inputs", "input 0")
    editor.drop_down()
    model = editor.completer().model()
    offered = [model.index(i, 0) for i in range(model.rowCount())]
    names = [i.data(Qt.ItemDataRole.EditRole) for i in offered]
    assert names[:2] == ["x", "w"]
    assert "cycle" in offered[names.index("y")].data(Qt.ItemDataRole.ToolTipRole)
    assert "takes" in offered[names.index("flags")].data(Qt.ItemDataRole.ToolTipRole)


def test_outputs_are_renamed_added_and_left_out(qtbot, workspace):
    graph = workspace.model.graph
    with workspace.document.edit("Add") as edit:
        node = nodes.add_node(edit, graph, "TopK")
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "outputs", "output 0", text="best")
    assert node.outputs[0].name == "best"
    press(qtbot, panel, "outputs", "output 1", title="Leave out")
    assert len(node.outputs) == 1
    write(qtbot, panel, "outputs", "output 1", text="where")
    assert [v.name for v in node.outputs] == ["best", "where"]


def test_following_an_input_selects_its_producer(qtbot, panel, workspace):
    neg = workspace.model.graph.nodes[1]
    workspace.selection.set([neg])
    press(qtbot, panel, "inputs", "input 0", title="Go to the producer")
    assert workspace.selection.items == (relu(workspace),)


def test_texts_and_metadata(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "doc_string", text="what it is")
    assert node.doc_string == "what it is"
    write(qtbot, panel, "metadata", "+", text="scope = layer 1")
    assert node.metadata == {"scope": "layer 1"}
    write(qtbot, panel, "metadata", "metadata scope", text="place", column=0)
    write(qtbot, panel, "metadata", "metadata place", text="layer 2")
    assert node.metadata == {"place": "layer 2"}
    press(qtbot, panel, "metadata", "metadata place", title="Remove")
    assert not node.metadata
    workspace.document.undo()
    assert node.metadata == {"place": "layer 2"}


def test_devices(qtbot, workspace):
    with workspace.document.edit("Devices") as edit:
        edit.do(SetField(workspace.model, "configurations", (DeviceConfiguration("two", 2),)))
    panel = shown(qtbot, workspace)
    node = relu(workspace)
    workspace.selection.set([node])
    write(qtbot, panel, "devices", "+", text="three")
    assert "No device configuration" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "devices", "+", text="two")
    write(qtbot, panel, "devices", "device two", text="1")
    assert node.device_configurations[0].pipeline_stage == 1


def test_bodies_and_training_graphs_are_edited_alike(qtbot, panel, workspace):
    model = workspace.model
    for node in (
        model.graph.nodes[2].bodies[0].nodes.first,
        model.functions[0].body.nodes.first,
        model.training_info[0].algorithm.nodes.first,
    ):
        workspace.selection.set([node])
        write(qtbot, panel, "name", text="renamed")
        assert node.name == "renamed"
        write(qtbot, panel, "attributes", "+", text="free = 1")
        assert node.attributes["free"].value == 1
        workspace.document.undo()
        assert "free" not in node.attributes


def test_bytes_that_are_not_utf8_survive_an_edit(qtbot, panel, workspace):
    node = relu(workspace)
    with workspace.document.edit("Odd") as edit:
        edit.do(SetField(node, "name", "odd\\\udc80"))
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "name")
    assert editor.text() == "odd\\\\\\x80"
    qtbot.keyClick(editor, Qt.Key.Key_End)
    qtbot.keyClicks(editor, "!")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert node.name == "odd\\\udc80!"


def test_what_is_wrong_is_said_and_mended(qtbot, panel, workspace):
    workspace.problems.start()
    node = relu(workspace)
    workspace.selection.set([node])
    qtbot.waitUntil(lambda: panel.tree.rows.find("problems").isValid())
    first = panel.tree.rows.row(panel.tree.rows.index(0, 1, panel.tree.rows.find("problems").siblingAtColumn(0)))
    assert first.text == "Relu_0 has an attribute alpha"
    press(qtbot, panel, "problems", first.key, title=first.actions[0].title)
    assert not node.attributes
    qtbot.waitUntil(lambda: not panel.tree.rows.find("problems").isValid())


# -- undo, echo, focus ----------------------------------------------------------------------------------------


def test_what_is_typed_survives_changes_elsewhere(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "attributes", "alpha")
    editor.selectAll()
    qtbot.keyClicks(editor, "0.7")
    with workspace.document.edit("Elsewhere") as edit:
        edit.do(SetAttribute(node, "aaa", make_attribute("aaa", 1)))
    workspace.document.undo()
    assert panel.tree.editor is editor
    assert (editor.text(), editor.cursorPosition()) == ("0.7", 3)
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert node.attributes["alpha"].value == pytest.approx(0.7)


def test_the_current_row_survives_undo_and_another_node(qtbot, panel, workspace):
    first, second = relu(workspace), workspace.model.graph.nodes[1]
    workspace.selection.set([first])
    panel.tree._set_current(index(panel, "inputs", "input 0"))
    with workspace.document.edit("Elsewhere") as edit:
        edit.do(SetAttribute(first, "aaa", make_attribute("aaa", 1)))
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "input 0")
    workspace.selection.set([second])
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("inputs", "input 0")


def test_selecting_something_else_takes_what_was_typed(qtbot, panel, workspace):
    first, second = relu(workspace), workspace.model.graph.nodes[1]
    workspace.selection.set([first])
    editor = begin(qtbot, panel, "attributes", "alpha")
    editor.selectAll()
    qtbot.keyClicks(editor, "0.75")
    workspace.selection.set([second])
    assert first.attributes["alpha"].value == 0.75
    assert panel.tree.editor is None
    assert row(panel, "op_type").text == "Neg"


def test_leaving_the_field_takes_what_was_typed(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "attributes", "alpha")
    editor.selectAll()
    qtbot.keyClicks(editor, "2.5")
    panel.head.model.setFocus()
    QApplication.processEvents()
    assert node.attributes["alpha"].value == 2.5


def test_tab_goes_on_to_the_next_field(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    editor = begin(qtbot, panel, "op_type")
    qtbot.keyClick(editor, Qt.Key.Key_Tab)
    assert panel.tree.rows.path(panel.tree.currentIndex()) == ("name",)
    assert panel.tree.editor is not None
    assert panel.tree.editor.text() == "Relu_0"


def test_labels_get_more_room_by_dragging(qtbot, panel):
    tree = panel.tree
    before = tree.columnWidth(0)
    start = QPoint(before, 30)
    qtbot.mousePress(tree.viewport(), Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(tree.viewport(), start + QPoint(40, 0))
    qtbot.mouseRelease(tree.viewport(), Qt.MouseButton.LeftButton, pos=start + QPoint(40, 0))
    assert abs(tree.columnWidth(0) - before - 40) <= 2


def test_its_keys_win_over_the_windows_shortcuts(qtbot, panel, workspace):
    node = relu(workspace)
    workspace.selection.set([node])
    fired = []
    for keys in ("Del", "F2", "Ctrl+C"):
        shortcut = QShortcut(QKeySequence(keys), panel)
        shortcut.activated.connect(lambda keys=keys: fired.append(keys))
    panel.activate()
    panel.tree._set_current(index(panel, "attributes", "alpha"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(panel.tree, Qt.Key.Key_F2)
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    qtbot.keyClick(panel.tree, Qt.Key.Key_Delete)
    assert fired == []
    assert QApplication.clipboard().text() == "0.5"
    assert "alpha" not in node.attributes


def test_what_was_collapsed_stays_so(panel, workspace):
    first, second = relu(workspace), workspace.model.graph.nodes[1]
    workspace.selection.set([first])
    inputs = panel.tree.rows.find("inputs").siblingAtColumn(0)
    panel.tree.collapse(inputs)
    workspace.selection.set([second])
    assert not panel.tree.isExpanded(panel.tree.rows.find("inputs").siblingAtColumn(0))


# -- value ----------------------------------------------------------------------------------------------------


def test_a_value_is_renamed_typed_and_made_an_output(qtbot, panel, workspace):
    value = relu(workspace).outputs[0]
    workspace.selection.set([value])
    write(qtbot, panel, "name", text="hidden")
    write(qtbot, panel, "type", text="float[batch,3]")
    assert (value.name, type_text(value.type)) == ("hidden", "float batch×3")
    write(qtbot, panel, "type", text="float[batch,-3]")
    assert "cannot be a dimension" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    press(qtbot, panel, "role", title="Make it an output")
    assert value in workspace.model.graph.outputs
    press(qtbot, panel, "role", title="Remove from outputs")
    assert value not in workspace.model.graph.outputs
    press(qtbot, panel, "uses", "use 0", title="Go there")
    assert workspace.selection.items == (workspace.model.graph.nodes[1],)


def test_denotations_are_set_and_outlive_a_new_type(qtbot, panel, workspace):
    value = workspace.model.graph.inputs[0]
    workspace.selection.set([value])
    write(qtbot, panel, "denotation", text="IMAGE")
    write(qtbot, panel, "denotations", text="DATA_BATCH")
    assert "1 denotations for 2" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "denotations", text="DATA_BATCH, DATA_CHANNEL")
    write(qtbot, panel, "type", text="float16[8, 4]")
    assert value.type == TensorType(
        ElementType.FLOAT16, Shape((8, 4), ("DATA_BATCH", "DATA_CHANNEL")), denotation="IMAGE"
    )


def test_a_name_that_is_taken_is_refused(qtbot, panel, workspace):
    value = relu(workspace).outputs[0]
    workspace.selection.set([value])
    write(qtbot, panel, "name", text="x")
    assert "value named x already" in panel.tree.fields.error_text


def test_an_initializer_tells_statistics_and_histogram(qtbot, net):
    panel, workspace, conv, _, _ = net
    workspace.selection.set([conv.inputs[1]])
    assert row(panel, "initializer").text == "float 2×3×2×2 · 96 B"
    qtbot.waitUntil(lambda: panel.tree.rows.find("initializer", "histogram 0").isValid())
    assert row(panel, "initializer", "range").text == "-4 … 19"
    assert row(panel, "initializer", "zeros").text == "1"
    assert sum(row(panel, "initializer", "histogram 0").bars) == 24
    assert row(panel, "initializer", "values").text.startswith("-4, -3, -2")
    panel.grab()


# -- graph, function, model -----------------------------------------------------------------------------------


def test_graph_inputs_are_added_typed_moved_renamed_and_removed(qtbot, panel, workspace):
    graph = workspace.model.graph
    workspace.selection.set([graph])
    write(qtbot, panel, "inputs", "+", text="z: int64[N]")
    assert [v.name for v in graph.inputs] == ["x", "flag", "z"]
    assert type_text(graph.inputs[2].type) == "int64 N"
    panel.activate()
    panel.tree._set_current(index(panel, "inputs", "input 2 z"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [v.name for v in graph.inputs] == ["x", "z", "flag"]
    write(qtbot, panel, "inputs", "input 1 z", text="zed", column=0)
    write(qtbot, panel, "inputs", "input 1 zed", text="float")
    press(qtbot, panel, "inputs", "input 1 zed", title="Remove input")
    assert [v.name for v in graph.inputs] == ["x", "flag"]


def test_a_used_input_stays_and_says_why(qtbot, panel, workspace, heard):
    messages = heard(workspace.messaged)
    workspace.selection.set([workspace.model.graph])
    press(qtbot, panel, "inputs", "input 0 x", title="Remove input")
    assert "is used" in messages[0].title
    assert len(workspace.model.graph.inputs) == 2


def test_graph_outputs_are_chosen_among_the_values(qtbot, panel, workspace):
    graph = workspace.model.graph
    workspace.selection.set([graph])
    write(qtbot, panel, "outputs", "+", text="chosen")
    assert [v.name for v in graph.outputs] == ["y", "chosen"]
    write(qtbot, panel, "outputs", "+", text="chosen")
    assert "output already" in panel.tree.fields.error_text


def test_a_functions_signature_and_its_calls(qtbot, panel, workspace):
    function = workspace.model.functions[0]
    call = workspace.model.graph.nodes.last
    workspace.selection.set([function])
    write(qtbot, panel, "inputs", "+", text="bias")
    assert [v.name for v in function.body.inputs] == ["x", "bias"]
    assert len(call.inputs) == 2
    write(qtbot, panel, "name", text="Double")
    assert (function.name, call.op_type) == ("Double", "Double")
    write(qtbot, panel, "attributes", "+", text="alpha = 0.5")
    write(qtbot, panel, "attributes", "+", text="beta")
    assert function.attributes == ("beta",)
    assert function.attribute_defaults == (make_attribute("alpha", 0.5),)
    write(qtbot, panel, "attributes", "attribute alpha", text="2.0")
    assert function.attribute_defaults[0].value == 2.0
    press(qtbot, panel, "attributes", "attribute beta", title="Remove")
    assert function.attributes == ()
    write(qtbot, panel, "opsets", "+", text="ai.onnx = 18")
    assert function.opset_imports[""] == 18


def test_a_models_fields(qtbot, panel, workspace):
    model = workspace.model
    workspace.selection.set([model])
    write(qtbot, panel, "ir_version", text="11")
    write(qtbot, panel, "producer_name", text="me")
    write(qtbot, panel, "model_version", text="-3")
    assert (model.ir_version, model.producer_name, model.model_version) == (11, "me", -3)
    write(qtbot, panel, "ir_version", text="0")
    assert "not an IR version" in panel.tree.fields.error_text
    qtbot.keyClick(panel.tree.editor, Qt.Key.Key_Escape)
    write(qtbot, panel, "opsets", "opset ", text="19")
    write(qtbot, panel, "opsets", "+", text="com.microsoft")
    assert model.opset_imports == {"": 19, "com.microsoft": 1}
    press(qtbot, panel, "opsets", "opset com.microsoft", title="Remove")
    write(qtbot, panel, "functions", "+", text="mine::New")
    assert model.functions[1].key == ("mine", "New", "")
    press(qtbot, panel, "functions", "function 1", title="Remove")
    assert len(model.functions) == 1
    write(qtbot, panel, "configurations", "+", text="pair = cpu:0, cpu:1")
    assert model.configurations[0].devices == ("cpu:0", "cpu:1")
    write(qtbot, panel, "training", "training 0", "update", text="w = y")
    assert "No initializer" in panel.tree.fields.error_text


# -- several --------------------------------------------------------------------------------------------------


def test_several_nodes_are_edited_as_one(qtbot, net):
    panel, workspace, conv, _, _ = net
    with workspace.document.edit("More") as edit:
        copies = nodes.duplicate(edit, [conv])
    with workspace.document.edit("Differ") as edit:
        attributes.set_attribute(edit, conv, "group", 3)
    everyone = [conv, *copies]
    workspace.selection.set(everyone)
    assert row(panel, "selected").text == "2 nodes"
    assert row(panel, "attributes", "strides").text == "[1, 1]"
    assert row(panel, "attributes", "group").text == "2 different"
    assert not panel.tree.rows.find("name").isValid()
    before = workspace.document.current
    write(qtbot, panel, "attributes", "strides", text="2, 2")
    write(qtbot, panel, "attributes", "group", text="1")
    assert [n.attributes["strides"].value for n in everyone] == [(2, 2)] * 2
    assert [n.attributes["group"].value for n in everyone] == [1, 1]
    press(qtbot, panel, "attributes", "group", title="Back to the default")
    assert not any("group" in n.attributes for n in everyone)
    assert workspace.document.current.parent.parent.parent is before


def test_a_wrong_text_for_several_changes_none(qtbot, net):
    panel, workspace, conv, _, _ = net
    with workspace.document.edit("More") as edit:
        copies = nodes.duplicate(edit, [conv])
    workspace.selection.set([conv, *copies])
    write(qtbot, panel, "attributes", "strides", text="x")
    assert panel.tree.fields.error_text
    assert all(n.attributes["strides"].value == (1, 1) for n in (conv, *copies))


def test_nodes_and_values_together_are_counted(panel, workspace):
    workspace.selection.set([relu(workspace), *workspace.model.graph.inputs])
    assert row(panel, "selected").text == "1 node, 2 values"


# -- large things ---------------------------------------------------------------------------------------------


def test_ten_thousand_inputs_are_rows_made_when_looked_at(qtbot):
    graph = Graph("wide")
    SetGraphInputs(graph, tuple(Value(f"i{n}") for n in range(10_000))).apply()
    workspace = Workspace(Document(Model(graph, opset=18)), title="wide")
    panel = shown(qtbot, workspace)
    workspace.selection.set([graph])
    assert row(panel, "inputs").text == "10000"
    inputs = panel.tree.rows.find("inputs").siblingAtColumn(0)
    panel.tree.expand(inputs)
    assert panel.tree.rows.rowCount(inputs) == 10_001
    write(qtbot, panel, "inputs", "input 9999 i9999", text="float")
    assert type_text(graph.inputs[-1].type) == "float"
    workspace.close()


def test_a_long_list_opens_in_a_window_of_its_own(qtbot, workspace):
    node = relu(workspace)
    node._attributes["long"] = Attribute("long", AttributeKind.INTS, tuple(range(100_000)))
    panel = shown(qtbot, workspace)
    workspace.selection.set([node])
    assert row(panel, "attributes", "long").text.startswith("100,000: [0, 1, 2")
    panel.activate()
    panel.tree._set_current(index(panel, "attributes", "long"))
    qtbot.keyClick(panel.tree, Qt.Key.Key_Return)
    window = panel.findChild(ListWindow)
    assert window.elements.rowCount() == 100_000
    window.table.setCurrentIndex(window.elements.index(7, 0))
    window.table.edit(window.elements.index(7, 0))
    editor = window.table.viewport().findChild(QLineEdit)
    editor.selectAll()
    qtbot.keyClicks(editor, "-5")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: node.attributes["long"].value[6:9] == (6, -5, 8))
    window.elements.setData(window.elements.index(7, 0), "five")
    assert "not a whole number" in window.status.text()
    window.add()
    window.remove()
    QApplication.clipboard().setText("[3, 4]")
    window.paste()
    assert node.attributes["long"].value == (3, 4)
    workspace.document.undo()
    assert len(window.elements.values) >= 100_000
    window.close()


def test_a_megabyte_of_text_is_elided(qtbot, panel, workspace):
    node = relu(workspace)
    with workspace.document.edit("Long") as edit:
        edit.do(SetAttribute(node, "text", make_attribute("text", "x" * 1_000_000)))
        edit.do(SetField(node, "doc_string", "y" * 1_000_000))
    workspace.selection.set([node])
    assert len(row(panel, "attributes", "text").text) <= 300
    assert len(row(panel, "doc_string").text) <= 300
    panel.grab()
    editor = begin(qtbot, panel, "doc_string")
    qtbot.keyClick(editor, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(editor, "z")
    qtbot.keyClick(editor, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert node.doc_string == "y" * 1_000_000 + "z"
