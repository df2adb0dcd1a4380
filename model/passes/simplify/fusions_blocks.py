"""Patterns of exporters that newer operator sets have an operator for. Off by default: older tools may not know it."""

from __future__ import annotations

from model.passes.simplify.framework import Pass

PASSES: tuple[Pass, ...] = ()
