"""What is done with a run as a whole: find where it stopped being finite, keep it in a file, take it up again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from exec.inspection.tracing import Search
from exec.saved import SavedRun, load_run, save_run
from model.errors import ModelError
from model.graph import Value
from model.progress import Progress
from viewer.results import Record
from viewer.runs.alarm import first_non_finite, passed
from viewer.text import plural

if TYPE_CHECKING:
    from viewer.workspace import Workspace

_TOPIC = "search for what is not finite"


def find_non_finite(workspace: Workspace, found: Callable[[Value, tuple[int, ...]], object]) -> None:
    """Find the first value of the last run that is not finite; a message when all are.

    Where the run has passed what it did not keep, such as all turns of a body but the last, the model is run again,
    with the same inputs and seed, to the first value that is not finite.
    """

    def tell(record: Record, search: Search) -> None:
        _tell(workspace, record, search, found)

    def done(record: Record, search: Search) -> None:
        runs = workspace.runs
        if search.is_whole or record.unfinished or runs.is_running or runs.is_paused:  # no run is ended for it
            tell(record, search)
        else:
            runs.seek_non_finite(lambda: _search(workspace, tell))

    _search(workspace, done)


def _search(workspace: Workspace, done: Callable[[Record, Search], object]) -> None:
    """Look through what is kept of the run that is shown."""
    record = workspace.results.current
    if record is None:
        return

    def work(_progress: Progress) -> Search:
        try:
            return first_non_finite(record)
        except LookupError as error:
            raise ModelError("The values are gone", f"{error}. Run the model again.") from error

    workspace.jobs.start("Find NaN and infinity", work, done=lambda search: done(record, search), supersede=_TOPIC)


def _tell(
    workspace: Workspace, record: Record, search: Search, found: Callable[[Value, tuple[int, ...]], object]
) -> None:
    bad = search.found[0] if search.found else None
    value = workspace.results.value_by_number(bad.key[1]) if bad is not None else None
    if bad is not None and value is not None:
        workspace.results.show_call(bad.key[0])
        found(value, bad.index)
        return
    so_far = "what the run has computed so far" if record.unfinished else "the last run"
    if search.is_whole:
        workspace.message("info", "Every value is finite", f"No NaN and no infinity in {so_far}.", topic=_TOPIC)
    else:
        detail = f"What was looked at in {so_far} {passed(search)}."
        workspace.message("info", "No NaN and no infinity was found", detail, topic=_TOPIC)


def write_run(workspace: Workspace, path: Path) -> None:
    """Write inputs, seed and values of the last run to an .npz file."""
    record = workspace.results.current
    if record is None:
        raise ModelError("There is no run to save", "run the model first")
    result, inputs = record.result, list(record.feeds)
    names = {key[1]: result.layout.name(key[1]) for key in result.layout.slots if not key[0]}

    def work(_progress: Progress) -> int:
        try:
            return result.apply(save_run, str(path), inputs, names)
        except (LookupError, OSError) as error:
            raise ModelError(f"{path.name} cannot be written", str(error), str(path)) from error

    def done(count: int) -> None:
        workspace.message("info", "The run is saved", f"{plural(count, 'value')} in {path.name}")

    workspace.jobs.start("Save the run", work, done=done)


def take_up_run(workspace: Workspace, path: Path) -> None:
    """Take inputs and seed from a saved run, and run."""
    runs = workspace.runs

    def done(saved: SavedRun) -> None:
        names = {v.name for v in runs.inputs.inputs()}
        feeds = {name: value for name, value in saved.inputs.items() if name in names}
        if not feeds:
            detail = f"{path.name} names {', '.join(list(saved.inputs)[:5]) or 'no inputs'}"
            workspace.message("error", "The file has no inputs of this model", detail)
            return
        runs.inputs.set_given(feeds, saved.seed)
        runs.run()

    workspace.jobs.start("Read a run", lambda _progress: load_run(path), done=done, supersede="load")
