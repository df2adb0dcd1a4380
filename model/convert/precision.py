"""Convert the floating-point precision: weights, types, and Casts around nodes that keep or need the old one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from onnx_workbench.model.analysis.call_graph import Operator
from onnx_workbench.model.analysis.node_subset import with_whole_functions
from onnx_workbench.model.analysis.value_types import TypeOf
from onnx_workbench.model.budget import WINDOW_TENSOR
from onnx_workbench.model.convert.function_calls import functions_that_differ, innermost, is_told_by_calls
from onnx_workbench.model.convert.narrowing import Narrowing, keeps_small
from onnx_workbench.model.convert.report import ConversionReport
from onnx_workbench.model.convert.shared_types import SharedTypes, is_container
from onnx_workbench.model.edits.nodes import bridge, import_operators
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Transaction
from onnx_workbench.model.history.steps import (
    SetAttribute,
    SetField,
    SetGraphOutputs,
    SetInitializer,
    SetInput,
)
from onnx_workbench.model.ir.attributes import Attribute, make_attribute
from onnx_workbench.model.ir.graph import Function, Graph, Node, Value
from onnx_workbench.model.ir.tensors import ArrayTensor, ConvertedTensor, SparseTensor, Tensor
from onnx_workbench.model.ir.types import ElementType, OptionalType, SequenceType, TensorType, Type
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.schemas.defaults import default, schema_of
from onnx_workbench.model.schemas.schema import Parameter

PRECISIONS = {"float32": ElementType.FLOAT, "float16": ElementType.FLOAT16, "bfloat16": ElementType.BFLOAT16}
_MOST_NAMED = 3
#: Why nodes are not converted.
_UNSUPPORTED, _UNKNOWN, _CALLED_ELSEWHERE = "unsupported", "unknown", "called elsewhere"
_CASTING_OPSET = 13  # the first that casts to every precision here


@dataclass(frozen=True, slots=True)
class PrecisionOptions:
    """What to convert. `keep` holds operator types or patterns of node names that stay as they are.

    With `among` only these nodes are converted, with their subgraphs, and functions called by them alone; Casts are
    inserted around them, and those beside them between the two precisions are removed where they become redundant,
    whether a conversion inserted them or the model came with them: nothing tells which. A model input is then converted
    with its users, an output with its producer, unless both are kept.
    """

    source: ElementType
    target: ElementType
    keep: Collection[str] = ()
    keep_interface: bool = True  # inputs and outputs of the model keep their types
    among: Collection[Node] | None = None


def convert_precision(
    edit: Transaction, options: PrecisionOptions, type_of: TypeOf, progress: Progress = SILENT
) -> ConversionReport:
    """Convert every float tensor from one precision to another. Reads the weights it converts; not for the GUI thread.

    A node whose operator does not support the target type stays, with Casts around it; unknown operators too. Weights
    beyond the target's range saturate and are named in the report. Sums of quantized products stay until they are
    scaled, where the target has a smaller range.
    """
    if options.source == options.target:
        raise ModelError("There is nothing to convert", f"Source and target are both {options.source.text}.")
    return _Conversion(edit, options, type_of, progress).run()


class _Conversion:
    def __init__(self, edit: Transaction, options: PrecisionOptions, type_of: TypeOf, progress: Progress) -> None:
        self._edit = edit
        self._options = options
        self._type_of = type_of
        self._types = SharedTypes(edit.model, type_of)
        self._progress = progress
        self._rewriter = GraphRewriter(edit)
        self._report = ConversionReport()
        self._now: dict[Value, ElementType] = {}  # the new type of each value of the source type
        self._casts: dict[tuple[Value, ElementType], Value] = {}
        self._kept: dict[Node, bool] = {}
        turning: Collection[Function] = edit.model.functions
        self._among: Collection[Node] | None = None
        if options.among is not None:
            chosen, turning = with_whole_functions(options.among, edit.model)
            self._among = chosen.union(self._casts_between(chosen))
        self._functions = {f.key for f in turning}
        self._bodies = {f.body for f in turning}

    def _casts_between(self, nodes: Collection[Node]) -> Iterator[Node]:
        """Return the Casts between these nodes and previously converted ones, which become redundant."""
        ours, theirs = self._options.source, self._options.target
        for node in nodes:
            for value in (*node.inputs, *node.outputs):
                maker = None if value is None else value.producer
                if maker is not None and self._casts_from(maker, theirs):
                    yield maker
                if value is not None and (maker is node or value.initializer is not None):
                    yield from (u for u, _ in value.uses if isinstance(u, Node) and self._casts_from(u, ours))

    def _casts_from(self, node: Node, kind: ElementType) -> bool:
        """Return whether a node casts this one of the two precisions into the other."""
        if node.op_type != "Cast" or node.domain or len(node.inputs) != 1 or len(node.outputs) != 1:
            return False
        given, made = (None if v is None else innermost(self._type_of(v)) for v in (*node.inputs, *node.outputs))
        return given == kind and made in (self._options.source, self._options.target) and made != kind

    def run(self) -> ConversionReport:
        """Decide the new type of every value, then convert and insert Casts."""
        self._refuse_calls_that_differ()
        roots = list(self._edit.model.root_graphs())
        for root in roots:
            for graph in root.walk():
                self._decide(graph)
        left = self._unconverted()
        for root in roots:
            for graph in list(root.walk()):
                self._convert(graph)
        self._interface(self._edit.model.graph)
        self._declare()
        self._drop_idle_casts(roots)
        self._report_unconverted(left)
        return self._report

    def _refuse_calls_that_differ(self) -> None:
        """Raise ModelError for a function whose type differs between calls: it cannot be converted for some calls
        alone.
        """
        differing = functions_that_differ(self._edit.model, self._options.source, self._type_of)
        for function in (f for f in differing if f.key in self._functions):
            raise ModelError(
                f"The types in {function.name} depend on the call",
                "They differ between calls, so it cannot be converted. Inline its calls first.",
                function,
            )

    def _unconverted(self) -> Counter[tuple[str, str]]:
        """Return the number of nodes that could not be converted, by operator or function and by reason."""
        functions = {function.key for function in self._edit.model.functions}
        return Counter(
            (node.op_type, reason)
            for root in self._edit.model.root_graphs()
            for graph in root.walk()
            for node in graph.nodes
            if node.op_type != "Constant" and (reason := self._why_unconverted(node, functions))
        )

    def _why_unconverted(self, node: Node, functions: Collection[Operator]) -> str:
        """Return why a node stays although nobody asked for it; empty if it does not."""
        if self._is_kept(node) and not self._cannot_hold(node):
            return ""
        has_signature = (schema := schema_of(node)) is not None and schema.is_signature_known
        is_unknown = node.operator not in functions and not node.bodies and not has_signature
        made = enumerate(node.outputs)
        if is_unknown and any(value in self._now for value in (*node.inputs, *node.outputs) if value is not None):
            return _UNKNOWN
        if any(
            v is not None and self._now.get(v) == self._options.source and not _is_stashed(node, i) for i, v in made
        ):
            return _CALLED_ELSEWHERE if node.operator in functions else _UNSUPPORTED
        return ""

    def _report_unconverted(self, left: Counter[tuple[str, str]]) -> None:
        graph, options = self._edit.model.graph, self._options
        for reason in (_UNSUPPORTED, _UNKNOWN, _CALLED_ELSEWHERE):
            some = Counter({name: count for (name, why), count in left.items() if why == reason})
            if not some:
                continue
            names = [name for name, _ in some.most_common(_MOST_NAMED)]
            subject = "1 node stays" if some.total() == 1 else f"{some.total():,} nodes stay"
            them = f"{', '.join(names)}{' and others' if len(some) > len(names) else ''}"
            many = len(some) > 1
            if reason == _CALLED_ELSEWHERE:
                why = f"{them} {'are' if many else 'is'} called by other nodes too, or by a node that stays"
            elif reason == _UNKNOWN:
                why = f"{them} {'are unknown operators' if many else 'is an unknown operator'}"
            else:
                opset = f"in opset {graph.opset_imports.get('')}"
                why = f"{opset}, {them} {'take' if many else 'takes'} no {options.target.text}"
            self._report.warn(f"{subject} {options.source.text}: {why}", graph)

    # -- deciding ------------------------------------------------------------------------------------------------

    def _is_source(self, value: Value) -> bool:
        return self._types.of(value) == self._options.source

    def _decide(self, graph: Graph) -> None:
        for value in graph.inputs:
            if self._is_source(value):
                self._now[value] = self._options.source if self._stays_fed(value, graph) else self._options.target
        for node in graph.nodes:
            for index, output in enumerate(node.outputs):
                if output is not None and self._is_source(output):
                    self._now[output] = (
                        self._options.target if self._is_converted(node, index, "output") else self._options.source
                    )

    def _is_kept(self, node: Node) -> bool:
        """Return whether a node stays, by itself or because of a node around it."""
        return self._is_held(node) or not (self._among is None or node in self._among)

    def _is_held(self, node: Node) -> bool:
        """Return whether a node is kept or inside a kept node; one that is not selected may contain selected nodes."""
        is_held = self._kept.get(node)
        if is_held is None:
            owner = node.graph.owner if node.graph is not None else None
            is_held = self._kept[node] = self._stays(node) or (isinstance(owner, Node) and self._is_held(owner))
        return is_held

    def _stays(self, node: Node) -> bool:
        facts = traits.of(node)
        if facts.is_about_bits:
            return True
        if node.bodies and facts.first_result is None:
            return True
        if is_told_by_calls(node) or self._cannot_hold(node):
            return True
        if self._options.target is ElementType.FLOAT16 and _handles_sums(node):
            return True
        return any(node.op_type == k or (node.name and fnmatchcase(node.name, k)) for k in self._options.keep)

    def _cannot_hold(self, node: Node) -> bool:
        """Return whether a node with subgraphs takes or gives a value to convert that its operator does not support."""
        if not node.bodies or node.graph is None or node.domain:
            return False
        schema = schema_of(node)
        if schema is None or self._allows(schema.output(0)):
            return False
        return any(value is not None and self._is_source(value) for value in (*node.inputs, *node.outputs))

    def _is_inside_kept(self, graph: Graph) -> bool:
        """Return whether inputs and outputs of a subgraph or function stay as they are."""
        if isinstance(graph.owner, Function):
            return graph not in self._bodies
        return isinstance(graph.owner, Node) and self._is_kept(graph.owner)

    def _stays_fed(self, value: Value, graph: Graph) -> bool:
        """Return whether an input of a graph stays as it is."""
        if isinstance(graph.owner, (Node, Function)) or value.initializer is not None:
            return self._is_inside_kept(graph)
        if self._options.keep_interface:
            return True
        return self._among is not None and not all(user in self._among for user, _ in value.uses)

    def _is_converted(self, node: Node, index: int, word: str) -> bool:
        """Return whether an input or output of a node has the target type afterwards."""
        if self._is_kept(node):
            return False
        if node.operator in self._functions or node.bodies:
            return True
        if word == "output" and _is_stashed(node, index):
            return False
        assert node.graph is not None
        schema = schema_of(node)
        if schema is None or not schema.is_signature_known:
            return False
        parameter = schema.input(index) if word == "input" else schema.output(index)
        return self._allows(parameter)

    def _allows(self, parameter: Parameter | None) -> bool:
        if parameter is None:
            return False
        wanted = f"tensor({self._options.target.text})"  # also inside of seq() and optional()
        return not parameter.types or any(wanted in text for text in parameter.types)

    # -- converting ----------------------------------------------------------------------------------------------

    def _convert(self, graph: Graph) -> None:
        self._initializers(graph)
        for node in list(graph.nodes):
            self._progress.check()
            self._constants_in(node)
            for index, value in enumerate(node.inputs):
                if value is None or value not in self._now:
                    continue
                wanted = self._options.target if self._is_converted(node, index, "input") else self._options.source
                if self._now[value] != wanted:
                    self._edit.do(SetInput(node, index, self._cast(value, wanted, graph)))
        if isinstance(graph.owner, (Node, Function)):
            self._returned(graph)

    def _initializers(self, graph: Graph) -> None:
        for value in list(graph.initializers):
            tensor = value.initializer
            if tensor is None or tensor.element_type != self._options.source:
                continue
            turning = [self._user_turns(user, index) for user, index in value.uses]
            stays_unused = self._is_inside_kept(graph) or self._among is not None
            if not all(turning) or (stays_unused and not turning):
                self._now[value] = self._options.source  # kept nodes need it unchanged; it is cast for the others
                continue
            self._now[value] = self._options.target
            self._edit.do(SetInitializer(graph, value, self._converted(tensor, value.name, value, [value])))

    def _user_turns(self, user: Node | Graph, index: int) -> bool:
        if isinstance(user, Node):
            return self._is_converted(user, index, "input")
        if isinstance(user.owner, (Node, Function)):
            return not self._is_inside_kept(user)
        return not self._options.keep_interface and self._among is None  # an output of the model keeps its type

    def _converted(
        self, constant: Tensor | SparseTensor, name: str, place: Any, values: Iterable[Value | None]
    ) -> Tensor | SparseTensor:
        """Return a constant in the other precision; `values` hold it."""
        if isinstance(constant, SparseTensor):
            numbers = self._tensor(constant.values, name, place)
            return SparseTensor(numbers, constant.indices, constant.shape, constant.source)
        return self._tensor(constant, name, place, [value for value in values if value is not None])

    def _tensor(self, tensor: Tensor, name: str, place: Any, values: Iterable[Value] = ()) -> Tensor:
        """Return the tensor in the other precision; one too large to be held is converted whenever it is read."""
        import numpy as np

        if tensor.problem:
            raise ModelError(f"The values of {name} are not available", tensor.problem, place)
        target = self._options.target
        narrow = Narrowing(target, keeps_small=keeps_small(tensor, values, target))
        is_held = tensor.size * target.numpy_dtype.itemsize <= WINDOW_TENSOR or not tensor.reads_ranges
        parts = [np.zeros(0, target.numpy_dtype)]
        for piece in tensor.pieces():
            self._progress.check()
            part = narrow(piece)
            if is_held:
                parts.append(part)
        for text in narrow.texts(name):
            self._report.warn(text, place)
        self._report.changed(f"weights converted to {target.text}", place)
        if not is_held:
            return ConvertedTensor(tensor, target, narrow)
        array = np.concatenate(parts).reshape(tensor.shape)
        return ArrayTensor(array, target, name=tensor.name, doc_string=tensor.doc_string, metadata=tensor.metadata)

    def _constants_in(self, node: Node) -> None:
        """Convert tensors and element types in the attributes of a node whose output is converted."""
        output = node.outputs[0] if node.outputs else None
        if output is None or self._now.get(output) != self._options.target or node.bodies:
            return
        for name, attribute in list(node.attributes.items()):
            replaced = self._attribute(node, name, attribute)
            if replaced is not None:
                self._edit.do(SetAttribute(node, name, None))
                self._edit.do(SetAttribute(node, replaced.name, replaced))
        self._set_type_attribute(node)

    def _attribute(self, node: Node, name: str, attribute: Attribute) -> Attribute | None:
        import numpy as np

        value: Any = attribute.value
        if isinstance(value, (Tensor, SparseTensor)) and value.element_type == self._options.source:
            held = node.outputs if node.op_type == "Constant" else ()
            return make_attribute(name, self._converted(value, f"{name} of {node.title}", node, held))
        if name == traits.of(node).type_attribute and value == int(self._options.source):
            return make_attribute(name, int(self._options.target))
        if (
            name == traits.of(node).type_attribute
            and isinstance(value, str)
            and value.upper() == self._options.source.name
        ):
            return make_attribute(name, self._options.target.name)
        if node.op_type == "Constant" and name in ("value_float", "value_floats") and not attribute.reference:
            tensor = ArrayTensor(np.array(value, np.float32))
            return make_attribute("value", self._converted(tensor, f"{name} of {node.title}", node, node.outputs))
        return None

    def _set_type_attribute(self, node: Node) -> None:
        """Set the attribute for the output's type or value where its absence means float32."""
        import numpy as np

        known, target = traits.of(node), self._options.target
        if self._options.source is not ElementType.FLOAT or known.type_attribute in node.attributes:
            return
        if known.value_attributes and not node.attributes:
            zero = ArrayTensor(np.zeros(1, target.numpy_dtype), target)
            self._edit.do(SetAttribute(node, "value", make_attribute("value", zero)))
        elif known.type_attribute and default(node, known.type_attribute) == ElementType.FLOAT:
            attribute = make_attribute(known.type_attribute, int(target))
            self._edit.do(SetAttribute(node, attribute.name, attribute))

    def _cast(self, value: Value, wanted: ElementType, graph: Graph) -> Value:
        """Return the value in another type: by one Cast for all users in a graph, directly behind the producer."""
        present = self._casts.get((value, wanted))
        if present is not None:
            return present
        self._require_tensor(value)
        self._import_casts(value.graph if value.graph is not None else graph)
        output = self._rewriter.cast(value, wanted, graph)
        self._report.changed(f"casts to {wanted.text} added", output.producer)
        self._casts[value, wanted] = output
        self._now[output] = wanted
        return output

    def _require_tensor(self, value: Value) -> None:
        kind = self._type_of(value)
        found = "" if kind is None or isinstance(kind, TensorType) else str(kind)
        if kind is None and _is_container(value):
            found = "a sequence or optional value"
        if found:
            raise ModelError(
                f"{value.name} cannot be cast",
                f"It is {found}, and only tensors can be. Convert inputs and outputs too, and keep no node beside it.",
                value,
            )

    def _import_casts(self, graph: Graph) -> None:
        """Import ai.onnx for Cast, which a model of other domains may not import."""
        owner = graph.root.owner
        target = owner if isinstance(owner, Function) else self._edit.model
        import_operators(self._edit, graph)
        version = target.opset_imports[""]
        for kind in (self._options.source, self._options.target):
            if version < _CASTING_OPSET and kind is ElementType.BFLOAT16:
                raise ModelError(
                    f"Opset {version} cannot cast {kind.text}",
                    f"It can since version {_CASTING_OPSET}: convert the opset first.",
                    target,
                )

    def _returned(self, graph: Graph) -> None:
        """Convert the outputs of subgraphs and functions to the expected type."""
        ours, theirs = self._options.target, self._options.source
        if self._is_inside_kept(graph):
            ours, theirs = theirs, ours
        outputs = [self._cast(v, ours, graph) if self._now.get(v) == theirs else v for v in graph.outputs]
        if tuple(outputs) != graph.outputs:
            self._edit.do(SetGraphOutputs(graph, tuple(outputs)))

    # -- the model's inputs and outputs --------------------------------------------------------------------------

    def _interface(self, graph: Graph) -> None:
        if not self._options.keep_interface:
            self._convert_outputs(graph)
            return
        for value in graph.outputs:
            if self._now.get(value) == self._options.target:
                self._keep_output(graph, value)

    def _convert_outputs(self, graph: Graph) -> None:
        for value in graph.outputs:
            made_here = value.producer is not None and (self._among is None or value.producer in self._among)
            if self._now.get(value) == self._options.source and made_here:
                self._keep_output(graph, value, self._options.target)

    def _keep_output(self, graph: Graph, value: Value, wanted: ElementType | None = None) -> None:
        """Keep name and type of an output; the converted value behind it gets another name."""
        kind = wanted or self._options.source
        producer = value.producer
        assert producer is not None  # inputs and initializers that are outputs keep their type
        self._require_tensor(value)
        self._import_casts(graph)
        inner = self._rewriter.release_output(value, f"{value.name}_{self._now[value].text}")
        self._now[inner] = self._now[value]
        self._now[value] = kind
        self._rewriter.redirect(value, inner, graph_outputs=False)
        cast = self._rewriter.add_cast(graph, inner, kind, value, before=producer.next)
        self._report.changed(f"casts to {kind.text} added", cast)

    def _declare(self) -> None:
        for value, kind in self._now.items():
            declared = value.type
            if declared is not None and kind == self._options.target:
                turned = _turned(declared, self._options.source, kind)
                if turned != declared:
                    self._edit.do(SetField(value, "type", turned))
                    self._report.changed(f"declared types changed to {kind.text}", value)

    # -- cleanup -------------------------------------------------------------------------------------------------

    def _drop_idle_casts(self, roots: Collection[Graph]) -> None:
        """Remove redundant Casts between the two precisions, as left by a conversion in the other direction."""
        for root in roots:
            for graph in root.walk():
                for node in list(graph.nodes):
                    given = self._given_idly(node) if node.op_type == "Cast" and not node.domain else None
                    if given is not None:
                        self._report.changed("casts without effect removed", graph)
                        bridge(self._edit, node, given)

    def _given_idly(self, cast: Node) -> Value | None:
        """Return the input of a redundant Cast."""
        given, made = (values[0] if values else None for values in (cast.inputs, cast.outputs))
        if given is None or made is None or self._is_kept(cast):
            return None
        kinds = [self._now.get(v) or innermost(self._type_of(v)) for v in (given, made)]
        if kinds != [self._options.target] * 2 or (given in self._now) == (made in self._now):
            return None
        # An output keeps its name: the Cast's input takes it over, if a node of this graph produces it.
        takes_over = given.graph is cast.graph and given.producer is not None and not given.is_output
        return given if takes_over or not made.is_output else None


def _is_stashed(node: Node, index: int) -> bool:
    """Return whether an output has the type given by an attribute, whatever the input's type."""
    first = traits.of(node).stashed_from
    return first is not None and index >= first


def _is_container(value: Value) -> bool:
    """Return whether a value of unknown type is a sequence or optional for the nodes that make and use it."""
    schemas = [(schema_of(user), index) for user, index in value.uses if isinstance(user, Node)]
    formals = [schema.input(index) for schema, index in schemas if schema is not None and schema.is_signature_known]
    maker = None if value.producer is None else schema_of(value.producer)
    if value.producer is not None and maker is not None and maker.is_signature_known:
        formals.append(maker.output(value.producer.outputs.index(value)))
    return any(map(is_container, formals))


def _handles_sums(node: Node) -> bool:
    """Return whether a node converts sums of quantized products to floats, or scales them."""
    maker = node
    if node.op_type == "Mul" and not node.domain:
        makers = (value.producer for value in node.inputs if value is not None)
        maker = next((m for m in makers if m is not None and m.op_type == "Cast"), node)
    given = maker.inputs[0] if maker.op_type == "Cast" and maker.inputs else None
    return given is not None and given.producer is not None and traits.of(given.producer).sums_integers


def _turned(kind: Type, source: ElementType, target: ElementType) -> Type:
    from dataclasses import replace

    if isinstance(kind, TensorType) and kind.element_type == source:
        return replace(kind, element_type=target)
    if isinstance(kind, (SequenceType, OptionalType)) and kind.element is not None:
        return replace(kind, element=_turned(kind.element, source, target))
    return kind


__all__ = ["PRECISIONS", "PrecisionOptions", "convert_precision"]
