"""How long comparing takes, against reading the same models: run as a script."""

from __future__ import annotations

import random
import time

import onnx
from onnx import TensorProto, helper

from onnx_workbench.model.diff import compare
from onnx_workbench.model.io.reader.read import load


def chain(count: int, extra: int = -1) -> bytes:
    """Blocks of MatMul, Add, Relu whose names are counted; one Tanh too many in block `extra`."""
    nodes, current, serial = [], "x", 0

    def add(op_type: str, *inputs: str) -> str:
        nonlocal serial
        serial += 1
        nodes.append(helper.make_node(op_type, inputs, [f"v{serial}"], name=f"{op_type}_{serial}"))
        return f"v{serial}"

    for block in range(count // 3):
        inner = add("Relu", add("MatMul", current, "w"))
        if block == extra:
            inner = add("Tanh", inner)
        current = add("Add", inner, current)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [4, 4])],
        [value(current, TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor("w", TensorProto.FLOAT, [4, 4], [random.random() for _ in range(16)])],
    )
    data: bytes = helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]).SerializeToString()
    return data


def scrambled(data: bytes, rng: random.Random) -> bytes:
    """The same model as another export has it: other names everywhere, nodes in another running order."""
    model = onnx.load_from_string(data)
    graph = model.graph
    names = {name: f"t{rng.getrandbits(64):x}" for node in graph.node for name in node.output}
    waiting, ready = {}, []
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        needed = {name for name in node.input if name in names}
        waiting[node.output[0]] = len(needed)
        for name in needed:
            users.setdefault(name, []).append(node)
        if not needed:
            ready.append(node)
    order = []
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        order.append(node)
        for user in users.get(node.output[0], ()):
            waiting[user.output[0]] -= 1
            if not waiting[user.output[0]]:
                ready.append(user)
    made = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
    for node in made:
        node.name = f"n{rng.getrandbits(64):x}"
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names[name] for name in node.output]
    del graph.node[:]
    graph.node.extend(made)
    for value in graph.output:
        value.name = names.get(value.name, value.name)
    result: bytes = model.SerializeToString()
    return result


def towers(count: int) -> bytes:
    """Ten towers of blocks side by side, each with weights of its own, summed up at the end."""
    nodes, ends, weights = [], [], []
    for tower in range(10):
        current = "x"
        weights.append(helper.make_tensor(f"w{tower}", TensorProto.FLOAT, [2, 2], [tower, 1, 2, 3]))
        for block in range(count // 30):
            a, b, c = (f"{tower}_{block}_{part}" for part in "abc")
            nodes.append(helper.make_node("MatMul", [current, f"w{tower}"], [a]))
            nodes.append(helper.make_node("Relu", [a], [b]))
            nodes.append(helper.make_node("Add", [b, current], [c]))
            current = c
        ends.append(current)
    nodes.append(helper.make_node("Sum", ends, ["y"]))
    value = helper.make_tensor_value_info
    io = ([value(name, TensorProto.FLOAT, [2, 2])] for name in "xy")
    graph = helper.make_graph(nodes, "g", *io, weights)
    data: bytes = helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]).SerializeToString()
    return data


def main() -> None:
    """Equal models, models with one node more whose followers are all renamed, and ones with no name in common."""
    for count in (5_000, 100_000):
        data, other = chain(count), chain(count, extra=count // 6)
        start = time.perf_counter()
        old, same = load(data), load(data)
        reading = (time.perf_counter() - start) / 2
        new, wide = load(other), towers(count)
        others = load(wide), load(scrambled(wide, random.Random(1)))
        for title, before, after in (("equal", old, same), ("shifted", old, new), ("scrambled", *others)):
            start = time.perf_counter()
            found = compare(before, after, weights=title == "equal")
            taken = time.perf_counter() - start
            told = sum(d.kind not in ("renamed", "moved") for d in found.differences)
            print(f"{count:>7,} nodes {title:>9}: {taken:6.2f} s = {taken / reading:5.1f} × reading, {told} to tell")


if __name__ == "__main__":
    main()
