"""Make a model that shows a mismatch as small as it gets, and print it as ONNX text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx
from onnx import AttributeProto

from onnx_workbench.model.errors import ModelError
from tests.fuzz.child import Child

#: Whether a smaller model still shows what is looked for.
StillFails = Callable[[onnx.ModelProto], bool]


def shrink(model: onnx.ModelProto, still_fails: StillFails, limit: int = 400) -> onnx.ModelProto:
    """Delete outputs, nodes, attributes and inputs while the mismatch stays; `limit` trials at most."""
    trials, changed = 0, True
    while changed:
        changed = False
        for candidate in _smaller(model):
            trials += 1
            if trials > limit:
                return model
            if still_fails(candidate):
                model, changed = candidate, True
                break
    return model


def as_text(model: onnx.ModelProto) -> str:
    """The model as ONNX text."""
    return str(onnx.printer.to_text(model))


def kind_of(message: str) -> str:
    """What a message says without names and numbers, so that a shrunk model counts as the same finding."""
    return "".join(c for c in message.split("(inputs", maxsplit=1)[0] if not c.isdigit())[:60]


def _smaller(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Smaller models, the boldest first."""
    graph = model.graph
    if len(graph.output) > 1:
        for i in range(len(graph.output)):
            yield _pruned(_changed(model, lambda m, i=i: m.graph.output.__delitem__(slice(i, i + 1))))
        for i in range(len(graph.output)):
            yield _pruned(_changed(model, lambda m, i=i: _keep_output(m, i)))
    yield from _earlier_outputs(model)
    for i in reversed(range(len(graph.node))):
        for name in graph.node[i].output[:1]:
            if graph.node[i].op_type != "Constant":
                for source in graph.node[i].input[:2]:
                    if source:
                        yield _pruned(_changed(model, lambda m, i=i, n=name, s=source: _bypass(m, i, n, s)))
    for i, node in enumerate(graph.node):
        for j, attribute in enumerate(node.attribute):
            if attribute.type == AttributeProto.GRAPH:
                yield from _smaller_body(model, i, j)
            elif node.op_type != "Constant":
                yield _changed(model, lambda m, i=i, j=j: m.graph.node[i].attribute.__delitem__(j))
    yield from _as_inputs(model)
    for i in range(len(model.functions)):
        for k in range(len(model.functions[i].node)):
            yield _changed(model, lambda m, i=i, k=k: m.functions[i].node.__delitem__(k))


def _changed(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    change(copy)
    return copy


def _keep_output(model: onnx.ModelProto, index: int) -> None:
    kept = model.graph.output[index]
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(kept)
    del model.graph.output[:]
    model.graph.output.append(copy)


def _earlier_outputs(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Make an inner value the only output, where its type is declared by no one: as the inputs of the last node."""
    graph = model.graph
    if len(graph.output) != 1:
        return
    types = {v.name: v for v in _inferred(model)}
    last = next((n for n in graph.node if graph.output[0].name in n.output), None)
    for name in () if last is None else last.input:
        if name in types and any(name in n.output for n in graph.node):

            def change(m: onnx.ModelProto, name: str = name) -> None:
                m.graph.output[0].CopyFrom(types[name])

            yield _pruned(_changed(model, change))


def _inferred(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    try:
        return list(onnx.load_from_string(_INFERENCE.ask(model.SerializeToString())).graph.value_info)
    except ModelError:
        return []


def _infer_shapes(data: bytes) -> bytes:
    inferred: bytes = onnx.shape_inference.infer_shapes(onnx.load_from_string(data)).SerializeToString()
    return inferred


#: In a process of its own, as it crashes on some models.
_INFERENCE = Child(_infer_shapes)


def _bypass(model: onnx.ModelProto, index: int, name: str, source: str) -> None:
    """Delete a node, whose first output becomes one of its inputs."""
    del model.graph.node[index]
    _rename(model.graph, name, source)


def _rename(graph: onnx.GraphProto, name: str, source: str) -> None:
    for node in graph.node:
        for i, used in enumerate(node.input):
            if used == name:
                node.input[i] = source
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _rename(attribute.g, name, source)
    for output in graph.output:
        if output.name == name:
            output.name = source


def _smaller_body(model: onnx.ModelProto, i: int, j: int) -> Iterator[onnx.ModelProto]:
    body = model.graph.node[i].attribute[j].g
    for k in reversed(range(len(body.node))):
        name = body.node[k].output[0]
        for source in body.node[k].input[:2]:

            def change(m: onnx.ModelProto, k: int = k, name: str = name, source: str = source) -> None:
                inner = m.graph.node[i].attribute[j].g
                del inner.node[k]
                _rename(inner, name, source)

            if source and name not in {o.name for o in body.output}:
                yield _pruned(_changed(model, change))


def _as_inputs(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Make an inner value an input, so that what computes it goes."""
    types = {v.name: v for v in _inferred(model)}
    for i, node in enumerate(model.graph.node):
        known = [types[o] for o in node.output if o in types and types[o].type.tensor_type.HasField("shape")]
        fixed = [v for v in known if all(d.HasField("dim_value") for d in v.type.tensor_type.shape.dim)]
        if fixed and node.op_type != "Constant" and len(fixed) == len([o for o in node.output if o]):

            def change(m: onnx.ModelProto, i: int = i, fixed: list[onnx.ValueInfoProto] = fixed) -> None:
                del m.graph.node[i]
                m.graph.input.extend(fixed)

            yield _pruned(_changed(model, change))


def _pruned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what no output needs."""
    graph = model.graph
    needed = {o.name for o in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed.update(node.input)
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    needed.update(_used(attribute.g))
    nodes = kept[::-1]
    del graph.node[:]
    graph.node.extend(nodes)
    for part in (graph.initializer, graph.input):
        left = [item for item in part if item.name in needed]
        del part[:]
        part.extend(left)
    called = {(n.domain, n.op_type) for n in graph.node}
    functions = [f for f in model.functions if (f.domain, f.name) in called]
    del model.functions[:]
    model.functions.extend(functions)
    return model


def _used(graph: onnx.GraphProto) -> set[str]:
    found = {name for node in graph.node for name in node.input} | {o.name for o in graph.output}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found |= _used(attribute.g)
    return found
