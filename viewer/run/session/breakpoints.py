"""Breakpoints of a document: at nodes, at values, and on a condition of any value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from PySide6.QtCore import QObject, Signal

from onnx_workbench.exec.engine.breakpoints import Breakpoint
from onnx_workbench.model.ir.graph import Node, Value
from onnx_workbench.viewer.document.model_signals import is_in_model

Condition = Literal["non-finite", "above", "shape", "iteration"]


class BreakpointList(QObject):
    """The breakpoints of a document; changes take effect in the next run.

    Those in `disabled` are disabled. GUI thread only.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.all: tuple[Breakpoint, ...] = ()
        self.disabled: frozenset[Breakpoint] = frozenset()

    @property
    def enabled(self) -> tuple[Breakpoint, ...]:
        """Enabled breakpoints."""
        return tuple(one for one in self.all if one not in self.disabled)

    def set_disabled(self, one: Breakpoint, *, on: bool) -> None:
        """Disable a breakpoint, or enable it again."""
        self.disabled = self.disabled | {one} if on else self.disabled - {one}
        self.changed.emit()

    def set(self, breakpoints: Iterable[Breakpoint]) -> None:
        """Replace all breakpoints."""
        self.all = tuple(dict.fromkeys(breakpoints))
        self.disabled &= frozenset(self.all)
        self.changed.emit()

    def toggle(self, thing: Node | Value) -> None:
        """Add a breakpoint before a node or after a value, or remove those on it, whatever their condition."""
        others = [b for b in self.all if thing not in (b.node, b.value)]
        added = Breakpoint(node=thing) if isinstance(thing, Node) else Breakpoint(value=thing)
        self.set([*others, added] if len(others) == len(self.all) else others)

    def has(self, condition: Condition) -> bool:
        """Return whether a condition on any value stops a run."""
        return any(b.condition == condition and b.value is None for b in self.all)

    def set_condition(self, condition: Condition, *, on: bool, limit: float = 0.0) -> None:
        """Enable or disable a condition on any value."""
        others = [b for b in self.all if b.condition != condition or b.value is not None]
        self.set([*others, Breakpoint(condition=condition, limit=limit)] if on else others)

    def drop_deleted(self) -> None:
        """Drop breakpoints at deleted objects, without a signal: the next run reports it."""
        self.all = tuple(b for b in self.all if (thing := b.node or b.value) is None or is_in_model(thing))
        self.disabled &= frozenset(self.all)
