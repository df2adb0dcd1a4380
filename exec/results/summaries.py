"""Summaries (type, shape, statistics) of the values of a run, stored by columns, as there may be many thousands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.exec.results.columns import ColumnTable
from onnx_workbench.exec.results.values import MISSING
from onnx_workbench.exec.values.arrays import RuntimeValue
from onnx_workbench.exec.values.statistics import Statistics, Summary, ValueInfo, describe


def _nowhere() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


@dataclass(eq=False)
class SummaryTable(ColumnTable, Mapping[int, Summary]):
    """Summaries by slot, made on access.

    `which` has for each slot an index in `infos`, which few different values share, or -1 if it has no value.
    """

    which: NDArray[np.int32] = field(default_factory=_nowhere)
    infos: Sequence[ValueInfo] = ()
    statistics: Mapping[int, Statistics] = field(default_factory=dict)  # by slot, if computed

    @classmethod
    def of(cls, slots: Sequence[RuntimeValue], known: Mapping[int, Summary]) -> SummaryTable:
        """Return the summaries of the values in `slots` and of released values, whose summaries are in `known`."""
        infos: dict[ValueInfo, int] = {}
        arrays: dict[Any, int] = {}  # indices in `infos` by a key that is quicker to look up
        which = np.full(len(slots), -1, np.int32)
        for slot, value in enumerate(slots):
            if value is MISSING:
                continue
            if not isinstance(value, np.ndarray) or value.dtype.kind == "O":
                which[slot] = infos.setdefault(describe(value), len(infos))
                continue
            key = value.dtype, value.shape
            index = arrays.get(key)
            if index is None:
                index = arrays[key] = infos.setdefault(describe(value), len(infos))
            which[slot] = index
        for slot, summary in known.items():
            which[slot] = infos.setdefault(summary.info, len(infos))
        statistics = {slot: found.statistics for slot, found in known.items() if found.statistics is not None}
        return cls(which, tuple(infos), statistics)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.which >= 0))

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self.which >= 0).tolist())

    def __getitem__(self, slot: int) -> Summary:
        index = int(self.which[slot]) if 0 <= slot < len(self.which) else -1
        if index < 0:
            raise KeyError(slot)
        return Summary(self.infos[index], self.statistics.get(slot))
