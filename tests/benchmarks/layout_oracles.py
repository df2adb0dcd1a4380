"""Other programs' layouts of the same graph, each in its own process, as straight pieces of edges to be counted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_SPACING = 100.0  # px between vertices that fast-sugiyama is asked for

_FAST = """
import json, sys
from fast_sugiyama import from_edges
edges = [tuple(e) for e in json.load(sys.stdin)]
out = []
for positions, _, _, links in from_edges(edges, dummy_vertices=True, vertex_spacing={spacing}):
    out.append([[list(map(float, (n, x, y))) for n, (x, y) in positions], [list(map(int, e)) for e in links]])
print(json.dumps(out))
"""

Ports = tuple[Array, Array]  # [E] px from the left border of source and target, NaN where the end is free


@dataclass(frozen=True)
class Drawn:
    """Straight pieces of the edges somebody drew."""

    starts: Array  # [P, 2]
    ends: Array  # [P, 2]
    edges: Array  # [P] the edge each piece belongs to


def dot(sizes: Array, edges: Array, ports: Ports | None, limit: float) -> Drawn | None:
    """What Graphviz draws, edges led to the given ports in their order; None where it is missing or too slow."""
    if shutil.which("dot") is None:
        return None
    text = "\n".join(["digraph {", *_nodes(sizes, edges, ports), *_edges(edges, ports), "}"])
    try:
        run = subprocess.run(["dot", "-Tjson0"], input=text, capture_output=True, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return None
    starts, ends, owner = [], [], []
    for edge in json.loads(run.stdout)["edges"]:
        curve = _curve(edge["pos"])
        starts += curve[:-1]
        ends += curve[1:]
        owner += [int(edge["id"])] * (len(curve) - 1)
    return Drawn(np.array(starts), np.array(ends), np.array(owner))


def _nodes(sizes: Array, edges: Array, ports: Ports | None) -> list[str]:
    """Boxes of the given sizes; with ports a row of cells at the top and one at the bottom."""
    lines = ['node [shape=box fixedsize=true label=""]']
    lines += [f"{i} [width={w / 72:.3f} height={h / 72:.3f}]" for i, (w, h) in enumerate(sizes.tolist())]
    if ports is None:
        return lines
    table = '<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">'
    for node in np.unique(edges).tolist():
        width, height = sizes[node].tolist()
        rows = [_row(name, ports[end][edges[:, end] == node], width) for end, name in ((1, "i"), (0, "o"))]
        label = f'<{table}<TR><TD>{rows[0]}</TD></TR><TR><TD HEIGHT="{max(1.0, height - 4):.0f}"></TD></TR>'
        lines.append(f"{node} [shape=plain fixedsize=false label={label}<TR><TD>{rows[1]}</TD></TR></TABLE>>]")
    return lines


def _row(name: str, ports: Array, width: float) -> str:
    """A table of one row: a cell for every port, from left to right."""
    places = np.unique(ports[~np.isnan(ports)])
    each = max(1.0, width / max(1, len(places)))
    cells = "".join(f'<TD PORT="{name}{place:.0f}" WIDTH="{each:.0f}" HEIGHT="2"></TD>' for place in places.tolist())
    cells = cells or f'<TD WIDTH="{each:.0f}" HEIGHT="2"></TD>'
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0"><TR>{cells}</TR></TABLE>'


def _edges(edges: Array, ports: Ports | None) -> list[str]:
    def end(edge: int, side: int) -> str:
        node = edges[edge, side]
        if ports is None or np.isnan(ports[side][edge]):
            return f"{node}"
        return f"{node}:{'oi'[side]}{ports[side][edge]:.0f}:{'sn'[side]}"

    return [f"{end(e, 0)} -> {end(e, 1)} [id={e}]" for e in range(len(edges))]


def _curve(text: str) -> list[Array]:
    """Points along one of Graphviz's splines, eight to a cubic."""
    tokens = [t.split(",") for t in text.split(" ")]
    points = np.array([[float(t[0]), float(t[1])] for t in tokens if t[0] not in "es"])
    curve: list[Array] = []
    for i in range((len(points) - 1) // 3):
        p = points[3 * i : 3 * i + 4]
        for t in np.arange(8) / 8:
            u = 1 - t
            curve.append(u**3 * p[0] + 3 * u * u * t * p[1] + 3 * u * t * t * p[2] + t**3 * p[3])
    curve.append(points[-1])
    return curve + [np.array([float(t[1]), float(t[2])]) for t in tokens if t[0] == "e"]


def fast_sugiyama(sizes: Array, edges: Array, ports: Ports | None, limit: float) -> Drawn | None:
    """What fast-sugiyama draws with dummies, its ends led to the given ports: it knows neither ports nor sizes itself.

    Its links are the pieces, each counted for the edge it is part of. None where it is missing or fails.
    """
    edges, first = np.unique(edges, axis=0, return_index=True)
    try:
        run = subprocess.run(
            [sys.executable, "-c", _FAST.format(spacing=_SPACING)],
            input=json.dumps(edges.tolist()),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if run.returncode:
        return None
    place: dict[int, tuple[float, float]] = {}
    links: list[tuple[int, int]] = []
    for positions, part in json.loads(run.stdout):
        base = len(links) + len(edges) + len(sizes)  # parts number their dummies alike

        def known(n: int, base: int = base) -> int:
            return n if n < len(sizes) else n + base

        place |= {known(int(n)): (x, y) for n, x, y in positions}
        links += [(known(a), known(b)) for a, b in part]
    owner = _owners(links, edges, len(sizes))
    starts = np.array([place[a] for a, _ in links])
    ends = np.array([place[b] for _, b in links])
    if ports is not None:
        joints = np.array(links)
        for at, end in ((starts, 0), (ends, 1)):
            share = ports[end][first[owner]] / sizes[edges[owner, end], 0] - 0.5
            own = joints[:, end] == edges[owner, end]
            at[own, 0] += np.nan_to_num(share[own]) * _SPACING / 2
    return Drawn(starts, ends, owner)


def _owners(links: list[tuple[int, int]], edges: Array, nodes: int) -> Array:
    """Which edge each link is part of: the dummies of an edge follow one another from its source to its target."""
    onward = {a: (i, b) for i, (a, b) in enumerate(links) if a >= nodes}
    number = {(int(a), int(b)): e for e, (a, b) in enumerate(edges.tolist())}
    owner = np.zeros(len(links), int)
    for i, (source, at) in enumerate(links):
        if source >= nodes:
            continue
        chain = [i]
        while at >= nodes:
            link, at = onward[at]
            chain.append(link)
        owner[chain] = number[source, at]
    return owner
