"""What is done with a run as a whole: keep it in a file, take it up again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from exec.saved import SavedRun, load_run, save_run
from model.errors import ModelError
from model.progress import Progress
from viewer.text import plural

if TYPE_CHECKING:
    from viewer.workspace import Workspace


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
