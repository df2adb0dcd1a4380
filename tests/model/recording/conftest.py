"""What tests of journals share."""

import pytest


@pytest.fixture
def dead(monkeypatch):
    """Make every journal look like that of a program that is gone."""
    monkeypatch.setattr("model.recording.leftovers.is_running", lambda pid: False)
