"""What the inspector says of the last run, and the ways from there and from the palette to the numbers."""

import pytest

from tests.viewer.run.run_actions import edit, idle, make_bad, make_finite, node, run, value

pytestmark = pytest.mark.long


def row(window, *path):
    """A row of the inspector, None where there is no such."""
    tree = window.docks.panel("inspector").tree
    return tree.rows.row(tree.rows.find(*path))


def text(window, *path):
    found = row(window, *path)
    return None if found is None else found.text


def test_a_value_says_what_the_run_gave_and_leads_to_its_numbers(window, qtbot, workspace):
    make_finite(workspace)
    workspace.selection.set([value(workspace, "c")])
    assert row(window, "run") is None
    run(qtbot, workspace)
    qtbot.waitUntil(lambda: text(window, "run") == "1×4×8×8  0.45 … 1.08")
    window.docks.toggle("tensor")
    row(window, "run").actions[0].run()
    assert window.docks.is_open("tensor")
    assert row(window, "run").note == ""
    edit(workspace, "conv", "pads", [0, 0, 0, 0])
    qtbot.waitUntil(lambda: row(window, "run").note == "out of date")


def test_a_node_says_it_of_its_outputs_with_what_is_not_finite(window, qtbot, workspace):
    make_bad(workspace)
    workspace.selection.set([node(workspace, "log")])
    run(qtbot, workspace)
    path = ("outputs", "output 0 computed")
    qtbot.waitUntil(lambda: text(window, *path) == "1×4×8×8  256 NaN")
    row(window, *path).actions[0].run()
    assert workspace.selection.items == (value(workspace, "l"),)
    idle(qtbot, workspace)


def test_what_else_a_panel_is_called_is_nearly_as_good_as_its_title(window, workspace):
    window.open_palette()
    popup = window.palette_popup
    for typed, title in (("lint", "Problems"), ("protobuf", "Raw Messages"), ("console", "Run")):
        popup.field.setText(typed)
        assert popup.matching()[0].title == title
    popup.field.setText("compare with")
    assert "Compare With…" in [entry.title for entry in popup.matching()]
    popup.close()


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("values", "Tensor"), ("numbers", "Tensor"), ("tensor", "Tensor"), ("breakpoints", "Run"),
        ("console", "Run"), ("weights", "Tensor"), ("time memory", "Profile"), ("undo history", "History"),
    ],
)  # fmt: skip
def test_the_palette_finds_panels_by_what_people_call_them(window, workspace, typed, title):
    window.open_palette()
    popup = window.palette_popup
    popup.field.setText(typed)
    assert title in [entry.title for entry in popup.matching()]
    popup.close()


def test_a_title_beginning_with_the_typed_text_comes_first(window, workspace):
    window.open_palette()
    popup = window.palette_popup
    for typed, title in (
        ("dark", "Dark Theme"), ("light", "Light Theme"), ("compare", "Compare"), ("undo", "Undo"), ("stop", "Stop"),
        ("new model", "New…"), ("open file", "Open…"), ("open tensor", "Tensor"), ("add node", "Add Operator…"),
        ("settings", "Preferences…"), ("rename", "Rename"), ("batch", "Set Batch Dimension…"), ("back", "Back"),
    ):  # fmt: skip
        popup.field.setText(typed)
        assert popup.matching()[0].title == title
    popup.close()
