"""A size of an input that becomes a symbol is offered for the outputs that inference follows it to."""

import pytest

from onnx_workbench.model.edits.values import set_type
from onnx_workbench.model.text.formatting import type_text
from onnx_workbench.model.text.types import parse_type
from tests.model import builders
from tests.viewer.opening import opened, titles

STILL_FIXED = "2 outputs still declared with fixed sizes"


@pytest.fixture
def tab(window, qtbot, tmp_path):
    path = builders.model_file(
        tmp_path / "net.onnx",
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 3] x, float[1, 3] w) => (float[1, 3] y, float[2, 3] twice, float mean, float[1, 3] other)
        {
            y = Relu (x)
            twice = Concat <axis = 0> (y, y)
            mean = ReduceMean <keepdims = 0> (y)
            other = Abs (w)
        }
        """,
    )
    tab = opened(window, qtbot, path)
    qtbot.waitUntil(lambda: tab.workspace.types.inferred is not None)
    return tab


def declare(tab, name, text):
    document = tab.workspace.document
    value = next(value for value in document.model.graph.inputs if value.name == name)
    with document.edit("Declare") as edit:
        set_type(edit, value, parse_type(text))


def declared(tab):
    return {value.name: type_text(value.type) for value in tab.workspace.graph.outputs}


def offer(tab):
    return next(row for row in tab.message_bar._rows if row.message.title == STILL_FIXED)


def test_outputs_are_offered_symbols_and_stay_open_for_formulas(tab, qtbot):
    before = declared(tab)
    declare(tab, "x", "float[N,3]")
    qtbot.waitUntil(lambda: STILL_FIXED in titles(tab))
    assert declared(tab) == before
    offer(tab).buttons[0].click()
    assert declared(tab) == {**before, "y": "float N×3", "twice": "float ?×3"}
    document = tab.workspace.document
    assert document.undo_title == "Declare symbolic sizes of outputs"
    qtbot.waitUntil(lambda: STILL_FIXED not in titles(tab))
    document.undo()
    assert declared(tab) == before


def test_undo_withdraws_the_offer(tab, qtbot):
    declare(tab, "x", "float[N,3]")
    qtbot.waitUntil(lambda: STILL_FIXED in titles(tab))
    tab.workspace.document.undo()
    qtbot.waitUntil(lambda: STILL_FIXED not in titles(tab))


def test_numbers_and_outputs_that_follow_already_are_not_asked_about(tab, qtbot):
    with qtbot.waitSignal(tab.workspace.types.changed):
        declare(tab, "x", "float[7,3]")
    assert not any("fixed sizes" in title for title in titles(tab))
