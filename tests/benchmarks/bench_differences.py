"""How long comparing takes, against reading the same models: run as a script."""

from __future__ import annotations

import random
import time

import onnx
from onnx import TensorProto, helper

from model.io.read import load
from model.queries.differences import compare


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


def main() -> None:
    """Equal models, and models with one node more whose followers are all renamed."""
    for count in (5_000, 100_000):
        data, other = chain(count), chain(count, extra=count // 6)
        start = time.perf_counter()
        old, same = load(data), load(data)
        reading = (time.perf_counter() - start) / 2
        new = load(other)
        for title, model in (("equal", same), ("shifted", new)):
            start = time.perf_counter()
            found = compare(old, model, weights=title == "equal")
            taken = time.perf_counter() - start
            told = sum(d.kind != "renamed" for d in found.differences)
            print(f"{count:>7,} nodes {title:>8}: {taken:6.2f} s = {taken / reading:5.1f} × reading, {told} to tell")


if __name__ == "__main__":
    main()
