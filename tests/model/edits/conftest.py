"""The two documents that most tests of edits begin with, and that undo gives them back."""

import pytest

from tests.model import builders
from tests.model.snapshots import on_rollback


@pytest.fixture
def chain():
    """Four nodes in a row."""
    return builders.document()


@pytest.fixture
def branches():
    """An If, and a call of a function."""
    return builders.document(builders.BRANCHES)


@pytest.fixture
def undo_restores(chain, branches):
    """Taking back all that a test does to them gives both as they were."""
    with on_rollback(chain, branches):
        yield
