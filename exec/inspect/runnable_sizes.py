"""Sizes of symbolic dimensions with which a model runs, after a run with other sizes failed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping

from onnx_workbench.exec.results.node_table import Failure

#: Sizes to try apart from the numbers that the failure names.
_USUAL = (16, 32, 64, 128, 224, 256, 512, 640, 1024)
#: Range of the numbers of a failure to try.
_LEAST, _MOST = 2, 2048

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def runnable_sizes(
    sizes: Mapping[str, int], failure: Failure, runs_with: Callable[[dict[str, int]], bool], seconds: float
) -> dict[str, int]:
    """Return other sizes for some of the dimensions with which the model runs; empty if none is found in time.

    The numbers that the failure names are tried before usual ones, and one dimension before several. Nothing is found
    if the model runs with the sizes it has: then the failed node is not needed for an output.
    """
    end = time.monotonic() + seconds
    if runs_with({**sizes}):
        return {}
    for other in _candidates(sizes, failure):
        if time.monotonic() > end:
            break
        if runs_with({**sizes, **other}):
            return other
    return {}


def _candidates(sizes: Mapping[str, int], failure: Failure) -> Iterator[dict[str, int]]:
    while failure.inner is not None:
        failure = failure.inner
    named = {int(text) for text in _NUMBER.findall(" ".join((*failure.inputs, failure.reason))) if len(text) < 5}
    numbers = dict.fromkeys([*sorted(number for number in named if _LEAST <= number <= _MOST), *_USUAL])
    names = sorted(sizes, key=lambda name: sizes[name] == 1)  # a batch last
    for number in numbers:
        yield from ({name: number} for name in names if sizes[name] != number)
    several = [name for name in names if sizes[name] != 1]
    if len(several) > 1:
        for number in numbers:
            yield dict.fromkeys(several, number)
