"""Each edit by itself, wherever it can be done: taken back, done again, journalled and replayed from a script.

The machines of `test_any_edits` draw among so many edits that each is seldom done, and some only in the main graph.
"""

import random
from unittest import mock

import pytest

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, TrainingInfo
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from onnx_workbench.model.scripts import edit_script
from tests.model.edits.further_edits import EDITS
from tests.model.edits.rich_models import rich_bytes
from tests.model.edits.test_any_edits import AnyEdits
from tests.model.recovery.crash import abandon
from tests.model.snapshots import assert_known, assert_linked, snapshot

PLACES = {"main", "body", "function", "training"}
TRIES = 400
ENOUGH = 15  # tries after which places that were not reached are given up
TEXTS = ("", "a", "fresh", "x", "7", "local", "factor", "from", "namespace")


class User(AnyEdits):
    """Who chooses what to edit as the machine does, without being one."""

    def __init__(self, document):
        self.document = document


def place_of(target):
    """In what kind of graph something is."""
    graph = target if isinstance(target, Graph) else getattr(target, "graph", None)
    if isinstance(target, Model) or graph is None:
        return "model"
    kinds = {Node: "body", Model: "main", Function: "function", TrainingInfo: "training"}
    return kinds.get(type(graph.owner), "model")


def done(document, opened, name, number):
    """The kinds of places in which the edit changed something, chosen by chance; none when it was refused."""
    chance = random.Random(f"{name} {number}")
    a, b, text = chance.randrange(1 << 16), chance.randrange(1 << 16), chance.choice(TEXTS)
    try:
        with document.edit("Edit") as edit:
            EDITS[name](User(document), edit, a, b, text)
    except ModelError:
        assert snapshot(document.model) == opened
    return {place_of(target) for step in document.current.steps for target in step.touched}


@pytest.mark.parametrize("name", sorted(EDITS))
def test_it_is_undone_redone_recovered_and_replayed(name, tmp_path):
    reached, places = set(), {"none yet"}
    for number in range(TRIES):
        if places:  # what was refused leaves the model as it was: the next try is made there
            folder, document = tmp_path / str(number), Document(load(rich_bytes()))
            opened = snapshot(document.model)
            kept = Journal(document, folder)
        places = done(document, opened, name, number)
        if places and places <= reached:
            kept.close()
        elif places:
            reached |= places
            _check(document, opened)
            abandon(kept)
            _check_recordings(document, folder)
        if reached and (reached >= PLACES or number > ENOUGH):
            break
    else:
        pytest.fail("It was refused each time.")
    kept.close()


def _check(document, opened):
    now = snapshot(document.model)
    for _ in range(2):
        assert_linked(document.model)
        assert_known(document.model)
        document.undo()
        assert snapshot(document.model) == opened
        assert_linked(document.model)
        document.redo()
        assert snapshot(document.model) == now


def _check_recordings(document, folder):
    again, recovered = Document(load(rich_bytes())), Document(load(rich_bytes()))
    edit_script.replay(again, edit_script.export(document))
    with mock.patch("onnx_workbench.model.recovery.recover.is_running", return_value=False):
        (leftover,) = find_journals(folder)
    recover(recovered, leftover)
    for other in (again, recovered):
        assert snapshot(other.model) == snapshot(document.model)
        assert_linked(other.model)
