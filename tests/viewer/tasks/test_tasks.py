import subprocess
import sys
import threading
import weakref

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import delete, isValid

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.progress import Cancelled
from onnx_workbench.viewer.tasks import threads as threads_module
from onnx_workbench.viewer.tasks.readers import ModelReader, cancel_readers, read_model
from onnx_workbench.viewer.tasks.tasks import TaskRunner
from onnx_workbench.viewer.tasks.threads import post_and_wait, wait_for_end
from tests.model import builders
from tests.viewer.background_work import wait_for_readers


@pytest.fixture
def tasks(qapp):
    tasks = TaskRunner()
    yield tasks
    tasks.close()


def test_work_runs_in_a_thread_and_answers_on_the_gui_thread(tasks, qtbot):
    threads = {}

    def work(_progress):
        threads["work"] = threading.current_thread()
        return 42

    results = []

    def done(result):
        threads["done"] = threading.current_thread()
        results.append(result)

    task = tasks.start("Count", work, done=done, finished=lambda: results.append("finished"))
    assert tasks.running == (task,)
    qtbot.waitUntil(lambda: len(results) == 2)
    assert results == [42, "finished"]
    assert threads["done"] is threading.main_thread()
    assert threads["work"] is not threads["done"]
    assert tasks.running == ()


def test_the_writer_lane_is_serial_and_readers_run_in_parallel(tasks, qtbot):
    order = []
    both = threading.Barrier(2)

    def mutate(name):
        def work(_progress):
            order.append(f"{name} in")
            order.append(f"{name} out")

        return work

    finished = []
    for name in "abc":
        tasks.start("Write", mutate(name), lane="mutate", finished=lambda: finished.append(1))
    for _ in range(2):
        tasks.start("Read", lambda _progress: both.wait(), finished=lambda: finished.append(1))
    qtbot.waitUntil(lambda: len(finished) == 5)
    assert order == [f"{name} {when}" for name in "abc" for when in ("in", "out")]
    assert not both.broken


def test_progress_reaches_the_gui_thread(tasks, qtbot, received):
    seen = []
    tasks.progressed.connect(lambda task: seen.append((task.done, task.total, task.text)))
    tasks.start("Count", lambda progress: progress.report(2, 2, "all"))
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [(2, 2, "all")]


def test_a_cancelled_task_only_finishes(tasks, qtbot):
    started, heard_calls = threading.Event(), []

    def work(progress):
        started.set()
        while True:
            progress.check()

    task = tasks.start(
        "Spin",
        work,
        done=lambda _: heard_calls.append("done"),
        failed=lambda _: heard_calls.append("failed"),
        finished=lambda: heard_calls.append("finished"),
    )
    started.wait(10)
    task.cancel()
    qtbot.waitUntil(lambda: bool(heard_calls))
    assert heard_calls == ["finished"]


def test_a_task_cancelled_before_it_begins_never_runs(tasks, qtbot):
    gate, ran, finished = threading.Event(), [], []
    tasks.start("First", lambda _progress: gate.wait(10), lane="mutate")
    second = tasks.start("Second", lambda _: ran.append(1), lane="mutate", finished=lambda: finished.append(1))
    second.cancel()
    gate.set()
    qtbot.waitUntil(lambda: bool(finished))
    assert not ran


def test_a_callback_ends_with_the_qt_object_whose_method_it_is(tasks, qtbot):
    class Panel(QObject):
        def show(self, *_result):
            self.setObjectName("shown")  # raises once it is deleted

    gate, panel = threading.Event(), Panel()
    tasks.start("Late", lambda _: gate.wait(10), done=panel.show, finished=panel.show)
    delete(panel)
    gate.set()
    qtbot.waitUntil(lambda: not tasks.running)


def test_a_result_that_comes_after_cancelling_is_not_delivered(tasks, qtbot):
    gate, results, finished = threading.Event(), [], []
    task = tasks.start("Late", lambda _: gate.wait(10), done=results.append, finished=lambda: finished.append(1))
    task.cancel()
    gate.set()
    qtbot.waitUntil(lambda: bool(finished))
    assert results == []


def test_the_newest_of_superseding_requests_wins(tasks, qtbot):
    results, gate = [], threading.Event()

    def old(progress):
        gate.wait(10)
        progress.check()

    tasks.start("Lay out", old, done=lambda _: results.append("old"), supersede="layout")
    tasks.start("Lay out", lambda _: "new", done=results.append, supersede="layout")
    tasks.start("Other", lambda _: "other", done=results.append, supersede="statistics")
    gate.set()
    qtbot.waitUntil(lambda: not tasks.running)
    assert sorted(results) == ["new", "other"]


def test_an_error_of_the_user_goes_to_failed_or_to_the_signal(tasks, qtbot, received):
    unhandled = received(tasks.failed)
    errors = []

    def work(_progress):
        raise ModelError("No such file")

    tasks.start("Read", work, failed=errors.append)
    task = tasks.start("Read", work)
    qtbot.waitUntil(lambda: not tasks.running)
    assert [error.title for error in errors] == ["No such file"]
    assert unhandled == [task]


def test_a_bug_reaches_the_exception_hook(tasks, qtbot):
    finished = []

    def work(_progress):
        raise RuntimeError("bug")

    with qtbot.captureExceptions() as exceptions:
        tasks.start("Break", work, finished=lambda: finished.append(1))
        qtbot.waitUntil(lambda: bool(finished))
    assert [str(error) for _, error, _ in exceptions] == ["bug"]


def test_cancelled_raised_by_the_work_itself_counts_as_cancelled(tasks, qtbot):
    def work(_progress):
        raise Cancelled

    finished = []
    task = tasks.start("Give up", work, finished=lambda: finished.append(1))
    qtbot.waitUntil(lambda: bool(finished))
    assert task.cancelled


def test_after_close_nothing_is_called_back(qapp, qtbot):
    tasks = TaskRunner()
    gate, calls = threading.Event(), []
    task = tasks.start("Wait", lambda _: gate.wait(10), done=calls.append, finished=lambda: calls.append("finished"))
    tasks.close()
    gate.set()
    qtbot.waitUntil(lambda: task.finished)
    assert calls == []
    assert task.cancelled


def test_counting_keeps_nobody_waiting_who_wants_to_read(tasks, qtbot):
    gate = threading.Event()
    for _ in range(6):
        tasks.start("Count", lambda _progress: gate.wait(10), lane="count")
    read = []
    tasks.start("Read", lambda _progress: 1, done=read.append)
    qtbot.waitUntil(lambda: bool(read))
    assert len(tasks.running) == 6
    gate.set()
    qtbot.waitUntil(lambda: not tasks.running)


def test_work_that_ends_after_the_program_says_nothing():
    """The process ends in the middle of a task that does not heed cancelling: no traceback on the terminal."""
    program = """
import threading
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import delete
from onnx_workbench.viewer.tasks import tasks, threads

application = QCoreApplication([])
begun, gone = threading.Event(), threading.Event()
running = tasks.TaskRunner()
running.start("", lambda _progress: (begun.set(), gone.wait(30)))
begun.wait(30)
delete(threads.mailbox())  # as the end of the interpreter does
gone.set()
threads.wait_for_end(30)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.fixture
def slow_to_let_go(monkeypatch):
    """Pool threads that go on, after they posted a call, only once the GUI thread has nothing more to do with it."""
    let_go, post = threading.Event(), threads_module.post

    def post_and_dawdle(call):
        post(call)
        del call
        if threading.current_thread() is not threading.main_thread():
            let_go.wait(30)

    monkeypatch.setattr(threads_module, "post", post_and_dawdle)
    yield let_go
    let_go.set()


def destroyed_on(thread):
    """A Qt object of Python's, like a panel without a parent; adds the thread that destroys it to a list."""
    thing = QObject()
    weakref.finalize(thing, lambda: thread.append(threading.current_thread()))
    return thing


def holding(*things):
    """A function of any arguments that holds things."""
    return lambda *_: len(things)


@pytest.mark.parametrize("holder", ["work", "done", "finished"])
@pytest.mark.parametrize("when", ["while it works", "after it has answered"])
def test_what_a_task_holds_is_destroyed_on_the_gui_thread(tasks, qtbot, slow_to_let_go, holder, when):
    threads, begun, resume = [], threading.Event(), threading.Event()
    functions = {
        name: holding(destroyed_on(threads) if name == holder else None) for name in ("work", "done", "finished")
    }

    def work(progress, functions=functions["work"]):
        begun.set()
        resume.wait(30)
        return functions(progress)

    if when == "while it works":
        slow_to_let_go.set()
    tasks.start("Read", work, done=functions["done"], finished=functions["finished"])
    begun.wait(30)
    del work, functions
    assert threads == []
    resume.set()
    qtbot.waitUntil(lambda: not tasks.running)
    slow_to_let_go.set()
    assert wait_for_end(30)
    qtbot.waitUntil(lambda: bool(threads))
    assert threads == [threading.main_thread()]


# -- readers of models -------------------------------------------------------------------------------------------------


@pytest.fixture
def document(qapp):
    document = builders.document(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    )
    end = document.before_change(cancel_readers)
    yield document
    end()


@pytest.fixture
def owner(qapp):
    owner = QObject()
    yield owner
    if isValid(owner):
        delete(owner)


def rename(document, name):
    builders.do(document, SetField(document.model.graph, "name", name))


def names_once_allowed(document, began, free):
    """Reads the name of the graph again and again until it may end; gives all that it saw."""

    def work(progress):
        seen = {document.model.graph.name}
        began.set()
        while not free.wait(0.001):
            seen.add(document.model.graph.name)
            progress.check()
        return seen

    return work


def test_a_reader_works_off_the_gui_thread_and_answers_on_it(owner, qtbot):
    threads = []
    ModelReader(owner).start(
        lambda _progress: threading.get_ident(), lambda one: threads.extend((one, threading.get_ident()))
    )
    assert threads == [], "never while an edit may be under way"
    qtbot.waitUntil(lambda: bool(threads))
    assert threads[0] != threads[1] == threading.main_thread().ident


@pytest.mark.parametrize("change", ["edit", "undo", "redo"])
def test_a_change_stops_readers_and_they_start_again(document, owner, qtbot, change):
    rename(document, "b")
    if change == "redo":
        document.undo()
    before = document.model.graph.name
    began, free, found = threading.Event(), threading.Event(), []
    reader = ModelReader(owner)
    reader.start(names_once_allowed(document, began, free), found.append)
    qtbot.waitUntil(began.is_set)
    began.clear()
    rename(document, "c") if change == "edit" else getattr(document, change)()
    assert reader.running
    qtbot.waitUntil(began.is_set)
    free.set()
    qtbot.waitUntil(lambda: bool(found))
    assert found == [{document.model.graph.name}]
    assert document.model.graph.name != before


def test_what_was_read_before_a_change_is_not_delivered_after_it(document, owner, qtbot):
    began, free, ended, found = threading.Event(), threading.Event(), threading.Event(), []

    def work(_progress):
        ended.set()
        return document.model.graph.name

    ModelReader(owner).start(names_once_allowed(document, began, free), lambda _: None)
    ModelReader(owner).start(work, found.append)  # its end is not waited for as it is not alone
    qtbot.waitUntil(began.is_set)
    free.set()
    assert ended.wait(10)
    rename(document, "later")
    qtbot.waitUntil(lambda: bool(found))
    assert found[-1] == "later"


def test_what_is_read_quickly_is_there_before_the_next_frame(owner, qtbot):
    widget = QWidget()
    qtbot.addWidget(widget)
    with qtbot.waitExposed(widget):
        widget.show()
    found, painted = [], []
    widget.paintEvent = lambda _event: painted.append(list(found))
    widget.update()
    ModelReader(owner).start(lambda _progress: 1, found.append)
    assert found == []
    QApplication.sendPostedEvents()
    assert found == [1]
    qtbot.waitUntil(lambda: painted == [[1]])


def test_a_stopped_reader_reads_nothing_more_and_calls_nothing(document, owner, qtbot):
    began, free, found = threading.Event(), threading.Event(), []
    reader = ModelReader(owner)
    reader.start(names_once_allowed(document, began, free), found.append)
    qtbot.waitUntil(began.is_set)
    reader.stop()
    assert not reader.running
    free.set()
    wait_for_readers(qtbot)
    assert found == []


def test_of_what_a_reader_starts_the_last_counts(owner, qtbot):
    found, reader = [], ModelReader(owner)
    reader.start(lambda _progress: 1, found.append)
    reader.start(lambda _progress: 2, found.append)
    qtbot.waitUntil(lambda: not reader.running)
    assert found == [2]
    reader.restart()
    assert not reader.running


def test_what_a_reader_raises_is_handed_over(owner, qtbot):
    def work(_progress):
        raise ModelError("No")

    failed = []
    ModelReader(owner).start(work, pytest.fail, failed=failed.append)
    qtbot.waitUntil(lambda: bool(failed))
    assert [error.title for error in failed] == ["No"]


def test_a_bug_in_a_reader_reaches_the_exception_hook(owner, qtbot):
    def work(_progress):
        raise RuntimeError("bug")

    reader = ModelReader(owner)
    with qtbot.captureExceptions() as exceptions:
        reader.start(work, pytest.fail)
        qtbot.waitUntil(lambda: not reader.running)
    assert [str(error) for _, error, _ in exceptions] == ["bug"]


def test_a_reader_whose_owner_goes_away_ends(document, owner, qtbot):
    began, found = threading.Event(), []
    ModelReader(owner).start(names_once_allowed(document, began, threading.Event()), found.append)
    qtbot.waitUntil(began.is_set)
    delete(owner)
    wait_for_readers(qtbot)
    rename(document, "later")
    assert found == []


def test_what_a_reader_reports_is_the_progress_of_its_task(tasks, qtbot):
    shown, seen = threading.Event(), []

    def read(progress):
        progress.report(2, 2, "all")
        shown.wait(30)

    tasks.progressed.connect(lambda task: (seen.append((task.done, task.total, task.text)), shown.set()))
    tasks.start("Read", lambda progress: read_model(read, progress))
    qtbot.waitUntil(lambda: seen == [(2, 2, "all")])


def test_a_task_runs_a_reader_until_no_edit_comes_between(document, tasks, qtbot):
    began, free, found = threading.Event(), threading.Event(), []
    read = names_once_allowed(document, began, free)
    tasks.start("Count", lambda progress: read_model(read, progress), done=found.append)
    qtbot.waitUntil(began.is_set)
    rename(document, "later")
    free.set()
    qtbot.waitUntil(lambda: bool(found))
    assert found == [{"later"}]


def test_a_reader_ends_with_the_task_that_runs_it(document, tasks, qtbot):
    began, ended = threading.Event(), []

    def read(progress):
        try:
            return names_once_allowed(document, began, threading.Event())(progress)
        finally:
            ended.append(1)

    task = tasks.start("Count", lambda progress: read_model(read, progress))
    qtbot.waitUntil(began.is_set)
    task.cancel()
    qtbot.waitUntil(lambda: task.finished and bool(ended))


def test_what_a_reader_raises_is_raised_in_the_task_that_runs_it(tasks, qtbot):
    def read(_progress):
        raise ModelError("No")

    failed = []
    tasks.start("Count", lambda progress: read_model(read, progress), failed=failed.append)
    qtbot.waitUntil(lambda: bool(failed))
    assert [error.title for error in failed] == ["No"]


def test_a_task_gets_what_a_call_on_the_gui_thread_returns_or_raises(tasks, qtbot):
    def refuse():
        raise ModelError("No")

    def work(progress):
        thread = post_and_wait(threading.current_thread, progress)
        try:
            post_and_wait(refuse, progress)
        except ModelError as error:
            return thread, error.title

    found = []
    tasks.start("Ask", work, done=found.append)
    qtbot.waitUntil(lambda: bool(found))
    assert found == [(threading.main_thread(), "No")]


def test_what_a_reader_holds_is_destroyed_on_the_gui_thread(owner, qtbot, slow_to_let_go):
    threads, found = [], []
    ModelReader(owner).start(holding(destroyed_on(threads)), found.append)
    qtbot.waitUntil(lambda: bool(found))
    slow_to_let_go.set()
    assert wait_for_end(30)
    qtbot.waitUntil(lambda: bool(threads))
    assert threads == [threading.main_thread()]
