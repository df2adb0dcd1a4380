"""Facts about a model for passes: nodes by operator, constants, value facts, and replaceability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.constants import Constants
from onnx_workbench.model.analysis.scoping import is_visible
from onnx_workbench.model.edits.rewriter import RewriteObserver
from onnx_workbench.model.inference import custom_rules
from onnx_workbench.model.inference.engine import Inference
from onnx_workbench.model.inference.facts import Facts
from onnx_workbench.model.inference.operators.node_call import NodeCall
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, Value
from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.ir.types import ElementType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.simplify.passes import Evaluate, Match, PassRefusal, SimplifyOptions, is_there

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ANY_CONSTANT = 9  # version from which a Constant holds any type; the types it held before
_EARLY_CONSTANTS = frozenset({ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16})


class MatchContext(RewriteObserver):
    """A model being simplified. Belongs to the thread that works on the model."""

    def __init__(
        self,
        model: Model,
        *,
        evaluate: Evaluate | None = None,
        options: SimplifyOptions | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.model = model
        self.options = options or SimplifyOptions()
        self.evaluate = evaluate
        self.progress = progress
        self.refusals: dict[tuple[str, str, Node | Value], PassRefusal] = {}
        self.growth = 0  # bytes by which folding has enlarged the constants so far
        self.made: set[Node] = set()  # nodes created by passes
        self.made_by: dict[str, set[Node]] = {}  # those of a rule, by its name
        self._waiting = {identifier: list(chosen) for identifier, chosen in self.options.only.items()}
        self.constants = Constants(model, self.options.work_limit)
        self.protected = self.constants.protected
        self._index: dict[str, dict[Node, None]] = {}
        self._fewest: dict[tuple[str, int], tuple[int, int] | None] = {}  # inputs and outputs; None: no such operator
        self._inference: Inference | None = None
        self.graphs: list[Graph] = []
        self.index_graphs()

    @property
    def facts(self) -> Facts:
        """Facts about the values of the model, computed when a pass first asks: rules without types never do."""
        if self._inference is None:
            self._inference = Inference(
                self.model, custom_rules.rules({}), self.constants, self.progress, trusts_declared=False
            )
            self._inference.run()
        return self._inference.facts

    def learn(self) -> None:
        """Compute facts about all nodes again after changes, which adds to what is known."""
        if self._inference is not None:
            self._inference.run()

    def call(self, node: Node) -> NodeCall:
        """Return a node with the facts about its inputs."""
        return NodeCall.of(node, self.facts)

    def index_graphs(self) -> None:
        """Find the graphs that are simplified, and their nodes by operator, as the model is now."""
        self.graphs = [g for root in self._roots() for g in root.walk()]
        self._index.clear()
        for graph in self.graphs:
            for node in graph.nodes:
                self._add_to_index(node)

    def _roots(self) -> Iterator[Graph]:
        """Return the graphs to simplify. Training graphs are skipped."""
        yield self.model.graph
        for function in self.model.functions:
            yield function.body

    # -- nodes ---------------------------------------------------------------------------------------------------

    def nodes(self, *op_types: str) -> Iterator[Node]:
        """Yield the current nodes of these ai.onnx operators; the graph may change in between.

        They have the inputs and outputs that the operator requires, though an input may be left out.
        """
        for op_type in op_types:
            for node in list(self._index.get(op_type, ())):
                if node.graph is not None and self._is_complete(node) and self.may_change(node):
                    yield node

    def _is_complete(self, node: Node) -> bool:
        key = node.op_type, self.opset(node)
        if key not in self._fewest:
            schema = schemas.find(*key)
            self._fewest[key] = None if schema is None else (schema.min_inputs, schema.min_outputs)
        fewest = self._fewest[key]
        return fewest is not None and len(node.inputs) >= fewest[0] and len(node.outputs) >= fewest[1]

    def all_nodes(self) -> Iterator[Node]:
        """Yield every node of the graphs that are simplified, inner ones included, in file order."""
        for graph in self.graphs:
            if self.is_alive(graph):
                for node in list(graph.nodes):
                    if node.graph is graph:
                        yield node

    def is_alive(self, graph: Graph) -> bool:
        """Return whether a graph is still part of the model."""
        current: Graph | None = graph
        while current is not None:
            owner = current.owner
            if isinstance(owner, Node):
                if owner.graph is None or current not in owner.bodies:
                    return False
                current = owner.graph
            else:
                return isinstance(owner, (Model, Function))
        return False

    def may_change(self, node: Node) -> bool:
        """Return whether passes may rewrite a node: it is in the scope, and nothing outside the graph refers to it."""
        if node.domain or node.device_configurations or any(a.reference for a in node.attributes.values()):
            return False
        return self.is_chosen(node)

    def is_chosen(self, node: Node) -> bool:
        """Return whether a node is in the scope of the simplification."""
        chosen = self.options.nodes
        return chosen is None or node in chosen or node in self.made

    def takes(self, pass_id: str, match: Match) -> bool:
        """Return whether a match is to be applied; a chosen one is applied once.

        If other passes replaced some of its nodes, it may concern their replacements instead.
        """
        waiting = self._waiting.get(pass_id)
        if waiting is None:
            return True
        things = match.things
        for number, chosen in enumerate(waiting):
            left = frozenset(filter(is_there, chosen))
            if left and left <= things and things - left <= self.made:
                del waiting[number]
                return True
        return False

    def _add_to_index(self, node: Node) -> None:
        if not node.domain:
            self._index.setdefault(node.op_type, {})[node] = None

    def node_added(self, node: Node) -> None:
        """Index a node created by a pass, and compute facts about its outputs unless they are known."""
        self.made.add(node)
        self._add_to_index(node)
        for body in node.bodies:
            self.graphs.extend(g for g in body.walk() if g not in self.graphs)
        inference = self._inference
        if inference and not any(v is not None and inference.facts.dims(v) is not None for v in node.outputs):
            inference.learn_node(node)

    def node_removed(self, node: Node) -> None:
        """Remove a node and those in its subgraphs from the index."""
        for removed in (node, *(n for body in node.bodies for g in body.walk() for n in g.nodes)):
            self._index.get(removed.op_type, {}).pop(removed, None)

    def constant_added(self, value: Value, tensor: Tensor) -> None:
        """Record the contents of a new constant."""
        if self._inference is not None:
            self._inference.facts.learn_constant(value, tensor)

    def value_replaced(self, old: Value, new: Value) -> None:
        """Give a replacement the facts of the replaced value if its own shape is unknown."""
        if self._inference is not None and self._inference.facts.dims(new) is None:
            self._inference.facts.same(new, old)

    def opset(self, node: Node) -> int:
        """Return the opset of a node's domain; 1 when the model does not import it."""
        graph = node.graph
        return 1 if graph is None else graph.opset_imports.get(node.domain, 1)

    def is_deterministic(self, node: Node) -> bool:
        """Return whether the node is deterministic, its subgraphs included."""
        if traits.of(node).is_stochastic:
            return False
        if node.op_type == "Dropout" and not node.domain and not self.is_inference_dropout(node):
            return False
        function = self.model.function(*node.operator)
        if function is not None:
            return False
        schema = schemas.find(node.op_type, self.opset(node), node.domain)
        if schema is None or not schema.deterministic:
            return False
        return all(self.is_deterministic(inner) for body in node.bodies for inner in body.nodes)

    def is_inference_dropout(self, node: Node) -> bool:
        """Return whether a Dropout is the identity."""
        opset = self.opset(node)
        if opset < 7:
            test = node.attributes.get("is_test")
            return test is not None and test.value == 1
        if opset < 12 or len(node.inputs) < 3 or node.inputs[2] is None:
            return True
        mode = self.array(node.inputs[2])
        return mode is not None and mode.size == 1 and not mode.reshape(-1)[0]

    # -- constants -----------------------------------------------------------------------------------------------

    def constant(self, value: Value | None) -> Tensor | None:
        """Return the tensor of a constant value; None if a caller or training may replace it. Reads no file."""
        return self.constants.tensor(value)

    def array(self, value: Value | None) -> NDArray[Any] | None:
        """Return the numbers of a constant; None when it is not one, or its data is unavailable. May read the file."""
        return self.constants.array(value)

    def read(self, tensor: Tensor) -> NDArray[Any] | None:
        """Return the numbers of a tensor; None when its data is unavailable. May read the file."""
        return self.constants.read(tensor)

    def is_readable(self, value: Value | None) -> bool:
        """Return whether a value is a constant whose numbers can be read, be it too large for this simplification."""
        tensor = self.constant(value)
        return tensor is not None and (
            (self.constants.is_too_large(tensor) and not tensor.problem) or self.read(tensor) is not None
        )

    def refuses_large(self, pass_id: str, node: Node, *values: Value | None) -> bool:
        """Return whether constants are too large to be computed with; the first such is recorded as a refusal."""
        for value in values:
            tensor = self.constant(value)
            if value is not None and tensor is not None and self.constants.is_too_large(tensor):
                limit = self.options.work_limit >> 20
                held = f"{value.name} has {tensor.nbytes >> 20:,} MiB"
                self.refuse(pass_id, node, f"{held}; weights of at most {limit} MiB are computed with")
                return True
        return False

    def is_protected(self, value: Value) -> bool:
        """Return whether training or quantization annotations refer to a value."""
        return value in self.protected

    # -- edges ---------------------------------------------------------------------------------------------------

    def users(self, value: Value | None) -> list[Node]:
        """Return the nodes that use a value, all in its graph; empty when it is used otherwise, returned or
        protected.
        """
        if value is None or self.is_protected(value):
            return []
        nodes = [user for user, _ in value.uses if isinstance(user, Node) and user.graph is value.graph]
        return nodes if len(nodes) == len(value.uses) else []

    def sole_user(self, value: Value | None) -> Node | None:
        """Return the only user of a value, once and in its graph; None when it is used otherwise."""
        users = self.users(value) if value is not None and len(value.uses) == 1 else []
        return users[0] if users else None

    def producer(self, value: Value | None, *op_types: str) -> Node | None:
        """Return the producer of a value, if it is one of these operators and may be rewritten."""
        node = None if value is None else value.producer
        if node is None or node.op_type not in op_types or not self.may_change(node):
            return None
        return node

    def can_replace(self, old: Value | None, new: Value | None) -> bool:
        """Return whether every use of `old` could use `new`, with names and order of graph outputs unchanged."""
        if old is None or new is None or old is new or old.graph is None or self.is_protected(old):
            return False
        if not is_visible(new, old.graph):
            return False
        returned = [user for user, _ in old.uses if isinstance(user, Graph)]
        if not returned:
            return True
        if any(graph is not old.graph for graph in returned) or old.producer is None:
            return False
        return (
            new.producer is not None
            and new.graph is old.graph
            and new.producer.op_type != "Constant"
            and not new.is_output
            and not self.is_protected(new)
        )

    def unused_from(self, node: Node, index: int) -> bool:
        """Return whether no output of the node from an index on is used."""
        return not any(v is not None and v.uses for v in node.outputs[index:])

    # -- types ---------------------------------------------------------------------------------------------------

    def element_type(self, value: Value | None) -> ElementType | None:
        """Return the element type of a value, or None."""
        return self.facts.element_type(value)

    def type_of(self, value: Value) -> Type | None:
        """Return the type of a value, None where it is not known."""
        return self.facts.type_of(value)

    def can_hold(self, node: Node, results: Sequence[Tensor | None]) -> bool:
        """Return whether Constants can hold the results that a graph returns: before version 9 only floats."""
        version = _ANY_CONSTANT if node.graph is None else node.graph.opset_imports.get("", _ANY_CONSTANT)
        pairs = [(v, t) for v, t in zip(node.outputs, results, strict=False) if v is not None and t is not None]
        return version >= _ANY_CONSTANT or all(t.element_type in _EARLY_CONSTANTS for v, t in pairs if v.is_output)

    def is_float(self, *values: Value | None) -> bool:
        """Return whether all are known to be tensors of one real floating-point type."""
        kinds = {self.facts.element_type(v) for v in values}
        kind = kinds.pop() if len(kinds) == 1 else None
        return kind is not None and kind.is_float

    def refuse(self, pass_id: str, place: Node | Value, reason: str) -> None:
        """Record that a pass did not apply."""
        self.refusals.setdefault((pass_id, reason, place), PassRefusal(pass_id, place, reason))


def is_returned_elsewhere(value: Value) -> bool:
    """Return whether a graph other than its own returns it, which only a node's output may."""
    return any(isinstance(user, Graph) and user is not value.graph for user, _ in value.uses)
