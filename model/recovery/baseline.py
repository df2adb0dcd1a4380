"""Baselines: models without a file, saved for recovery before they are shown.

A baseline is stored next to its journal. One without a journal is of a model that was only viewed: the next start
deletes it.
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
    """Saved copy of a model without a file, next to the `journal` path; or the `problem` that prevented it."""

    journal: Path
    problem: str = ""

    @classmethod
    def missing(cls, folder: Path, problem: str = "that was stopped") -> Baseline:
        """A missing baseline, with the reason."""
        return cls(new_path(folder), problem)


def write_baseline(model: Model, folder: Path, progress: Progress = SILENT) -> Baseline:
    """Save a model that has no file yet, atomically. Blocks like a save; any thread. Never raises.

    `progress` gets reports; a cancellation is reported as a problem like any other.
    """
    journal = new_path(folder)
    return _written(journal, lambda: prepare_baseline(model, journal, progress), progress)


def prepare_baseline(model: Model, journal: Path, progress: Progress = SILENT) -> Saving:
    """Prepare a save of the baseline, as `model.io.writer.save.prepare`; `finish_baseline` then writes it.

    Tensors stay where they are, in the model or in external files; all become external if one file cannot hold them.
    """
    from onnx_workbench.model.io.writer.save import prepare
    from onnx_workbench.model.io.writer.storage_plan import DataLayout, Storage

    path = base_path(journal)
    try:
        return prepare(model, path, Storage(apart=True), progress=progress)  # recovered files get deleted
    except ModelError:
        return prepare(model, path, Storage(DataLayout.ONE_FILE), progress=progress)


def finish_baseline(journal: Path, saving: Saving, progress: Progress = SILENT) -> Baseline:
    """Write a prepared baseline, as `write_baseline` does."""
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
    """Return a message why the baseline or journal could not be written."""
    if isinstance(error, Cancelled):
        return "that was stopped"
    return (isinstance(error, OSError) and error.strerror) or str(error).rstrip(".") or type(error).__name__
