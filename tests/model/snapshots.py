"""A model as plain data to compare, and the rule that links must obey."""

from collections import Counter

from model.graph import Graph, Model
from model.tensors import SparseTensor, Tensor


def snapshot(model: Model):
    """Everything a file would hold, as comparable data."""
    return (
        model.ir_version, dict(model.opset_imports), model.producer_name, model.producer_version, model.domain,
        model.model_version, model.doc_string, dict(model.metadata), _graph(model.graph),
        [
            (f.key, f.doc_string, f.attributes, [_attribute(a) for a in f.attribute_defaults],
             dict(f.opset_imports), dict(f.metadata), _graph(f.body))
            for f in model.functions
        ],
        [
            (t.initialization and _graph(t.initialization), t.algorithm and _graph(t.algorithm),
             t.initialization_binding, t.update_binding)
            for t in model.training_info
        ],
        model.configurations,
    )  # fmt: skip


def _graph(graph: Graph):
    return (
        graph.name, graph.doc_string, dict(graph.metadata),
        [_value(v) for v in graph.inputs],
        [_value(v) for v in graph.outputs],
        [(v.name, _tensor(v.initializer)) for v in graph.initializers],
        [_value(v) for v in graph.declared if v.type is not None],
        [(a.value.name, [(k, v.name) for k, v in a.parameters]) for a in graph.quantization_annotations],
        [_node(n) for n in graph.nodes],
    )  # fmt: skip


def _node(node):
    return (
        node.op_type, node.domain, node.overload, node.name, node.doc_string, dict(node.metadata),
        [v and v.name for v in node.inputs], [v and v.name for v in node.outputs],
        [_attribute(a) for a in node.attributes.values()], node.device_configurations,
    )  # fmt: skip


def _attribute(attribute):
    value = attribute.value
    if attribute.graphs:
        value = [_graph(g) for g in attribute.graphs]
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
    data = values if values is None or values.dtype != object else values.tolist()
    return tensor.element_type, tuple(tensor.shape), data if isinstance(data, (list, type(None))) else data.tobytes()


def assert_linked(model: Model) -> None:
    """Definition and use agree everywhere: each use is listed at its value and nothing else is."""
    used = Counter()
    for graph in model.graphs():
        nodes = list(graph.nodes)
        assert len(nodes) == len(graph.nodes)
        assert nodes == list(reversed(graph.nodes))[::-1]
        for value in graph.inputs:
            assert value.graph is graph
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
