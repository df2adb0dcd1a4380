"""Baselines: models without a file, saved for recovery before they are shown.

A baseline lies beside the journal that may follow. Without a journal there is nothing to recover: the model was only
viewed, or not even shown yet. Then the next start removes it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.model.errors import ModelError, errors_to
from onnx_workbench.model.progress import SILENT, Cancelled, Progress
from onnx_workbench.model.recovery.journal_files import base_path, new_path, sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_workbench.model.io.writer.save import Saving
    from onnx_workbench.model.ir.graph import Model


@dataclass(frozen=True, slots=True)
class Baseline:
    """A model in no file as it began, beside where its journal will be; or the `problem` that keeps it from there."""

    journal: Path
    problem: str = ""

    @classmethod
    def missing(cls, folder: Path, problem: str = "that was stopped") -> Baseline:
        """None is there, for a reason."""
        return cls(new_path(folder), problem)


def write_baseline(model: Model, folder: Path, progress: Progress = SILENT) -> Baseline:
    """Save a model that exists nowhere else yet. Blocks as a save does; any thread. Raises nothing.

    The file is written atomically. `progress` gets reports; a cancellation is a problem like any other.
    """
    journal = new_path(folder)
    return _written(journal, lambda: prepare_baseline(model, journal, progress), progress)


def prepare_baseline(model: Model, journal: Path, progress: Progress = SILENT) -> Saving:
    """Read a model that is still being edited, as `model.io.writer.save.prepare` does; `finish_baseline` then writes
    it.

    Each tensor will be where it is, in the model or beside it; all beside it where they do not fit into one file.
    """
    from onnx_workbench.model.io.writer.save import prepare
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    path = base_path(journal)
    try:
        return prepare(model, path, Storage(apart=True), progress=progress)  # what it was recovered from will go
    except ModelError:
        return prepare(model, path, Storage(DataLayout.ONE_FILE), progress=progress)


def finish_baseline(journal: Path, saving: Saving, progress: Progress = SILENT) -> Baseline:
    """Write down what was prepared, for this journal, as `write_baseline` does."""
    return _written(journal, lambda: saving, progress)


def _written(journal: Path, prepared: Callable[[], Saving], progress: Progress) -> Baseline:
    problems = list[Exception]()
    with errors_to(problems.append):
        journal.parent.mkdir(parents=True, exist_ok=True)
        saved = prepared().run(progress, durable=False)
        for path in (saved.path, *saved.data_files):
            sync(os.open(path, os.O_RDONLY))
    return Baseline.missing(journal.parent, reason_of(problems[0])) if problems else Baseline(journal)


def reason_of(error: Exception) -> str:
    """Return why something is not kept for recovery, for the user."""
    if isinstance(error, Cancelled):
        return "that was stopped"
    return (isinstance(error, OSError) and error.strerror) or str(error).rstrip(".") or type(error).__name__
