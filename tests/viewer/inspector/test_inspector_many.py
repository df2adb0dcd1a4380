"""Several objects at once in the inspector."""

from onnx_workbench.model.edits import attributes, nodes
from onnx_workbench.model.history.document import Document
from onnx_workbench.viewer.run.workspace import Workspace
from tests.model import builders
from tests.viewer.canvas.graphs import long_chain
from tests.viewer.inspector.inspector_actions import press, relu, row, shown, write


def test_several_nodes_are_edited_as_one(qtbot, net):
    panel, workspace, conv, _, _ = net
    copies = builders.one_edit(workspace.document, nodes.duplicate, [conv])
    builders.one_edit(workspace.document, attributes.set_attribute, conv, "group", 3)
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
    press(qtbot, panel, "attributes", "group", title="Reset to default")
    assert not any("group" in n.attributes for n in everyone)
    assert workspace.document.current.parent.parent.parent is before


def test_a_wrong_text_for_several_changes_none(qtbot, net):
    panel, workspace, conv, _, _ = net
    copies = builders.one_edit(workspace.document, nodes.duplicate, [conv])
    workspace.selection.set([conv, *copies])
    write(qtbot, panel, "attributes", "strides", text="x")
    assert panel.tree.fields.error_text
    assert all(n.attributes["strides"].value == (1, 1) for n in (conv, *copies))


def test_nodes_and_values_together_are_counted(panel, workspace):
    workspace.selection.set([relu(workspace), *workspace.model.graph.inputs])
    assert row(panel, "selected").text == "1 node, 2 values"


def test_of_very_many_nodes_only_what_is_shown_is_looked_at(qtbot):
    workspace = Workspace(Document(long_chain(1500).model()))
    everyone = list(workspace.graph.nodes)
    with workspace.document.edit("Others") as edit:
        for node in everyone[:3]:
            nodes.change_operator(edit, node, "Neg")
    panel = shown(qtbot, workspace)
    workspace.selection.set(everyone)
    qtbot.waitUntil(lambda: row(panel, "selected").text == "1,500 nodes")
    assert row(panel, "operators", "operator Relu").text == "1497"
    assert not panel.tree.rows.find("attributes").isValid()
    press(qtbot, panel, "operators", "operator Neg", title="Select only these")
    assert workspace.selection.items == tuple(everyone[:3])
    qtbot.waitUntil(lambda: row(panel, "selected").text == "3 nodes")
    builders.one_edit(workspace.document, nodes.delete, everyone[1200:1300])
    panel.go_back()
    assert workspace.selection.items == (*everyone[:1200], *everyone[1300:])
    workspace.selection.clear()
    qtbot.waitUntil(lambda: not panel.tree.rows.find("selected").isValid())
    workspace.close()


class Gone(tuple):
    """The functions of a model, and how often somebody went through them all."""

    __slots__ = ()
    times = 0

    def __iter__(self):
        Gone.times += 1
        return super().__iter__()


def test_selecting_many_nodes_does_not_scan_all_functions(panel, workspace):
    """A thousand nodes beside fifty thousand functions blocked the window for seconds."""
    with workspace.document.edit("More") as edit:
        calls = [node for node in workspace.graph.nodes if node.op_type == "Twice"]
        for _ in range(20):
            nodes.duplicate(edit, calls)
    calls = [node for node in workspace.graph.nodes if node.op_type == "Twice"]
    model = workspace.model
    model.functions = Gone(model.functions)
    model.function("", "")  # the lookup is made
    Gone.times = 0
    workspace.selection.set(calls)
    assert row(panel, "selected").text == "21 nodes"
    assert {suggestion.note for suggestion in row(panel, "domain").field.choices()} == {"", "functions"}
    assert Gone.times <= 2
