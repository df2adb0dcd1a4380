"""Opening, saving and reloading the documents of one window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.core.context import Message, Severity
from onnx_workbench.viewer.core.folders import journal_folder
from onnx_workbench.viewer.core.settings import RELOAD_SILENTLY, Settings
from onnx_workbench.viewer.core.tasks import Task, TaskRunner
from onnx_workbench.viewer.files import custom_operators, read_model, unused_data
from onnx_workbench.viewer.files.closing import Closing
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.files.show_beside import show_beside
from onnx_workbench.viewer.popups.file_dialogs import ask_open
from onnx_workbench.viewer.popups.questions import ask_to_replace_truncated
from onnx_workbench.viewer.property_tree.editors import take_typed
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.style.formatting import display, plural

if TYPE_CHECKING:
    from onnx_workbench.model.io.writer.save import Saved
    from onnx_workbench.model.recovery.baseline import Baseline
    from onnx_workbench.viewer.files.document_area import DocumentArea
    from onnx_workbench.viewer.files.save import Coming, SaveOptions, SaveTask

_SETTLE = 400  # ms a file must be left alone before it is read again
_ON_DISK, _SAVING = "file on disk", "saving"  # topics of messages, of which the last one counts


def _nothing() -> None:
    """Do nothing: the default callback."""


class Documents(QObject):
    """The documents of a window: one tab each. GUI thread only; reading and writing happen in tasks."""

    opened = Signal(object)  # DocumentTab
    pending_changed = Signal()  # files that are being read
    operator_set_opened = Signal()  # the operators of an ONNXOPSET document are known now

    def __init__(self, area: DocumentArea, settings: Settings, preload: Callable[[], object]) -> None:
        """`preload` imports what a tab needs; it is called on a worker thread, more than once."""
        super().__init__(area)
        self.area = area
        self._settings = settings
        self._preload = preload
        self.tasks = TaskRunner(self)
        self.pending: list[str] = []  # names of files that are being read
        self.expecting = False  # files will be opened as soon as the window is painted
        self._until_read: dict[Path, list[Callable[[], object]]] = {}  # what waits for each of those
        self._watcher = QFileSystemWatcher(self)
        self._watcher.fileChanged.connect(self._touched)
        self._watcher.directoryChanged.connect(self._look_for_gone)
        self._touched_paths: set[str] = set()
        self._gone: set[Path] = set()  # files of open documents that were removed and may come back
        self._saves: dict[DocumentTab, SaveTask] = {}  # being prepared or written
        self.keeping: list[Task[Any]] = []  # write down models that show then
        self._closing = Closing(area, self)
        self._settle = QTimer(self, singleShot=True, interval=_SETTLE)
        self._settle.timeout.connect(self._check_touched)

    # -- opening ---------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Let the user choose files and open them."""
        self.open(ask_open(self.area, self._settings))

    def open(self, paths: Iterable[Path]) -> None:
        """Open each file in a tab of its own, or go to the tab that has it, or will have it."""
        for path in paths:
            if path.is_dir():
                self._open_folder(path)
                continue
            self.when_read(path, partial(self._go_to, path))

    def _go_to(self, path: Path) -> None:
        tabs = self.tabs_of(path)
        if tabs:
            self.area.activate(tabs[0])
        else:
            self._read(str(path), path.name, path.absolute())

    def when_read(self, path: Path, call: Callable[[], object]) -> None:
        """Call at once, or when a file that is being read has a tab, or cannot be opened."""
        if path.absolute() in self._until_read:
            self._until_read[path.absolute()].append(call)
        else:
            call()

    def add_new(
        self, models: Sequence[tuple[Model, str]], then: Callable[[DocumentTab], object] = lambda _tab: None
    ) -> None:
        """Show models that are in no file yet, new ones or parts of another, with their titles.

        They are written down for recovery before. Something may be done with the tab of the last one.
        """

        def show(beginnings: Sequence[Baseline]) -> None:
            for (model, title), beginning in zip(models, beginnings, strict=True):
                document = Document(model)
                document.mark_unsaved()
                tab = self._add(document, title, beginning)
            then(tab)

        self._keep_first(models, show)

    def _open_folder(self, folder: Path) -> None:
        """Open the model in a folder and run the test data beside it."""
        from onnx_workbench.exec.inspect.expected_outputs import model_in

        def test(tab: DocumentTab) -> None:
            runs = tab.workspace.runs
            if runs.inputs.data_sets():
                tab.workspace.trigger("panel.run")
                runs.testing.run(runs.inputs.data_sets())

        try:
            self.open_then(model_in(folder), test)
        except ModelError as error:
            self.area.report(error)

    def open_then(self, path: Path, then: Callable[[DocumentTab], object]) -> None:
        """Open a file in a tab of its own, even if another tab has it, and do something with the tab."""
        self._read(str(path), path.name, path.absolute(), then)

    def open_copy_then(self, path: Path, title: str, then: Callable[[DocumentTab], object]) -> None:
        """Open what is in a file as a new document that belongs to no file, and do something with the tab."""
        self._read(str(path), title, None, then)

    def open_saved_then(self, path: Path, title: str, then: Callable[[DocumentTab], object]) -> None:
        """Open a read-only view of a file beside its edits: no baseline is written, as the file holds it."""
        self._read(str(path), title, None, then, holds=path)

    def open_standard_input(self) -> None:
        """Open the model that is piped in."""
        self._read(read_model.STANDARD_INPUT, "standard input", None)

    def open_sample(self) -> None:
        """Open the sample model, as a new document: the file that comes with the program is never overwritten."""
        sample = read_model.sample_model()
        self._read(str(sample), sample.stem, None)

    def warm_up(self) -> None:
        """Import in the background what the first document will need."""
        self.tasks.start("", lambda _progress: self._preload())

    def _read(
        self,
        name: str,
        title: str,
        path: Path | None,
        then: Callable[[DocumentTab], object] = lambda _tab: None,
        *,
        holds: Path | None = None,
    ) -> None:
        def work(progress: Progress) -> Model:
            self._preload()
            return read_model.read(name, progress)

        def done(model: Model) -> None:
            if path is None and holds is None:
                self._keep_first(
                    [(model, title)], lambda beginnings: then(self._add(Document(model), title, *beginnings))
                )
            else:
                then(self._add(Document(model, path), title, holds=holds))

        def finished() -> None:
            self._arrived(title)
            for call in self._until_read.pop(path, ()) if path is not None else ():
                call()

        self._expect(title)
        if path is not None:
            self._until_read.setdefault(path, [])
        self.tasks.start(
            f"Opening {title}",
            work,
            done=done,
            failed=lambda error: self._cannot_open(error, title, path),
            finished=finished,
            lane="mutate",  # one after the other, so that tabs are in the requested order
        )

    def _keep_first(self, models: Sequence[tuple[Model, str]], show: Callable[[Sequence[Baseline]], object]) -> None:
        """Write models in no file down for recovery before they are shown, as they are even if that is stopped."""
        folder, title = journal_folder(), models[0][1]

        def work(progress: Progress) -> list[Baseline]:
            from onnx_workbench.model.recovery.baseline import write_baseline

            self._preload()
            return [write_baseline(model, folder, progress) for model, _ in models]

        def finished() -> None:
            from onnx_workbench.model.recovery.baseline import Baseline

            self.keeping.remove(task)
            show(task.result or [Baseline.missing(folder)] * len(models))
            self._arrived(title)
            self._closing.go_on_shown()

        self._expect(title)
        task = self.tasks.start(f"Keep {display(title, 60)} for recovery", work, finished=finished)
        self.keeping.append(task)

    @property
    def is_waiting(self) -> bool:
        """Return whether a document is being read, or about to be."""
        return self.expecting or bool(self.pending)

    def _expect(self, title: str) -> None:
        self.pending.append(title)
        self.pending_changed.emit()

    def _arrived(self, title: str) -> None:
        self.pending.remove(title)
        self.pending_changed.emit()

    def _add(
        self, document: Document, title: str, beginning: Baseline | None = None, *, holds: Path | None = None
    ) -> DocumentTab:
        path = document.path
        tab = self._make_tab(document, title, beginning, holds)
        self.area.add_tab(tab)
        if path is not None:
            self._settings.add_recent_file(path)
            self._watch(path)
        self.opened.emit(tab)
        return tab

    def _make_tab(
        self, document: Document, title: str, beginning: Baseline | None = None, holds: Path | None = None
    ) -> DocumentTab:
        workspace = Workspace(document, self._settings, title=title)
        tab = DocumentTab(workspace, beginning, holds)
        self._closing.follow(tab)
        _tell_about_source(workspace)
        return tab

    def _cannot_open(self, error: BaseException, title: str, path: Path | None) -> None:
        if isinstance(error, ModelError) and path is not None and custom_operators.is_document(path):
            self.open_operator_set(path)
            return
        if isinstance(error, ModelError):
            self.area.show_message(Message("error", f"{title}: {error.title}", error.detail, error.place))
        if path is not None and not path.exists():
            self._settings.remove_recent_file(path)

    def open_operator_set(self, path: Path) -> None:
        """Make the operators of an ONNXOPSET document known."""
        try:
            custom_operators.documents().open(path)
        except ModelError as error:
            self.area.report(error)
            return
        self.operator_set_opened.emit()

    # -- the file on disk ------------------------------------------------------------------------------------

    def _touched(self, path: str) -> None:
        self._touched_paths.add(path)
        self._settle.start()

    def _check_touched(self) -> None:
        touched, self._touched_paths = sorted(self._touched_paths), set()
        for path in map(Path, touched):
            for tab in self.tabs_of(path):
                self._check(tab, path)

    def _check(self, tab: DocumentTab, path: Path) -> None:
        tab.keeper.look_at_file()
        if not path.exists():
            self._gone.add(path)
            self._watcher.addPath(str(path.parent))
            return
        self._watch(path)  # a file that was replaced is no longer the one that is watched
        found = read_model.identity_at(path)
        if found not in (tab.identity, tab.told_of):
            tab.told_of = found
            self._changed_on_disk(tab)

    def _look_for_gone(self, folder: str) -> None:
        """Something happened in a folder from which a file was removed; it is watched for no longer than needed."""
        missed = {path for path in self._gone if path.parent == Path(folder) and self.tabs_of(path)}
        back = {path for path in missed if path.exists()}
        self._gone = {path for path in self._gone if path.parent != Path(folder)} | (missed - back)
        for path in back:
            self._touched(str(path))
        if missed == back:
            self._watcher.removePath(folder)

    def _changed_on_disk(self, tab: DocumentTab) -> None:
        if not tab.modified and self._settings.get(RELOAD_SILENTLY):
            self.reload(tab)
        else:
            self._offer_reload(tab)

    def _offer_reload(self, tab: DocumentTab) -> None:
        detail = "Reloading loses your changes." if tab.modified else ""
        tab.workspace.message(
            "warning",
            "The file was changed by another program",
            detail,
            choices=(("Reload", partial(self.reload, tab)), ("Keep mine", partial(self._keep, tab))),
            topic=_ON_DISK,
        )

    def _keep(self, tab: DocumentTab) -> None:
        """Keep the open document, not what the other program wrote: saving will replace that without a question."""
        tab.note_identity()
        tab.workspace.document.mark_unsaved()
        tab.workspace.withdraw(_ON_DISK)

    def reload(self, tab: DocumentTab) -> None:
        """Read the file again and show the same position; the changes made here are lost.

        Changes made during the read are not: then the user is asked.
        """
        self._reload(tab, _state_of(tab))

    def _reload(self, tab: DocumentTab, state: object) -> None:
        path, identity = tab.path, tab.identity
        if path is None:
            return
        if _state_of(tab) != state:
            self._offer_reload(tab)
            return

        def done(model: Model) -> None:
            if tab not in self.area.tabs():
                return
            if tab in self._saves or tab.identity != identity:  # what was read is not what is there after a save
                self._when_written(tab, partial(self._reload, tab, state))
            elif _state_of(tab) == state:
                self._replace(tab, model)
            else:
                self._offer_reload(tab)

        def failed(error: BaseException) -> None:
            if isinstance(error, ModelError) and tab in self.area.tabs():
                tab.workspace.report(error)

        self.tasks.start(
            f"Reloading {path.name}",
            partial(read_model.read, path),
            done=done,
            failed=failed,
            supersede=f"reload {path}",
        )

    def _replace(self, tab: DocumentTab, model: Model) -> None:
        fresh = self._make_tab(Document(model, tab.path), tab.workspace.title)
        beside = tab.beside
        self.area.replace_tab(tab, fresh)
        if beside is not None:
            left, right = (fresh if side is tab else side for side in (beside.left, beside.right))
            show_beside(self.area, left, right)
        fresh.workspace.message("info", "The file was read again.")

    # -- saving ----------------------------------------------------------------------------------------------

    def save(self, tab: DocumentTab, then: Callable[[], object] | None = None) -> None:
        """Write the document to its file, or show a file dialog if it has none. `then` is called once it is written."""
        from onnx_workbench.viewer.files.save import SaveOptions

        take_typed(self.area.window())
        if tab.path is None:
            self.save_as(tab, then)
        else:
            self.save_with(tab, SaveOptions(tab.path), then)

    def save_as(self, tab: DocumentTab, then: Callable[[], object] | None = None) -> None:
        """Show a file dialog and write the document to the file, which then belongs to it."""
        from onnx_workbench.viewer.files.save import SaveOptions
        from onnx_workbench.viewer.popups.file_dialogs import ask_save_model

        path = ask_save_model(self.area, self._settings, tab.path or Path(f"{tab.workspace.title}.onnx"))
        if path is not None:
            self.save_with(tab, SaveOptions(path), then)

    def save_with(
        self,
        tab: DocumentTab,
        options: SaveOptions,
        then: Callable[[], object] | None = None,
        *,
        prepared: Callable[[], object] = _nothing,
        refused: Callable[[ModelError], object] | None = None,
    ) -> SaveTask:
        """Write the document as chosen, after a save of it that is running; edits may go on meanwhile.

        `prepared` is called when it is about to be written, `refused` when the options do not fit the model.
        """
        from onnx_workbench.viewer.files.save import Answers, SaveTask

        fail = partial(self._not_saved, tab, then)

        def is_copy() -> bool:
            return options.copy and not self._is_own(tab, options.path)

        def placing(coming: Coming) -> None:
            if not is_copy():
                tab.keeper.expect(coming)

        def written(saved: Saved, state: int) -> None:
            if is_copy():
                self._copied(tab, saved)
            else:
                self._written(tab, saved, state)
            if then is not None:
                then()

        def begun() -> None:
            tab.workspace.withdraw(unused_data.UNUSED)
            prepared()

        answers = Answers(begun, refused or fail, fail, placing, written, lambda: self._save_ended(tab))
        others = [t.workspace.model for t in self.area.tabs() if t is not tab and options.path != tab.path]
        save = SaveTask(tab.workspace, options, answers, others)
        self._when_written(tab, partial(self._begin, tab, save, then))
        return save

    def _begin(
        self,
        tab: DocumentTab,
        save: SaveTask,
        then: Callable[[], object] | None,
        *,
        force: bool = False,
        replace_truncated: bool = False,
    ) -> None:
        if save.stopped:
            return
        tab.workspace.withdraw(_SAVING)
        path = save.options.path
        if not (force or replace_truncated) and read_model.missing_at(tab.workspace.model, path):
            save.answers.prepared()
            self._ask_to_replace_truncated(tab, save, then)
            return
        expected = tab.identity if self._is_own(tab, path) and not force else None
        if expected is not None and path.exists() and read_model.identity_at(path) != expected:
            save.answers.prepared()
            self._warn_before_overwriting(tab, save, then)
            return
        self._saves[tab] = save
        save.start(expected)

    @staticmethod
    def _is_own(tab: DocumentTab, path: Path) -> bool:
        return path == tab.path and tab.identity is not None

    @property
    def saving(self) -> bool:
        """Return whether a document is being written, or something of one, or a model that shows once it is kept."""
        return bool(self.keeping) or any(map(self.is_writing, self.area.tabs()))

    def is_writing(self, tab: DocumentTab) -> bool:
        """Return whether a document is being written, or something of it."""
        return tab in self._saves or bool(tab.workspace.tasks.making("file"))

    def save_of(self, tab: DocumentTab) -> SaveTask | None:
        """The save of a document that is being prepared or written."""
        return self._saves.get(tab)

    def _when_written(self, tab: DocumentTab, call: Callable[[], object], what: object = None) -> None:
        """Call at once, or when the save that is running has ended; of several for the same `what` the last one."""
        running = self._saves.get(tab)
        if running is None:
            call()
        else:
            running.waiting[object() if what is None else what] = call

    def _save_ended(self, tab: DocumentTab) -> None:
        ended = self._saves.pop(tab, None)
        tab.keeper.expect_nothing()
        for what, call in ended.waiting.items() if ended is not None else ():
            if tab not in self.area.tabs():
                return
            self._when_written(tab, call, what)
        self._closing.go_on(tab)

    def _copied(self, tab: DocumentTab, saved: Saved) -> None:
        told = (*saved.left_out, *saved.warnings)
        severity: Severity = "warning" if told else "info"
        tab.workspace.message(severity, f"A copy was saved as {saved.path.name}", "\n".join(told))
        self._settings.add_recent_file(saved.path)

    def _written(self, tab: DocumentTab, saved: Saved, state: int) -> None:
        before = tab.path
        tab.identity = saved.identity
        tab.workspace.withdraw(_ON_DISK)
        tab.workspace.document.mark_saved(saved.path, state, left_out=bool(saved.left_out))
        self._unwatch(before)
        self._watch(saved.path)
        self._settings.add_recent_file(saved.path)
        if saved.left_out or saved.warnings:
            title = f"{saved.path.name} is saved{', but not all of it' if saved.left_out else ''}"
            elsewhere = (("Save as…", partial(self.save_as, tab)),) if saved.left_out else ()
            detail = "\n".join((*saved.left_out, *saved.warnings))
            tab.workspace.message("warning", title, detail, choices=elsewhere, topic=_SAVING)
        unused_data.offer(tab.workspace, saved)

    def _warn_before_overwriting(self, tab: DocumentTab, save: SaveTask, then: Callable[[], object] | None) -> None:
        tab.workspace.message(
            "warning",
            "The file was changed by another program",
            "Saving replaces what that program wrote.",
            choices=(
                ("Replace it", partial(self._when_written, tab, partial(self._begin, tab, save, then, force=True))),
                ("Save as…", partial(self.save_as, tab, then)),
            ),
            topic=_ON_DISK,
        )

    def _ask_to_replace_truncated(self, tab: DocumentTab, save: SaveTask, then: Callable[[], object] | None) -> None:
        path = save.options.path
        begin = partial(self._begin, tab, save, then, replace_truncated=True)
        ask_to_replace_truncated(
            self.area,
            path.name,
            read_model.missing_at(tab.workspace.model, path),
            lambda: self.save_as(tab, then),
            lambda: self._when_written(tab, begin),
        )

    def _not_saved(self, tab: DocumentTab, then: Callable[[], object] | None, error: ModelError) -> None:
        """Say why, and offer another place."""
        elsewhere = ("Save as…", partial(self.save_as, tab, then))
        tab.workspace.message("error", error.title, error.detail, error.place, (elsewhere,), _SAVING)

    # -- closing ---------------------------------------------------------------------------------------------

    def close(self, tab: DocumentTab, then: Callable[[], object] | None = None) -> None:
        """Close a tab, asking first when it holds changes. `then` is called once it is closed."""
        self._closing.close(tab, then)

    def close_all(self, then: Callable[[], object]) -> None:
        """Close every tab that holds changes, asking about each; `then` is called when none is left."""
        self._closing.close_all(then)

    def forget(self, tab: DocumentTab) -> None:
        """Close a tab without asking: what it holds is saved or given up. Nothing happens if it is closed already."""
        if tab not in self.area.tabs():
            return
        self.area.remove_tab(tab)
        self._unwatch(tab.path)

    def _watch(self, path: Path) -> None:
        """Watch the file that is there now: the old one stays watched while its weights are still read from it."""
        self._watcher.removePath(str(path))
        self._watcher.addPath(str(path))

    def _unwatch(self, path: Path | None) -> None:
        """A document no longer belongs to a file; another one may still do."""
        if path is not None and not self.tabs_of(path):
            self._watcher.removePath(str(path))

    def tabs_of(self, path: Path) -> list[DocumentTab]:
        """The tabs in which a file is open."""
        wanted = path.absolute()
        return [tab for tab in self.area.tabs() if tab.path == wanted]


def _state_of(tab: DocumentTab) -> object:
    """Return a state that differs if a document was edited meanwhile, or is about to be."""
    return tab.workspace.document.current.id, tab.workspace.tasks.making("edit")


def _tell_about_source(workspace: Workspace) -> None:
    """Say what was wrong with a file that opened all the same."""
    source = workspace.model.source
    if source is None:
        return
    rest = [problem for problem in source.problems if problem != source.truncation]
    if source.truncation:
        QTimer.singleShot(0, workspace, lambda: workspace.message("warning", "The file ends early", source.truncation))
    if rest:
        title = f"This file breaks {plural(len(rest), 'rule')} of the format; it was opened with them"
        QTimer.singleShot(0, workspace, lambda: workspace.message("warning", title, "\n".join(rest[:3])))
