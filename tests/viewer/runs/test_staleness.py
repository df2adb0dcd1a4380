"""Which results a change makes out of date, without a window."""

import pytest

from model.edits import nodes
from tests.model import builders
from viewer.runs.staleness import outdated, rewires, sources


@pytest.fixture
def heard():
    """A document, and the last change it told of."""
    document = builders.document(builders.BRANCHES)
    changes = []
    document.subscribe(changes.append)
    return document, changes


def test_moved_uses_make_out_of_date_what_uses_the_other_value_now(heard):
    document, changes = heard
    doubled, x = builders.value(document, "d"), builders.value(document, "x")
    with document.edit("Replace") as edit:
        nodes.replace_uses(edit, doubled, x)
    assert rewires(changes[-1])
    assert sources(changes[-1]) == {builders.node(document, "inner")}
    assert {"inner", "choose", "call"} <= {getattr(thing, "name", "") for thing in outdated(sources(changes[-1]))}


def test_another_result_of_a_body_makes_its_node_out_of_date(heard):
    document, changes = heard
    returned, x = builders.value(document, "yes_out"), builders.value(document, "x")
    with document.edit("Replace") as edit:
        nodes.replace_uses(edit, returned, x)
    assert sources(changes[-1]) == {builders.node(document, "choose")}
    document.undo()
    assert sources(changes[-1]) == {builders.node(document, "choose")}
