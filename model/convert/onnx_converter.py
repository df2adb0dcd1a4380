"""Opset conversion node by node with onnx's version converter.

Each node is converted in a separate model with the types of its inputs and small constants, so that neither weights nor
the rest of the model pass through it. The result replaces the node.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from onnx_workbench.model.convert.function_bodies import call_message
from onnx_workbench.model.convert.node_editor import NodeEditor
from onnx_workbench.model.edits.functions import replace_by_body
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.protobuf import DecodeError, ModelProto
from onnx_workbench.model.io.writer.encode import write_type
from onnx_workbench.model.ir.graph import Function, Model, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.sandbox import GIB, run_isolated

_LARGEST = 1024  # most bytes of a constant that is included
_SECONDS = 30
_IR_VERSION = 10

#: How the outputs of the second model differ from those of the first; empty if they do not, or it is unknown.
Differ = Callable[[Model, Model], str]


class OnnxConverter:
    """onnx's version converter to one version, with a cache for equal nodes: models repeat most of them.

    ModelErrors describe what it did, as "it". Starts child processes and waits for them.
    """

    def __init__(self, version: int, differ: Differ | None = None, progress: Progress = SILENT) -> None:
        self._version = version
        self._differ = differ
        self._progress = progress
        self._answers: dict[bytes, Function | ModelError] = {}

    def prepare(self, nodes: Iterable[NodeEditor], current: int) -> None:
        """Convert nodes of a version in one child process, as starting one takes longer than converting many."""
        given: dict[bytes, None] = {}
        for editor in nodes:
            with suppress(ModelError):  # raised again when the node itself is converted
                given[_model(editor, current)] = None
        self._convert_in_child([message for message in given if message not in self._answers])

    def convert(self, editor: NodeEditor, current: int) -> list[Node]:
        """Replace a node by its conversion; returns the new nodes, of the other version.

        ModelError where the converter refuses, crashes, times out, changes the outputs, or leaves the node as it is.
        """
        given = _model(editor, current)
        if given not in self._answers:
            self._convert_in_child([given])
        found = self._answers[given]
        if isinstance(found, ModelError):
            raise ModelError(found.title, found.detail)
        node = editor.node
        copies = replace_by_body(editor.edit, editor.graph, node, found)
        heir = next((copy for copy in copies if copy.op_type == node.op_type), None)
        if heir is not None:
            for field in ("name", "doc_string", "metadata"):
                editor.edit.do(SetField(heir, field, getattr(node, field)))
        editor.report.changed(f"{node.op_type} was converted by onnx's version converter", heir or editor.graph)
        return copies

    def _convert_in_child(self, given: Sequence[bytes]) -> None:
        """Convert in a child process; a crash is located by bisection."""
        if not given:
            return
        try:
            answers = _converted(given, self._version, self._progress)
        except ModelError as error:
            if len(given) == 1:
                self._answers[given[0]] = error
            else:
                middle = len(given) // 2
                self._convert_in_child(given[:middle])
                self._convert_in_child(given[middle:])
            return
        for asked, answer in zip(given, answers, strict=True):
            self._progress.check()
            try:
                self._answers[asked] = self._read(ModelProto.FromString(asked), answer)
            except ModelError as error:
                self._answers[asked] = error

    def _read(self, given: Any, answer: bytes | ModelError) -> Function:
        from onnx_workbench.model.io.reader.read import load

        if isinstance(answer, ModelError):
            raise answer
        try:
            found = ModelProto.FromString(answer)
        except DecodeError as error:
            raise ModelError("its result cannot be read", str(error)) from None
        if list(found.graph.node) == list(given.graph.node):
            raise ModelError("it does not change the node")
        function = _function(found, given)
        differs = "" if self._differ is None else self._differ(load(given.SerializeToString()), load(answer))
        if differs:
            raise ModelError("its outputs differ", differs)
        return function


def _converted(given: Sequence[bytes], version: int, progress: Progress) -> list[bytes | ModelError]:
    """Return the result for each model; ModelError where the child process did not finish."""
    reply = run_isolated(
        "onnx_workbench.model.convert.converter_child:run",
        json.dumps([version, [b64encode(model).decode() for model in given]]).encode(),
        what="it",
        memory=2 * GIB,
        seconds=_SECONDS,
        progress=progress,
    )
    return [b64decode(a["model"]) if "model" in a else _refusal(a["refused"]) for a in json.loads(reply)]


def _refusal(reason: str) -> ModelError:
    """Return an error message of onnx without its source location."""
    return ModelError("it rejects the node", reason.rpartition("failed: ")[2])


def _model(editor: NodeEditor, current: int) -> bytes:
    """Return the node as a model with inputs i0, i1 …, and outputs o0 …. ModelError where that is impossible."""
    from onnx import numpy_helper

    if editor.node.bodies:
        raise ModelError("it does not convert bodies")
    model = ModelProto(ir_version=_IR_VERSION)
    model.opset_import.add(domain="", version=current)
    model.graph.name = "node"
    model.graph.node.append(call_message(editor))
    for index, value in enumerate(editor.node.inputs):
        constant = editor.constant_or_none(index) if value is not None else None
        if constant is not None and constant.nbytes <= _LARGEST:
            model.graph.initializer.append(numpy_helper.from_array(constant, f"i{index}"))
        elif value is not None:
            _declare(model.graph.input.add(name=f"i{index}"), editor, value)
    for index, value in enumerate(editor.node.outputs):
        if value is not None:
            _declare(model.graph.output.add(name=f"o{index}"), editor, value)
    return bytes(model.SerializeToString(deterministic=True))


def _declare(declaration: Any, editor: NodeEditor, value: Value) -> None:
    kind = editor.conversion.type_of(value)
    if kind is not None:
        write_type(declaration.type, kind)


def _function(found: Any, given: Any) -> Function:
    """Return the converted model as a function of all inputs of the node; new constants become nodes in it."""
    from onnx_workbench.model.io.reader.read import load

    (node,) = given.graph.node
    made = ModelProto(ir_version=_IR_VERSION, graph={"name": "empty"})
    function = made.functions.add(name="converted", domain="converted")
    function.opset_import.extend(found.opset_import)
    function.input.extend(name or f"none{index}" for index, name in enumerate(node.input))
    function.output.extend(name or f"left{index}" for index, name in enumerate(node.output))
    for tensor in found.graph.initializer:
        if tensor.name not in function.input:
            constant = function.node.add(op_type="Constant", output=[tensor.name])
            constant.attribute.add(name="value", type="TENSOR").t.CopyFrom(tensor)
    function.node.extend(found.graph.node)
    missing = {o.name for o in given.graph.output} - {name for n in function.node for name in n.output}
    if missing:
        raise ModelError("it lost an output")
    (read,) = load(made.SerializeToString()).functions
    return read
