"""The first run of a model against a later one: CPU seconds of the process, one thread, each model in its own process.

The first run includes reading the weights, laying them out and planning, but no imports and not the reading of the
graph. What the system takes to hand out memory that is touched for the first time is told beside it: it depends on the
machine alone, and is many times as much on a virtual one that gives freed memory back to its host. The ratio is that
of the time spent in the program, less reading the weights once. Models are files, folders with a model.onnx, or names
of `models.py`; without any, those of `models.py`.

    python tests/benchmarks/bench_first_run.py [MODEL …] [--rounds 5] [--least 3]
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import resource
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import models as architectures

from onnx_workbench.exec.inputs.sources import make_feeds
from onnx_workbench.exec.kernels import load as load_kernels
from onnx_workbench.exec.kernels.threads import set_threads
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.schemas import registry as schemas


def measure(name: str, rounds: int) -> tuple[float, float, float, float]:
    """Milliseconds of the first run, of the system meanwhile, of the quickest later run, and of reading the weights."""
    set_threads(1)
    load_kernels()
    schemas.preload()
    path = Path(name) / "model.onnx" if Path(name).is_dir() else Path(name)
    model = load(path if path.is_file() else architectures.MODELS[name]().SerializeToString())
    feeds = make_feeds(model.graph)
    begun = resource.getrusage(resource.RUSAGE_SELF)
    for value in model.graph.initializers:
        if value.initializer is not None:
            value.initializer.numpy()
    reading = resource.getrusage(resource.RUSAGE_SELF).ru_utime - begun.ru_utime
    session, times, system = Session(model), [], []
    for _ in range(rounds + 1):
        begun = resource.getrusage(resource.RUSAGE_SELF)
        session.run(feeds, fresh=True)
        ended = resource.getrusage(resource.RUSAGE_SELF)
        times.append(ended.ru_utime - begun.ru_utime)
        system.append(ended.ru_stime - begun.ru_stime)
    return times[0] * 1e3, system[0] * 1e3, min(times[1:]) * 1e3, reading * 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each model, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(architectures.MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least", type=float, default=3, help="milliseconds of a later run that the mean begins at")
    options = parser.parse_args(arguments)
    ratios = []
    print(f"{'model':44} {'first':>9} {'+ system':>9} {'later':>9} {'reading':>9}  ratio")
    for name in options.models:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            first, system, later, reading = process.submit(measure, name, options.rounds).result()
        ratio = (first - reading) / later
        times = f"{first:9.1f} {system:9.1f} {later:9.1f} {reading:9.1f}"
        print(f"{Path(name).name[:44]:44} {times} {ratio:6.2f}", flush=True)
        if later >= options.least:
            ratios.append(ratio)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of {len(ratios)} that take {options.least:g} ms or more: {mean:.2f}")


if __name__ == "__main__":
    main()
