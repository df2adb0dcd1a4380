"""What a conversion did, and what a person should look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ConversionNote:
    """One line about one place."""

    text: str
    place: Any = None


@dataclass(slots=True)
class ConversionReport:
    """`changes` are done, `warnings` are for the person to judge: what may compute something else now."""

    changes: list[ConversionNote] = field(default_factory=list)
    warnings: list[ConversionNote] = field(default_factory=list)

    def changed(self, text: str, place: Any = None) -> None:
        """Note something done."""
        self.changes.append(ConversionNote(text, place))

    def warn(self, text: str, place: Any = None) -> None:
        """Note something to look at."""
        self.warnings.append(ConversionNote(text, place))

    def summary(self) -> list[tuple[str, int]]:
        """Equal lines of changes with how often each was noted, most frequent first."""
        counts: dict[str, int] = {}
        for remark in self.changes:
            counts[remark.text] = counts.get(remark.text, 0) + 1
        return sorted(counts.items(), key=lambda item: -item[1])
