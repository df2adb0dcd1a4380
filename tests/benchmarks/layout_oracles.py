"""Other programs' layouts of the same graph, each in its own process, as straight pieces of edges to be counted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_FAST = """
import json, sys, time
from fast_sugiyama import from_edges
edges = [tuple(e) for e in json.load(sys.stdin)]
begin = time.process_time()
found = from_edges(edges, dummy_vertices=True)
out = []
for part in found:
    positions, _, _, links = part
    out.append([[list(map(float, (n, x, y))) for n, (x, y) in positions], [list(map(int, e)) for e in links]])
print(json.dumps([time.process_time() - begin, out]))
"""


def dot(sizes: Array, edges: Array, limit: float = 30.0) -> tuple[Array, Array, Array, float] | None:
    """Pieces (starts, ends, edges) and seconds of Graphviz; None where it is missing or too slow."""
    if shutil.which("dot") is None:
        return None
    lines = ['digraph { node [shape=box fixedsize=true label=""]']
    lines += [f"{i} [width={w / 72:.3f} height={h / 72:.3f}]" for i, (w, h) in enumerate(sizes.tolist())]
    lines += [f"{a} -> {b} [id={e}]" for e, (a, b) in enumerate(edges.tolist())]
    begin = time.perf_counter()
    try:
        run = subprocess.run(
            ["dot", "-Tjson0"],
            input="\n".join([*lines, "}"]),
            capture_output=True,
            text=True,
            timeout=limit,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return None
    seconds = time.perf_counter() - begin
    starts, ends, owner = [], [], []
    for edge in json.loads(run.stdout)["edges"]:
        tokens = [t.split(",") for t in edge["pos"].split(" ")]
        tip = [t for t in tokens if t[0] in "es"]
        points = np.array([[float(t[0]), float(t[1])] for t in tokens if t[0] not in "es"])
        k = (len(points) - 1) // 3
        curve = []
        for i in range(k):
            p = points[3 * i : 3 * i + 4]
            for step in range(8):
                t, u = step / 8, 1 - step / 8
                curve.append(u**3 * p[0] + 3 * u * u * t * p[1] + 3 * u * t * t * p[2] + t**3 * p[3])
        curve.append(points[-1])
        curve += [np.array([float(t[1]), float(t[2])]) for t in tip if t[0] == "e"]
        starts += curve[:-1]
        ends += curve[1:]
        owner += [int(edge["id"])] * (len(curve) - 1)
    return np.array(starts), np.array(ends), np.array(owner), seconds


def fast_sugiyama(edges: Array, limit: float = 300.0) -> tuple[Array, Array, Array, float] | None:
    """The same of fast-sugiyama with dummies: its links are the pieces, each counted for the edge it is part of."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", _FAST],
            input=json.dumps(edges.tolist()),
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return None
    if run.returncode:
        return None
    seconds, parts = json.loads(run.stdout)
    starts, ends, owner = [], [], []
    count = 0
    for positions, links in parts:
        place = {int(n): (x, y) for n, x, y in positions}
        real = set(edges.reshape(-1).tolist())
        number: dict[int, int] = {}
        for a, b in links:  # a dummy has one way in and one out, so its pieces share a number
            for end in (a, b):
                if end not in real and end not in number:
                    number[end] = -1
        chain: dict[int, list[int]] = {}
        for i, (a, b) in enumerate(links):
            for end in (a, b):
                if end not in real:
                    chain.setdefault(end, []).append(i)
        group = list(range(len(links)))

        def root(i: int, group: list[int] = group) -> int:
            while group[i] != i:
                group[i] = group[group[i]]
                i = group[i]
            return i

        for joined in chain.values():
            for i in joined[1:]:
                group[root(i)] = root(joined[0])
        for i, (a, b) in enumerate(links):
            starts.append(place[a])
            ends.append(place[b])
            owner.append(count + root(i))
        count += len(links)
    return np.array(starts), np.array(ends), np.array(owner), seconds
