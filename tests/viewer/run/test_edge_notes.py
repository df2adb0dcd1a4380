"""What stands beside the edges after a run: through the real window, and the words themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.exec.inputs.sources import Constant
from onnx_workbench.exec.inspect.value_summary import ValueSummary, summarize
from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.values.statistics import statistics
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.viewer.program.settings import EDGE_NOTES, RUN_IN_PROCESS
from onnx_workbench.viewer.run.views.edge_notes import note_text, outline
from tests.viewer.canvas.painting import finish_painting
from tests.viewer.run.run_actions import edit, idle, make_bad, make_finite, opened, run, value


def shown(qtbot, workspace, name, text=None):
    """The note beside an edge as the canvas has it, once it says so, or anything."""
    view = workspace.parent().view

    def label():
        finish_painting(view)
        edges = view.scene.drawing.edges_of(value(workspace, name))
        found = [one for one in view.labels.in_rect(*view.scene.bounds) if one.edge in edges]
        return found[0].note if found else None

    qtbot.waitUntil(lambda: not workspace.tasks.running and (note := label()) is not None and text in (None, note.text))
    return label()


@pytest.fixture
def workspace(window, qtbot, net):
    workspace = opened(window, qtbot, net)
    workspace.parent().view.zoom_to(1.0)
    make_finite(workspace)
    return workspace


@pytest.mark.long
def test_nothing_is_said_before_a_run(workspace):
    view = workspace.parent().view
    finish_painting(view)
    assert all(label.note is None for label in view.labels.in_rect(*view.scene.bounds))


@pytest.mark.long
@pytest.mark.parametrize("own_process", [False, True])
def test_an_edge_shows_the_range_of_its_value(window, qtbot, net, own_process):
    window.settings.set(RUN_IN_PROCESS, own_process)
    workspace = opened(window, qtbot, net)
    workspace.parent().view.zoom_to(1.0)
    make_finite(workspace)
    run(qtbot, workspace)
    note = shown(qtbot, workspace, "c")
    workspace.results.fetch(value(workspace, "c"))
    idle(qtbot, workspace)
    array = workspace.results.value_of(value(workspace, "c"))
    assert note.text == f"{array.min():.3g} … {array.max():.3g}"
    assert note.warning == ""
    assert note.type_text == "1×4×8×8", "what it was, not N×4×7×7 as declared"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["magnitude", "mean", "zeros", "histogram"])
def test_what_edges_show_can_be_chosen(window, qtbot, workspace, kind):
    run(qtbot, workspace)
    before = shown(qtbot, workspace, "r")
    workspace.trigger(f"run.edges_{kind}")
    assert window.settings.get(EDGE_NOTES) == kind
    note = shown(qtbot, workspace, "r")
    assert note != before
    assert bool(note.bars) == (kind == "histogram")


@pytest.mark.long
def test_no_notes_when_they_are_not_wanted(qtbot, workspace):
    run(qtbot, workspace)
    shown(qtbot, workspace, "c")
    workspace.trigger("run.edges_none")
    view = workspace.parent().view
    finish_painting(view)
    assert all(label.note is None for label in view.labels.in_rect(*view.scene.bounds))


@pytest.mark.long
def test_what_is_not_finite_is_a_warning(qtbot, workspace):
    make_bad(workspace)
    run(qtbot, workspace)
    note = shown(qtbot, workspace, "l")
    assert (note.warning, note.text) == ("256 NaN", ""), "nothing is as important"


@pytest.mark.long
def test_an_edit_makes_notes_stale_and_a_run_brings_new_ones(qtbot, workspace):
    run(qtbot, workspace)
    before = shown(qtbot, workspace, "r")
    edit(workspace, "relu", "alpha", 0.25)
    qtbot.waitUntil(lambda: shown(qtbot, workspace, "r") == replace(before, stale=True))
    assert not shown(qtbot, workspace, "l").stale
    workspace.runs.inputs.set_source("x", Constant(0.5))
    run(qtbot, workspace)
    qtbot.waitUntil(lambda: not shown(qtbot, workspace, "r").stale)
    assert shown(qtbot, workspace, "r").text != before.text


@pytest.mark.long
def test_a_run_after_clearing_shows_the_same_notes_again(qtbot, workspace):
    run(qtbot, workspace)
    before, view = shown(qtbot, workspace, "r"), workspace.parent().view
    workspace.results.clear()
    finish_painting(view)
    assert all(label.note is None for label in view.labels.in_rect(*view.scene.bounds))
    run(qtbot, workspace, "run.fresh")
    assert shown(qtbot, workspace, "r") == before


@pytest.mark.long
def test_undo_brings_the_old_notes_back_without_looking_again(qtbot, workspace, monkeypatch):
    run(qtbot, workspace)
    before = shown(qtbot, workspace, "r")
    summaries, values = workspace.results.summaries, list(workspace.model.graph.values())
    for one in values:
        summaries.of(one)
    qtbot.waitUntil(lambda: not any(map(summaries.awaits, values)))
    first, asked = workspace.results.current.result, []
    apply = RunResult.apply

    def look(result, function, *arguments, **options):
        if function is summarize:
            asked.append(result)
        return apply(result, function, *arguments, **options)

    workspace.runs.set_live(True)
    edit(workspace, "conv", "pads", [2, 2, 2, 2])
    qtbot.waitUntil(lambda: len(workspace.results.records) > 1)
    qtbot.waitUntil(lambda: shown(qtbot, workspace, "r") != before)
    monkeypatch.setattr(RunResult, "apply", look)
    workspace.document.undo()
    qtbot.waitUntil(lambda: shown(qtbot, workspace, "r") == before)
    assert workspace.results.current.result is first
    assert first not in asked


# -- words -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_notes_are_asked_for_again_when_a_graph_is_shown(qtbot, workspace):
    """Edges in the bodies of nodes had no values."""
    run(qtbot, workspace)
    workspace.highlights.note_of(value(workspace, "c"))
    with qtbot.waitSignal(workspace.highlights.notes_changed) as report:
        workspace.navigation.graph_shown.emit(workspace.graph)
    assert report.args == [None]


def summary(numbers, dtype=np.float32):
    array = np.array(numbers, dtype)
    return ValueSummary(statistics(array), tuple(np.histogram(array, 24)[0].tolist()) if array.size else ())


@pytest.mark.parametrize(
    ("kind", "numbers", "text"),
    [
        ("range", [-1.5, 0, 2], "−1.5 … 2"),
        ("range", [7, 7], "= 7"),
        ("histogram", [7, 7], "= 7"),
        ("mean", [1, 3], "2 ± 1"),
        ("magnitude", [-3.5, 0, 2], "|x| ≤ 3.5"),
        ("zeros", [0, 0, 0, 1], "75 % zeros"),
        ("zeros", [1] * 5000 + [0], "< 0.1 % zeros"),
        ("zeros", [0] * 5000 + [1], "> 99.9 % zeros"),
    ],
)
def test_words_of_a_note(kind, numbers, text):
    assert note_text(kind, summary(numbers), ElementType.FLOAT).text == text


def test_words_for_booleans():
    def words(numbers):
        return note_text("range", summary(numbers, np.uint8), ElementType.BOOL).text

    assert (words([1, 1]), words([0, 0]), words([0, 1])) == ("all true", "all false", "50 % true")
    assert (words([1]), words([0])) == ("= true", "= false")


def test_nothing_is_said_of_an_empty_tensor():
    assert note_text("range", summary([]), ElementType.FLOAT) is None


@given(st.lists(st.integers(0, 10**9), max_size=24))
def test_bars_fit_and_keep_the_order(counts):
    bars = outline(tuple(counts))
    assert all(0 <= bar <= 1 for bar in bars)
    assert not bars or max(bars) == 1
    assert all((bar > 0) == (count > 0) for bar, count in zip(bars, counts, strict=False))
    order = sorted(range(len(bars)), key=lambda index: counts[index])
    assert [bars[index] for index in order] == sorted(bars)
