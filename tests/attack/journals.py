"""Journals in which bytes were changed: what lies before the damage comes back, and nothing else happens."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.recovery.journal import Journal
from onnx_workbench.model.recovery.recover import find_journals, recover
from tests.attack.mutations import mutated_bytes
from tests.model import builders
from tests.model.recovery.crash import abandon
from tests.model.recovery.recorded_work import work
from tests.model.snapshots import assert_linked


def write_journal(folder: Path) -> None:
    """Leave the journal of some edits as a crash would."""
    document = builders.document()
    journal = Journal(document, folder)
    work(document)
    document.undo()
    abandon(journal)


def recover_damaged(whole: Path, folder: Path, rng: random.Random) -> str:
    """Change bytes of a copy of a folder of journals, and recover; "" if nothing but a message came of it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    path = rng.choice(sorted(path for path in folder.iterdir() if path.stat().st_size))
    path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    for leftover in find_journals(folder):
        document = builders.document()
        try:
            recover(document, leftover)
        except ModelError:
            pass  # says how far it got
        assert_linked(document.model)
        while document.undo():
            pass
        assert_linked(document.model)
    return ""
