"""A model as plain data to compare, and the rule that links must obey."""

from collections import Counter
from contextlib import contextmanager

from onnx_workbench.model.ir.graph import Graph, Model, Node, TrainingInfo, Value, Values
from onnx_workbench.model.ir.name_index import NameIndex, ancestor_in
from onnx_workbench.model.ir.tensors import SparseTensor, Tensor


def snapshot(model: Model, *, saved: bool = False):
    """Everything a file would hold, as comparable data.

    With `saved`, declared and inferred types are the same: a file lists both. It lists
    sparse constants behind the others.
    """
    return (
        model.ir_version, dict(model.opset_imports), model.producer_name, model.producer_version, model.domain,
        model.model_version, model.doc_string, dict(model.metadata), _graph(model.graph, saved),
        [
            (f.key, f.doc_string, f.attributes, [_attribute(a, saved) for a in f.attribute_defaults],
             dict(f.opset_imports), dict(f.metadata), _graph(f.body, saved))
            for f in model.functions
        ],
        [
            (t.initialization and _graph(t.initialization, saved), t.algorithm and _graph(t.algorithm, saved),
             t.initialization_binding, t.update_binding)
            for t in model.training_info
        ],
        model.configurations,
    )  # fmt: skip


def _graph(graph: Graph, saved: bool):
    return (
        graph.name, graph.doc_string, dict(graph.metadata),
        [_value(v) for v in graph.inputs],
        [_value(v) for v in graph.outputs],
        [(v.name, _tensor(v.initializer)) for v in _listed(graph, saved)],
        _typed(graph) if saved else [_value(v) for v in graph.declared if v.type is not None],
        [(a.value.name, [(k, v.name) for k, v in a.parameters]) for a in graph.quantization_annotations],
        [_node(n, saved) for n in graph.nodes],
    )  # fmt: skip


def _listed(graph: Graph, saved: bool):
    return sorted(graph.initializers, key=lambda v: saved and isinstance(v.initializer, SparseTensor))


def _typed(graph: Graph):
    known = {v for n in graph.nodes for v in n.outputs if v is not None}
    known.update(graph.initializers, (v for v in graph.declared if v.uses or v.is_defined))
    return sorted((*_value(v)[:1], repr(v.type)) for v in known.difference(graph.inputs, graph.outputs) if v.type)


def _node(node, saved: bool):
    return (
        node.op_type, node.domain, node.overload, node.name, node.doc_string, dict(node.metadata),
        [v and v.name for v in node.inputs], [v and v.name for v in node.outputs],
        [_attribute(a, saved) for a in node.attributes.values()], node.device_configurations,
    )  # fmt: skip


def _attribute(attribute, saved: bool):
    value = attribute.value
    if attribute.graphs:
        value = [_graph(g, saved) for g in attribute.graphs]
    elif isinstance(value, (Tensor, SparseTensor)):
        value = _tensor(value)
    elif isinstance(value, tuple) and value and isinstance(value[0], Tensor):
        value = [_tensor(t) for t in value]
    return attribute.name, attribute.kind, repr(value), attribute.doc_string, attribute.reference


def _value(value):
    return value.name, value.type, value.doc_string, dict(value.metadata)


def _tensor(tensor):
    if isinstance(tensor, SparseTensor):
        return _tensor(tensor.values), _tensor(tensor.indices), tensor.shape
    values = None if tensor.problem else tensor.numpy()
    texts = values is not None and values.dtype == object  # a lone one becomes a str, not a list
    data = values if values is None else values.tolist() if texts else values.tobytes()
    return tensor.element_type, tuple(tensor.shape), data


def assert_linked(model: Model) -> None:
    """Definition and use agree everywhere: each use is listed at its value and nothing else is."""
    used = Counter()
    for graph in model.graphs():
        nodes = list(graph.nodes)
        assert len(nodes) == len(graph.nodes)
        assert nodes == list(reversed(graph.nodes))[::-1]
        for value in graph.inputs:
            assert value.graph is graph
            assert value.is_input
        for value in graph.initializers:
            assert value.graph is graph
            assert value.initializer is not None
        for index, value in enumerate(graph.outputs):
            used[value, (graph, index)] += 1
        for node in nodes:
            assert node.graph is graph
            for body in node.bodies:
                assert body.owner is node
            for index, value in enumerate(node.inputs):
                if value is not None:
                    used[value, (node, index)] += 1
            for index, value in enumerate(node.outputs):
                if value is not None:
                    assert value.producer is node
                    assert value.index == index
                    assert value.graph is graph
    listed = Counter(
        (value, use)
        for value in {v for g in model.graphs() for v in g.values()} | {v for v, _ in used}
        for use in value.uses
    )
    assert listed == used
    for value in {value for value, _ in listed}:
        assert value.is_output == any(isinstance(user, Graph) for user, _ in value.uses)
    for graph in model.graphs():  # or asking them costs a look at each of thousands
        assert {type(listed) for listed in (graph.inputs, graph.outputs, graph.declared)} == {Values}


@contextmanager
def on_rollback(*documents):
    """Whatever is done inside, taking it back gives each model as it was, with its links whole."""
    before = [snapshot(document.model) for document in documents]
    yield
    for document, old in zip(documents, before, strict=True):
        assert_linked(document.model)
        while document.undo():
            pass
        assert snapshot(document.model) == old
        assert_linked(document.model)


def assert_known(model: Model) -> None:
    """Every root graph knows exactly the names in it, and whether its nodes are in order."""
    for root in model.root_graphs():
        known = NameIndex.of(root)
        assert known.is_sorted == is_sorted(root)
        used, named = _names(root)
        assert {n for n in known._values if any(_is_known_by(root, v) for v in known.values(n))} == used
        assert {name for name in known._nodes if known.node(name)} == named


def _is_known_by(root: Graph, value: Value) -> bool:
    """Graphs of training need not know the names of what they use of the main graph, which does."""
    return not isinstance(root.owner, TrainingInfo) or (value.graph is not None and value.graph.root is root)


def _names(root: Graph) -> tuple[set[str], set[str]]:
    used, named = set(), set()
    for graph in root.walk():
        mentioned = [*graph.inputs, *graph.initializers, *graph.outputs, *graph.declared]
        for node in graph.nodes:
            named.add(node.name)
            mentioned += [v for v in (*node.inputs, *node.outputs) if v is not None]
        used.update(v.name for v in mentioned if _is_known_by(root, v))
    return used, named


def is_sorted(root: Graph) -> bool:
    """Whether every node stands after the nodes it needs, found by looking through all."""
    place = {node: number for graph in root.walk() for number, node in enumerate(graph.nodes)}
    needs = [(value, node) for node in place for value in node.inputs if value is not None]
    needs += [(value, g.owner) for g in root.walk() if isinstance(g.owner, Node) for value in g.outputs]
    for value, user in needs:
        producer = value.producer
        anchor = ancestor_in(user, producer.graph) if producer is not None and producer.graph is not None else None
        if anchor is not None and place[producer] >= place[anchor]:
            return False
    return True
