"""Graph rewriting for passes: edits that keep index, facts and names up to date, with dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx_workbench.model.analysis.scoping import dependencies, unique_name
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    InsertNode,
    RemoveNode,
    SetAttribute,
    SetField,
    SetGraphOutputs,
    SetInitializer,
    SetInputs,
    SetOutputs,
)
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind, make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, SparseTensor, Tensor
from onnx_workbench.model.simplify.context import MatchContext

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RewriterNames:
    """Names taken in the trees of graphs, collected once per simplification."""

    def __init__(self, context: MatchContext) -> None:
        self._values: dict[Graph, set[str]] = {}
        self._nodes: dict[Graph, set[str]] = {}
        self._context = context

    def value(self, graph: Graph, wanted: str) -> str:
        """Return a free name for a value of a graph, and reserve it."""
        return self._take(self._values, graph.root, wanted, of_nodes=False)

    def node(self, graph: Graph, wanted: str) -> str:
        """Return a free name for a node of a graph, and reserve it."""
        return self._take(self._nodes, graph.root, wanted, of_nodes=True)

    def _take(self, known: dict[Graph, set[str]], root: Graph, wanted: str, *, of_nodes: bool) -> str:
        taken = known.get(root)
        if taken is None:
            taken = known[root] = {thing.name for g in root.walk() for thing in (g.nodes if of_nodes else g.values())}
        name = unique_name(wanted, taken)
        taken.add(name)
        return name


class GraphRewriter:
    """Changes for one run of one pass."""

    def __init__(self, context: MatchContext, edit: Transaction, names: RewriterNames) -> None:
        self.context = context
        self._edit = edit
        self._names = names
        self._dropped: dict[Graph, set[Value]] = {}

    # -- making --------------------------------------------------------------------------------------------------

    def add(
        self,
        like: Node,
        op_type: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[Value | None] | None = None,
        before: Node | None = None,
    ) -> Value:
        """Insert a node before another one; arrays among its inputs become constants. Returns its first output.

        It is named like `like`, the node it replaces. `outputs` None: a new one. An output of another node is taken
        over from it.
        """
        place = before or like
        graph = place.graph
        assert graph is not None
        given = tuple(self._input(graph, v, like) for v in inputs)
        name = self._names.node(graph, like.name or op_type)
        made = list(outputs) if outputs is not None else [Value(self._names.value(graph, f"{name}_output_0"))]
        for value in made:
            if value is not None and value.producer is not None:
                self._release_output(value)
        kept = {k: v if isinstance(v, Attribute) else make_attribute(k, v) for k, v in (attributes or {}).items()}
        node = Node(op_type, given, tuple(made), name=name, attributes=kept)
        self._edit.do(InsertNode(graph, node, place))
        if like.metadata:
            self._edit.do(SetField(node, "metadata", like.metadata))
        self._know(node)
        first = made[0]
        assert first is not None
        return first

    def _know(self, node: Node) -> None:
        context = self.context
        context.made.add(node)
        context.add_to_index(node)
        for body in node.bodies:
            context.graphs.extend(g for g in body.walk() if g not in context.graphs)
        if not any(v is not None and context.facts.dims(v) is not None for v in node.outputs):
            context.learn_node(node)

    def _input(self, graph: Graph, given: Any, like: Node) -> Value | None:
        if given is None or isinstance(given, Value):
            return given
        return self.constant(graph, given, like.name or like.op_type, like)

    def constant(self, graph: Graph, content: NDArray[Any] | Tensor, hint: str, before: Node) -> Value:
        """Return a new constant of a graph: an initializer, or a Constant node where the graph cannot have new ones."""
        tensor = content if isinstance(content, Tensor) else ArrayTensor(content)
        value = Value(self._names.value(graph, f"{hint}_constant"))
        self._put(graph, value, tensor, before)
        return value

    def _put(self, graph: Graph, value: Value, tensor: Tensor, before: Node | None) -> None:
        if isinstance(graph.root.owner, Function) or self.context.model.ir_version < 4:
            attribute = Attribute("value", AttributeKind.TENSOR, tensor)
            name = self._names.node(graph, f"Constant_{value.name}")
            node = Node("Constant", (), (value,), name=name, attributes={"value": attribute})
            self._edit.do(InsertNode(graph, node, before))
            self.context.made.add(node)
            self.context.add_to_index(node)
        else:
            self._edit.do(SetInitializer(graph, value, tensor))
        self.context.facts.learn_constant(value, tensor)

    # -- changing ------------------------------------------------------------------------------------------------

    def replace(self, old: Value, new: Value) -> None:
        """Replace every use of `old` by `new`, and remove dead code.

        Check MatchContext.can_replace first. A graph output stays the same value: then it gets the producer of `new`.
        """
        producer = old.producer
        if any(isinstance(user, Graph) for user, _ in old.uses):
            source = new.producer
            assert source is not None
            if producer is not None:
                self._release_output(old)
            self._edit.do(SetOutputs(source, tuple(old if v is new else v for v in source.outputs)))
            self._redirect(new, old)
            self._drop(new)
        else:
            self._redirect(old, new)
            self.context.facts.same(new, old) if self.context.facts.dims(new) is None else None
        if producer is not None:
            self.collect([producer])

    def _redirect(self, old: Value, new: Value) -> None:
        by_node: dict[Node, None] = {}
        for user, _ in list(old.uses):
            if isinstance(user, Node):
                by_node[user] = None
            else:
                self._edit.do(SetGraphOutputs(user, tuple(new if v is old else v for v in user.outputs)))
        for node in by_node:
            self._edit.do(SetInputs(node, tuple(new if v is old else v for v in node.inputs)))

    def _release_output(self, value: Value) -> None:
        """Detach a value from its producer, for another one."""
        node = value.producer
        assert node is not None
        spare: list[Value | None] = []
        for output in node.outputs:
            if output is value:
                assert node.graph is not None
                fresh = Value(self._names.value(node.graph, f"{value.name}_before"))
                self.context.facts.same(fresh, value)
                spare.append(fresh)
            else:
                spare.append(output)
        self._edit.do(SetOutputs(node, tuple(spare)))

    def set_inputs(self, node: Node, inputs: Iterable[Any]) -> None:
        """Set the inputs of a node; arrays become constants. Unused producers are removed."""
        graph = node.graph
        assert graph is not None
        old = node.inputs
        given = tuple(self._input(graph, v, node) for v in inputs)
        while given and given[-1] is None:
            given = given[:-1]
        self._edit.do(SetInputs(node, given))
        self.collect_values(v for v in old if v is not None)

    def set_attribute(self, node: Node, name: str, value: Any) -> None:
        """Set an attribute from a Python value; None removes it."""
        self._edit.do(SetAttribute(node, name, None if value is None else make_attribute(name, value)))

    def forget_type(self, value: Value) -> None:
        """Remove the declared type of a value whose shape will change."""
        if value.type is not None:
            self._edit.do(SetField(value, "type", None))
            self._drop(value)

    def fold(self, node: Node, tensors: Sequence[Tensor | None]) -> None:
        """Replace a node by constants; unused outputs need none. Dead producers are removed."""
        graph, following = node.graph, node.next
        assert graph is not None
        outputs, needed = node.outputs, list(dependencies(node))
        self._remove(node)
        for value, tensor in zip(outputs, tensors, strict=False):
            if value is None or tensor is None or not value.uses:
                continue
            if any(isinstance(user, Graph) for user, _ in value.uses):
                attribute = Attribute("value", AttributeKind.TENSOR, tensor)
                constant = Node("Constant", (), (value,), name=self._names.node(graph, node.name or "Constant"),
                                attributes={"value": attribute})  # fmt: skip
                self._edit.do(InsertNode(graph, constant, following))
                self.context.made.add(constant)
                self.context.add_to_index(constant)
                self.context.facts.learn_constant(value, tensor)
            else:
                self._put(graph, value, tensor, following)
        self.collect_values(needed)

    def insert(self, graph: Graph, nodes: Iterable[Node], before: Node | None) -> None:
        """Insert nodes that are in no graph yet."""
        for node in nodes:
            self._edit.do(InsertNode(graph, node, before))
            self._know(node)

    def put_any(self, graph: Graph, value: Value, tensor: Tensor | SparseTensor | None, before: Node) -> None:
        """Make a new value a constant of a graph, sparse ones too."""
        if isinstance(tensor, Tensor):
            self._put(graph, value, tensor, before)
        elif tensor is not None:
            self._edit.do(SetInitializer(graph, value, tensor))

    def cloner(self, graph: Graph, values: dict[Value, Value | None]) -> Cloner:
        """Return a cloner that copies parts of subgraphs into a graph, under free names."""
        return Cloner(
            dict(values),
            rename=lambda name: self._names.value(graph, name),
            rename_node=lambda name: self._names.node(graph, name) if name else name,
        )

    # -- removing ------------------------------------------------------------------------------------------------

    def remove(self, node: Node) -> None:
        """Remove an unused node and its dead producers."""
        needed = list(dependencies(node))
        self._remove(node)
        self.collect_values(needed)

    def _remove(self, node: Node) -> None:
        for inner in (n for body in node.bodies for g in body.walk() for n in g.nodes):
            self.context.remove_from_index(inner)
        self.context.remove_from_index(node)
        self._edit.do(RemoveNode(node))
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
            if any(v is not None and (v.uses or self.context.is_protected(v)) for v in node.outputs):
                continue
            needed = list(dependencies(node))
            self._remove(node)
            pending.extend(self._orphans(needed))

    def collect_values(self, values: Iterable[Value]) -> None:
        """Remove the unused ones of the values, and their producers."""
        self.collect(self._orphans(values))

    def _orphans(self, values: Iterable[Value]) -> Iterable[Node]:
        """Drop unused constants; returns the nodes whose outputs are unused."""
        found = []
        for value in values:
            if value.uses or self.context.is_protected(value):
                continue
            if value.initializer is not None:
                self.drop_constant(value)
            elif value.producer is not None:
                found.append(value.producer)
        return found

    def drop_constant(self, value: Value) -> None:
        """Remove an unused initializer; one that is a graph input stays."""
        if value.graph is not None and value.initializer is not None and not value.is_input and not value.uses:
            self._edit.do(SetInitializer(value.graph, value, None))
            self._drop(value)

    def _drop(self, value: Value) -> None:
        if value.graph is not None:
            self._dropped.setdefault(value.graph, set()).add(value)

    def finish(self) -> None:
        """Remove declarations of removed values. Call once, at the end of a pass."""
        for graph, values in self._dropped.items():
            gone = {
                v for v in values if v.type is None or (v.producer is None and v.initializer is None and not v.uses)
            }
            if gone and any(v in gone for v in graph.declared):
                self._edit.do(SetField(graph, "declared", tuple(v for v in graph.declared if v not in gone)))
        self._dropped.clear()
