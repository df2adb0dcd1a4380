"""Values that were not kept are computed again when they are asked for: stopped, and after runs."""

from __future__ import annotations

import threading
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_workbench.exec.inspect.run_comparison import compare, named_arrays
from onnx_workbench.exec.results.node_table import NO_NODES
from onnx_workbench.exec.results.run_file import save_run
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.session import Session
from onnx_workbench.exec.worker.server import Worker, _Job
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import make_attribute
from onnx_workbench.model.progress import SILENT, Cancelled, Progress
from tests.exec.test_session import CHAIN, X
from tests.exec.texts import node, parse


@pytest.mark.long
@pytest.mark.parametrize("own_process", [False, True])
def test_who_waits_for_a_value_that_was_not_kept_can_stop_it(sessions: Any, own_process: bool) -> None:
    model = parse(CHAIN)
    session = sessions(model, budget=8) if own_process else Session(model, budget=8)
    result, expected = session.run({"x": X}), Session(model).run({"x": X})
    stopped = Progress()
    stopped.cancel()
    names = [name for name in expected.values if result.find(name) is MISSING]
    assert names
    for name in names:
        with pytest.raises(Cancelled):
            result.value(name, progress=stopped)
    for name in names:
        np.testing.assert_array_equal(result.value(name), expected.values[name])


@pytest.mark.long
def test_a_run_comes_before_a_value_that_is_computed_again(sessions: Any) -> None:
    """The run ends while the value is still being computed; larger inputs are tried where the value came first."""
    steps = " ".join(f"v{i + 1} = Sin(v{i})" for i in range(200))
    text = f"g (float[N] v0) => (float[N] v200, float[N] w) {{ {steps} [w] w = LeakyRelu <alpha = 0.1> (v0) }}"
    expected = Session(parse(text)).run({"v0": np.ones(8, np.float32)}).values["v199"]  # of all ones it is the same
    document = Document(parse(text))
    session = sessions(document, budget=8)
    for attempt, count in enumerate((1_000_000, 4_000_000, 16_000_000)):
        x = np.ones(count, np.float32)
        result = session.run({"v0": x})
        begun, computed = threading.Event(), list[Any]()
        progress = Progress(lambda *_, begun=begun: begun.set())
        reading = threading.Thread(
            target=lambda r=result, p=progress, c=computed: c.append(r.value("v199", progress=p))
        )
        reading.start()
        assert begun.wait(60)
        alpha = 0.5 + attempt
        with document.edit("Set alpha") as edit:
            edit.do(SetAttribute(node(document.model, "w"), "alpha", make_attribute("alpha", alpha)))
        assert session.run({"v0": -x}, values=["w"]).values["w"][0] == -alpha
        run_was_first = not computed
        reading.join(60)
        np.testing.assert_allclose(computed[0], expected[0], rtol=1e-5)
        if run_was_first:
            return
    pytest.fail("each run waited for the value")


def test_cancelling_a_value_arrives_while_it_is_computed(tmp_path: Path) -> None:
    ours, _theirs = Pipe()
    worker = Worker(ours, str(tmp_path), 8, 1)
    key, run, question = ((), 1), 1, 2

    class Result:
        def find(self, _key: Any) -> Any:
            return MISSING

        asker = SILENT

        def value(self, _key: Any) -> Any:
            worker._dispatch(0, "cancel", question)
            self.caller_progress.check()

    worker._jobs[run] = _Job(run, result=Result())
    worker._dispatch(question, "fetch", (run, key))
    with pytest.raises(Cancelled):
        worker._work(*worker._waiting.get_nowait())
    assert not worker._fetches


def test_cancelling_a_summary_arrives_while_values_are_computed(tmp_path: Path) -> None:
    ours, _theirs = Pipe()
    worker = Worker(ours, str(tmp_path), 8, 1)
    run, question = 1, 2

    def fetch(_key: Any, progress: Progress) -> None:
        worker._dispatch(0, "cancel", question)
        progress.check()

    result = replace(Session(parse(CHAIN), budget=8).run({"x": X}), fetch=fetch)
    (name, *_) = (name for name in result.values if result.find(name) is MISSING)
    worker._jobs[run] = _Job(run, result=result)
    worker._dispatch(question, "apply", (run, lambda result: result.value(name), ()))
    with pytest.raises(Cancelled):
        worker._work(*worker._waiting.get_nowait())
    assert not worker._fetches


def look_for_ever(result: RunResult, *others: RunResult) -> None:
    """Goes through values that are all at hand, until it is stopped."""
    while True:
        for one in (result, *others):
            one.value("x")


@pytest.mark.long
@pytest.mark.parametrize("in_worker", [True, False])
@pytest.mark.parametrize("with_another", [True, False])
def test_what_looks_at_values_that_are_at_hand_can_be_stopped(
    sessions: Any, in_worker: bool, with_another: bool
) -> None:
    session = sessions(parse(CHAIN)) if in_worker else Session(parse(CHAIN))
    result, other = session.run({"x": X}), session.run({"x": X})
    progress = Progress()
    threading.Timer(0.2, progress.cancel).start()
    with pytest.raises(Cancelled):
        result.apply(look_for_ever, *[other] * with_another, progress=progress)
    np.testing.assert_array_equal(session.run({"x": -X}).values["x"], -X)
    if in_worker:
        assert session.start().alive


@pytest.mark.long
def test_a_run_comes_before_what_looks_at_values_that_are_at_hand(sessions: Any) -> None:
    session, progress = sessions(parse(CHAIN)), Progress()
    result, stopped = session.run({"x": X}), threading.Event()

    def look() -> None:
        with pytest.raises(Cancelled):
            result.apply(look_for_ever, progress=progress)
        stopped.set()

    looking = threading.Thread(target=look)
    looking.start()
    for sign in (-1, 1, -1):
        np.testing.assert_array_equal(session.run({"x": sign * X}).values["x"], sign * X)
    assert not stopped.is_set(), "it goes on after each"
    progress.cancel()
    looking.join(60)
    assert stopped.is_set()


def test_a_run_whose_saving_is_stopped_leaves_no_file(tmp_path: Path) -> None:
    steps = " ".join(f"v{i + 1} = Sin(v{i})" for i in range(2000))
    session = Session(parse(f"g (float[N] v0) => (float[N] v2000) {{ {steps} }}"))
    result, report = session.run({"v0": X[0]}), list[tuple[float, float]]()

    def stop(*received: Any) -> None:
        report.append(received[:2])
        progress.cancel()

    progress = Progress(stop)
    addresses = {key: (result.layout.name(key[1]),) for key in result.layout.slots}
    path = tmp_path / "run.npz"
    with pytest.raises(Cancelled):
        result.apply(save_run, str(path), ["v0"], addresses, NO_NODES, (), progress=progress)
    assert report == [(0, 2001)]
    assert list(tmp_path.iterdir()) == []
    assert result.apply(save_run, str(path), ["v0"], addresses, NO_NODES, ()) == 2001
    assert path.exists()


@pytest.mark.long
@pytest.mark.parametrize("in_worker", [True, False])
def test_a_summary_can_be_stopped_while_values_are_computed(sessions: Any, in_worker: bool) -> None:
    steps = " ".join(f"v{i + 1} = Sin(v{i})" for i in range(100))
    text = f"g (float[N] v0) => (float[N] v100) {{ {steps} }}"
    session = sessions(parse(text), budget=8) if in_worker else Session(parse(text), budget=8)
    result = session.run({"v0": np.ones(1_000_000, np.float32)})
    progress = Progress(lambda *_: progress.cancel())
    with pytest.raises(Cancelled):
        compare(result, named_arrays(result, {"v99": np.ones(1, np.float32)}), progress=progress)
    (row,) = compare(result, named_arrays(result, {"v1": np.ones(1, np.float32)}))
    assert "shape" in row.difference.problem
