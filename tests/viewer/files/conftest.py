"""A model with weights of some size, and an edit of them that is as slow as a test wants."""

from threading import Event, current_thread, main_thread

import numpy as np
import pytest

from onnx_workbench.model.io.writer.save import save
from onnx_workbench.model.recovery.journal_files import JournalFiles
from tests.model import builders
from tests.viewer.background_work import task_of
from tests.viewer.files.large import ELEMENTS, large_document
from tests.viewer.opening import opened
from tests.viewer.tensor_view.tensor_actions import panel_of


@pytest.fixture
def large_file(tmp_path):
    """A model with one constant of some size."""
    path = tmp_path / "large.onnx"
    save(large_document().model, path)
    return path


@pytest.fixture
def delayed(monkeypatch):
    """A disk that takes bytes in the background as slowly as the test wants; who gives them up need not wait for it."""
    free, write = Event(), JournalFiles._write_bytes

    def slowly(store, *given):
        while current_thread() is not main_thread() and not free.wait(0.02):
            store._progress.check()
        write(store, *given)

    monkeypatch.setattr(JournalFiles, "_write_bytes", slowly)
    yield free
    free.set()


@pytest.fixture
def being_written(qtbot, window, large_file, tmp_path, delayed):
    """The values of a file are on their way to the journal, as the status line says."""
    workspace = opened(window, qtbot, large_file).workspace
    np.save(tmp_path / "v.npy", np.full(ELEMENTS, 7, np.float32))
    panel = panel_of(qtbot, window, builders.value(workspace.document, "w"))
    panel.pane.editing.import_file(tmp_path / "v.npy", "", lambda _text, resume: resume())
    task = task_of(qtbot, workspace.tasks, "Import v.npy into w")
    assert workspace.document.undo_title is None
    return workspace, task
