"""Debounced watch of files on disk, which also notices when a removed file comes back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

_SETTLE = 400  # ms a file must be left alone before its change is reported


class FileWatcher(QObject):
    """Watches files for changes, replacement and removal. GUI thread only."""

    changed = Signal(object)  # Path that was written, replaced, removed or created again

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.missing: set[Path] = set()  # watched files that were removed and may come back
        self._files: set[Path] = set()
        self._touched: set[Path] = set()
        self._watcher = QFileSystemWatcher(self)
        self._watcher.fileChanged.connect(self._touch)
        self._watcher.directoryChanged.connect(self._find_missing)
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE)
        self._settle.timeout.connect(self._report)

    def watch(self, path: Path) -> None:
        """Watch the file that is there now; a replaced one stays watched while weights are still read from it."""
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
                self.watch(path)  # a file that was replaced is no longer the one that is watched
            else:
                self.missing.add(path)
                self._watcher.addPath(str(path.parent))
            self.changed.emit(path)

    def _find_missing(self, folder: str) -> None:
        """Look for a file that was removed, after a change in its folder, which is watched no longer than needed."""
        here = {path for path in self.missing if path.parent == Path(folder)}
        wanted = here & self._files
        back = {path for path in wanted if path.exists()}
        self.missing -= here - (wanted - back)
        for path in back:
            self._touch(str(path))
        if wanted == back:
            self._watcher.removePath(folder)
