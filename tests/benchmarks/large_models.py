"""Models for benchmarks, written on the wire without holding them in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onnx_workbench.model.io.wire import encode_tag, encode_varint


def tagged(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return encode_tag(number, 2) + encode_varint(len(content)) + content


def text(number: int, value: str) -> bytes:
    """A text field."""
    return tagged(number, value.encode())


def write_weights_model(path: Path, megabytes: int, tensors: int = 200) -> None:
    """A chain of MatMul, Add and Relu with `tensors` weights and as many biases, about this large."""
    size = max(megabytes * 1_000_000 // tensors // 4, 1)
    rng = np.random.default_rng(0)
    block = rng.standard_normal(size, np.float32).tobytes()
    nodes = bytearray()
    value = "x"
    heads: list[tuple[bytes, bytes]] = []
    for index in range(tensors):
        for op, extra, out in (
            ("MatMul", [f"w{index}"], f"m{index}"),
            ("Add", [f"b{index}"], f"a{index}"),
            ("Relu", [], f"r{index}"),
        ):
            node = (
                b"".join(text(1, name) for name in (value, *extra))
                + text(2, out)
                + text(3, f"{op}_{index}")
                + text(4, op)
            )
            nodes += tagged(1, node)
            value = out
        for name, count in ((f"w{index}", size), (f"b{index}", 16)):
            head = encode_tag(1, 0) + encode_varint(count) + encode_tag(2, 0) + b"\x01" + text(8, name)
            head += encode_tag(9, 2) + encode_varint(count * 4)
            heads.append((encode_tag(5, 2) + encode_varint(len(head) + count * 4) + head, block[: count * 4]))
    body = bytes(nodes) + text(2, "g")
    total = len(body) + sum(len(head) + len(data) for head, data in heads)
    with open(path, "wb") as file:
        file.write(b"\x08\x0a" + tagged(8, text(1, "") + b"\x10\x15") + encode_tag(7, 2) + encode_varint(total) + body)
        for head, data in heads:
            file.write(head)
            file.write(data)


def write_nodes_model(path: Path, count: int) -> None:
    """A flat graph of this many nodes, a third of them with attributes, no weights."""
    nodes = bytearray()
    previous = "x"
    for index in range(count):
        op = ("Relu", "Add", "Conv")[index % 3]
        node = text(1, previous)
        if index % 3:
            node += text(1, f"v{index - 7}" if index > 7 else "x")
        node += text(2, f"v{index}") + text(3, f"/layer{index // 10}/node_{index}") + text(4, op)
        if index % 3 == 2:
            node += tagged(5, text(1, "group") + encode_tag(3, 0) + b"\x01" + b"\xa0\x01\x02")
            node += tagged(5, text(1, "kernel_shape") + b"\x40\x03\x40\x03" + b"\xa0\x01\x07")
        nodes += tagged(1, node)
        previous = f"v{index}"
    graph = bytes(nodes) + text(2, "g") + tagged(11, text(1, "x")) + tagged(12, text(1, previous))
    path.write_bytes(b"\x08\x0a" + tagged(8, text(1, "") + b"\x10\x15") + tagged(7, graph))


def write_constants_model(path: Path, megabytes: int) -> None:
    """Weights in Constant attributes: half of them raw, half packed floats inside the branches of an If."""
    size = megabytes * 1_000_000 // 100 // 4
    block = np.random.default_rng(0).standard_normal(size, np.float32).tobytes()

    def constant(index: int, field: int) -> bytes:
        tensor = encode_tag(1, 0) + encode_varint(size) + b"\x10\x01" + tagged(field, block)
        attribute = text(1, "value") + tagged(5, tensor) + b"\xa0\x01\x04"
        return tagged(1, text(2, f"c{index}") + text(4, "Constant") + tagged(5, attribute))

    branches = [b"".join(constant(50 + 25 * b + i, 4) for i in range(25)) + text(2, "branch") for b in range(2)]
    branch_node = text(1, "c") + text(4, "If")
    for name, branch in zip(("then_branch", "else_branch"), branches, strict=True):
        branch_node += tagged(5, text(1, name) + tagged(6, branch) + b"\xa0\x01\x05")
    graph = b"".join(constant(i, 9) for i in range(50)) + tagged(1, branch_node) + text(2, "g")
    path.write_bytes(b"\x08\x0a" + tagged(8, text(1, "") + b"\x10\x15") + tagged(7, graph))


def write_external_model(path: Path, megabytes: int, tensors: int = 200) -> None:
    """Weights in one data file beside the model."""
    size = megabytes * 1_000_000 // tensors // 4096 * 4096
    block = np.random.default_rng(0).standard_normal(size // 4, np.float32).tobytes()
    graph = bytearray()
    with open(path.with_suffix(".data"), "wb") as file:
        for index in range(tensors):
            file.write(block)
            entries = {"location": path.with_suffix(".data").name, "offset": str(index * size), "length": str(size)}
            tensor = encode_tag(1, 0) + encode_varint(size // 4) + b"\x10\x01" + text(8, f"w{index}") + b"\x70\x01"
            graph += tagged(5, tensor + b"".join(tagged(13, text(1, k) + text(2, v)) for k, v in entries.items()))
            graph += tagged(1, text(1, f"w{index}") + text(2, f"y{index}") + text(4, "Relu"))
    path.write_bytes(b"\x08\x0a" + tagged(8, text(1, "") + b"\x10\x15") + tagged(7, bytes(graph) + text(2, "g")))
