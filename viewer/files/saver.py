"""Saving of the documents of one window: ask, prepare, write, report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QFile, QObject, Signal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.deferred_action import DeferredAction
from onnx_workbench.viewer.document.messages import Severity
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.files.file_identity import identity_at, missing_at
from onnx_workbench.viewer.files.file_watcher import FileWatcher
from onnx_workbench.viewer.popups.file_dialogs import ask_save_model
from onnx_workbench.viewer.popups.questions import ask_to_replace_truncated
from onnx_workbench.viewer.program.settings import Settings
from onnx_workbench.viewer.property_tree.editors import commit_focused_editor
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tasks import readers
from onnx_workbench.viewer.tasks.threads import post_and_wait

if TYPE_CHECKING:  # the model writer is not needed before the first paint
    from onnx_workbench.model.io.writer.save import Saved, Saving
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.save import Save, SaveOptions

ON_DISK: Final = "file on disk"  # topics of messages; a message replaces the previous one
_SAVING: Final = "saving"
_UNUSED: Final = "unused data files"  # withdrawn before the next save, which may refer to the files again


class Saver(QObject):
    """Saves documents, one save of each at a time; edits may continue meanwhile. GUI thread only.

    The stages of a save are `_check_target`, `_write` and `_finish`.
    """

    saved = Signal(str)  # text for the status line; other outcomes are messages
    ended = Signal(object)  # DocumentTab whose save has ended, whatever the outcome

    def __init__(self, area: DocumentArea, settings: Settings, watcher: FileWatcher) -> None:
        super().__init__(area)
        self._area = area
        self._settings = settings
        self._watcher = watcher
        self._saves: dict[DocumentTab, Save] = {}  # being prepared or written
        area.tab_removed.connect(self._forget)

    # -- pending saves -----------------------------------------------------------------------------------------

    def is_writing(self, tab: DocumentTab) -> bool:
        """Return whether a document or a part of it is being written."""
        return tab in self._saves or bool(tab.workspace.tasks.making("file"))

    def save_of(self, tab: DocumentTab) -> Save | None:
        """Return the save of a document that is being prepared or written."""
        return self._saves.get(tab)

    def when_written(self, tab: DocumentTab, call: Callable[[], object]) -> None:
        """Call at once, or at the end of the running save."""
        running = self._saves.get(tab)
        if running is None:
            call()
        else:
            running.waiting.append(call)

    def _forget(self, tab: DocumentTab) -> None:
        """Drop the save of a closed document, without signals."""
        self._saves.pop(tab, None)

    # -- the target --------------------------------------------------------------------------------------------

    def save(self, tab: DocumentTab, then: Callable[[], object] | None = None) -> None:
        """Write the document to its file, or show a file dialog if it has none or its format is read-only.

        `then` is called after it was written.
        """
        from onnx_workbench.model.io.reader.sniff import FileForm
        from onnx_workbench.model.io.writer.save import form_for
        from onnx_workbench.viewer.files.save import SaveOptions

        commit_focused_editor(self._area.window())
        if tab.path is None or form_for(tab.path, tab.workspace.model.source) is FileForm.ORT:
            self.save_as(tab, then)
        else:
            self.save_with(tab, SaveOptions(tab.path), then)

    def save_as(self, tab: DocumentTab, then: Callable[[], object] | None = None) -> None:
        """Show a file dialog and write the document to the file, which becomes the document's file."""
        from onnx_workbench.viewer.files.save import SaveOptions

        suggestion = tab.path or Path(f"{tab.workspace.title}.onnx")
        if suggestion.suffix.lower() == ".ort":
            suggestion = suggestion.with_suffix(".onnx")
        path = ask_save_model(self._area, self._settings, suggestion)
        if path is not None:
            self.save_with(tab, SaveOptions(path), then)

    def save_with(
        self,
        tab: DocumentTab,
        options: SaveOptions,
        then: Callable[[], object] | None = None,
        *,
        prepared: Callable[[], object] | None = None,
        refused: Callable[[ModelError], object] | None = None,
    ) -> Save:
        """Write the document with options, after its running save. For the callbacks see `Save`."""
        from onnx_workbench.viewer.files.save import Save

        save = Save(tab, options, then, prepared, refused)
        if tab in self._area.tabs():  # it may be closed while a question was open
            self.when_written(tab, partial(self._check_target, save))
        return save

    # -- one save ----------------------------------------------------------------------------------------------

    def _check_target(self, save: Save) -> None:
        """Check the target of a save; ask before replacing a file that was changed or has incomplete weights."""
        if save.stopped:
            return
        tab, path = save.tab, save.options.path
        tab.workspace.messages.withdraw(_SAVING)
        expected = tab.identity if save.is_own and not save.is_replacing else None
        is_confirmed = save.is_replacing or save.is_replacing_truncated
        if not is_confirmed and (missing := missing_at(tab.workspace.model, path)):
            self._announce(save)
            self._ask_to_replace_truncated(save, missing)
        elif expected is not None and path.exists() and identity_at(path) != expected:
            self._announce(save)
            self._warn_before_overwriting(save)
        else:
            self._saves[tab] = save
            self._write(save)

    def _write(self, save: Save) -> None:
        """Read and write the model, after pending edits are made, refused or cancelled."""
        tab, workspace = save.tab, save.tab.workspace
        document = workspace.document
        expected = tab.identity if save.is_own and not save.is_replacing else None
        others = [t.workspace.model for t in self._area.tabs() if t is not tab and save.options.path != tab.path]

        def read(progress: Progress) -> tuple[Saving, int]:
            return save.prepare(expected, others, progress), document.current.id

        def work(progress: Progress) -> tuple[Saved, int]:
            saving, state = readers.read_model(read, progress)  # repeated after an edit, which is then included
            post_and_wait(partial(self._announce, save), progress)
            return save.write(saving, state, progress), state

        def start() -> None:
            document.end_gesture()  # further typing is a separate, unsaved edit
            task = workspace.tasks.start(
                save.title,
                work,
                failed=partial(self._fail, save),
                finished=lambda: self._finish(save, task.result),
                lane="mutate",
            )
            save.cancel = task.cancel

        waiting = DeferredAction(workspace, save.title, "Do not save", start, partial(self._end, save))
        if waiting.is_waiting:
            save.cancel = waiting.stop

    def _fail(self, save: Save, error: BaseException) -> None:
        """Show why nothing was written; if the options do not fit the model, in the dialog of the options."""
        if isinstance(error, ModelError) and save.refused is not None and not save.is_announced:
            save.refused(error)
        else:
            self._show_failure(save, error)

    def _finish(self, save: Save, written: tuple[Saved, int] | None) -> None:
        """Report a written save, even if cancelled after that; None if it failed or was cancelled."""
        try:
            if written is None:
                return
            saved, state = written
            if save.is_copy:
                self._show_copied(save, saved)
            else:
                self._adopt_file(save, saved, state)
            if save.then is not None:
                save.then()
        finally:
            self._end(save)

    def _end(self, save: Save) -> None:
        """Call the requests that wait for the end of a save, with any outcome."""
        tab = save.tab
        self._saves.pop(tab, None)
        tab.autosave.clear_expected()
        for call in save.waiting:
            if tab not in self._area.tabs():
                return
            self.when_written(tab, call)
        self.ended.emit(tab)

    # -- messages and questions --------------------------------------------------------------------------------

    def _announce(self, save: Save) -> None:
        save.is_announced = True
        save.tab.workspace.messages.withdraw(_UNUSED)
        if save.prepared is not None:
            save.prepared()

    def _show_copied(self, save: Save, saved: Saved) -> None:
        remarks = (*saved.left_out, *saved.warnings)
        severity: Severity = "warning" if remarks else "info"
        save.tab.workspace.messages.show(severity, f"A copy was saved as {saved.path.name}", "\n".join(remarks))
        self._settings.add_recent_file(saved.path)

    def _adopt_file(self, save: Save, saved: Saved, state: int) -> None:
        """Make the written file the document's file."""
        tab = save.tab
        tab.identity = saved.identity
        tab.workspace.messages.withdraw(ON_DISK)
        tab.workspace.document.mark_saved(saved.path, state, left_out=bool(saved.left_out))
        self._watcher.watch_only(tab.path for tab in self._area.tabs())
        self._watcher.watch(saved.path)
        self._settings.add_recent_file(saved.path)
        if saved.left_out or saved.warnings:
            title = f"{saved.path.name} is saved{', but not all of it' if saved.left_out else ''}"
            elsewhere = (("Save as…", partial(self.save_as, tab)),) if saved.left_out else ()
            detail = "\n".join((*saved.left_out, *saved.warnings))
            tab.workspace.messages.show("warning", title, detail, choices=elsewhere, topic=_SAVING)
        else:
            self.saved.emit(f"Saved {display(str(saved.path), 200)}")
        _offer_deletion(tab.workspace, saved)

    def _warn_before_overwriting(self, save: Save) -> None:
        def replace() -> None:
            save.is_replacing = True
            self.when_written(save.tab, partial(self._check_target, save))

        save.tab.workspace.messages.show(
            "warning",
            "The file was changed by another program",
            "Saving replaces what that program wrote.",
            choices=(("Replace it", replace), ("Save as…", partial(self.save_as, save.tab, save.then))),
            topic=ON_DISK,
        )

    def _ask_to_replace_truncated(self, save: Save, missing: str) -> None:
        def replace() -> None:
            save.is_replacing_truncated = True
            self.when_written(save.tab, partial(self._check_target, save))

        save_as = partial(self.save_as, save.tab, save.then)
        ask_to_replace_truncated(self._area, save.options.path.name, missing, save_as, replace)

    def _show_failure(self, save: Save, error: BaseException) -> None:
        """Show why it was not saved, and offer to save elsewhere."""
        if isinstance(error, ModelError):
            elsewhere = ("Save as…", partial(self.save_as, save.tab, save.then))
            messages = save.tab.workspace.messages
            messages.show("error", error.title, error.detail, error.place, (elsewhere,), _SAVING)


def _offer_deletion(workspace: Workspace, saved: Saved) -> None:
    """Offer to delete the data files of earlier saves that a model no longer uses: a copy of it may need them."""
    if not saved.unused:
        return
    names = ", ".join(path.name for path in saved.unused)
    workspace.messages.show(
        "info",
        f"{saved.path.name} no longer uses {plural(len(saved.unused), 'data file')} of earlier saves",
        f"{names}: needed only if you made a copy of the model meanwhile.",
        choices=(("Move to trash", partial(_discard, workspace, saved.unused)),),
        topic=_UNUSED,
    )


def _discard(workspace: Workspace, paths: Iterable[Path]) -> None:
    left = [path for path in paths if path.exists() and not QFile.moveToTrash(str(path))]
    if left:
        workspace.messages.report(ModelError("This could not be moved to the trash", ", ".join(map(str, left))))
