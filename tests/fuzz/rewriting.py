"""Oracles of options, edit scripts, text forms and operators that nobody knows."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from google.protobuf import json_format, text_format

import onnx_workbench as ow
from onnx_workbench.model.analysis.node_subset import concerns, part_of
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.inference.infer import infer
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Graph, Model, Node
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.scripts import edit_script
from tests.fuzz.cases import Case, after_differs, errors_of, feeds_of, run
from tests.fuzz.generator import NEWEST, OLDEST, with_extremes


def refused(change: Callable[[], object]) -> bool:
    """Whether it says why not."""
    try:
        change()
    except ModelError:
        return True
    return False


def _symbols(case: Case) -> list[str]:
    inputs = case.proto.graph.input
    return sorted({d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim if d.dim_param})


# -- options of a conversion


def _stacks_nothing(case: Case) -> bool:
    """Whether a Loop may have no rounds: the sizes of what it stacks are those its body declares, 0 for a symbol."""
    outputs = {name for node in case.proto.graph.node for name in node.output if node.op_type == "Loop"}
    values = (result.values.get(name) for _, result in case.results for name in outputs)
    return any(isinstance(value, np.ndarray) and value.shape[:1] == (0,) for value in values)


def freezes(case: Case) -> str:
    """With numbers for symbols, the model computes the same where they had these."""
    symbols, model = _symbols(case), case.load()
    if not symbols or _stacks_nothing(case):
        return ""
    sizes = {name: size for name, size in case.sizes[0].items() if name in symbols and case.rng.random() < 0.7}
    if refused(lambda: ow.convert(model, freeze=sizes, checks=0)):
        return ""
    frozen = Case(case.proto, case.seed, case.sizes[:1])
    return after_differs(frozen, model)


def frees(case: Case) -> str:
    """With a name for a number, it computes the same, and at another size is what it declares, where it runs."""
    numbers = [
        (value.name, axis)
        for value in case.proto.graph.input
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.HasField("dim_value")
    ]
    model = case.load()
    if not numbers or _stacks_nothing(case):
        return ""
    name, axis = case.rng.choice(numbers)
    if refused(lambda: ow.convert(model, free=[f"{name}:{axis}=freed"], checks=0)):
        return ""
    if reported := after_differs(case, model):
        return reported
    data = to_bytes(model)
    proto = onnx.load_from_string(data)
    for size in (1, 2, 6):
        found, _why = run(data, feeds_of(proto, {**case.sizes[0], "freed": size}, case.rng))
        for output in proto.graph.output if found is not None else ():
            declared = [d.dim_value for d in output.type.tensor_type.shape.dim]
            shape = getattr(found[output.name], "shape", ())
            if len(shape) == len(declared) and any(a not in (0, b) for a, b in zip(declared, shape, strict=True)):
                return f"{output.name} declared {declared}, but of shape {shape} where the name is {size}"
    return ""


def strips_and_renames(case: Case) -> str:
    """Names, order and documentation are not what a model computes."""
    rng, model = case.rng, case.load()
    strip = rng.sample(("doc", "metadata", "producer", "types"), rng.randint(0, 4))
    rename = rng.sample(("nodes", "unnamed", "initializers", "values"), rng.randint(0, 4))
    ow.convert(model, strip=strip, rename=rename, sort=rng.random() < 0.5, checks=0)
    return after_differs(case, model)


def changes_some_nodes(case: Case) -> str:
    """With `nodes`, the others stay as they are, but for casts that lose their effect, and the model is as valid and
    computes the same.
    """
    rng, model = case.rng, case.load()
    nodes = [node for node in model.graph.nodes if rng.random() < 0.5]
    if not nodes:
        return ""
    may_go = {*nodes, *_casts_beside(nodes, model)}
    before = {node.name or id(node): node.op_type for node in model.graph.nodes if node not in may_go}
    if rng.random() < 0.5:
        ow.simplify(model, nodes=nodes, checks=0)
        return after_differs(case, model)
    if refused(lambda: ow.convert(model, precision="float16", nodes=nodes, keep=["inputs-outputs"], checks=0)):
        return ""
    after = {node.name or id(node): node.op_type for node in model.graph.nodes}
    lost = [op_type for key, op_type in before.items() if after.get(key) != op_type]
    if lost:
        return f"{lost[0]} is not among the nodes, but changed"
    if new := errors_of(ow.load(to_bytes(model))) - case.errors:
        return f"new problem: {min(new)}"
    for feeds, _expected in case.runs:
        found, why = run(to_bytes(model), feeds)
        if found is None:
            return f"does not run any more: {why}"
    return ""


def _casts_beside(nodes: list[Node], model: Model) -> Iterator[Node]:
    """Casts between float32 and float16 of what chosen nodes take and make."""
    types, part = infer(model), part_of(nodes)
    for node in model.graph.nodes:
        if node.op_type == "Cast" and not node.domain:
            ends = [v for v in (*node.inputs, *node.outputs) if v is not None]
            kinds = {getattr(types.type_of(v), "element_type", None) for v in ends}
            if kinds == {ElementType.FLOAT, ElementType.FLOAT16} and any(concerns(v, part) for v in ends):
                yield node


# -- operators of unknown type


def _hidden(case: Case) -> onnx.ModelProto:
    """The model with some of its operators in a domain that nobody knows."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    rng = case.rng
    chosen = [n for n in proto.graph.node if not n.domain and n.op_type != "Constant" and rng.random() < 0.2]
    for node in chosen:
        node.domain = "unknown"
    if chosen:
        proto.opset_import.append(onnx.helper.make_opsetid("unknown", 1))
    return proto


def _shown(model: Model) -> Model:
    """The model with these operators where they belong."""
    proto = onnx.load_from_string(to_bytes(model))
    for node in proto.graph.node:
        if node.domain == "unknown":
            node.domain = ""
    return ow.load(proto.SerializeToString())


def keeps_unknown_operators(case: Case) -> str:
    """What is done around operators that nobody knows holds when they turn out to be known."""
    rng, model = case.rng, ow.load(_hidden(case).SerializeToString())
    change = rng.choice(("simplify", "infer", "precision", "inline", "sort"))
    match change:
        case "simplify":
            ow.simplify(model, checks=0)
        case "infer":
            ow.infer(model)
        case "precision":
            if refused(lambda: ow.convert(model, precision="float16", keep=["inputs-outputs"], checks=0)):
                return ""
            known = _shown(model)
            if new := errors_of(known) - case.errors:
                return f"precision: new problem: {min(new)}"
            found = [(run(to_bytes(known), feeds), feeds) for feeds, _ in case.runs]
            return next((f"precision: does not run any more: {why}" for (out, why), _ in found if out is None), "")
        case "inline":
            if refused(lambda: ow.convert(model, functions="inline", checks=0)):
                return ""
        case "sort":
            ow.convert(model, sort=True, rename=["nodes", "values"], checks=0)
    reported = after_differs(case, _shown(model))
    return f"{change}: {reported}" if reported else ""


# -- edits


def _edits(rng: random.Random, document: Document) -> None:
    """Some edits as a user makes them; what is refused changes nothing."""
    for _ in range(rng.randint(1, 8)):
        graph: Graph = document.model.graph
        nodes, values = list(graph.nodes), [v for v in graph.values() if v.name]
        if not nodes:
            return
        node, value = rng.choice(nodes), rng.choice(values)
        changes: list[Callable[[Any], object]] = [
            lambda edit, n=node: ow.edits.delete(edit, [n]),
            lambda edit, n=node: ow.edits.delete_and_bridge(edit, [n]),
            lambda edit, n=node: ow.edits.duplicate(edit, [n]),
            lambda edit, n=node: ow.edits.rename_node(edit, n, rng.choice(("renamed", "ß", "a b"))),
            lambda edit, v=value: ow.edits.rename_value(edit, v, f"value_{rng.randint(0, 9)}"),
            lambda edit, g=graph, v=value: ow.edits.add_node(edit, g, rng.choice(("Relu", "Neg", "NoSuch")), [v]),
            lambda edit, n=node: ow.edits.change_operator(edit, n, "Identity"),
            lambda edit, g=graph, v=value: ow.edits.add_output(edit, g, v),
            lambda edit: ow.edits.set_opset(edit, document.model, "", rng.randint(OLDEST, NEWEST)),
            lambda edit: ow.edits.set_metadata(edit, document.model, "key", "å"),
        ]
        change = rng.choice(changes)

        def apply(change: Callable[[Any], object] = change) -> None:
            with document.edit("Edit") as edit:
                change(edit)

        refused(apply)


def replays_scripts(case: Case) -> str:
    """The script of some edits makes the same model of another copy; one that was damaged is refused or does less."""
    rng = case.rng
    document = Document(case.load())
    _edits(rng, document)
    script = edit_script.export(document)
    again = Document(case.load())
    edit_script.replay(again, script)
    if changed := ow.diff(document, again).differences:
        return f"replayed, it is another model: {changed[0]}"
    again = Document(case.load())
    before = to_bytes(again.model)
    if refused(lambda: edit_script.replay(again, _damaged(rng, script))) and to_bytes(again.model) != before:
        return "a script that was refused changed the model"
    return ""


def _damaged(rng: random.Random, script: str) -> str:
    """The script with one place changed: a value of another kind, another name, or a line twice."""
    lines = script.splitlines()
    place = rng.randrange(len(lines))
    how = rng.choice(("value", "twice", "cut", "swap"))
    line = lines[place]
    if how == "value":
        words = [w for w in ('"', "null", "1", "[", "{", "true") if w in line]
        word = rng.choice(words)
        lines[place] = line.replace(word, rng.choice(("0", "null", '"x"', "[]", "{}", "-1", "1e999")), 1)
    elif how == "cut":
        lines[place] = line[: rng.randrange(len(line))]
    elif how == "twice":
        lines.insert(place, line)
    else:
        lines[place], lines[-1] = lines[-1], lines[place]
    return "\n".join(lines)


# -- text forms


def _extreme(case: Case) -> bytes:
    """The model with the largest, smallest and special numbers of their types in its tensors and attributes."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    rng = case.rng
    attributes = [a for node in proto.graph.node for a in node.attribute]
    for tensor in (*proto.graph.initializer, *(a.t for a in attributes if a.type == onnx.AttributeProto.TENSOR)):
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype.kind in "iuf" and rng.random() < 0.5:
            tensor.CopyFrom(onnx.numpy_helper.from_array(with_extremes(rng, array), tensor.name))
    for attribute in attributes:
        if attribute.type == onnx.AttributeProto.FLOAT and rng.random() < 0.5:
            attribute.f = float(with_extremes(rng, np.zeros(1, np.float32))[0])
        if attribute.type == onnx.AttributeProto.INT and rng.random() < 0.1:
            attribute.i = int(with_extremes(rng, np.zeros(1, np.int64))[0])
    return proto.SerializeToString()


def is_read_by_others(case: Case) -> str:
    """The text forms that are written hold the same model when we read them, and when onnx and protobuf do."""
    data = _extreme(case)
    with tempfile.TemporaryDirectory() as folder:
        for suffix, read in (
            (".textproto", lambda t: text_format.Parse(t, onnx.ModelProto())),
            (".json", lambda t: json_format.Parse(t, onnx.ModelProto())),
        ):
            path = Path(folder) / f"model{suffix}"
            ow.save(ow.load(data), path)
            if changed := ow.diff(ow.load(data), ow.load(path)).differences:
                return f"{suffix}, read by us: {changed[0]}"
            try:
                proto = read(path.read_text("utf-8"))
            except (text_format.ParseError, json_format.ParseError) as error:
                return f"{suffix}: {error}"
            if changed := ow.diff(ow.load(data), ow.load(proto.SerializeToString())).differences:
                return f"{suffix}: {changed[0]}"
        path = Path(folder) / "model.onnxtxt"
        try:
            ow.save(ow.load(data), path)
        except ModelError as error:
            # onnx's printer writes "..." for the raw data of some types, such as uint4, which its parser refuses.
            return "" if "`..." in error.detail else f".onnxtxt: {error}"
        if changed := ow.diff(ow.load(data), ow.load(path)).differences:
            return f".onnxtxt: {changed[0]}"
    return ""
