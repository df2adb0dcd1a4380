"""Check of a document for problems, in the background."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from onnx_workbench.model.history.document import Change, Document
from onnx_workbench.model.text.formatting import type_text
from onnx_workbench.viewer.document.type_inference import AFTER_EDIT_MS
from onnx_workbench.viewer.tasks.readers import ModelReader

if TYPE_CHECKING:
    from onnx_workbench.model.checks import Checker, Problem
    from onnx_workbench.model.inference import InferredTypes
    from onnx_workbench.model.ir.graph import Model
    from onnx_workbench.model.progress import Progress
    from onnx_workbench.viewer.document.type_inference import TypeInference
    from onnx_workbench.viewer.tasks.tasks import TaskRunner

_LATE_MS = 300
_UNDECLARED = ("interface-type", "interface-shape")


class ProblemChecker(QObject):
    """Violated rules, contradicting type declarations, and problems found when reading the file. GUI thread.

    Nothing is checked before `start`. After an edit the touched nodes are checked at once, the rest in the background.
    """

    changed = Signal()
    checking_changed = Signal()

    def __init__(
        self, document: Document, types: TypeInference, tasks: TaskRunner, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._document = document
        self._types = types
        self._tasks = tasks
        self._checker: Checker | None = None
        self._typed: list[Problem] = []
        self._comparing = ModelReader(self)
        self._listed: list[Problem] = []
        self._counts: Counter[str] = Counter()  # of the listed problems, by severity
        self._seen: list[Problem] = []  # of the checker, when they were collected
        self._started = False
        self.checking = True  # that the list is not yet that of the current model has been so for a while
        self._reader = ModelReader(self)
        self._idle = QTimer(self, singleShot=True, interval=AFTER_EDIT_MS)
        self._idle.timeout.connect(self._check)
        self._late = QTimer(self, singleShot=True, interval=_LATE_MS)
        self._late.timeout.connect(lambda: self._set_checking(True))
        types.known.connect(self._compare_types)

    def close(self) -> None:
        """Stop checking."""
        self._idle.stop()
        self._late.stop()
        self._reader.stop()
        self._comparing.stop()
        if self._checker is not None:
            self._checker.close()
            self._checker = None
            self._end()

    def restart(self) -> None:
        """Check everything from scratch, after the available operators changed."""
        if self._checker is not None:
            self.close()
            self._start_checker()

    def start(self) -> None:
        """Start, once the schemas are loaded (0.2 s, so in a thread)."""
        if not self._started:
            self._started = True
            self._tasks.start("", lambda _progress: _load(), done=lambda _none: self._start_checker())

    def _start_checker(self) -> None:
        from onnx_workbench.model.checks import Checker

        self._checker = Checker(self._document)
        self._end = self._document.subscribe(self._on_change)
        self._check()

    @property
    def finished(self) -> bool:
        """Whether the list is complete for the current model."""
        return self._checker is not None and self._checker.finished

    @property
    def all(self) -> list[Problem]:
        """Return the problems found so far, errors first."""
        return self._listed

    def count(self, severity: str) -> int:
        """Return the number of problems of a severity."""
        return self._counts[severity]

    def _on_change(self, _change: Change) -> None:
        self._reader.stop()
        self._idle.start()
        if not self._late.isActive():
            self._late.start()
        if self._checker is not None and self._checker.problems is not self._seen:
            self._collect()  # the checker got the change first, and has checked what it touched
        if self._comparing.running:
            self._compare_types()

    def _check(self) -> None:
        if self._checker is not None:
            self._reader.start(self._checker.find, self._take)

    def _take(self, problems: list[Problem]) -> None:
        if self._checker is not None:
            self._checker.take(problems)
            self._late.stop()
            self._collect()
            self._set_checking(False)

    def _set_checking(self, checking: bool) -> None:
        if checking != self.checking:
            self.checking = checking
            self.checking_changed.emit()

    def _compare_types(self) -> None:
        """Compare declared types with inferred ones in the background; an edit meanwhile restarts it."""
        self._comparing.stop()
        if (inferred := self._types.inferred) is not None:
            model = self._document.model
            self._comparing.start(lambda progress: list(_contradictions(model, inferred, progress)), self._set_typed)

    def _set_typed(self, problems: list[Problem]) -> None:
        if problems or self._typed or any(p.rule in _UNDECLARED for p in self._listed):
            self._typed = problems
            self._collect()

    def _collect(self) -> None:
        if self._checker is None:
            return
        from onnx_workbench.model.checks.inferred import beside
        from onnx_workbench.model.checks.problem import errors_first

        self._seen, inferred = self._checker.problems, self._types.inferred
        checked = (_with_declaration_fix(problem, inferred) for problem in self._checker.problems)
        problems = [*self._read(), *checked]
        problems = errors_first(chain(problems, beside(problems, self._typed)))
        is_news = problems != self._listed
        self._listed = problems  # also if equal: fixes may differ
        self._counts = Counter(map(attrgetter("severity"), problems))
        if is_news:
            self.changed.emit()

    def _read(self) -> list[Problem]:
        from onnx_workbench.model.checks.problem import warning

        source = self._document.model.source
        return [warning("reading", text, self._document.model) for text in getattr(source, "problems", ())]


def find_problems(model: Model, inferred: InferredTypes, progress: Progress) -> list[Problem]:
    """Return all problems of a model except those of reading its file, errors first. Any thread."""
    from onnx_workbench.model.checks.inferred import beside
    from onnx_workbench.model.checks.models import problems_of
    from onnx_workbench.model.checks.partial_models import concerning
    from onnx_workbench.model.checks.problem import errors_first

    found = concerning(model, problems_of(model, {}, progress))
    problems = [_with_declaration_fix(problem, inferred) for problem in found]
    return errors_first(chain(problems, beside(problems, _contradictions(model, inferred, progress))))


def _with_declaration_fix(problem: Problem, inferred: InferredTypes | None) -> Problem:
    """Add a fix to the problem of an undeclared input or output: declare the inferred type."""
    found = inferred.types.get(problem.place) if problem.rule in _UNDECLARED and inferred else None
    if found is None:
        return problem
    from onnx_workbench.model.checks.problem import Fix
    from onnx_workbench.model.edits.declare_types import declare, is_shapeless

    if problem.rule == "interface-shape" and is_shapeless(found):
        return problem
    title = f"Declare {problem.place.name} as {type_text(found)}"
    return replace(problem, fix=Fix(title, partial(declare, value=problem.place, found=found)))


def _contradictions(model: Model, inferred: InferredTypes, progress: Progress) -> Iterator[Problem]:
    """Yield nodes whose inputs have unsupported types, and wrong declared types with a fix."""
    from onnx_workbench.model.checks.inferred import check_inferred, is_other_kind
    from onnx_workbench.model.checks.problem import Fix, error, warning
    from onnx_workbench.model.edits.declare_types import declare
    from onnx_workbench.model.inference import disagreements

    yield from progress.paced(check_inferred(inferred))
    for value, declared, found in disagreements(model, inferred, progress):
        make = error if is_other_kind(declared, found) else warning
        yield make(
            "declared-type",
            f"{value.name} is declared {type_text(declared)}",
            value,
            f"Inferred from its inputs: {type_text(found)}.",
            Fix(f"Declare {value.name} as {type_text(found)}", partial(declare, value=value, found=found)),
        )


def _load() -> None:
    from onnx_workbench.model import checks, schemas

    schemas.preload()
    assert checks.check_model is not None
