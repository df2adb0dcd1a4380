"""Sizes of symbolic dimensions with which a model runs, after a run with other sizes failed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from onnx_workbench.exec.results.node_table import Failure
from onnx_workbench.exec.results.slot_map import Path

#: Sizes to try apart from the numbers that the failure names.
_USUAL = (16, 32, 64, 128, 224, 256, 512, 640, 1024)
#: Range of the numbers of a failure to try.
_LEAST, _MOST = 1, 2048

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def runnable_sizes(
    sizes: Mapping[str, int],
    failure: Failure,
    failure_with: Callable[[dict[str, int]], Failure | None],
    seconds: float,
) -> tuple[dict[str, int], int]:
    """Return other sizes for some of the dimensions with which the model runs, and how many choices were tried.

    No sizes: none was found in time. The numbers that the failure names are tried before usual ones, and one dimension
    before several. Where another node fails then, those that its failure names are tried beside what helped the first.
    No choices: the model runs with the sizes it has, so the failed node is not needed for an output.
    """
    end = time.monotonic() + seconds
    met, count = {_place(failure)}, 0

    def search(chosen: dict[str, int], failure: Failure, others: tuple[int, ...]) -> dict[str, int]:
        nonlocal count
        for more in _candidates({**sizes, **chosen}, failure, others):
            if time.monotonic() > end:
                break
            count += 1
            again = failure_with({**sizes, **chosen, **more})
            if again is None:
                return chosen | more
            if _place(again) not in met:
                met.add(_place(again))
                if found := search(chosen | more, again, ()):
                    return found
        return {}

    return ({}, 0) if failure_with({**sizes}) is None else (search({}, failure, _USUAL), count)


def _innermost(failure: Failure) -> Failure:
    while failure.inner is not None:
        failure = failure.inner
    return failure


def _place(failure: Failure) -> tuple[Path, int]:
    inner = _innermost(failure)
    return inner.path, inner.node


def _candidates(sizes: Mapping[str, int], failure: Failure, others: Iterable[int]) -> Iterator[dict[str, int]]:
    failure = _innermost(failure)
    named = {int(text) for text in _NUMBER.findall(" ".join((*failure.inputs, failure.reason))) if len(text) < 5}
    numbers = dict.fromkeys([*sorted(number for number in named if _LEAST <= number <= _MOST), *others])
    names = sorted(sizes, key=lambda name: sizes[name] == 1)  # a batch last
    for number in numbers:
        yield from ({name: number} for name in names if sizes[name] != number)
    several = [name for name in names if sizes[name] != 1]
    if len(several) > 1:
        for number in numbers:
            yield dict.fromkeys(several, number)
