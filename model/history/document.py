"""A model being edited: its undo history, its modified state and its listeners.

    with document.edit("Set axis of Softmax_3") as edit:
        edit.do(SetAttribute(node, "axis", attribute))

Undo, redo, grouping, rollback when an edit raises, merging of typing and dragging, and dropping of edits that
changed nothing are implemented here, so no edit implements any of them. Everything runs on the thread
that owns the model (the GUI thread in the program).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol
from weakref import ref

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.history.text_validation import refuse_lone_surrogates
from onnx_workbench.model.ir.graph import Model


@dataclass(slots=True, eq=False)
class HistoryEntry:
    """One edit in the history. `id` also names the state of the model right after it; 0 is the state as opened.

    `children` are the edits made from this state, oldest first: editing after undo starts a branch, and nothing is
    discarded until the document closes. `latest` is the child that redo follows.
    """

    id: int
    title: str
    parent: HistoryEntry | None
    steps: list[Step] = field(default_factory=list)
    inverses: list[Step] = field(default_factory=list)  # inverses[i] undoes steps[i]
    children: list[HistoryEntry] = field(default_factory=list)
    latest: HistoryEntry | None = None
    merge: str = ""
    time: float = 0.0


ChangeKind = Literal["edit", "undo", "redo"]


@dataclass(frozen=True, slots=True)
class Change:
    """Notification of an edit, undo or redo: the steps that were applied, in order.

    ``inverses[i]`` undoes ``steps[i]``, so it holds the previous state: the graph a node was removed from, the bodies
    a replaced attribute held.
    """

    revision: int
    state: int
    steps: tuple[Step, ...]
    inverses: tuple[Step, ...]
    title: str
    kind: ChangeKind


Listener = Callable[[Change], None]


class StepListener(Protocol):
    """Listener called before each step is applied."""

    def begin(self, kind: ChangeKind, target: HistoryEntry | None) -> bool:
        """Start an edit, or an undo or redo that leads to `target`; return whether to report its steps."""

    def before(self, step: Step) -> None:
        """Handle a step that is about to be applied."""

    def on_rollback(self, left: int) -> None:
        """Handle a rollback: all steps of the change but the first `left` were undone or never applied."""


class Transaction:
    """The argument of an edit, through which it changes the model."""

    __slots__ = ("_inverses", "_is_finished", "_listeners", "_steps", "model")

    def __init__(self, model: Model, listeners: Sequence[StepListener] = ()) -> None:
        self.model = model
        self._listeners = listeners
        self._steps: list[Step] = []
        self._inverses: list[Step] = []
        self._is_finished = False

    def do(self, step: Step) -> None:
        """Apply a step now; it is undone if the edit raises. A step that changes nothing is not recorded.

        Raises ModelError if the step adds a text that no file can store.
        """
        refuse_lone_surrogates(step)
        self._require_open()
        inverse = self._apply(step)
        if step.changes_nothing(inverse):
            self._notify_rollback()
        else:
            self._steps.append(step)
            self._inverses.append(inverse)

    def repeat(self, steps: Iterable[Step]) -> None:
        """Apply steps of a working copy, which validated them: each changes something and adds only valid texts."""
        self._require_open()
        steps = list(steps)
        start = len(self._inverses)
        try:
            _apply_all(steps, self._listeners, self._inverses)
        except BaseException:
            self._steps += steps[: len(self._inverses) - start]
            self._notify_rollback()
            raise
        self._steps += steps

    def _require_open(self) -> None:
        if self._is_finished:
            raise ModelError("This edit is finished", "Change the model inside of the block of its document.edit(…).")

    def _apply(self, step: Step) -> Step:
        for listener in self._listeners:
            listener.before(step)
        try:
            return step.apply()
        except BaseException:
            self._notify_rollback()
            raise

    def _notify_rollback(self) -> None:
        for listener in self._listeners:
            listener.on_rollback(len(self._steps))

    def take_back(self) -> list[Step]:
        """Undo the steps so far and return them, for `repeat` later on the unchanged model."""
        steps = list(self._steps)
        self._roll_back()
        return steps

    @property
    def steps(self) -> Sequence[Step]:
        """Steps applied so far."""
        return self._steps

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo the steps of the block if it raises, and re-raise; the edit may continue."""
        length = len(self._steps)
        try:
            yield
        except BaseException:
            self._roll_back(length)
            raise

    def _roll_back(self, length: int = 0) -> None:
        while len(self._inverses) > length:
            self._inverses.pop().apply()
            self._steps.pop()
        self._notify_rollback()


def document_of(model: Model) -> Document | None:
    """Return the document that edits a model."""
    return None if model.editor is None else model.editor()


class Document:
    """A model, its history tree and its listeners. `path` is the model's file, None for a new model.

    ModelError if there is a document of this model already: neither would know what the other changes.
    """

    def __init__(self, model: Model, path: Path | None = None) -> None:
        self.model = model
        if document_of(model) is not None:
            raise ModelError("The model has a document already", "Edit it through that document, or load it again.")
        model.editor = ref(self)
        self.path = path
        self.revision = 0  # incremented by every change, undo and redo included
        self.root = HistoryEntry(0, "Open" if path else "New", None)
        self.current = self.root
        self._entries = {0: self.root}
        self._next_id = 1
        self._saved: int | None = 0
        self.left_out = False  # whether the file lacks parts of the saved state
        self._transaction: Transaction | None = None
        self._listeners: list[Listener] = []
        self._step_listeners: list[StepListener] = []
        self._state_listeners: list[Callable[[], None]] = []
        self._before_change: list[Callable[[], None]] = []
        self._gesture_open = False
        self._is_notifying = False

    def __repr__(self) -> str:
        return f"<Document of {self.model!r}>"

    # -- editing ---------------------------------------------------------------------------------------------

    @contextmanager
    def edit(self, title: str, *, merge: str = "") -> Iterator[Transaction]:
        """Group steps into one history entry.

        A nested edit joins the enclosing one. Consecutive edits with the same non-empty `merge` (one text field, one
        drag) become one entry until `end_gesture` or another change. An entry whose steps cancel out is dropped. When
        the block raises, its steps are undone and the exception is re-raised.
        """
        if self._transaction is not None:
            with self._transaction.attempt():
                yield self._transaction
            return
        self._require_quiet()
        self._notify_before_change()
        transaction = self._transaction = Transaction(self.model, self._listening("edit"))
        try:
            yield transaction
        except BaseException:
            transaction._roll_back()
            raise
        finally:
            self._transaction = None
            transaction._is_finished = True
        if transaction._steps:
            self._commit(title, transaction, merge)

    def end_gesture(self) -> None:
        """Start a new entry with the next edit even if its merge key is the same (focus left, mouse released)."""
        self._gesture_open = False

    def _commit(self, title: str, transaction: Transaction, merge: str) -> None:
        entry = self.current
        if merge and self._gesture_open and entry.merge == merge and entry is not self.root and not entry.children:
            self._merge_into(entry, transaction)
        else:
            entry = HistoryEntry(0, title, self.current, merge=merge, time=time.time())
            entry.steps, entry.inverses = transaction._steps, transaction._inverses
            self._number(entry)
            self.current.children.append(entry)
            self.current.latest = entry
            self.current = entry
        self._gesture_open = bool(merge)
        self._notify(tuple(transaction._steps), tuple(transaction._inverses), title, "edit")

    def _number(self, entry: HistoryEntry) -> None:
        """Give an entry a new id, as its state of the model is a new one."""
        self._entries.pop(entry.id or -1, None)
        entry.id = self._next_id
        self._next_id += 1
        self._entries[entry.id] = entry

    def _merge_into(self, entry: HistoryEntry, transaction: Transaction) -> None:
        """Merge a later part of a gesture into its entry: first inverse and last step of those with one subject."""
        self._number(entry)
        for step, inverse in zip(transaction._steps, transaction._inverses, strict=True):
            if entry.steps and entry.steps[-1].subject == step.subject:
                entry.steps[-1] = step
                if step.changes_nothing(entry.inverses[-1]):
                    entry.steps.pop()
                    entry.inverses.pop()
            else:
                entry.steps.append(step)
                entry.inverses.append(inverse)
        if not entry.steps:
            parent = entry.parent
            assert parent is not None
            parent.children.remove(entry)
            parent.latest = parent.children[-1] if parent.children else None
            self.current = parent

    # -- history ---------------------------------------------------------------------------------------------

    @property
    def undo_title(self) -> str | None:
        """Title of the edit that undo reverts, or None."""
        return None if self.current.parent is None else self.current.title

    @property
    def redo_title(self) -> str | None:
        """Title of the edit that redo applies again, or None."""
        return None if self.current.latest is None else self.current.latest.title

    def undo(self) -> bool:
        """Undo the last edit; return False when there is none. Takes time linear in the steps of the edit."""
        entry = self.current
        if entry.parent is None:
            return False
        self._require_no_edit()
        self._notify_before_change()
        steps = tuple(reversed(entry.inverses))
        inverses = self._applied(steps, "undo", entry.parent)
        entry.steps = list(reversed(inverses))
        self.current = entry.parent
        self.current.latest = entry
        self._gesture_open = False
        self._notify(steps, inverses, entry.title, "undo")
        return True

    def redo(self) -> bool:
        """Redo the edit undone last from the current state; return False when there is none."""
        entry = self.current.latest
        if entry is None:
            return False
        self._require_no_edit()
        self._notify_before_change()
        steps = tuple(entry.steps)
        entry.inverses = list(self._applied(steps, "redo", entry))
        self.current = entry
        self._gesture_open = False
        self._notify(steps, tuple(entry.inverses), entry.title, "redo")
        return True

    def _applied(self, steps: Sequence[Step], kind: ChangeKind, target: HistoryEntry) -> tuple[Step, ...]:
        """Apply the steps of an undo or redo; return their inverses."""
        inverses: list[Step] = []
        _apply_all(steps, self._listening(kind, target), inverses)
        return tuple(inverses)

    def _listening(self, kind: ChangeKind, target: HistoryEntry | None = None) -> list[StepListener]:
        return [listener for listener in self._step_listeners if listener.begin(kind, target)]

    def go_to(self, entry: HistoryEntry) -> None:
        """Undo and redo along the history tree until the model is in the state after `entry`."""
        for _ in self.steps_to(entry):
            pass

    def steps_to(self, entry: HistoryEntry) -> Iterator[None]:
        """Undo or redo one edit per iteration until the state is reached; stop if another edit is made in between."""
        wanted = list(_path(entry))
        ahead = set(wanted)
        here = self.current
        while here is self.current and here not in ahead:
            self.undo()
            here = self.current
            yield
        following = wanted[wanted.index(here) + 1 :] if here in ahead else []
        for step in following:
            if here is not self.current:
                return
            here.latest = step
            self.redo()
            here = step
            yield

    def entries(self) -> Iterator[HistoryEntry]:
        """Yield every state in the order of creation, the opened one first, abandoned branches included."""
        for entry in self._entries.values():
            if entry.parent is None or entry in entry.parent.children:
                yield entry

    def _require_no_edit(self) -> None:
        if self._transaction is not None:
            msg = "undo and redo inside an edit"
            raise RuntimeError(msg)
        self._require_quiet()

    def _require_quiet(self) -> None:
        """Refuse changes during notification: listeners not yet notified would get the changes in the wrong order."""
        if self._is_notifying:
            msg = "an edit by a listener that is being called for another"
            raise RuntimeError(msg)

    # -- saved or not ----------------------------------------------------------------------------------------

    @property
    def modified(self) -> bool:
        """Return whether the model differs from the opened or last saved state, or the file lacks parts of that."""
        return self.left_out or self.current.id != self._saved

    @property
    def is_as_opened(self) -> bool:
        """Return whether the model is as its file holds it and was never edited."""
        return self._saved == 0 and not self.root.children and not self.left_out

    @property
    def saved_entry(self) -> HistoryEntry | None:
        """The state that the file holds; None when no file holds one."""
        return None if self._saved is None else self.entry(self._saved)

    def entry(self, state: int) -> HistoryEntry | None:
        """Return the edit that led to a state, by the state's id; None when it was dropped or merged since."""
        return self._entries.get(state)

    def way(self, start: HistoryEntry) -> list[tuple[HistoryEntry, tuple[Step, ...], tuple[Step, ...]]]:
        """Return the path from a state of the history to the current one: states reached, steps, and their inverses.

        ``inverses[i]`` undoes ``steps[i]``. Changes nothing.
        """
        before, after = _path(start), _path(self.current)
        shared = sum(a is b for a, b in zip(before, after, strict=False))
        back = [
            (entry.parent, tuple(reversed(entry.inverses)), tuple(reversed(entry.steps)))
            for entry in reversed(before[shared:])
            if entry.parent is not None
        ]
        return [*back, *((entry, tuple(entry.steps), tuple(entry.inverses)) for entry in after[shared:])]

    @contextmanager
    def at(self, state: HistoryEntry) -> Iterator[None]:
        """Context manager that puts the model into a state of the history for reading; listeners are not called."""
        since = self.way(state)
        if since:
            self._notify_before_change()
        for _, _, inverses in reversed(since):
            for step in reversed(inverses):
                step.apply()
        try:
            yield
        finally:
            for _, steps, _ in since:
                for step in steps:
                    step.apply()

    def mark_saved(self, path: Path | None = None, state: int | None = None, *, left_out: bool = False) -> None:
        """Mark the current state, or the state whose id was read when a save began, as saved.

        `left_out` means that the file lacks parts of it, so the document stays modified.
        """
        if path is not None:
            self.path = path
        self.left_out = left_out
        self._saved = self.current.id if state is None else state
        self._gesture_open = False
        _notify_all(self._state_listeners)

    def mark_unsaved(self) -> None:
        """Mark the model as saved in no file, such as a recovered or repaired one."""
        self._saved = None
        _notify_all(self._state_listeners)

    # -- listening -------------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(change)` after every change; it must not start another. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_step(self, listener: StepListener) -> Callable[[], None]:
        """Register a listener called before each step. Returns a function that removes it."""
        self._step_listeners.append(listener)
        return lambda: self._step_listeners.remove(listener)

    def on_saved(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener()` after `mark_saved` and `mark_unsaved`. Returns a function that removes it."""
        self._state_listeners.append(listener)
        return lambda: self._state_listeners.remove(listener)

    def before_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener()` before each edit, undo and redo. Returns a function that removes it."""
        self._before_change.append(listener)
        return lambda: self._before_change.remove(listener)

    def _notify_before_change(self) -> None:
        _notify_all(self._before_change)

    def _notify(self, steps: tuple[Step, ...], inverses: tuple[Step, ...], title: str, kind: ChangeKind) -> None:
        self.revision += 1
        change = Change(self.revision, self.current.id, steps, inverses, title, kind)
        self._is_notifying = True
        try:
            _notify_all(self._listeners, change)
        finally:
            self._is_notifying = False


def _apply_all(steps: Iterable[Step], listeners: Sequence[StepListener], inverses: list[Step]) -> None:
    for step in steps:
        for listener in listeners:
            listener.before(step)
        inverses.append(step.apply())


def _notify_all(listeners: Iterable[Callable[..., object]], *news: Change) -> None:
    """Call each listener even if an earlier one raises, as the journal must miss no change; then re-raise."""
    with ExitStack() as calls:
        for listener in reversed(list(listeners)):
            calls.callback(listener, *news)


def _path(entry: HistoryEntry) -> list[HistoryEntry]:
    """Return the path from the root to an entry."""
    path = [entry]
    while path[-1].parent is not None:
        path.append(path[-1].parent)
    return path[::-1]
