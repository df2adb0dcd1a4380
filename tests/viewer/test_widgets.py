import threading

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QObject, QPoint, QRect, Qt
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from onnx_workbench.model.ir.graph import Function, Graph, Node, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor
from onnx_workbench.viewer.document.messages import Message
from onnx_workbench.viewer.style.labels import name_of, path_to, place_text
from onnx_workbench.viewer.tables.raw_message_model import RawMessageModel
from onnx_workbench.viewer.tasks.tasks import TaskRunner
from onnx_workbench.viewer.widgets.message_bar import MessageBar
from onnx_workbench.viewer.widgets.start_page import StartPage
from onnx_workbench.viewer.widgets.status_line import StatusLine, selection_text


@pytest.fixture
def bar(qtbot, workspace):
    bar = MessageBar(workspace)
    qtbot.addWidget(bar)
    return bar


class CountingPaints(QWidget):
    """Counts how often it is painted."""

    def __init__(self):
        super().__init__()
        self.setMinimumSize(40, 40)
        self.painted = 0

    def paintEvent(self, _event):
        self.painted += 1


def branch(workspace):
    return next(node for node in workspace.model.graph.nodes if node.name == "branch")


# -- messages --------------------------------------------------------------------------------------------------


def test_a_message_shows_its_texts_as_plain_text(bar, workspace):
    assert bar.isHidden()
    workspace.messages.show("error", "Cannot <b>read</b>", "line one\nline two\x1b", branch(workspace))
    assert not bar.isHidden()
    labels = [label for label in bar.findChildren(QLabel) if label.text()]
    assert labels[0].text() == "Cannot <b>read</b>\nline one\nline two\\x1b\nAt node branch in main."
    assert labels[0].textFormat() == Qt.TextFormat.PlainText


def test_show_goes_to_the_place(bar, workspace):
    inner = next(iter(branch(workspace).bodies[0].nodes))
    workspace.messages.show("warning", "Look here", place=inner)
    show = next(button for button in bar.findChildren(QPushButton) if button.text() == "Show")
    show.click()
    assert workspace.graph is inner.graph
    assert workspace.selection.items == (inner,)


def test_a_choice_is_done_and_closes_the_message(bar, workspace):
    done = []
    workspace.messages.show("info", "Really?", choices=(("Yes", lambda: done.append("yes")), ("No", lambda: None)))
    bar.findChildren(QPushButton)[0].click()
    assert done == ["yes"]
    assert bar.messages == []
    assert bar.isHidden()


def test_the_same_message_stands_there_once_and_old_ones_make_room(bar, workspace):
    for title in ("a", "b", "a", "c", "d"):
        workspace.messages.show("error", title)
    assert [message.title for message in bar.messages] == ["a", "c", "d"]
    assert bar.close_newest()
    assert [message.title for message in bar.messages] == ["a", "c"]
    bar.clear()
    assert not bar.close_newest()


def test_a_question_is_not_driven_out_by_news(bar):
    asked = [("Recover", lambda: None)]
    for name in "abcd":
        bar.show_message(Message("warning", f"question {name}", choices=tuple(asked)))
    for name in "xyz":
        bar.show_message(Message("info", f"news {name}"))
    assert [m.title for m in bar.messages] == [*(f"question {n}" for n in "abcd"), "news z"]
    for name in "efg":
        bar.show_message(Message("warning", f"question {name}", choices=tuple(asked)))
    assert [m.title[-1] for m in bar.messages] == list("bcdefg")


def are_below(text, others):
    """Which of the widgets begin where a text has ended."""
    bottom = text.mapToGlobal(QPoint(0, text.height())).y()
    return [other.mapToGlobal(QPoint()).y() >= bottom for other in others]


def test_buttons_move_below_the_text_where_it_gets_narrow(qtbot):
    holder = QWidget()
    qtbot.addWidget(holder)
    bar = MessageBar(parent=holder)
    column = QVBoxLayout(holder)
    column.addWidget(bar)
    column.addStretch()
    choices = tuple((title, lambda: None) for title in ("Recover", "Not Now", "Delete for Good"))
    bar.show_message(Message("warning", "Unsaved changes were found", "They come from another day.", choices=choices))
    text = next(label for label in bar.findChildren(QLabel) if label.text())
    buttons = bar.findChildren(QPushButton)
    holder.show()
    for width, below in ((900, False), (220, True), (900, False)):
        holder.resize(width, 500)
        qtbot.waitUntil(lambda below=below: are_below(text, buttons) == [below] * 3)
        qtbot.waitUntil(lambda below=below: bar.height() <= (250 if below else 60))
        qtbot.waitUntil(
            lambda: all(bar.rect().contains(QRect(one.mapTo(bar, QPoint()), one.size())) for one in buttons)
        )
        assert text.height() >= text.heightForWidth(text.width())


def test_what_disappears_by_itself_is_below_what_stays(qtbot, bar, workspace):
    for severity, title in ("info", "Saved"), ("error", "Failed"), ("info", "Copied"), ("warning", "Look"):
        workspace.messages.show(severity, title)

    def shown():
        labels = [label for label in bar.findChildren(QLabel) if label.text() and label.isVisible()]
        return [label.text() for label in sorted(labels, key=lambda label: label.mapTo(bar, QPoint()).y())]

    qtbot.waitUntil(lambda: shown() == ["Failed", "Look", "Copied"])


def test_a_bar_without_a_workspace_offers_no_place_to_go_to(qtbot, workspace):
    bar = MessageBar()
    qtbot.addWidget(bar)
    bar.show_message(Message("error", "No", place=branch(workspace)))
    assert bar.findChildren(QPushButton) == []


# -- start page ------------------------------------------------------------------------------------------------


def test_while_a_file_opens_only_that_is_said(qtbot, settings):
    page = StartPage(settings)
    qtbot.addWidget(page)
    page.show()
    page.show_waiting("Opening model.onnx…")
    assert not page.open_button.isVisible()
    page.show_waiting("")
    assert page.open_button.isVisible()


def test_all_recent_files_are_in_view(qtbot, settings, tmp_path):
    page = StartPage(settings)
    qtbot.addWidget(page)
    page.resize(900, 800)
    page.show()
    for number in range(10):
        settings.add_recent_file(tmp_path / f"{number}.onnx")
    qtbot.waitUntil(lambda: page.recent.viewport().height() > 0)
    last = page.recent.visualItemRect(page.recent.item(9))
    assert page.recent.viewport().rect().contains(last)


def test_recent_files_appear_as_they_are_added_and_show_no_markup(qtbot, settings, tmp_path):
    page = StartPage(settings)
    qtbot.addWidget(page)
    page.show()
    assert not page.recent.isVisible()
    settings.add_recent_file(tmp_path / "a\u202eb.onnx")
    assert page.recent.isVisible()
    assert page.recent.item(0).text().startswith("a\\u202eb.onnx")


# -- status line -----------------------------------------------------------------------------------------------


def test_what_is_selected_in_one_line(workspace):
    relu, _, choice, _ = workspace.model.graph.nodes
    graph, model, function = workspace.graph, workspace.model, workspace.model.functions[0]
    unnamed = Node("Abs", domain="my.domain")

    def declared(value):
        return value.type

    chosen = [(), (relu,), (unnamed,), (graph,), (model,), (function,), (function.body,)]
    assert [selection_text(items, declared) for items in chosen] == [
        "", "Relu  Relu_0", "my.domain.Abs", "graph main", "model", *["function local::Twice"] * 2,
    ]  # fmt: skip
    assert selection_text((graph.inputs[0],), declared) == "value x  float batch×3"
    assert selection_text((relu, choice), declared) == "2 nodes selected"
    assert selection_text((relu, graph), declared) == "2 objects selected"


def test_an_undeclared_sparse_initializer_shows_its_type(workspace):
    value = Value("w", None, workspace.graph)
    value.initializer = SparseTensor(ArrayTensor(np.ones(1, np.float32)), ArrayTensor(np.array([4])), (2, 3))
    assert selection_text((value,), workspace.types.type_of) == "initializer w  float 2×3"


def test_a_quick_task_never_shows_and_untitled_work_neither(qtbot, workspace):
    line = StatusLine()
    qtbot.addWidget(line)
    line.show()
    line.work.watch(workspace.tasks)
    gate, finished = threading.Event(), []
    workspace.tasks.start("", lambda _: gate.wait(10), finished=lambda: finished.append(1))
    workspace.tasks.start("Quick", lambda _: None, finished=lambda: finished.append(2))
    other, beside = TaskRunner(workspace), StatusLine()
    qtbot.addWidget(beside)
    beside.show()
    beside.work.watch(other)
    other.start("Slow", lambda _: gate.wait(10), finished=lambda: finished.append(3))
    qtbot.waitUntil(beside.work.isVisible)
    assert not line.work.isVisible()
    gate.set()
    qtbot.waitUntil(lambda: len(finished) == 3)


def test_of_several_tasks_the_oldest_shows_and_the_next_follows(qtbot, workspace):
    line = StatusLine()
    qtbot.addWidget(line)
    line.show()
    line.work.watch(workspace.tasks)
    gates = [threading.Event(), threading.Event()]
    for number, gate in enumerate(gates):
        workspace.tasks.start(f"Task {number}", lambda _, gate=gate: gate.wait(10))
    qtbot.waitUntil(line.work.isVisible)
    assert line.work.text.text() == "Task 0"
    gates[0].set()
    qtbot.waitUntil(lambda: line.work.text.text() == "Task 1")
    gates[1].set()
    qtbot.waitUntil(lambda: not line.work.isVisible())


def test_reporting_progress_paints_nothing_else(qtbot, workspace):
    """What is painted at once is painted again by the frame that is due anyway, the whole graph perhaps."""
    window = QWidget()
    qtbot.addWidget(window)
    line, beside = StatusLine(), CountingPaints()
    layout = QVBoxLayout(window)
    layout.addWidget(line)
    layout.addWidget(beside)
    window.show()
    counts = []
    tasks = workspace.tasks
    for ended in (tasks.progressed, tasks.ended):
        ended.connect(lambda _task: (beside.update(), counts.append(-beside.painted)))
    line.work.watch(tasks)
    for ended in (tasks.progressed, tasks.ended):
        ended.connect(lambda _task: counts.append(beside.painted))
    gates = [threading.Event(), threading.Event()]
    tasks.start("Count", lambda progress: (gates[0].wait(10), progress.report(1, 4), gates[1].wait(10)))
    tasks.start("Count on", lambda progress: (gates[0].wait(10), progress.report(1, 2), gates[1].wait(10)))
    qtbot.waitUntil(line.work.isVisible)
    gates[0].set()
    qtbot.waitUntil(lambda: line.work.bar.value() == 250)
    gates[1].set()
    qtbot.waitUntil(lambda: not line.work.isVisible())
    assert len(counts) == 8  # before and behind: each of two tasks tells of a part and of its end
    assert sum(counts) == 0
    qtbot.waitUntil(lambda: beside.painted > 0)


# -- names and places ------------------------------------------------------------------------------------------


def test_objects_are_named_by_what_they_are(workspace):
    model = workspace.model
    node = branch(workspace)
    training = model.training_info[0]
    assert [name_of(item) for item in (node, Node("Relu"), Value(""), model, model.functions[0], model.graph)] == [
        "branch", "[Relu]", "(unnamed value)", "model", "local::Twice", "main",
    ]  # fmt: skip
    assert [name_of(body) for body in node.bodies] == ["then_branch", "else_branch"]
    assert name_of(training.algorithm) == "algorithm"
    assert name_of(TrainingInfo(initialization=Graph()).initialization) == "initialization"
    assert name_of(Graph()) == "graph"


def test_the_path_to_a_graph_leads_through_the_nodes_that_hold_it(workspace):
    node = branch(workspace)
    assert path_to(node.bodies[0]) == [workspace.model.graph, node, node.bodies[0]]
    assert path_to(workspace.model.graph) == [workspace.model.graph]


def test_places_in_words(workspace):
    node = branch(workspace)
    inner = next(iter(node.bodies[0].nodes))
    assert place_text(inner) == "node Abs_0 in main › branch › then_branch"
    assert place_text(node.outputs[0]) == "value chosen in main"
    assert place_text(node.bodies[0]) == "graph main › branch › then_branch"
    function = Function("F", "d")
    assert place_text(function) == place_text(function.body) == "function d::F"
    assert place_text("byte 12\n") == "byte 12\\n"
    assert place_text(None) == place_text(workspace.model) == ""


def test_a_tree_has_an_owner_and_its_rows_have_outer_rows(qapp):
    owner = QObject()
    model = RawMessageModel(owner)
    assert model.parent() is owner
    assert not model.parent(QModelIndex()).isValid()
