"""Root message of a file: a model, or a lone graph, function, node or tensor."""

from __future__ import annotations

from onnx_workbench.model.ir.graph import Model
from onnx_workbench.model.ir.tensors import SparseTensor


def message_of(model: Model) -> str:
    """Return the root message type of a model: the one of its file as long as that can hold it. Constant time."""
    was = str(model.source.format.message) if model.source is not None else "ModelProto"
    if model.training_info or model.configurations or model.metadata or model.doc_string:
        return "ModelProto"
    graph, has_envelope = model.graph, bool(model.functions or model.opset_imports)
    constants = [value.initializer for value in graph.initializers] if len(graph.initializers) < 2 else []
    match was:
        case "GraphProto":
            fits = not has_envelope
        case "FunctionProto":
            holds = len(graph.nodes) or graph.initializers or graph.inputs or graph.outputs
            fits = len(model.functions) == 1 and not holds
        case "NodeProto":
            fits = not has_envelope and len(graph.nodes) == 1 and not graph.initializers
        case "TensorProto":
            fits = not has_envelope and not len(graph.nodes) and len(constants) == 1
            fits = fits and not isinstance(constants[0], SparseTensor)
        case _:
            fits = False
    return was if fits else "ModelProto"
