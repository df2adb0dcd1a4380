"""Runs in a worker process: same results, cancelled, killed, crashed and cleaned up."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.exec.errors import WorkerUnavailable
from onnx_workbench.exec.inspect.value_summary import summarize
from onnx_workbench.exec.results.node_table import State
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.exec.worker.process import Process
from onnx_workbench.exec.worker.server import serve
from onnx_workbench.exec.worker.shared_memory import SharedMemoryExchange
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.progress import Progress
from onnx_workbench.model.sandbox import is_running
from tests.exec.test_session import CHAIN, ENDLESS, X
from tests.exec.texts import node, parse, states


@pytest.mark.long
def test_letting_a_result_go_waits_for_nobody_who_sends(sessions: Any) -> None:
    session = sessions(parse(CHAIN))
    result, other = session.run({"x": X}), session.run({"x": X})
    process = session.start()
    with process._sending:  # as while a large model is sent
        run = result.fetch.__self__._stepper._run
        del result
        gc.collect()
    assert other.values["y"].shape == X.shape  # what is sent next takes the word with it
    with pytest.raises(LookupError, match="no longer known"):
        process.request("fetch", (run, ((), 1)))


def test_values_that_nobody_waits_for_are_freed(sessions: Any) -> None:
    process = sessions(parse(CHAIN)).start()
    large = np.zeros(1 << 20, np.float32)
    sent = [process.exchange.encode(large) for _ in range(3)]
    process.deliver(1 << 40, "value", {"x": sent[0], "y": [sent[1]]})  # as of inputs, when the run was cancelled
    process.deliver(1 << 40, "value", sent[2])
    for one in sent:
        with pytest.raises(FileNotFoundError):
            process.exchange.decode(one)


@pytest.mark.long
def test_a_run_that_was_looked_at_is_let_go_with_what_it_gave(sessions: Any) -> None:
    session, progress, seen = sessions(parse(ENDLESS)), Progress(), []

    def received(news: Any) -> None:
        if any(f.operator == "Neg" for f in news):
            seen.append(session.so_far())
            progress.cancel()

    gc.collect()
    gc.disable()  # the program collects seldom: nothing may wait for it
    try:
        result = session.run({"x": X}, progress=progress, observer=received)
        assert [f.operator for f in result.nodes] == [f.operator for f in seen.pop().nodes]
        assert session.at is not None
        del result
        assert session.at is None
    finally:
        gc.enable()


@pytest.mark.long
def test_results_are_those_of_a_session(sessions: Any) -> None:
    document = Document(parse(CHAIN.replace("[3]", "[N]")))
    here, there = Session(document), sessions(document)
    x = np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    for alpha in (0.5, 0.125):
        with document.edit("Set alpha") as edit:
            edit.do(SetAttribute(node(document.model, "d"), "alpha", make_attribute("alpha", alpha)))
        ours, theirs = here.run({"x": x}), there.run({"x": x})
        assert states(ours) == states(theirs)
        assert theirs.state == document.current.id
        assert set(ours.values) == set(theirs.values)
        assert {n: v.tolist() for n, v in ours.outputs.items()} == {n: v.tolist() for n, v in theirs.outputs.items()}
        for name in ours.values:
            assert ours.info(name) == theirs.info(name)
            mine, others = ours.statistics(name), theirs.statistics(name)
            assert mine is not None
            assert others is not None
            assert mine.maximum_index == others.maximum_index
            assert mine.deviation == pytest.approx(others.deviation)
            np.testing.assert_array_equal(ours.values[name], theirs.values[name])
    assert states(theirs)["c"] == "KEPT"
    assert states(theirs)["d"] == "DONE"


@pytest.mark.long
def test_shared_values_outlive_the_worker_and_are_removed(sessions: Any) -> None:
    model = parse("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    session = sessions(model)
    x = np.arange(100_000, dtype=np.float32)
    result = session.run({"x": x})
    y = result.values["y"]
    folder = session.start().exchange.folder
    if os.name != "nt":
        assert list(Path(folder).iterdir()) == []
    session.close()
    assert not Path(folder).exists()
    np.testing.assert_array_equal(y, -x)
    with pytest.raises(LookupError, match="is lost: the worker process ended"):
        result.value("x")


@pytest.mark.long
def test_an_idle_worker_that_died_is_replaced(sessions: Any) -> None:
    session = sessions(parse(CHAIN))
    assert session.run({"x": X}).ok
    session.start().child.kill()
    session.start().child.join(5)
    assert session.run({"x": X}).ok


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_does_not_wait_for_answers_that_nobody_hands_out(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = sessions(parse(CHAIN))
    assert session.run({"x": X}).ok
    with monkeypatch.context() as broken:
        broken.setattr(Process, "deliver", lambda *_: 1 / 0)
        with pytest.raises(ModelError, match="ended"):
            session.run({"x": -X})
    assert session.run({"x": -X}).ok


@pytest.mark.long
def test_a_run_that_found_no_room_is_sent_whole_the_next_time(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 10_000
    weight = ", ".join(["1.0"] * size)
    session = sessions(
        parse(f"g (float[{size}] x) => (float[{size}] y) <float[{size}] w = {{{weight}}}> {{ y = Add(x, w) }}")
    )
    feeds = {"x": np.ones(size, np.float32)}
    for room in range(2):  # for neither the weight nor the input, and for one of them
        with monkeypatch.context() as full:
            full.setattr(SharedMemoryExchange, "_write", _with_room_for(room, SharedMemoryExchange._write))
            with pytest.raises(ModelError, match="no space"):
                session.run(feeds)
    np.testing.assert_array_equal(session.run(feeds).value("y"), np.full(size, 2, np.float32))


def _with_room_for(count: int, write: Callable[..., None]) -> Callable[..., None]:
    left = iter(range(count))

    def put(exchange: SharedMemoryExchange, *written: Any) -> None:
        if next(left, None) is None:
            raise ModelError("There is no space to transfer a value", "")
        write(exchange, *written)

    return put


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="no files are used there")
def test_a_value_that_cannot_be_sent_is_reported_and_work_goes_on(sessions: Any) -> None:
    session = sessions(
        parse(
            "g (float[2] x) => (float[20000] y, float[2] z) { y = Expand(x, s) z = Neg(x) "
            "s = Constant <value_ints: ints = [10000, 2]> () }"
        )
    )
    result = session.run({"x": np.ones(2, np.float32)})
    shutil.rmtree(session.start().exchange.folder)  # as what tidies up temporary files does
    with pytest.raises(LookupError, match="No such file"):
        result.value("y")
    np.testing.assert_array_equal(result.value("z"), [-1, -1])


@pytest.mark.long
def test_a_worker_that_cannot_be_started_is_reported(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = sessions(parse(CHAIN))
    monkeypatch.setattr("onnx_workbench.exec.worker.process.serve", os._exit)  # what the process begins with
    with pytest.raises(WorkerUnavailable, match="ended at once"):
        session.run({"x": X})
    monkeypatch.setattr("onnx_workbench.exec.worker.process.SharedMemoryExchange.create", _no_folder)
    with pytest.raises(WorkerUnavailable, match="No space left"):
        session.run({"x": X})
    monkeypatch.undo()
    assert session.run({"x": X}).ok


def _no_folder() -> SharedMemoryExchange:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.long
def test_a_run_is_cancelled(sessions: Any) -> None:
    session = sessions(parse(ENDLESS))
    progress = Progress()
    result = session.run({"x": X}, progress=progress, observer=lambda _finished: progress.cancel())
    assert result.stopped == "cancelled"
    np.testing.assert_array_equal(result.values["z"], -X)


@pytest.mark.long
def test_starting_the_worker_is_no_time_of_the_run(
    sessions: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("WORKER_WAITS_FOR", str(gate))
    monkeypatch.setattr("onnx_workbench.exec.worker.process.serve", _serve_late)
    monkeypatch.setattr("onnx_workbench.exec.worker.client.time", _Clock(gate))
    result = sessions(parse(CHAIN)).run({"x": X}, time_limit=60.0)
    assert gate.exists()
    assert result.ok, result.failures


class _Clock:
    """A hundred seconds pass between two looks at it; at the fifth the worker may begin, and the clock stands still."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate
        self._looks = 0

    def monotonic(self) -> float:
        self._looks = min(5, self._looks + 1)
        if self._looks == 5:
            self._gate.touch()
        return 100.0 * self._looks


def _serve_late(*arguments: Any) -> None:
    """In the worker."""
    while not Path(os.environ["WORKER_WAITS_FOR"]).exists():
        time.sleep(0.01)
    serve(*arguments)


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="no signal stops a process there")
def test_a_worker_that_ignores_cancellation_is_killed(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_workbench.exec.worker.client.GRACE", 0.3)
    session = sessions(parse(ENDLESS))
    child = session.start().child
    progress = Progress()

    def stop(_news: Any) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        progress.cancel()

    assert session.run({"x": X}, progress=progress, observer=stop).stopped == "cancelled"
    assert not child.is_alive()
    assert session.run({"x": X}, values=["z"], until=node(session.model, "z")).ok


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="no signal stops a process there")
def test_a_run_waiting_behind_a_killed_one_gets_a_new_worker(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_workbench.exec.worker.client.GRACE", 0.3)
    session = sessions(parse("g (float[N] x) => (float[N] y) { y = Neg(x) }"))
    child = session.start().child
    os.kill(child.pid, signal.SIGSTOP)
    x, progress, results = np.arange(100_000, dtype=np.float32), Progress(), []
    first = threading.Thread(target=lambda: results.append(session.run({"x": x}, progress=progress)))
    second = threading.Thread(target=lambda: results.append(session.run({"x": x})))
    first.start()
    while session.at is None and session._latest() is None:
        first.join(0.01)
    second.start()
    second.join(0.2)
    progress.cancel()
    for run in (first, second):
        run.join()
    assert [result.stopped for result in results] == ["cancelled", ""]
    np.testing.assert_array_equal(results[1].values["y"], -x)


@pytest.mark.long
def test_what_was_computed_survives_the_killing(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that never looks whether the run was cancelled: a product of integers too large for BLAS."""
    monkeypatch.setattr("onnx_workbench.exec.worker.client.GRACE", 0.1)
    model = parse(
        "g (int64[N,N] x) => (int64[N,N] y) { z = Neg(x) a = MatMul(x, z) b = MatMul(a, z) y = MatMul(b, a) }"
    )
    session = sessions(model)
    session.start()
    x = np.full((1200, 1200), 1 << 31)
    progress = Progress()
    began = threading.Event()
    threading.Thread(target=lambda: (began.wait(60), progress.cancel())).start()

    def received(news: Any) -> None:
        if any(f.operator == "Neg" for f in news):
            began.set()

    result = session.run({"x": x}, progress=progress, observer=received)
    began.set()
    assert result.stopped == "cancelled"
    assert result.find("z")[5, 5] == -(1 << 31)
    assert states(result)["y"] in ("WAITING", "DONE")


@pytest.mark.long
def test_the_time_limit_holds(sessions: Any) -> None:
    session = sessions(parse(ENDLESS))
    assert session.run({"x": X + 1}, values=["z"], until=node(session.model, "z")).ok  # the worker is warm from here on
    result = session.run({"x": X}, time_limit=2.0)
    assert result.stopped == "time limit"
    np.testing.assert_array_equal(result.values["z"], -X)


def test_a_crash_becomes_a_result_that_names_the_node(sessions: Any) -> None:
    session = sessions(parse(ENDLESS))

    def kill_in_loop(news: Any) -> None:  # z is done, the loop is not
        if any(f.operator == "Neg" for f in news):
            session.start().child.kill()

    result = session.run({"x": X}, observer=kill_in_loop)
    assert result.stopped.startswith("crash")
    assert result.failures[0].operator == "Loop"
    assert session.run({"x": X}, values=["z"], until=node(session.model, "z")).ok


@pytest.mark.long
def test_a_crash_leaves_nodes_that_were_skipped_what_they_are(sessions: Any) -> None:
    failing = "{ bad = MatMul (x, two) after = Neg (bad)"
    session = sessions(
        parse(ENDLESS.replace("g (float[3] x)", "g (float[3] x, float[2] two)").replace("{", failing, 1))
    )

    def kill_once_skipped(news: Any) -> None:
        if any(f.state is State.SKIPPED for f in news):
            session.start().child.kill()  # the worker of now: a machine short of memory may have ended the first

    result = session.run({"x": X, "two": X[:2]}, observer=kill_once_skipped)
    assert result.stopped.startswith("crash")
    (skipped,) = (n for n in result.nodes if n.state is State.SKIPPED)
    assert (skipped.operator, skipped.because.operator) == ("Neg", "MatMul")


@pytest.mark.long
def test_values_are_seen_while_the_run_goes_on_and_after_it_crashed(sessions: Any) -> None:
    session = sessions(parse(ENDLESS))
    process = session.start()
    seen: list[Any] = []
    began = threading.Event()

    def look() -> None:
        try:
            assert began.wait(60)
            now = session.so_far()
            seen.append(
                (now.values["z"], now.statistics("z").maximum, now.apply(summarize, [now.key("z")]), now.info("z"))
            )
            with pytest.raises(LookupError):
                now.value("y")
            seen.append(session.so_far().find("z"))  # it was fetched before
        finally:
            process.child.kill()

    def received(news: Any) -> None:
        if any(f.operator == "Neg" for f in news):  # z is done, the loop is not
            began.set()

    assert session.so_far() is None
    looking = threading.Thread(target=look)
    looking.start()
    result = session.run({"x": X}, observer=received)
    looking.join()
    (value, largest, summaries, info), again = seen
    np.testing.assert_array_equal(value, -X)
    np.testing.assert_array_equal(again, -X)
    assert largest == -X.min()
    assert [one.statistics.maximum for one in summaries] == [largest]
    assert info.shape == X.shape
    assert result.stopped.startswith("crash")
    np.testing.assert_array_equal(result.values["z"], -X)
    assert result.failures[0].operator == "Loop"
    assert session.so_far() is None


@pytest.mark.long
def test_failures_and_missing_inputs_cross_over(sessions: Any) -> None:
    model = parse("g (float[3] x, float[2] q) => (float[3] y) { a = MatMul(x, q) y = Neg(a) }")
    session = sessions(model)
    result = session.run({"x": X, "q": X[:2]})
    assert "x: float[3]" in str(result.failures[0])
    assert states(result) == {"a": "FAILED", "y": "SKIPPED"}
    with pytest.raises(ModelError, match="q: float"):
        session.run({"x": X})


@pytest.mark.long
def test_stepping_and_breakpoints(sessions: Any) -> None:
    model = parse(CHAIN)
    session = sessions(model)
    stepper = session.steps({"x": X}, breakpoints=[Breakpoint(node=node(model, "d"))])
    assert stepper.next_node == ((), node(model, "a"))
    assert stepper.step()
    assert stepper.position == 1
    assert set(stepper.result().values) == {"x", "a"}
    assert "before" in stepper.resume()
    assert stepper.next_node == ((), node(model, "d"))
    stepper.resume()
    assert stepper.done
    np.testing.assert_allclose(stepper.result().values["y"], Session(model).run({"x": X}).values["y"])


@pytest.mark.long
def test_a_step_out_of_a_body_crosses_over(sessions: Any) -> None:
    model = parse("""g (float[3] x) => (float[3] y) <bool yes = {1}, int64 n = {3}> {
      y = Loop(n, yes, x) <body = b (int64 i, bool k, float[3] v) => (bool j, float[3] w) {
        j = Identity(k)  w = Mul(v, v) }>
    }""")
    inner = next(one for graph in model.graphs() for one in graph.nodes if one.op_type == "Mul")
    stepper = sessions(model).steps({"x": X}, breakpoints=[Breakpoint(node=inner)])
    assert stepper.resume() == "in 'Loop', iteration 0, before 'Mul'"
    assert stepper.step(out=True)
    assert stepper.done


@pytest.mark.long
def test_observers_are_notified_of_nodes(sessions: Any) -> None:
    model = parse(CHAIN)
    received: list[Any] = []
    result = sessions(model).run({"x": X}, observer=received.extend)
    assert received == list(result.nodes)
    assert [f.operator for f in received] == [node.op_type for node in model.graph.nodes]


@pytest.mark.long
def test_values_inside_bodies_are_reached(sessions: Any) -> None:
    text = """g (float[3] x, bool c) => (float[3] y) {
      y = If (c) < then_branch = t () => (float[3] a) { w = Exp(x) a = Neg(w) },
                   else_branch = e () => (float[3] b) { b = Neg(x) } > }"""
    model = parse(text)
    result = sessions(model).run({"x": X, "c": np.array(True)})
    w = node(model, "w").outputs[0]
    assert w is not None
    assert str(result.info(w)) == "float[3]"
    np.testing.assert_allclose(result.value(w), np.exp(X))
    assert result.info(node(model, "b").outputs[0]) is None


@pytest.mark.long
def test_texts_sequences_and_small_types_cross_over(sessions: Any) -> None:
    text = """g (string[2] s, float[40000] f) => (string[2] t, seq(float[N]) q, bfloat16[40000] b) {
      t = Identity(s) q = SequenceConstruct(f, f) b = Cast <to = 16> (f) }"""
    model = parse(text)
    feeds = {"s": np.array(["ä", "b"], object), "f": np.arange(40_000, dtype=np.float32)}
    ours, theirs = Session(model).run(feeds), sessions(model).run(feeds)
    assert theirs.values["t"].tolist() == ["ä", "b"]
    assert len(theirs.values["q"]) == 2
    np.testing.assert_array_equal(theirs.values["q"][1], feeds["f"])
    assert theirs.values["b"].dtype == ours.values["b"].dtype
    np.testing.assert_array_equal(theirs.values["b"].view(np.uint16), ours.values["b"].view(np.uint16))


@pytest.mark.long
def test_weights_in_a_file_are_read_by_the_worker(sessions: Any, tmp_path: Path) -> None:
    import onnx
    from onnx import helper, numpy_helper

    from onnx_workbench.exec.worker.snapshot_protocol import FileRange, tensor_message
    from onnx_workbench.model.io.reader.read import load

    w = np.random.default_rng(0).standard_normal((1200, 4096)).astype(np.float32)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g", [value("x", 1, [1])], [value("y", 1, None)],
        [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    model = load(path)
    tensor = model.graph.initializers[0].initializer
    assert tensor is not None
    exchange = SharedMemoryExchange.create()
    try:
        sent = tensor_message(tensor, exchange)
    finally:
        exchange.remove()
    assert isinstance(sent, FileRange)
    result = sessions(model).run({"x": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(result.values["y"], w)


@pytest.mark.long
def test_the_folder_goes_when_the_session_goes() -> None:
    session = WorkerSession(parse(CHAIN))
    session.run({"x": X})
    process = session.start()
    folder, child = Path(process.exchange.folder), process.child
    del session, process
    gc.collect()
    child.join(10)
    assert not child.is_alive()
    assert not folder.exists()


_ENDS_WHILE_STARTING = """
import sys, threading, time
from multiprocessing import util
from onnx_workbench.exec.inspect.value_summary import summarize
from onnx_workbench.exec.worker.process import Process

def main():
    spawned, plain = threading.Event(), util.spawnv_passfds
    def slow(path, arguments, descriptors):
        process = plain(path, arguments, descriptors)
        if "resource_tracker" not in str(arguments):
            spawned.set()
            time.sleep(0.5)
        return process
    util.spawnv_passfds = slow
    threading.Thread(target=Process, args=(1 << 20, None), daemon=True).start()
    spawned.wait(60)

if __name__ == "__main__":
    main()
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="holds up how POSIX systems start a process")
def test_a_program_that_ends_while_its_worker_starts_ends_quietly(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_ENDS_WHILE_STARTING)
    # The worker inherits the pipe, so that this also waits for what it has to say.
    run = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    assert run.returncode == 0


_RUNS_FOR_EVER = """
import sys
from onnx_workbench.exec.worker.client import WorkerSession
from tests.exec.test_session import ENDLESS, X
from tests.exec.texts import parse

if __name__ == "__main__":
    session = WorkerSession(parse(ENDLESS))
    process = session.start()
    while not process.is_ready:
        pass
    print(process.child.pid, flush=True)
    session.run({"x": X})
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX systems do")
def test_a_worker_ends_with_a_killed_program_in_the_middle_of_a_run(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_RUNS_FOR_EVER)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    assert program.stdout is not None
    worker = int(program.stdout.readline())
    program.kill()
    program.communicate()
    while is_running(worker):
        time.sleep(0.02)
