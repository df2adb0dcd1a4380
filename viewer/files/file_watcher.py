"""Debounced watcher of files on disk, which also detects that a removed file was created again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

_SETTLE = 400  # ms without further changes before a change is reported


class FileWatcher(QObject):
    """Watches files for changes, replacement and removal. GUI thread only."""

    changed = Signal(object)  # Path that was written, replaced, removed or created again

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.missing: set[Path] = set()  # watched files that were removed and may be created again
        self._files: set[Path] = set()
        self._touched: set[Path] = set()
        self._watcher = QFileSystemWatcher(self)
        self._watcher.fileChanged.connect(self._touch)
        self._watcher.directoryChanged.connect(self._find_missing)
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE)
        self._settle.timeout.connect(self._report)

    def watch(self, path: Path) -> None:
        """Watch the current file of a path. It is added again, as the system may still watch a replaced file."""
        self._files.add(path)
        self._watcher.removePath(str(path))
        self._watcher.addPath(str(path))

    def watch_only(self, paths: Iterable[Path | None]) -> None:
        """Stop watching all files but these."""
        for path in self._files.difference(paths):
            self._files.discard(path)
            self._watcher.removePath(str(path))

    def _touch(self, path: str) -> None:
        self._touched.add(Path(path))
        self._settle.start()

    def _report(self) -> None:
        touched, self._touched = sorted(self._touched & self._files), set()
        for path in touched:
            if path.exists():
                self.watch(path)  # the system watches the replaced file, not the new one
            else:
                self.missing.add(path)
                self._watcher.addPath(str(path.parent))
            self.changed.emit(path)

    def _find_missing(self, folder: str) -> None:
        """Look for removed files after a change in their folder, which is watched only as long as needed."""
        here = {path for path in self.missing if path.parent == Path(folder)}
        wanted = here & self._files
        back = {path for path in wanted if path.exists()}
        self.missing -= here - (wanted - back)
        for path in back:
            self._touch(str(path))
        if wanted == back:
            self._watcher.removePath(folder)
