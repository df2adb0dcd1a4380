"""Graph rewriting: add nodes and constants, replace values and nodes, and remove the code that becomes dead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis.constants import ProtectedValues
from onnx_workbench.model.analysis.scoping import dependencies, followers_before
from onnx_workbench.model.edits.fresh_names import FreshNames
from onnx_workbench.model.edits.initializers import INITIALIZERS_ALONE_SINCE
from onnx_workbench.model.edits.inlining import insert_body, take_out
from onnx_workbench.model.edits.nodes import import_operators
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    InsertNode,
    MoveUses,
    RemoveNode,
    SetAttribute,
    SetField,
    SetInitializer,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import Attribute, make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, TensorType

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Before this operator set, Cast names the element type, such as FLOAT16.
_TO_IS_A_NUMBER_SINCE = 6


class RewriteObserver:
    """Callbacks after each change of a GraphRewriter, to update facts about the graph; these do nothing."""

    def node_added(self, node: Node) -> None:
        """Handle the insertion of a node, with its subgraphs."""

    def node_removed(self, node: Node) -> None:
        """Handle a node that is about to be removed, with its subgraphs."""

    def constant_added(self, value: Value, tensor: Tensor) -> None:
        """Handle a value that became constant."""

    def value_replaced(self, old: Value, new: Value) -> None:
        """Handle uses of a value that became uses of another one with the same contents."""


class GraphRewriter:
    """Changes of the graphs of a model within one edit. Call `finish` after the last removal.

    New names are free ones. An array given as an input becomes a constant. Objects that lose their last use are
    removed, unless they are protected or assigned to devices.
    """

    def __init__(
        self,
        edit: Transaction,
        *,
        names: FreshNames | None = None,
        protected: ProtectedValues | None = None,
        observer: RewriteObserver | None = None,
    ) -> None:
        self.edit = edit
        self.names = names or FreshNames()
        self._protected = protected or ProtectedValues(edit.model)
        self._observer = observer or RewriteObserver()
        self._dropped: dict[Graph, set[Value]] = {}

    # -- adding --------------------------------------------------------------------------------------------------

    def add_node(
        self,
        graph: Graph,
        op_type: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        before: Node | None = None,
        outputs: Sequence[Value | None] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Node:
        """Insert an ai.onnx node, by default at the end of the graph.

        `attributes` are Attributes or Python values. `outputs` None: one new value. An output of another node is
        taken over from it.
        """
        given = tuple(self._input(graph, v, name or op_type, before) for v in inputs)
        name = self.names.node(graph, name or op_type)
        made = [Value(self.names.value(graph, f"{name}_output_0"))] if outputs is None else outputs
        for value in made:
            if value is not None and value.producer is not None:
                self.release_output(value, f"{value.name}_before")
        kept = {k: v if isinstance(v, Attribute) else make_attribute(k, v) for k, v in (attributes or {}).items()}
        node = Node(op_type, given, tuple(made), name=name, attributes=kept)
        import_operators(self.edit, graph)
        self.insert(graph, [node], before)
        if metadata:
            self.edit.do(SetField(node, "metadata", metadata))
        return node

    def add_like(
        self,
        like: Node,
        op_type: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        *,
        before: Node | None = None,
        outputs: Sequence[Value | None] | None = None,
    ) -> Value:
        """Insert a node named and annotated like another one, by default before it; returns its first output."""
        before = before or like
        assert before.graph is not None
        node = self.add_node(
            before.graph, op_type, inputs, attributes,
            name=like.name, before=before, outputs=outputs, metadata=like.metadata,
        )  # fmt: skip
        first = node.outputs[0]
        assert first is not None
        return first

    def replace_node(
        self,
        node: Node,
        op_type: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        *,
        like: Node | None = None,
    ) -> None:
        """Replace a node by one that makes its first output; it is named like `like`, by default like the old one."""
        self.add_like(like or node, op_type, inputs, attributes, before=node, outputs=node.outputs[:1])
        self.collect([node])

    def replace_nodes(
        self,
        nodes: Sequence[Node],
        function: Function,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attributes: Mapping[str, Attribute],
    ) -> list[Node]:
        """Replace nodes of a graph by those of an equivalent function, whose opsets the graph imports.

        The new nodes take the position of the last one; nodes before it that use the outputs move behind it.
        """
        graph = nodes[0].graph
        assert graph is not None
        last = max(nodes, key=graph.nodes.place)
        moved = sorted(followers_before(last, set(nodes)), key=graph.nodes.place)
        for node in nodes:
            self._observer.node_removed(node)
        following = take_out(self.edit, graph, nodes, outputs)
        call = Node(
            function.name, tuple(inputs), tuple(outputs), name=last.name or function.name, attributes=attributes
        )
        copies = insert_body(self.edit, graph, call, outputs, function, following, self.names)
        for node in moved:
            self.edit.do(RemoveNode(node))
            self.edit.do(InsertNode(graph, node, following))
        for node in copies:
            self._observer.node_added(node)
        return copies

    def cast(self, value: Value, element_type: ElementType, graph: Graph) -> Value:
        """Return a value cast to another element type, by a new Cast behind its producer.

        `graph` gets the Cast if the value belongs to no graph.
        """
        home = value.graph if value.graph is not None else graph
        title = f"{value.name}_{element_type.text}"
        output = Value(self.names.value(home, title))
        following = value.producer.next if value.producer is not None else home.nodes.first
        self.add_cast(home, value, element_type, output, before=following)
        return output

    def add_cast(
        self, graph: Graph, value: Value, element_type: ElementType, output: Value, *, before: Node | None
    ) -> Node:
        """Insert a Cast named and annotated after the node it serves: the value's producer, else its first consumer.

        So it is shown in the group of that node.
        """
        served = value.producer or next(iter(value.consumers), None)
        name = served.name if served is not None and served.name else value.name
        is_named = graph.opset_imports.get("", _TO_IS_A_NUMBER_SINCE) < _TO_IS_A_NUMBER_SINCE
        to = element_type.name if is_named else int(element_type)
        if is_named and output.type is None:  # inferred by no schema: ONNX Runtime wants it declared
            shape = value.type.shape if isinstance(value.type, TensorType) else None
            self.edit.do(SetField(output, "type", TensorType(element_type, shape)))
        return self.add_node(
            graph, "Cast", [value], {"to": to}, name=f"{name}_cast", before=before, outputs=[output],
            metadata=served.metadata if served is not None else None,
        )  # fmt: skip

    def insert(self, graph: Graph, nodes: Iterable[Node], before: Node | None) -> None:
        """Insert nodes that are in no graph yet, such as those of a cloner."""
        for node in nodes:
            self.edit.do(InsertNode(graph, node, before))
            self._observer.node_added(node)

    # -- constants -----------------------------------------------------------------------------------------------

    def constant(self, graph: Graph, content: NDArray[Any] | Tensor, name: str, before: Node | None) -> Value:
        """Return a new constant: an initializer, or a Constant node where the graph cannot have new initializers."""
        value = Value(self.names.value(graph, name))
        self.define_constant(graph, value, content if isinstance(content, Tensor) else ArrayTensor(content), before)
        return value

    def define_constant(self, graph: Graph, value: Value, tensor: Tensor | SparseTensor, before: Node | None) -> None:
        """Make a value that has no producer constant, as `constant` does. A sparse one becomes an initializer."""
        owner = graph.root.owner
        in_old_file = isinstance(owner, Model) and owner.ir_version < INITIALIZERS_ALONE_SINCE
        if isinstance(tensor, Tensor) and (isinstance(owner, Function) or in_old_file):
            self._add_constant_node(graph, value, tensor, f"Constant_{value.name}", before)
            return
        self.edit.do(SetInitializer(graph, value, tensor))
        if isinstance(tensor, Tensor):
            self._observer.constant_added(value, tensor)

    def copy_constants(self, body: Graph, node: Node) -> dict[Value, Value | None]:
        """Copy the initializers of a body to before its node; returns the copies by what they are copies of."""
        assert node.graph is not None
        copies: dict[Value, Value | None] = {}
        for value in body.initializers:
            copy, tensor = self.names.cloner(node.graph, {}).value(value), value.initializer
            assert tensor is not None
            copy.initializer = None
            self.define_constant(node.graph, copy, tensor, node)
            copies[value] = copy
        return copies

    def _add_constant_node(self, graph: Graph, value: Value, tensor: Tensor, name: str, before: Node | None) -> None:
        self.add_node(graph, "Constant", (), {"value": tensor}, name=name, before=before, outputs=[value])
        self._observer.constant_added(value, tensor)

    def _input(self, graph: Graph, given: Any, user: str, before: Node | None) -> Value | None:
        if given is None or isinstance(given, Value):
            return given
        return self.constant(graph, given, f"{user}_constant", before)

    def fold(self, node: Node, tensors: Sequence[Tensor | None]) -> None:
        """Replace a node by constants; unused outputs need none. Dead producers are removed."""
        graph, following = node.graph, node.next
        assert graph is not None
        outputs, needed = node.outputs, list(dependencies(node))
        self._remove(node)
        for value, tensor in zip(outputs, tensors, strict=False):
            if value is None or tensor is None or not value.uses:
                continue
            if value.is_output:  # a graph cannot return an initializer
                self._add_constant_node(graph, value, tensor, node.name or "Constant", following)
            else:
                self.define_constant(graph, value, tensor, following)
        self.collect_values(needed)

    # -- changing ------------------------------------------------------------------------------------------------

    def replace_value(self, old: Value, new: Value) -> None:
        """Replace every use of `old` by `new`, and remove dead code.

        A graph output stays the same value: then it gets the producer of `new`, which must have one in its graph.
        """
        producer = old.producer
        if old.is_output:
            source = new.producer
            assert source is not None
            if producer is not None:
                self.release_output(old, f"{old.name}_before")
            self.edit.do(SetOutputs(source, tuple(old if v is new else v for v in source.outputs)))
            self.redirect(new, old)
            self._drop(new)
        else:
            self.redirect(old, new)
            self._observer.value_replaced(old, new)
        if producer is not None:
            self.collect([producer])

    def redirect(self, old: Value, new: Value, *, graph_outputs: bool = True) -> None:
        """Replace the uses of `old` by `new`, and nothing else."""
        uses = tuple(use for use in old.uses if graph_outputs or isinstance(use[0], Node))
        self.edit.do(MoveUses(old, new, uses))

    def release_output(self, value: Value, name: str) -> Value:
        """Detach a value from its producer, for another one; the producer gets a new output, which is returned."""
        node = value.producer
        assert node is not None
        assert node.graph is not None
        fresh = Value(self.names.value(node.graph, name))
        self.edit.do(SetOutputs(node, tuple(fresh if v is value else v for v in node.outputs)))
        self._observer.value_replaced(value, fresh)
        return fresh

    def set_inputs(self, node: Node, inputs: Iterable[Any]) -> None:
        """Set the inputs of a node, without trailing empty ones. Unused producers are removed."""
        graph = node.graph
        assert graph is not None
        old = node.inputs
        new_inputs = [self._input(graph, v, node.name or node.op_type, node) for v in inputs]
        while new_inputs and new_inputs[-1] is None:
            new_inputs.pop()
        self.edit.do(SetInputs(node, tuple(new_inputs)))
        self.collect_values(v for v in old if v is not None)

    def set_attribute(self, node: Node, name: str, value: Any) -> None:
        """Set an attribute from a Python value; None removes it."""
        self.edit.do(SetAttribute(node, name, None if value is None else make_attribute(name, value)))

    def forget_type(self, value: Value) -> None:
        """Remove the declared type of a value whose shape will change."""
        if value.type is not None:
            self.edit.do(SetField(value, "type", None))
            self._drop(value)

    # -- removing ------------------------------------------------------------------------------------------------

    def remove(self, node: Node) -> None:
        """Remove an unused node and its dead producers."""
        needed = list(dependencies(node))
        self._remove(node)
        self.collect_values(needed)

    def _remove(self, node: Node) -> None:
        self._observer.node_removed(node)
        self.edit.do(RemoveNode(node))
        for value in node.outputs:
            if value is not None:
                self._drop(value)

    def collect(self, nodes: Iterable[Node]) -> None:
        """Remove the unused ones of the nodes, and everything that becomes dead (dead code elimination)."""
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if node.graph is None or node.device_configurations or not node.outputs:
                continue
            if any(v is not None and (v.uses or v in self._protected) for v in node.outputs):
                continue
            needed = list(dependencies(node))
            self._remove(node)
            pending.extend(self._orphans(needed))

    def collect_values(self, values: Iterable[Value]) -> None:
        """Remove the unused ones of the values, and their producers."""
        self.collect(self._orphans(values))

    def _orphans(self, values: Iterable[Value]) -> list[Node]:
        """Drop unused constants; returns the nodes whose outputs are unused."""
        producers = []
        for value in values:
            if value.uses or value in self._protected:
                continue
            if value.initializer is not None:
                self.drop_constant(value)
            elif value.producer is not None:
                producers.append(value.producer)
        return producers

    def drop_constant(self, value: Value) -> None:
        """Remove an unused initializer; one that is a graph input stays."""
        if value.graph is not None and value.initializer is not None and not value.is_input and not value.uses:
            self.edit.do(SetInitializer(value.graph, value, None))
            self._drop(value)

    def _drop(self, value: Value) -> None:
        if value.graph is not None:
            self._dropped.setdefault(value.graph, set()).add(value)

    def finish(self) -> None:
        """Remove declarations of removed values. Linear in the declarations of the graphs concerned."""
        for graph, values in self._dropped.items():
            gone = {
                v for v in values if v.type is None or (v.producer is None and v.initializer is None and not v.uses)
            }
            if gone and any(v in gone for v in graph.declared):
                self.edit.do(SetField(graph, "declared", tuple(v for v in graph.declared if v not in gone)))
        self._dropped.clear()
