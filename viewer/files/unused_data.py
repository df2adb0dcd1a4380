"""Data files of earlier saves that a model no longer refers to: offered for deletion, as a copy may need them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QFile

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import plural
from onnx_workbench.viewer.run.workspace import Workspace

if TYPE_CHECKING:
    from onnx_workbench.model.io.writer.save import Saved

#: Topic of the offer. Withdrawn before the next save, which may refer to the files again.
UNUSED: Final = "unused data files"


def offer_deletion(workspace: Workspace, saved: Saved) -> None:
    """Offer to delete the files that a save has left unused, if any."""
    if not saved.unused:
        return
    names = ", ".join(path.name for path in saved.unused)
    workspace.messages.show(
        "info",
        f"{saved.path.name} no longer uses {plural(len(saved.unused), 'data file')} of earlier saves",
        f"{names}: needed only if you made a copy of the model meanwhile.",
        choices=(("Move to trash", partial(_discard, workspace, saved.unused)),),
        topic=UNUSED,
    )


def _discard(workspace: Workspace, paths: Iterable[Path]) -> None:
    left = [path for path in paths if path.exists() and not QFile.moveToTrash(str(path))]
    if left:
        workspace.messages.report(ModelError("This could not be moved to the trash", ", ".join(map(str, left))))
