"""What is done with a run as a whole: find where it stopped being finite, keep it in a file, take it up again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from exec.inspection.tracing import Search, non_finite_values
from exec.saved import SavedRun, load_run, save_run
from model.errors import ModelError
from model.graph import Value
from model.progress import Progress
from viewer.runs.alarm import passed
from viewer.text import plural

if TYPE_CHECKING:
    from viewer.workspace import Workspace


def find_non_finite(workspace: Workspace, found: Callable[[Value, tuple[int, ...]], object]) -> None:
    """Find the first value of the last run that is not finite; a message when all are."""
    results = workspace.results
    record = results.current
    if record is None:
        return
    result = record.result

    def work(_progress: Progress) -> Search:
        try:
            return result.apply(non_finite_values, 1)
        except LookupError as error:
            raise ModelError("The values are gone", f"{error}. Run the model again.") from error

    def done(search: Search) -> None:
        bad = search.found[0] if search.found else None
        value = results.value_by_number(bad.key[1]) if bad is not None else None
        if bad is not None and value is not None:
            found(value, bad.index)
            return
        so_far = "what the run has computed so far" if record.unfinished else "the last run"
        if search.let_go or search.has_bodies:
            detail = f"What was looked at in {so_far} {passed(search)}."
            workspace.message("info", "No NaN and no infinity was found", detail)
        else:
            workspace.message("info", "Every value is finite", f"No NaN and no infinity in {so_far}.")

    workspace.jobs.start("Find NaN and infinity", work, done=done, supersede="non-finite")


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
