"""List the differences between two models, down to attributes, types, texts and numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from onnx_workbench.model.analysis.sequences import out_of_order
from onnx_workbench.model.diff.function_matching import pair_functions
from onnx_workbench.model.diff.graph_matching import GraphMatching, Key, match_graphs
from onnx_workbench.model.diff.tensors import TensorDifference, compare_constants, form_text
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Graph, Model, Node, QuantizationAnnotation, TrainingInfo, Value
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.attributes import attribute_source, has_text

Kind = Literal["added", "removed", "changed", "renamed", "moved"]
Subject = Literal["model", "function", "graph", "node", "value"]

_TOLD = frozenset({"doc string", "name", "place", "type"})  # aspects that do not affect what is computed

_MOST_SHOWN = 16  # elements of a list attribute in a text


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. `old` and `new` are the objects concerned; one of them is None if it exists on one side only.

    `aspect` is the part that differs: empty for the whole object, ``attribute axis``, ``input 1``, ``type``,
    ``values``, ``metadata key`` …; `before` and `after` describe it as text. `numbers` measure the distance of
    constants.
    """

    kind: Kind
    subject: Subject
    old: Any
    new: Any
    aspect: str = ""
    before: str = ""
    after: str = ""
    numbers: TensorDifference | None = None

    @property
    def place(self) -> Any:
        """The object to show: the new one if there is one."""
        return self.new if self.new is not None else self.old


@dataclass(slots=True, repr=False)
class Comparison:
    """Two models, the matching of their objects, and the differences."""

    old: Model
    new: Model
    differences: list[Difference] = field(default_factory=list)
    matching: GraphMatching = field(default_factory=GraphMatching)

    def __repr__(self) -> str:
        return f"<Comparison with {len(self.differences)} differences>"

    def __bool__(self) -> bool:
        return bool(self.differences)

    def partner(self, item: object) -> object | None:
        """Return the counterpart of an object in the other model."""
        return self.matching.partner(item)


def compare(old: Model, new: Model, progress: Progress = SILENT, *, weights: bool = True) -> Comparison:
    """Return all differences between `old` and `new`; empty for equal models, whatever files they came from.

    Without `weights` constants are compared by type and shape only. Any thread, while the models do not change. Linear
    in nodes and edges; reads constants unless they are the same range of the same file.
    """
    return _Work(old, new, progress, weights=weights).run()


def do_the_same(function: Function, other: Function) -> bool:
    """Return whether two functions differ at most in texts, in names of values and nodes, and in their order.

    Calls of other functions are compared by name alone. Cost: as `compare`.
    """
    old, new = Model(), Model()
    old.functions, new.functions = (function,), (other,)
    aspects = (difference.aspect for difference in compare(old, new).differences)
    return all(aspect in _TOLD or aspect.startswith(("metadata ", "doc string ")) for aspect in aspects)


class _Work:
    def __init__(self, old: Model, new: Model, progress: Progress, *, weights: bool) -> None:
        self.result = Comparison(old, new)
        self._matching = self.result.matching
        self._progress = progress
        self._weights = weights
        self._graphs: list[tuple[Graph, Graph]] = []
        self._done = 0

    def run(self) -> Comparison:
        old, new = self.result.old, self.result.new
        self._matching.pair(old, new)
        self._model(old, new)
        self._functions(old, new)
        self._training(old, new)
        self._graphs.append((old.graph, new.graph))  # first: training graphs see its values
        while self._graphs:
            pair = self._graphs.pop()
            self._matching.pair(*pair)
            match_graphs(*pair, self._matching, self._progress)
            self._graph(*pair)
        return self.result

    def _add(
        self,
        kind: Kind,
        subject: Subject,
        old: Any,
        new: Any,
        aspect: str = "",
        before: str = "",
        after: str = "",
        *,
        numbers: TensorDifference | None = None,
    ) -> None:
        self.result.differences.append(Difference(kind, subject, old, new, aspect, before, after, numbers))

    # -- plain fields --------------------------------------------------------------------------------------------

    def _fields(self, subject: Subject, old: Any, new: Any, names: Iterable[str]) -> None:
        for name in names:
            self._plain(subject, old, new, name.replace("_", " "), getattr(old, name), getattr(new, name))

    def _plain(self, subject: Subject, old: Any, new: Any, aspect: str, before: Any, after: Any) -> None:
        if before != after:
            kind: Kind = "added" if before in (None, "") else "removed" if after in (None, "") else "changed"
            self._add(kind, subject, old, new, aspect, _text(before), _text(after))

    def _mapping(
        self, subject: Subject, old: Any, new: Any, word: str, a: Mapping[str, Any], b: Mapping[str, Any]
    ) -> None:
        for key in dict.fromkeys((*a, *b)):
            before, after = a.get(key), b.get(key)
            if before != after:
                kind: Kind = "added" if key not in a else "removed" if key not in b else "changed"
                self._add(kind, subject, old, new, f"{word} {key}", _text(before), _text(after))

    def _model(self, old: Model, new: Model) -> None:
        self._fields("model", old, new, (
            "ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string",
        ))  # fmt: skip
        self._opsets("model", old, new)
        self._mapping("model", old, new, "metadata", old.metadata, new.metadata)
        if old.configurations != new.configurations:
            names = [", ".join(c.name for c in m.configurations) for m in (old, new)]
            self._add("changed", "model", old, new, "device configurations", *names)

    def _opsets(self, subject: Subject, old: Any, new: Any) -> None:
        ours, theirs = ({d or "ai.onnx": v for d, v in x.opset_imports.items()} for x in (old, new))
        self._mapping(subject, old, new, "opset", ours, theirs)

    # -- functions and training ----------------------------------------------------------------------------------

    def _functions(self, old: Model, new: Model) -> None:
        for function, other in pair_functions(old, new):
            self._matching.pair(function, other)
            if function.key != other.key:
                self._matching.calls[function.key] = other.key
                self._add("renamed", "function", function, other, "name", _key_text(function.key), _key_text(other.key))
        for function in old.functions:
            partner = self._matching.new_of.get(function)
            if isinstance(partner, Function):
                self._function(function, partner)
            else:
                self._add("removed", "function", function, None)
        for function in new.functions:
            if function not in self._matching.old_of:
                self._add("added", "function", None, function)

    def _function(self, function: Function, other: Function) -> None:
        self._fields("function", function, other, ("doc_string", "attributes"))
        self._opsets("function", function, other)
        self._mapping("function", function, other, "metadata", function.metadata, other.metadata)
        defaults = ({a.name: a for a in f.attribute_defaults} for f in (function, other))
        self._attributes("function", function, other, *defaults)
        self._graphs.append((function.body, other.body))

    def _training(self, old: Model, new: Model) -> None:
        if len(old.training_info) != len(new.training_info):
            counts = (str(len(m.training_info)) for m in (old, new))
            self._add("changed", "model", old, new, "training graphs", *counts)
        for a, b in zip(old.training_info, new.training_info, strict=False):
            self._training_pair(old, new, a, b)

    def _training_pair(self, old: Model, new: Model, a: TrainingInfo, b: TrainingInfo) -> None:
        for name in ("initialization_binding", "update_binding"):
            self._plain("model", old, new, name.replace("_", " "), getattr(a, name), getattr(b, name))
        for name in ("initialization", "algorithm"):
            ours, theirs = getattr(a, name), getattr(b, name)
            if ours is not None and theirs is not None:
                self._graphs.append((ours, theirs))
            elif ours is not None or theirs is not None:
                kind: Kind = "added" if ours is None else "removed"
                self._add(kind, "graph", ours, theirs)

    # -- graphs --------------------------------------------------------------------------------------------------

    def _graph(self, old: Graph, new: Graph) -> None:
        self._plain_name(old, new)
        self._fields("graph", old, new, ("doc_string",))
        self._mapping("graph", old, new, "metadata", old.metadata, new.metadata)
        self._interface("input", old, new, old.inputs, new.inputs)
        self._interface("output", old, new, old.outputs, new.outputs)
        self._nodes(old, new)
        self._values(old, new)
        ours = [self._annotation(a, translate=True) for a in old.quantization_annotations]
        theirs = [self._annotation(a, translate=False) for a in new.quantization_annotations]
        if ours != theirs:
            names = (", ".join(a.value.name for a in g.quantization_annotations) for g in (old, new))
            self._add("changed", "graph", old, new, "quantization annotations", *names)

    def _plain_name(self, old: Graph, new: Graph) -> None:
        if old.name != new.name and not isinstance(new.owner, Function):  # it has the function's name
            self._add("renamed", "graph", old, new, "name", old.name, new.name)

    def _annotation(self, annotation: QuantizationAnnotation, *, translate: bool) -> Hashable:
        def other(value: Value) -> object:
            return self._matching.new_of.get(value, value) if translate else value

        return other(annotation.value), tuple((key, other(v)) for key, v in annotation.parameters)

    def _interface(self, word: str, old: Graph, new: Graph, ours: Sequence[Value], theirs: Sequence[Value]) -> None:
        """Compare which values are inputs or outputs, and their order."""
        mapped = [self._matching.value(v) for v in ours]
        kept = set(mapped) & set(theirs)
        lone = {v.name: v for v in theirs if v not in kept}
        for value, partner in zip(ours, mapped, strict=True):
            if partner in kept:
                continue
            other = lone.pop(value.name, None)
            if other is None:
                self._add("removed", "graph", old, new, f"{word} {value.name}", str(value.type or ""), "")
            else:
                self._add("changed", "graph", old, new, f"{word} {value.name}", _origin(value), _origin(other))
        for value in lone.values():
            self._add("added", "graph", old, new, f"{word} {value.name}", "", str(value.type or ""))
        before = [v for v in mapped if v in kept]
        after = [v for v in theirs if v in kept]
        if before != after:
            names = (", ".join(v.name for v in values if v is not None) for values in (before, after))
            self._add("moved", "graph", old, new, f"order of {word}s", *names)

    def _nodes(self, old: Graph, new: Graph) -> None:
        for node in old.nodes:
            if self._matching.node(node) is None:
                self._add("removed", "node", node, None)
        position = {node: i for i, node in enumerate(new.nodes)}
        paired: list[tuple[Node, Node]] = []
        for node in new.nodes:
            partner = self._matching.old_of.get(node)
            if isinstance(partner, Node):
                continue
            self._add("added", "node", None, node)
        for node in old.nodes:
            other = self._matching.node(node)
            if other is not None:
                paired.append((node, other))
                self._node(node, other)
        moved = out_of_order([position[b] for _, b in paired])
        before = {node: i for i, node in enumerate(old.nodes)} if moved else {}
        for index in moved:
            a, b = paired[index]
            self._add("moved", "node", a, b, "place", str(before[a]), str(position[b]))

    def _node(self, old: Node, new: Node) -> None:
        self._done += 1
        if not self._done % 500:
            self._progress.report(self._done, 0, "nodes")
        if old.name != new.name:
            self._add("renamed", "node", old, new, "name", old.name, new.name)
        key = old.operator
        if self._matching.calls.get(key, key) != new.operator:
            self._add("changed", "node", old, new, "operator", _operator(old), _operator(new))
        self._wires("input", old, new, old.inputs, new.inputs)
        self._wires("output", old, new, old.outputs, new.outputs)
        if old._source is not None and old._source is new._source and old._attributes is None is new._attributes:
            return  # two untouched copies of one node
        self._attributes("node", old, new, old.attributes, new.attributes)
        self._fields("node", old, new, ("doc_string",))
        self._mapping("node", old, new, "metadata", old.metadata, new.metadata)
        if old.device_configurations != new.device_configurations:
            texts = (", ".join(c.configuration_id for c in n.device_configurations) for n in (old, new))
            self._add("changed", "node", old, new, "device configurations", *texts)

    def _wires(
        self,
        word: str,
        old: Node,
        new: Node,
        ours: Sequence[Value | None],
        theirs: Sequence[Value | None],
    ) -> None:
        for index in range(max(len(ours), len(theirs))):
            a = ours[index] if index < len(ours) else None
            b = theirs[index] if index < len(theirs) else None
            if a is b is None or (a is not None and b is not None and self._same(a, b)):
                continue
            kind: Kind = "added" if a is None else "removed" if b is None else "changed"
            describe = _origin_too if a is not None and b is not None and a.name == b.name else _name
            names = ("" if v is None else describe(v) for v in (a, b))
            self._add(kind, "node", old, new, f"{word} {index}", *names)

    def _same(self, a: Value, b: Value) -> bool:
        """Return whether two values match; undefined names match if they are equal, wherever they are used."""
        return self._matching.new_of.get(a) is b or (a.name == b.name and not a.is_defined and not b.is_defined)

    # -- attributes ----------------------------------------------------------------------------------------------

    def _attributes(
        self, subject: Subject, old: Any, new: Any, ours: Mapping[str, Attribute], theirs: Mapping[str, Attribute]
    ) -> None:
        for name in dict.fromkeys((*ours, *theirs)):
            a, b = ours.get(name), theirs.get(name)
            if a is None or b is None:
                kind: Kind = "added" if a is None else "removed"
                self._add(kind, subject, old, new, f"attribute {name}", _attribute_text(a), _attribute_text(b))
                continue
            if a.graphs and b.graphs and len(a.graphs) == len(b.graphs) and a.kind == b.kind:
                self._graphs.extend(zip(a.graphs, b.graphs, strict=True))
            else:
                self._attribute(subject, old, new, a, b)
            self._plain(subject, old, new, f"doc string of {name}", a.doc_string, b.doc_string)

    def _attribute(self, subject: Subject, old: Any, new: Any, a: Attribute, b: Attribute) -> None:
        if a.kind == b.kind and a.reference == b.reference:
            ours, theirs = _constants(a), _constants(b)
            if ours is not None and theirs is not None and len(ours) == len(theirs):
                for x, y in zip(ours, theirs, strict=True):
                    numbers = self._compare(x, y)
                    if numbers is not None:
                        texts = form_text(x), form_text(y)
                        self._add("changed", subject, old, new, f"attribute {a.name}", *texts, numbers=numbers)
                return
            if ours is None and theirs is None and repr(a.value) == repr(b.value):
                return
        self._add("changed", subject, old, new, f"attribute {a.name}", _attribute_text(a), _attribute_text(b))

    # -- values --------------------------------------------------------------------------------------------------

    def _values(self, old: Graph, new: Graph) -> None:
        theirs = {id(v) for v in new.values()}
        for value in old.values():
            partner = self._matching.value(value)
            if partner is not None and id(partner) in theirs:
                self._value(value, partner)
            elif value.initializer is not None:
                self._add("removed", "value", value, None, "initializer", form_text(value.initializer), "")
        for value in new.values():
            if value not in self._matching.old_of and value.initializer is not None:
                self._add("added", "value", None, value, "initializer", "", form_text(value.initializer))

    def _value(self, old: Value, new: Value) -> None:
        if old.name != new.name:
            self._add("renamed", "value", old, new, "name", old.name, new.name)
        self._plain("value", old, new, "type", old.type, new.type)
        self._fields("value", old, new, ("doc_string",))
        self._mapping("value", old, new, "metadata", old.metadata, new.metadata)
        a, b = old.initializer, new.initializer
        if a is None and b is None:
            return
        if a is None or b is None:
            kind: Kind = "added" if a is None else "removed"
            texts = (form_text(c) if c is not None else "" for c in (a, b))
            self._add(kind, "value", old, new, "initializer", *texts)
            return
        self._done += 1
        self._progress.report(self._done, 0, "constants")
        numbers = self._compare(a, b)
        if numbers is not None:
            self._add("changed", "value", old, new, "values", form_text(a), form_text(b), numbers=numbers)

    def _compare(self, old: Tensor | SparseTensor, new: Tensor | SparseTensor) -> TensorDifference | None:
        if self._weights or form_text(old) != form_text(new):
            return compare_constants(old, new, self._progress)
        return None


def _name(value: Value) -> str:
    return value.name


def _origin_too(value: Value) -> str:
    """Describe a value and its producer, to distinguish it from another one of the same name."""
    return f"{value.name} {_origin(value)}" if value.producer is not None else f"{value.name}, {_origin(value)}"


def _origin(value: Value) -> str:
    """Describe the producer of a value."""
    if value.producer is None:
        return "an initializer" if value.initializer is not None else "an input"
    return f"from {value.producer.op_type} {value.producer.name}".rstrip()


def _constants(attribute: Attribute) -> tuple[Tensor | SparseTensor, ...] | None:
    value = attribute.value
    if isinstance(value, (Tensor, SparseTensor)):
        return (value,)
    if isinstance(value, tuple) and value and isinstance(value[0], (Tensor, SparseTensor)):
        return tuple(v for v in value if isinstance(v, (Tensor, SparseTensor)))
    return None


def _operator(node: Node) -> str:
    return _key_text(node.operator)


def _key_text(key: Key) -> str:
    domain, name, overload = key
    return (f"{domain}::" if domain else "") + name + (f":{overload}" if overload else "")


def _attribute_text(attribute: Attribute | None) -> str:
    if attribute is None:
        return ""
    if attribute.reference:
        return f"@{attribute.reference}"
    if has_text(attribute.kind):
        return attribute_source(attribute, _MOST_SHOWN)
    constants = _constants(attribute)
    if constants is not None:
        return ", ".join(map(form_text, constants[:_MOST_SHOWN]))
    return ", ".join(f"graph {g.name} of {len(g.nodes)} nodes" for g in attribute.graphs[:_MOST_SHOWN])


def _text(content: Any) -> str:
    if content is None:
        return ""
    return ", ".join(map(_text, content)) if isinstance(content, tuple) else str(content)
