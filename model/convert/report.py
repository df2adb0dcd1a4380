"""Report of a conversion: what changed, and what to review."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ConversionNote:
    """One entry about one object."""

    text: str
    place: Any = None


@dataclass(slots=True)
class ConversionReport:
    """`changes` are done; `warnings` need review: what may compute something else now."""

    changes: list[ConversionNote] = field(default_factory=list)
    warnings: list[ConversionNote] = field(default_factory=list)

    def changed(self, text: str, place: Any = None) -> None:
        """Add a change."""
        self.changes.append(ConversionNote(text, place))

    def warn(self, text: str, place: Any = None) -> None:
        """Add a warning."""
        self.warnings.append(ConversionNote(text, place))

    def summary(self) -> list[tuple[str, int]]:
        """Return equal changes with their count, most frequent first."""
        return Counter(remark.text for remark in self.changes).most_common()
