"""Opening, saving and reloading the documents of one window."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QFileInfo, QObject, QTimer, Signal

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.text.formatting import display, plural
from onnx_workbench.viewer.document.messages import Message
from onnx_workbench.viewer.extensions import custom_operators
from onnx_workbench.viewer.files.closing import Closing
from onnx_workbench.viewer.files.document_tab import DocumentTab
from onnx_workbench.viewer.files.file_identity import identity_at
from onnx_workbench.viewer.files.file_watcher import FileWatcher
from onnx_workbench.viewer.files.open_model import (
    STANDARD_INPUT,
    OpenedModel,
    OpenRequest,
    open_model,
    sample_model,
    without_baseline,
)
from onnx_workbench.viewer.files.saver import ON_DISK, Saver
from onnx_workbench.viewer.popups.file_dialogs import ask_open
from onnx_workbench.viewer.program.settings import RELOAD_SILENTLY, TOUR_OFFERED, Settings
from onnx_workbench.viewer.run.workspace import Workspace
from onnx_workbench.viewer.tasks.tasks import TaskRunner
from onnx_workbench.viewer.workflows.output_sizes import OutputSizes

if TYPE_CHECKING:
    from onnx_workbench.model.io.reader.source import Identity
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.model.recovery.recover import RecoverableJournal
    from onnx_workbench.viewer.files.document_area import DocumentArea

_MOST_TOLD = 3  # limit for files that could not be opened and get separate messages


class Documents(QObject):
    """The documents of a window: one tab each. GUI thread only; reading and writing happen in tasks."""

    opened = Signal(object)  # DocumentTab
    pending_changed = Signal()  # files that are being read
    all_closed = Signal()  # after `close_all`: no tab has changes
    operator_set_opened = Signal()  # the operators of an ONNXOPSET document were registered

    def __init__(self, area: DocumentArea, settings: Settings, preload: Callable[[], object]) -> None:
        """`preload` imports the modules that a tab needs; it is called on worker threads, several times."""
        super().__init__(area)
        self.area = area
        self._settings = settings
        self._preload = preload
        self.tasks = TaskRunner(self)
        self._numbers = itertools.count(1)  # of requests
        self._unopened: list[str] = []  # files of the current batch of requests that could not be opened
        self._requests: list[OpenRequest] = []  # pending requests
        self.unanswered: dict[Path, RecoverableJournal] = {}  # journals of crashed programs that are offered
        self.expecting = False  # files will be opened as soon as the window is painted
        self.watcher = FileWatcher(self)
        self.watcher.changed.connect(self._on_file_changed)
        self.saver = Saver(area, settings, self.watcher)
        self._closing = Closing(area, self)
        self.saver.ended.connect(self._closing.on_written)

    # -- opening ---------------------------------------------------------------------------------------------

    def choose_and_open(self) -> None:
        """Ask for files and open them."""
        self.open(ask_open(self.area, self._settings))

    def open(self, paths: Iterable[Path]) -> None:
        """Open each file in a new tab, or activate the tab that has it; files that are being read are skipped."""
        for path in paths:
            if QFileInfo(path).isDir():  # Path raises for names that are too long
                self._open_folder(path)
            elif tabs := self.tabs_of(path) or self._tabs_read_from(path):
                self.area.activate(tabs[0])
            elif self._request_of(path) is None:
                self.open_tab(path)

    def when_read(self, path: Path, call: Callable[[], object]) -> None:
        """Call at once, or when a file that is being read has been opened or has failed."""
        request = self._request_of(path)
        if request is None:
            call()
        else:
            request.ended.connect(call)

    def go_to(self, path: Path, name: str) -> None:
        """Select and show the node with a name in a file that is open or being opened."""
        self.when_read(path, partial(self._go_to, path, name))

    def _go_to(self, path: Path, name: str) -> None:
        from onnx_workbench.model.analysis.by_name import node_or_value_named

        for tab in self.tabs_of(path)[:1]:
            try:
                tab.workspace.navigation.reveal(node_or_value_named(tab.workspace.model, name))
            except ModelError as error:
                tab.workspace.messages.report(error)

    def _request_of(self, path: Path) -> OpenRequest | None:
        """Return the request that is reading a file."""
        wanted = path.absolute()
        return next((request for request in self._requests if wanted in (request.path, request.foreign)), None)

    def _open_folder(self, folder: Path) -> None:
        """Open the model in a folder and run the test data next to it."""
        from onnx_workbench.exec.inspect.expected_outputs import model_in

        try:
            self.open_tab(model_in(folder)).opened.connect(_run_test_data)
        except ModelError as error:
            self.area.report(error)

    def open_tab(self, path: Path) -> OpenRequest:
        """Open a file in a new tab, even if another tab has it; a file read by an extension is a new document."""
        from onnx_workbench.model.io.reader.custom import is_read_by_extension

        if is_read_by_extension(path):
            return self._start(title=path.name, source=str(path.absolute()), foreign=path.absolute())
        return self._start(title=path.name, source=str(path), path=path.absolute())

    def open_copy(self, path: Path, title: str) -> OpenRequest:
        """Open the contents of a file as a new document without a file."""
        return self._start(title=title, source=str(path))

    def open_saved(self, path: Path, title: str) -> OpenRequest:
        """Open a read-only view of the saved file of an edited document; needs no baseline, as the file holds it."""
        return self._start(title=title, source=str(path), holder=path)

    def open_standard_input(self) -> None:
        """Open the model from standard input."""
        self._start(title="standard input", source=STANDARD_INPUT)

    def open_sample(self) -> OpenRequest:
        """Open the sample model as a new document, so that the installed file is never overwritten."""
        sample = sample_model()
        request = self._start(title=sample.stem, source=str(sample))
        if not self._settings.get(TOUR_OFFERED):
            request.opened.connect(self._offer_tour)
        return request

    def _offer_tour(self, tab: DocumentTab) -> None:
        """Offer the tour, once."""
        if not self._settings.get(TOUR_OFFERED):
            self._settings.set(TOUR_OFFERED, True)
            workspace = tab.workspace
            choice = ("Take the tour", lambda: workspace.trigger("help.tour"))
            workspace.messages.show("info", "New here? Seven steps show what the window can do.", choices=(choice,))

    def add_new(self, model: Model, title: str) -> OpenRequest:
        """Show a model that is in no file yet, after its baseline was written for recovery."""
        return self._start(title=title, model=model)

    def warm_up(self) -> None:
        """Import modules for the first document in the background."""
        self.tasks.start("", lambda _progress: self._preload())

    def _start(
        self,
        *,
        title: str,
        source: str = "",
        model: Model | None = None,
        path: Path | None = None,
        holder: Path | None = None,
        foreign: Path | None = None,
    ) -> OpenRequest:
        """Open a model in a task, which passes the result to `_show`."""
        request = OpenRequest(title, next(self._numbers), model, path, foreign, parent=self)
        self._requests.append(request)
        self.pending_changed.emit()

        def work(progress: Progress) -> OpenedModel:
            self._preload()
            return open_model(model or source, progress, is_in_file=path is not None, holder=holder)

        task = self.tasks.start(
            request.task_title,
            work,
            failed=partial(self._cannot_open, request),
            finished=lambda: self._show(request, task.result),
        )
        return request

    def _show(self, request: OpenRequest, opened: OpenedModel | None) -> None:
        """Show the model of an ended request in a tab; None if it could not be read or was cancelled."""
        try:
            if opened is None and request.model is not None:
                opened = without_baseline(request.model)
            if opened is not None:
                request.opened.emit(self._add(request, opened))
        finally:
            self._requests.remove(request)
            self.pending_changed.emit()
            if not self._requests:
                self._report_unopened()
        request.ended.emit()
        request.deleteLater()
        self._closing.on_shown()

    @property
    def pending(self) -> list[str]:
        """Titles of the models being opened."""
        return [request.title for request in self._requests]

    @property
    def pending_baselines(self) -> list[str]:
        """Titles of the tasks that write baselines of new models before these are shown."""
        return [request.task_title for request in self._requests if request.model is not None]

    @property
    def is_waiting(self) -> bool:
        """Whether a document is being read, or about to be."""
        return self.expecting or bool(self._requests)

    def _report_unopened(self) -> None:
        """Show one message for several files that could not be opened."""
        more, self._unopened = self._unopened[_MOST_TOLD:], []
        if more:
            names = ", ".join(display(title, 60) for title in more[:_MOST_TOLD])
            detail = f"{names}{', …' if len(more) > _MOST_TOLD else ''}"
            self.area.show_message(Message("error", f"{plural(len(more), 'more file')} could not be opened", detail))

    def _add(self, request: OpenRequest, opened: OpenedModel) -> DocumentTab:
        document = Document(opened.model, request.path)
        if request.model is not None:
            document.mark_unsaved()
        tab = self._make_tab(document, request.title, opened)
        tab.number = request.number
        tab.foreign = request.foreign
        self.area.add_tab(tab)
        if request.path is not None:
            self._settings.add_recent_file(request.path)
            self.watcher.watch(request.path)
        self.opened.emit(tab)
        return tab

    def _make_tab(self, document: Document, title: str, opened: OpenedModel) -> DocumentTab:
        workspace = Workspace(document, self._settings, title=title)
        OutputSizes(workspace)
        tab = DocumentTab(workspace, opened.start)
        self._closing.watch(tab)
        _report_source_problems(workspace)
        return tab

    def _cannot_open(self, request: OpenRequest, error: BaseException) -> None:
        path = request.path
        if isinstance(error, ModelError) and path is not None and custom_operators.is_document(path):
            self.open_operator_set(path)
            return
        if isinstance(error, ModelError):
            self._unopened.append(request.title)
            if len(self._unopened) <= _MOST_TOLD:
                title = f"{request.title}: {error.title}"
                self.area.show_message(Message("error", title, error.detail, error.place))
        if path is not None and not QFileInfo.exists(str(path)):
            self._settings.remove_recent_file(path)

    def open_operator_set(self, path: Path) -> None:
        """Register the operators of an ONNXOPSET document."""
        try:
            custom_operators.documents().open(path)
        except ModelError as error:
            self.area.report(error)
            return
        self.operator_set_opened.emit()

    # -- the file on disk ------------------------------------------------------------------------------------

    def _on_file_changed(self, path: Path) -> None:
        identity = identity_at(path)
        for tab in self.tabs_of(path):
            tab.autosave.preserve_if_file_changed()
            if identity is not None and identity not in (tab.identity, tab.reported_identity):
                tab.reported_identity = identity
                self._changed_on_disk(tab)

    def _changed_on_disk(self, tab: DocumentTab) -> None:
        if not tab.modified and self._settings.get(RELOAD_SILENTLY):
            self.reload(tab)
        else:
            self._offer_reload(tab)

    def _offer_reload(self, tab: DocumentTab) -> None:
        detail = "Reloading loses your changes." if tab.modified else ""
        tab.workspace.messages.show(
            "warning",
            "The file was changed by another program",
            detail,
            choices=(("Reload", partial(self.reload, tab)), ("Keep mine", partial(self._keep, tab))),
            topic=ON_DISK,
        )

    def _keep(self, tab: DocumentTab) -> None:
        """Keep the open document instead of the changed file: saving then replaces the file without asking."""
        tab.note_identity()
        tab.workspace.document.mark_unsaved()
        tab.workspace.messages.withdraw(ON_DISK)

    def reload(self, tab: DocumentTab) -> None:
        """Read the file again and show the same position; discards changes.

        If the document is changed during the read, the user is asked.
        """
        self._reload(tab, _state_of(tab))

    def _reload(self, tab: DocumentTab, state: object) -> None:
        path, identity = tab.path, tab.identity
        if path is None:
            return
        if _state_of(tab) != state:
            self._offer_reload(tab)
            return
        self.tasks.start(
            f"Reloading {path.name}",
            partial(open_model, str(path)),
            done=partial(self._reloaded, tab, state, identity),
            failed=partial(self._not_reloaded, tab),
            supersede=f"reload {path}",
        )

    def _reloaded(self, tab: DocumentTab, state: object, identity: Identity | None, opened: OpenedModel) -> None:
        if tab not in self.area.tabs():
            return
        if self.saver.save_of(tab) or tab.identity != identity:  # a save has replaced the file that was read
            self.saver.when_written(tab, partial(self._reload, tab, state))
        elif _state_of(tab) == state:
            self._replace(tab, opened)
        else:
            self._offer_reload(tab)

    def _not_reloaded(self, tab: DocumentTab, error: BaseException) -> None:
        if isinstance(error, ModelError) and tab in self.area.tabs():
            tab.workspace.messages.report(error)

    def _replace(self, tab: DocumentTab, opened: OpenedModel) -> None:
        fresh = self._make_tab(Document(opened.model, tab.path), tab.workspace.title, opened)
        fresh.number = tab.number
        beside = tab.beside
        self.area.replace_tab(tab, fresh)
        if beside is not None:
            left, right = (fresh if side is tab else side for side in (beside.left, beside.right))
            self.area.compare(left, right)
        fresh.workspace.messages.show("info", "The file was read again.")

    # -- saving ----------------------------------------------------------------------------------------------

    @property
    def saving(self) -> bool:
        """Whether a document, a part of one, or the baseline of a new model is being written."""
        return bool(self.pending_baselines) or any(map(self.saver.is_writing, self.area.tabs()))

    # -- closing ---------------------------------------------------------------------------------------------

    def close(self, tab: DocumentTab) -> None:
        """Close a tab, asking first if it has changes."""
        self._closing.close(tab)

    def close_all(self) -> None:
        """Close every tab with changes, asking about each; `all_closed` follows when none is left."""
        self._closing.close_all()

    def forget(self, tab: DocumentTab) -> None:
        """Close a tab without asking: its changes were saved or discarded. No effect if it is closed."""
        if tab not in self.area.tabs():
            return
        self.area.remove_tab(tab)
        self.watcher.watch_only(tab.path for tab in self.area.tabs())

    def tabs_of(self, path: Path) -> list[DocumentTab]:
        """Return the tabs in which a file is open."""
        wanted = path.absolute()
        return [tab for tab in self.area.tabs() if tab.path == wanted]

    def _tabs_read_from(self, path: Path) -> list[DocumentTab]:
        """Return the tabs of unsaved new documents that an extension has read from a file."""
        wanted = path.absolute()
        return [tab for tab in self.area.tabs() if tab.path is None and tab.foreign == wanted]


def _run_test_data(tab: DocumentTab) -> None:
    """Run the data sets next to a model, if there are any."""
    runs = tab.workspace.runs
    if runs.inputs.data_sets():
        tab.workspace.trigger("panel.run")
        runs.test_data.run(runs.inputs.data_sets())


def _state_of(tab: DocumentTab) -> object:
    """Return a key that changes if a document is edited or an edit is pending."""
    return tab.workspace.document.current.id, tab.workspace.tasks.making("edit")


def _report_source_problems(workspace: Workspace) -> None:
    """Show the problems of a file that could be opened."""
    source = workspace.model.source
    if source is None:
        return
    rest = [problem for problem in source.problems if problem != source.truncation]
    if source.truncation:
        QTimer.singleShot(
            0, workspace, lambda: workspace.messages.show("warning", "The file ends early", source.truncation)
        )
    if rest:
        title = f"Opened with {plural(len(rest), 'problem')}"
        QTimer.singleShot(0, workspace, lambda: workspace.messages.show("warning", title, "\n".join(rest[:3])))
