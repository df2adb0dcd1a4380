"""Print how long a layout takes and what is wrong with it.

Run from the root of the repository: `python -m tests.benchmarks.bench_layout [quick]`. Every graph is laid out with
free ends and with the ports that the canvas gives. Times are CPU seconds, the least of three. Each layout runs in a
process of its own, so that the memory is its own.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from onnx_workbench.viewer.canvas.layout import Layout, LayoutRequest, layout, relayout
from tests.benchmarks import layout_graphs as graphs
from tests.benchmarks import layout_metrics as metrics

_LARGE = 12_000  # nodes above which a layout is not repeated
_REPEATS = 3  # layouts, of which the fastest counts


def cases() -> dict[str, Any]:
    """Name → what draws the graph up."""
    import onnx

    light = Path(onnx.__file__).parent / "backend/test/data/light"
    named: dict[str, Any] = {
        "transformer-500": lambda: graphs.transformer(500),
        "transformer-1k": lambda: graphs.transformer(1_000),
        "inception-1k": lambda: graphs.inception(1_000),
        "unet-600": lambda: graphs.unet(600),
        "random-300": lambda: graphs.random_dag(300, 1.7, 12, 0),
        "random-1k": lambda: graphs.random_dag(1_000, 1.3, 20, 1),
        "wide-300": graphs.wide,
        "experts": graphs.experts,
        "skips-1k": lambda: graphs.skips(1_000),
    }
    for model in ("resnet50", "inception_v1", "inception_v2", "densenet121", "shufflenet"):
        named[model] = lambda model=model: graphs.model(light / f"light_{model}.onnx")
    named |= {
        "mixed-5k": lambda: graphs.mixed(5_000),
        "transformer-5k": lambda: graphs.transformer(5_000),
        "unet-5k": lambda: graphs.unet(5_000),
        "mixed-10k": lambda: graphs.mixed(10_000),
        "transformer-10k": lambda: graphs.transformer(10_000),
        "unet-10k": lambda: graphs.unet(10_000),
        "experts-5k": lambda: graphs.experts(11),
        "experts-10k": lambda: graphs.experts(22),
        "skips-10k": lambda: graphs.skips(10_000),
        "mixed-100k": lambda: graphs.mixed(100_000),
    }
    return named


def request_of(sketch: graphs.Sketch, ports: bool) -> LayoutRequest:
    """With the ports of inputs and outputs, or free ones."""
    sizes, edges, source, target = sketch.arrays()
    return LayoutRequest(sizes, edges, source, target) if ports else LayoutRequest(sizes, edges)


def lay_out(name: str, ports: bool) -> dict[str, Any]:
    """Facts about one layout, in this process."""
    asked = request_of(cases()[name](), ports)
    seconds = []
    for _ in range(_REPEATS if len(asked.sizes) <= _LARGE else 1):
        begin = time.process_time()
        result = layout(asked)
        seconds.append(time.process_time() - begin)
    memory = _peak_memory()
    start, end, edge = metrics.segments(result)
    over = metrics.edges_over_nodes(start, end, edge, asked.edges, result.positions, result.sizes)
    small = len(asked.sizes) <= 20_000
    return {
        "nodes": len(asked.sizes),
        "seconds": min(seconds),
        "MB": memory,
        "crossings": metrics.crossings(start, end, edge) if small else None,
        "overlaps": metrics.node_overlaps(result.positions, result.sizes),
        "over": 100 * len(over) / max(1, len(asked.edges)),
        "size": f"{result.bounds[2]:.0f}x{result.bounds[3]:.0f}",
    }


def _peak_memory() -> float:
    """Most MB this process ever had; NaN where Linux's /proc is missing."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024


def insert(name: str, times: int) -> None:
    """Insert a node on random edges and print what that costs and moves."""
    asked = request_of(cases()[name](), ports=False)
    n, e = len(asked.sizes), len(asked.edges)
    asked = dataclasses.replace(asked, node_ids=np.arange(n))
    before = layout(asked)
    rng = np.random.default_rng(0)
    seconds, moved, overlaps, over = [], [], 0, 0
    for chosen in rng.integers(0, e, times).tolist():
        s, t = asked.edges[chosen].tolist()
        changed = dataclasses.replace(
            asked,
            sizes=np.vstack([asked.sizes, [[130, 48]]]).astype(np.float32),
            edges=np.vstack([np.delete(asked.edges, chosen, 0), [[s, n], [n, t]]]).astype(np.int32),
            node_ids=np.arange(n + 1),
        )
        begin = time.process_time()
        after = relayout(before, changed)
        seconds.append(time.process_time() - begin)
        moved.append(_moved(before, after, n))
        overlaps += metrics.node_overlaps(after.positions, after.sizes)
        a, b, edge = metrics.segments(after)
        over += len(metrics.edges_over_nodes(a, b, edge, changed.edges, after.positions, after.sizes))
    print(
        f"insert one node, {name}, {times} times: median {1000 * np.median(seconds):.0f} ms, "
        f"most {1000 * max(seconds):.0f} ms; moved sideways or out of order at most {100 * max(moved):.2f} %; "
        f"overlaps {overlaps}; edges over nodes {over}"
    )


def _moved(before: Layout, after: Layout, n: int) -> float:
    """Share of nodes that moved, but for the common shift of all that is below."""
    shift = after.positions[:n] - before.positions
    down = np.unique(np.round(shift[:, 1]))
    common = np.isin(np.round(shift[:, 1]), [0.0, down.max()])
    return float(((np.abs(shift[:, 0]) > 1) | ~common).mean())


def main() -> None:
    """Print the table."""
    quick = "quick" in sys.argv
    print(
        f"{'graph':16}{'nodes':>7}{'CPU s':>7}{'(ports)':>8}{'MB':>5}{'crossings':>10}{'(ports)':>8}"
        f"{'overlaps':>9}{'over %':>7}  {'size':15}(ports)"
    )
    for name, make in cases().items():
        if not quick or len(make().sizes) <= 2_000:
            _print_row(name)
    insert("transformer-1k", 20)
    if not quick:
        insert("mixed-10k", 20)
        insert("mixed-100k", 3)


def _print_row(name: str) -> None:
    """Free ends and given ports."""
    free, given = _apart(name, ports=False), _apart(name, ports=True)
    line = f"{name:16}{free['nodes']:7}{free['seconds']:7.2f}{given['seconds']:8.2f}{given['MB']:5.0f}"
    print(f"{line}{_text(free['crossings']):>10}{_text(given['crossings']):>8}", end="")
    over = max(free["over"], given["over"])
    print(f"{free['overlaps'] + given['overlaps']:9}{over:7.3f}  {free['size']:15}{given['size']}", flush=True)


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _apart(name: str, ports: bool) -> dict[str, Any]:
    code = (
        "import json, sys; from tests.benchmarks import bench_layout as b;"
        f"print(json.dumps(b.lay_out({name!r}, {ports})))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(run.stdout)
    return result


if __name__ == "__main__":
    main()
