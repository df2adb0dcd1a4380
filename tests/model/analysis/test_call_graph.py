"""Which nodes have parts of the model inside."""

from onnx_workbench.model.analysis.call_graph import holders
from tests.model import builders

NESTED = """
    <ir_version: 10, opset_import: ["" : 21, "l" : 1]>
    g (float[2] x, bool c) => (float[2] y)
    {
        [a] u = l.outer (x)
        [choice] y = If (c) <
            then_branch: graph = yes () => (p) { [b] p = l.inner (u) },
            else_branch: graph = no () => (q) { [other] q = Neg (u) }
        >
    }
    <domain: "l", opset_import: ["" : 21, "l" : 1]>
    outer (s) => (t) { [c] t = l.inner (s) }
    <domain: "l", opset_import: ["" : 21]>
    inner (s) => (t) { [wrong] t = NoSuch (s) }
    <domain: "l", opset_import: ["" : 21]>
    idle (s) => (t) { [lonely] t = Neg (s) }
"""


def test_bodies_and_calls_hold_what_is_inside_however_deep():
    model = builders.document(NESTED).model
    nodes = {node.name: node for graph in model.graphs() for node in graph.nodes}
    outer, inner, _ = model.functions

    def callers(*places):
        return {node.name for node in holders(model, places)}

    assert callers(nodes["wrong"]) == callers(inner) == {"a", "b", "c", "choice"}
    assert callers(nodes["wrong"].outputs[0], inner.body) == {"a", "b", "c", "choice"}
    assert callers(nodes["c"]) == callers(outer) == {"a"}
    assert callers(nodes["other"]) == {"choice"}
    assert callers(nodes["lonely"], nodes["a"], model) == set()
