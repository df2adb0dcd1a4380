"""The two documents that most tests of edits begin with."""

import pytest

from tests.model import builders


@pytest.fixture
def chain():
    """Four nodes in a row."""
    return builders.document()


@pytest.fixture
def branches():
    """An If, and a call of a function."""
    return builders.document(builders.BRANCHES)
