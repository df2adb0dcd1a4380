"""How many examples a test of hypothesis tries."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """So many of fresh examples; a third of them where they are the same each time and would find nothing new."""
    return -(-count // 3) if settings.default.derandomize else count
