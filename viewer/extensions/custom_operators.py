"""Open operator-set documents (ONNXOPSET files), whose operators are available in every model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from onnx_workbench.model import schemas
from onnx_workbench.model.errors import ModelError
from onnx_workbench.viewer.program.settings import OPERATOR_SETS, Settings

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.read import OperatorSet
    from onnx_workbench.model.schemas import Schema


@dataclass(frozen=True)
class OpenOperatorSet:
    """One ONNXOPSET document: its path, content, and schemas."""

    path: Path
    content: OperatorSet
    schemas: tuple[Schema, ...]


class OperatorSets(QObject):
    """All open ONNXOPSET documents, in the order they were opened. GUI thread."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[OpenOperatorSet] = []
        self._settings: Settings | None = None
        self.changed.connect(self._write_down)

    def remember(self, settings: Settings) -> list[ModelError]:
        """Open the documents of the last session and store the list from now on; return errors of reading."""
        refused = []
        for text in settings.get(OPERATOR_SETS):
            try:
                self.open(Path(text))
            except ModelError as error:
                refused.append(error)
        self._settings = settings
        settings.destroyed.connect(partial(self._settings_gone, id(settings)))
        self._write_down()
        return refused

    def _write_down(self) -> None:
        if self._settings is not None:
            self._settings.set(OPERATOR_SETS, tuple(str(one.path.absolute()) for one in self.opened))

    def _settings_gone(self, which: int) -> None:
        if id(self._settings) == which:
            self._settings = None

    def open(self, path: Path) -> OpenOperatorSet:
        """Read a document and register its operators; if it is open, read it again."""
        from onnx_workbench.model.io.reader.read import load_operator_set
        from onnx_workbench.model.schemas.operator_set_documents import schemas_of

        content = load_operator_set(path)
        for other in [one for one in self.opened if one.path == path]:
            self.close(other)
        found = OpenOperatorSet(path, content, tuple(schemas_of(content)))
        schemas.register(found.schemas)
        self.opened.append(found)
        self.changed.emit()
        return found

    def close(self, document: OpenOperatorSet) -> None:
        """Unregister the operators of a document."""
        schemas.unregister(document.schemas)
        self.opened.remove(document)
        self.changed.emit()


@cache
def documents() -> OperatorSets:
    """Return the documents of the program."""
    return OperatorSets()


def is_document(path: Path) -> bool:
    """Return whether a file is an operator-set document; reads its first bytes."""
    from onnx_workbench.model.io.reader.read import identify

    try:
        return identify(path).message == "OperatorSetProto"
    except (ModelError, OSError):
        return False
