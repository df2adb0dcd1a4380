"""Small models for tests, made from ONNX text so that a reader sees what is meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import onnx.parser

from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.steps import Step
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.ir.graph import Graph, Model, Node, Value

T = TypeVar("T")

#: Of texts that begin with their graph.
HEADER = '<ir_version: 10, opset_import: ["" : 21]>'

CHAIN = """
chain (float[N, 4] x, float[4] unused) => (float[N, 4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] b = {0.5, 0.5, 0.5, 0.5}>
{
    [first] a = Mul (x, w)
    [second] r = Relu (a)
    [third] c = Add (r, b)
    [fourth] y = Softmax <axis: int = 1> (c)
}
"""

BRANCHES = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
branches (float[4] x, bool flag) => (float[4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}>
{
    [double] d = Add (x, x)
    [choose] z = If (flag) <
        then_branch: graph = yes () => (float[4] yes_out) { [inner] yes_out = Mul (d, w) },
        else_branch: graph = no () => (float[4] no_out) { no_out = Neg (x) }
    >
    [call] y = local.scale <factor: float = 2.0> (z)
}
<domain: "local", opset_import: ["" : 21]>
scale <factor> (v) => (o)
{
    f = Constant <value_float: float = @factor> ()
    o = Mul (v, f)
}
"""

#: Of training, for either of them.
STEP = """
step () => (float[4] w_new)
<float rate = {0.1}>
{
    [loss] s = ReduceMean <keepdims: int = 0> (y)
    [scaled] t = Mul (s, rate)
    [update] w_new = Sub (w, t)
}
"""


def proto(text: str = CHAIN) -> onnx.ModelProto:
    """The message of ONNX text; without a header it is of operator set 21."""
    return onnx.parser.parse_model(text if text.lstrip().startswith("<") else f"{HEADER} {text}")


def model_file(path: Path, text: str = CHAIN) -> Path:
    """Write ONNX text as a model to a file; the path."""
    path.write_bytes(proto(text).SerializeToString())
    return path


def model(text: str = CHAIN, *, trained: bool = False) -> Model:
    """A model from ONNX text, by way of its bytes; with training that uses what it computes and sets its weight.

    One without a domain gets one, so that rules have nothing to say of what a test does not mean.
    """
    message = proto(text)
    message.domain = message.domain or "org.example"
    if trained:
        step = message.training_info.add()
        step.algorithm.CopyFrom(onnx.parser.parse_graph(STEP))
        step.update_binding.add(key="w", value="w_new")
    return load(message.SerializeToString())


def document(text: str = CHAIN, *, trained: bool = False) -> Document:
    """A document of that model."""
    return Document(model(text, trained=trained))


def node(owner: Document | Model, name: str) -> Node:
    """The node of a name, wherever it is."""
    return next(n for g in _model(owner).graphs() for n in g.nodes if n.name == name)


def do(document: Document, *steps: Step) -> None:
    """Do steps as one edit, whatever its title."""
    with document.edit("Edit") as edit:
        for step in steps:
            edit.do(step)


def one_edit(document: Document, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Do one edit, whatever its title; what the function returns: `one_edit(document, rename_node, node, "other")`."""
    with document.edit("Edit") as edit:
        return function(edit, *arguments, **options)


def value(owner: Document | Model, name: str) -> Value:
    """The value of a name, wherever it is."""
    return next(v for g in _model(owner).graphs() for v in g.values() if v.name == name)


def graph(owner: Document | Model, name: str) -> Graph:
    """The graph of a name, wherever it is."""
    return next(g for g in _model(owner).graphs() if g.name == name)


def _model(owner: Document | Model) -> Model:
    return owner.model if isinstance(owner, Document) else owner
