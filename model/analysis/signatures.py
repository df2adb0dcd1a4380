"""Schema of a node: from the function it calls, else from its operator."""

from __future__ import annotations

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.call_graph import called_by
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.ir.graph import Function, Node
from onnx_workbench.model.schemas import AttributeSchema, Parameter, Schema
from onnx_workbench.model.schemas.defaults import schema_of
from onnx_workbench.model.text.operators import parse_operator


def signature_of(node: Node) -> Schema | None:
    """Return the schema of a node under the imports of its graph; None if unknown."""
    graph = node.graph
    if graph is None:
        return None
    function = called_by(node)
    if function is not None:
        return function_schema(function)
    return schema_of(node)


def function_schema(function: Function) -> Schema:
    """Return the signature of a function as an operator schema."""
    every = frozenset[str]()
    inputs = tuple(Parameter(v.name, "", every, "optional") for v in function.body.inputs)
    outputs = tuple(Parameter(v.name, "", every) for v in function.body.outputs)
    kinds = _kinds_of(function)
    formal = {name: AttributeSchema(name, kinds[name]) for name in function.attributes if name in kinds}
    formal |= {a.name: AttributeSchema(a.name, a.kind, default=a) for a in function.attribute_defaults}
    return Schema(
        name=function.name,
        domain=function.domain,
        since_version=1,
        inputs=inputs,
        outputs=outputs,
        attributes=formal,
        doc=function.doc_string,
        max_inputs=len(inputs),
        max_outputs=len(outputs),
        origin="function",
        is_signature_known=kinds.keys() >= set(function.attributes),
    )


def _kinds_of(function: Function) -> dict[str, AttributeKind]:
    """Derive the kinds of attributes without a default from the nodes that refer to them."""
    wanted, kinds = set(function.attributes), dict[str, AttributeKind]()
    if not wanted:
        return kinds
    for graph in function.body.walk():
        for node in graph.nodes:
            for attribute in node.attributes.values():
                if attribute.reference in wanted and attribute.kind:
                    kinds.setdefault(attribute.reference, attribute.kind)
    return kinds


def operator_for(node: Node, text: str) -> tuple[str, str]:
    """Parse the operator that a node is to become. Without a domain: the node's own, else the first that defines it."""
    graph = node.graph
    assert graph is not None
    imports, functions = graph.opset_imports, () if graph.model is None else graph.model.functions
    op_type, domain = parse_operator(text, {*imports, *(f.domain for f in functions)})
    if domain or op_type != text.strip():
        return op_type, domain
    own_domains = {f.domain for f in functions if f.name == op_type}
    candidates = (node.domain, "", *own_domains, *imports)
    defining = (d for d in candidates if d in own_domains or schemas.find(op_type, imports.get(d, 1), d) is not None)
    return op_type, next(defining, node.domain)
