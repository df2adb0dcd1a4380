"""The edit functions of the Python API: each takes the `edit` of a ``with document.edit(title) as edit`` block.

What the block does is one entry of the document's history, which undo takes back; when it raises, nothing is changed.

    import onnx_workbench as ow

    document = ow.Document(ow.load("model.onnx"))
    with document.edit("Rename the first input") as edit:
        ow.edits.rename_value(edit, document.model.graph.inputs[0], "image")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx_workbench.model.edits import initializers, interface
from onnx_workbench.model.edits.apply_difference import apply_difference, apply_differences
from onnx_workbench.model.edits.attributes import (
    describe_attribute,
    refer_to_function_attribute,
    remove_attribute,
    rename_attribute,
    set_attribute,
)
from onnx_workbench.model.edits.constants import (
    add_constant,
    set_default_values,
)
from onnx_workbench.model.edits.copy_paste import (
    merge,
    paste,
)
from onnx_workbench.model.edits.declare_types import declare, declare_all
from onnx_workbench.model.edits.devices import (
    remove_configuration,
    rename_configuration,
)
from onnx_workbench.model.edits.find_replace import (
    replace_all,
)
from onnx_workbench.model.edits.functions import (
    add_function,
    call_instead,
    extract_function,
    inline_all,
    inline_call,
    inline_calls,
    remove_function,
    remove_functions,
    rename_function,
    replace_by_body,
    set_signature,
)
from onnx_workbench.model.edits.initializers import (
    constant_to_initializer,
    constants_to_initializers,
    initializer_to_constant,
    initializers_to_constants,
    remove_initializer,
)
from onnx_workbench.model.edits.interface import (
    add_input,
    initializer_to_input,
    initializers_to_inputs,
    input_to_initializer_only,
    inputs_to_initializers_only,
    redirect_output,
    remove_input,
    remove_inputs,
    remove_output,
    remove_outputs,
    remove_unused_inputs,
    remove_values,
    reorder_inputs,
    reorder_outputs,
    set_batch,
    set_dimension,
    substitute_dimensions,
)
from onnx_workbench.model.edits.names import (
    regenerate_initializer_names,
    regenerate_node_names,
    regenerate_value_names,
)
from onnx_workbench.model.edits.nodes import (
    add_node,
    bridge,
    change_operator,
    delete,
    delete_and_bridge,
    drop_output,
    drop_unused_constants,
    duplicate,
    import_operators,
    insert_on_edge,
    move_before,
    produce_output,
    rename_node,
    replace_uses,
    set_device_configurations,
    set_output_count,
    sort_nodes,
)
from onnx_workbench.model.edits.properties import (
    add_training,
    remove_documentation,
    remove_training,
    rename_metadata,
    set_bindings,
    set_configurations,
    set_ir_version,
    set_metadata,
    set_model_version,
    set_opset,
    set_quantization_annotations,
    set_text,
    set_training_graph,
)
from onnx_workbench.model.edits.subgraph_interface import (
    add_body_inputs,
    add_body_outputs,
    remove_body_inputs,
    remove_body_outputs,
    return_all_carried,
    take_all,
)
from onnx_workbench.model.edits.tensor_metadata import (
    describe_tensor,
    rename_tensor_metadata,
    set_tensor_metadata,
    set_tensor_name,
)
from onnx_workbench.model.edits.values import (
    connect,
    disconnect,
    disconnect_inputs,
    ensure_order,
    rename_value,
    set_type,
    set_types,
    update_name_references,
    update_sharding_names,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from onnx_workbench.model.history.document import Transaction
    from onnx_workbench.model.ir.graph import Graph, Node, Value
    from onnx_workbench.model.ir.tensors import SparseTensor, Tensor

__all__ = [
    "add_body_inputs",
    "add_body_outputs",
    "add_constant",
    "add_function",
    "add_initializer",
    "add_input",
    "add_node",
    "add_output",
    "add_outputs",
    "add_training",
    "apply_difference",
    "apply_differences",
    "bridge",
    "call_instead",
    "change_operator",
    "connect",
    "constant_to_initializer",
    "constants_to_initializers",
    "declare",
    "declare_all",
    "define_constant",
    "delete",
    "delete_and_bridge",
    "describe_attribute",
    "describe_tensor",
    "disconnect",
    "disconnect_inputs",
    "drop_output",
    "drop_unused_constants",
    "duplicate",
    "ensure_order",
    "extract_function",
    "import_operators",
    "initializer_to_constant",
    "initializer_to_input",
    "initializers_to_constants",
    "initializers_to_inputs",
    "inline_all",
    "inline_call",
    "inline_calls",
    "input_to_initializer_only",
    "inputs_to_initializers_only",
    "insert_on_edge",
    "merge",
    "move_before",
    "paste",
    "produce_output",
    "redirect_output",
    "refer_to_function_attribute",
    "regenerate_initializer_names",
    "regenerate_node_names",
    "regenerate_value_names",
    "remove_attribute",
    "remove_body_inputs",
    "remove_body_outputs",
    "remove_configuration",
    "remove_documentation",
    "remove_function",
    "remove_functions",
    "remove_initializer",
    "remove_input",
    "remove_inputs",
    "remove_output",
    "remove_outputs",
    "remove_training",
    "remove_unused_inputs",
    "remove_values",
    "rename_attribute",
    "rename_configuration",
    "rename_function",
    "rename_metadata",
    "rename_node",
    "rename_tensor_metadata",
    "rename_value",
    "reorder_inputs",
    "reorder_outputs",
    "replace_all",
    "replace_by_body",
    "replace_uses",
    "return_all_carried",
    "set_attribute",
    "set_batch",
    "set_bindings",
    "set_configurations",
    "set_constant_tensor",
    "set_default_values",
    "set_device_configurations",
    "set_dimension",
    "set_ir_version",
    "set_metadata",
    "set_model_version",
    "set_opset",
    "set_output_count",
    "set_quantization_annotations",
    "set_signature",
    "set_tensor",
    "set_tensor_metadata",
    "set_tensor_name",
    "set_text",
    "set_training_graph",
    "set_type",
    "set_types",
    "sort_nodes",
    "substitute_dimensions",
    "take_all",
    "update_name_references",
    "update_sharding_names",
]


def add_output(edit: Transaction, graph: Graph, value: Value) -> None:
    """Make a value a graph output, of its inferred type where none is declared; for a subgraph its node gets an output
    too.
    """
    add_outputs(edit, graph, [value])


def add_outputs(edit: Transaction, graph: Graph, values: Sequence[Value]) -> None:
    """Make values graph outputs, of their inferred types where none are declared."""
    from onnx_workbench.model.analysis.value_types import declared_type
    from onnx_workbench.model.edits.declare_types import is_shapeless
    from onnx_workbench.model.inference.infer import infer
    from onnx_workbench.model.ir.graph import Function

    lacking = [value for value in values if declared_type(value) is None or is_shapeless(value.type)]
    is_called = isinstance(graph.owner, Function)  # types are those of each call
    type_of = infer(edit.model).type_of if lacking and not is_called else declared_type
    types = {value: found for value in values if (found := type_of(value)) is not None}
    interface.add_outputs(edit, graph, values)
    for value, found in types.items():
        if not is_called and (value.type is None or is_shapeless(value.type)):
            declare(edit, value, found)


def add_initializer(edit: Transaction, graph: Graph, tensor: Tensor | ArrayLike, name: str = "") -> Value:
    """Add a new initializer, a tensor or an array; returns its value."""
    return initializers.add_initializer(edit, graph, _dense(tensor), name)


def define_constant(edit: Transaction, graph: Graph, value: Value, tensor: Tensor | SparseTensor | ArrayLike) -> None:
    """Make a value of the graph that has no producer a constant: an initializer, or in a function a Constant."""
    initializers.define_constant(edit, graph, value, _tensor(tensor))


def set_tensor(edit: Transaction, value: Value, tensor: Tensor | SparseTensor | ArrayLike) -> None:
    """Replace the tensor of an initializer by a tensor or array; its declared type follows if it no longer fits."""
    initializers.set_tensor(edit, value, _tensor(tensor))


def set_constant_tensor(edit: Transaction, node: Node, tensor: Tensor | SparseTensor | ArrayLike) -> None:
    """Replace the values of a Constant node by a tensor or array."""
    initializers.set_constant_tensor(edit, node, _tensor(tensor))


def _tensor(content: Tensor | SparseTensor | ArrayLike) -> Tensor | SparseTensor:
    from onnx_workbench.model.ir.tensors import SparseTensor

    return content if isinstance(content, SparseTensor) else _dense(content)


def _dense(content: Tensor | ArrayLike) -> Tensor:
    """The tensor of an array, which is copied: it may be changed later."""
    import numpy as np

    from onnx_workbench.model.ir.tensors import ArrayTensor, Tensor

    if isinstance(content, Tensor):
        return content
    try:
        array = np.array(content)
        if array.dtype.kind in "US":
            array = array.astype(object)
        if array.dtype.kind == "O" and not all(isinstance(element, (str, bytes)) for element in array.flat):
            raise TypeError(f"{content!r:.200} is no tensor: not all elements are strings, nor all numbers")
        return ArrayTensor(array)
    except ValueError as error:
        raise TypeError(f"{content!r:.200} is no tensor: {error}") from None
