"""Graphs like those in models, of any size, and the graphs of real models, as arrays a layout takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onnx_workbench.model.schemas import traits


@dataclass
class Sketch:
    """A graph being drawn up: nodes with sizes, edges with the output and input they join."""

    sizes: list[tuple[float, float]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)  # per node: inputs that may change places

    def add(self, name: str, *inputs: int | tuple[int, int]) -> int:
        """Add a node that takes these nodes' outputs; a pair names the output."""
        node = len(self.sizes)
        rows = len(name) * 7 % 4
        self.sizes.append((40.0 + 9.0 * len(name), 30.0 + 18.0 * rows))
        self.free.append(traits.find(name).is_commutative and len(inputs) > 1)
        for given in inputs:
            source, output = given if isinstance(given, tuple) else (given, 0)
            self.edges.append((source, node))
            self.outputs.append(output)
        return node

    def chain(self, start: int, *names: str) -> int:
        """Nodes one after the other."""
        for name in names:
            start = self.add(name, start)
        return start

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        """Sizes, edges, source ports and target ports: inputs and outputs spread over the node's width.

        As the canvas asks for them: inputs that may change places have none.
        """
        sizes = np.array(self.sizes, np.float32).reshape(-1, 2)
        edges = np.array(self.edges, np.int32).reshape(-1, 2)
        outputs = np.array(self.outputs, np.float32)
        counts = np.zeros(len(sizes), np.float32)
        np.maximum.at(counts, edges[:, 0], outputs + 1)
        source = sizes[edges[:, 0], 0] * (outputs + 1) / (counts[edges[:, 0]] + 1)
        place = np.zeros(len(edges), np.float32)
        seen: dict[int, int] = {}
        for e, target in enumerate(edges[:, 1].tolist()):
            place[e] = seen.get(target, 0)
            seen[target] = seen.get(target, 0) + 1
        arity = np.bincount(edges[:, 1], minlength=len(sizes)).astype(np.float32)
        target = sizes[edges[:, 1], 0] * (place + 1) / (arity[edges[:, 1]] + 1)
        target[np.array(self.free, bool)[edges[:, 1]]] = np.nan
        return sizes, edges, source.astype(np.float32), target.astype(np.float32)


def transformer(nodes: int, heads_mask: bool = True) -> Sketch:
    """Attention blocks one after the other, a mask shared by all, fused QKV in every third."""
    s = Sketch()
    x = s.add("input_ids")
    mask = s.chain(s.add("attention_mask"), "Cast", "Unsqueeze", "Sub", "Mul") if heads_mask else x
    x = s.chain(x, "Gather", "Add")
    layer = 0
    while len(s.sizes) < nodes:
        norm = _layer_norm(s, x)
        if layer % 3 == 2:
            qkv = s.chain(norm, "MatMul", "Add", "Reshape")
            split = s.add("Split", qkv)
            q, k, v = (s.chain(s.add("Squeeze", (split, i)), "Transpose") for i in range(3))
        else:
            q, k, v = (s.chain(norm, "MatMul", "Add", "Reshape", "Transpose") for _ in range(3))
        shape = s.add("Shape", norm)
        scores = s.add("MatMul", q, s.add("Transpose", k))
        scores = s.add("Add", s.add("Div", scores, s.add("Constant")), mask)
        out = s.add("MatMul", s.add("Softmax", scores), v)
        out = s.add("Reshape", s.add("Transpose", out), s.chain(shape, "Slice", "Concat"))
        x = s.add("Add", x, s.chain(out, "MatMul", "Add"))
        norm = _layer_norm(s, x)
        h = s.chain(norm, "MatMul", "Add")
        gelu = s.add("Mul", h, s.chain(h, "Div", "Erf", "Add"))
        x = s.add("Add", x, s.chain(gelu, "Mul", "MatMul", "Add"))
        layer += 1
    s.add("logits", x)
    return s


def _layer_norm(s: Sketch, x: int) -> int:
    mean = s.add("ReduceMean", x)
    d = s.add("Sub", x, mean)
    var = s.chain(d, "Pow", "ReduceMean", "Add", "Sqrt")
    return s.chain(s.add("Div", d, var), "Mul", "Add")


def inception(nodes: int) -> Sketch:
    """Modules of four branches, joined by Concat."""
    s = Sketch()
    x = s.chain(s.add("image"), "Conv", "Relu", "MaxPool")
    while len(s.sizes) < nodes:
        a = s.chain(x, "Conv", "Relu")
        b = s.chain(x, "Conv", "Relu", "Conv", "Relu")
        c = s.chain(x, "Conv", "Relu", "Conv", "Relu", "Conv", "Relu")
        d = s.chain(x, "AveragePool", "Conv", "Relu")
        x = s.add("Concat", a, b, c, d)
    s.add("output", x)
    return s


def unet(nodes: int) -> Sketch:
    """Down and up again, with skips across, several times in a row."""
    s = Sketch()
    x = s.add("latent")
    time = s.chain(s.add("timestep"), "Mul", "Sin", "Gemm", "Sigmoid")
    while len(s.sizes) < nodes:
        skips = []
        for _ in range(12):
            x = _res_block(s, x, time)
            skips.append(x)
            x = s.add("Conv", x)
        for skip in reversed(skips):
            x = s.add("Concat", s.chain(x, "Resize", "Conv"), skip)
            x = _res_block(s, x, time)
    s.add("noise", x)
    return s


def _res_block(s: Sketch, x: int, time: int) -> int:
    h = s.chain(x, "GroupNorm", "Silu", "Conv")
    h = s.add("Add", h, s.chain(time, "Gemm", "Unsqueeze"))
    return s.add("Add", s.add("Conv", x), s.chain(h, "GroupNorm", "Silu", "Conv"))


def wide(branches: int = 300, length: int = 3) -> Sketch:
    """One source, parallel branches, one Concat."""
    s = Sketch()
    x = s.chain(s.add("input"), "Normalizer")
    s.add("Concat", *(s.chain(x, *("Slice", "MatMul", "Relu", "Add")[:length]) for _ in range(branches)))
    return s


def experts(layers: int = 8, width: int = 64) -> Sketch:
    """Mixture of experts: a router, many experts side by side, a residual."""
    s = Sketch()
    x = s.chain(s.add("hidden"), "Add")
    for _ in range(layers):
        norm = _layer_norm(s, x)
        top = s.add("TopK", s.chain(norm, "MatMul", "Softmax"))
        parts = []
        for _ in range(width):
            gate = s.chain(s.add("Gather", norm, (top, 1)), "MatMul", "Silu")
            up = s.add("MatMul", norm)
            parts.append(s.add("Mul", s.chain(s.add("Mul", gate, up), "MatMul"), (top, 0)))
        x = s.add("Add", x, s.add("Sum", *parts))
    s.add("output", x)
    return s


def skips(nodes: int, every: int = 10, reach: int = 25) -> Sketch:
    """A chain; every so many operators one takes, besides the one before it, what was made a good way above."""
    s = Sketch()
    s.add("input")
    for node in range(1, nodes):
        if node % every or node <= reach:
            s.add("Relu", node - 1)
        else:
            s.add("Add", node - 1, node - reach)
    return s


def mixed(nodes: int) -> Sketch:
    """A third of each deep family, one after the other, so that no one shape decides."""
    s = Sketch()
    last = s.add("input")
    for part in (transformer(nodes // 3), inception(nodes // 3), unet(nodes // 3)):
        base = len(s.sizes)
        s.sizes += part.sizes
        s.free += part.free
        s.edges += [(last, base)] + [(a + base, b + base) for a, b in part.edges]
        s.outputs += [0, *part.outputs]
        last = len(s.sizes) - 1
    return s


def random_dag(nodes: int, fan_in: float, reach: int, seed: int) -> Sketch:
    """Every node takes about `fan_in` of the `reach` nodes before it."""
    rng = np.random.default_rng(seed)
    s = Sketch()
    s.add("input")
    for node in range(1, nodes):
        count = 1 + int(rng.poisson(fan_in - 1))
        chosen = {max(0, node - 1 - int(rng.integers(0, reach))) for _ in range(count)}
        s.add("N" * int(rng.integers(2, 14)), *sorted(chosen))
    return s


def model(path: Path, constants: bool = True) -> Sketch:
    """The top graph of a real model; without `constants`, weights made by nodes without inputs are left out."""
    import onnx

    graph: Any = onnx.load(str(path), load_external_data=False).graph
    s = Sketch()
    made: dict[str, tuple[int, int]] = {}
    weights = {t.name for t in graph.initializer}
    skipped: set[str] = set(weights)
    for value in graph.input:
        if value.name not in weights:
            made[value.name] = (s.add(value.name), 0)
    for node in graph.node:
        given = [made[name] for name in node.input if name in made]
        if not constants and not given and all(name in skipped or not name for name in node.input):
            skipped.update(node.output)
            continue
        number = s.add(node.op_type, *given)
        for i, name in enumerate(node.output):
            made[name] = (number, i)
    for value in graph.output:
        if value.name in made:
            s.add(value.name, made[value.name])
    return s
