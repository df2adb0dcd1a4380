"""The graph rewriter that the simplifier and the conversions share."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.model.ir.types import ElementType
from tests.model import builders
from tests.model.checking import legal


@contextmanager
def rewriting(document):
    with document.edit("Rewrite") as edit:
        rewriter = GraphRewriter(edit)
        yield rewriter
        rewriter.finish()


def operators(graph):
    return [node.op_type for node in graph.nodes]


def test_replacing_a_node_leaves_no_dead_code_and_is_undone():
    document = builders.document()
    before = to_bytes(document.model)
    graph, third = document.model.graph, builders.node(document, "third")
    with rewriting(document) as rewriter:
        rewriter.replace_node(third, "Add", [graph.inputs[0], np.ones(4, np.float32)])
    assert operators(graph) == ["Add", "Softmax"]
    assert [value.name for value in graph.initializers] == ["third_constant"]
    assert legal(document.model)
    document.undo()
    assert to_bytes(document.model) == before


def test_a_replaced_graph_output_keeps_its_name_and_place():
    document = builders.document()
    graph = document.model.graph
    with rewriting(document) as rewriter:
        rewriter.replace_value(graph.outputs[0], builders.value(document, "r"))
    assert [value.name for value in graph.outputs] == ["y"]
    assert operators(graph) == ["Mul", "Relu"]


def test_new_names_are_free_in_training_graphs_too():
    document = builders.document(trained=True)
    graph, second = document.model.graph, builders.node(document, "second")
    with rewriting(document) as rewriter:
        constant = rewriter.constant(graph, np.ones(1, np.float32), "rate", second)
    assert constant.name == "rate_1"


def test_what_training_reads_stays_without_a_use():
    document = builders.document(trained=True)
    last = builders.node(document, "fourth")
    with rewriting(document) as rewriter:
        rewriter.collect([last])
        rewriter.set_inputs(builders.node(document, "first"), [builders.value(document, "x"), np.ones(4, np.float32)])
    assert "w" in [value.name for value in document.model.graph.initializers]


def test_a_new_constant_of_a_function_is_a_node_before_its_user():
    document = builders.document(builders.BRANCHES)
    (function,) = document.model.functions
    product = next(node for node in function.body.nodes if node.op_type == "Mul")
    with rewriting(document) as rewriter:
        rewriter.set_inputs(product, [product.inputs[0], np.full(1, 3, np.float32)])
    assert isinstance(function, Function)
    assert operators(function.body) == ["Constant", "Mul"]  # the one that it replaces is dead
    assert legal(document.model)


def test_a_cast_stands_behind_the_producer_or_first():
    document = builders.document()
    graph = document.model.graph
    with rewriting(document) as rewriter:
        for name in ("x", "a"):
            cast = rewriter.cast(builders.value(document, name), ElementType.DOUBLE, graph)
            assert cast.producer.attributes["to"].value == int(ElementType.DOUBLE)
    assert operators(graph) == ["Cast", "Mul", "Cast", "Relu", "Add", "Softmax"]


def test_declarations_of_removed_values_go():
    document = builders.document(
        """
        g (float[4] x) => (float[4] y) <float[4] a, float[4] b> { a = Relu(x) b = Neg(a) y = Abs(b) }"""
    )
    graph = document.model.graph
    with rewriting(document) as rewriter:
        rewriter.replace_value(builders.value(document, "b"), graph.inputs[0])
    assert operators(graph) == ["Abs"]
    assert not graph.declared
