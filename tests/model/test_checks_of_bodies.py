"""What bodies get and give, against the nodes that hold them."""

import numpy as np
import onnx
import pytest

from onnx_workbench.exec.session import Session
from onnx_workbench.model.checks import check_model
from onnx_workbench.model.history.steps import SetGraphInputs, SetInitializer, SetInput
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.tensors import ArrayTensor
from tests.model import builders

IF = """y{second} = If (k) <then_branch = t () => (s{then}) {{ s = Neg(x) s2 = Abs(x) }},
                            else_branch = e () => (u{other}) {{ u = Abs(x) u2 = Neg(x) }}>"""
LOOP = """y = Loop (n, k, {given}) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {{
    d = Identity(c) w = Neg(v) }}>"""
LEFT_OUT = """{outputs} = Loop (n, k, x, x) <body = b (int64 i, bool c, float[2] v, float[2] v2) =>
    (bool d, float[2] w, float[2] w2, float[2] s) {{ d = Identity(c) w = Neg(v) w2 = Abs(v2) s = Neg(v) }}>"""
SCAN = "y = Scan <num_scan_inputs = 1, body = b (float q) => (float r{second}) {{ r = Neg(q) s = Abs(q) }}> (x)"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (IF.format(second=", z", then=", s2", other=", u2"), []),
        (IF.format(second="", then=", s2", other=""), ["body"]),
        (IF.format(second="", then=", s2", other=", u2"), ["body", "body"]),
        (LOOP.format(given="x"), []),
        (LOOP.format(given='""'), ["input-missing"]),
        (LEFT_OUT.format(outputs='y, "", ""'), []),
        (LEFT_OUT.format(outputs='"", y, ""'), []),
        (LEFT_OUT.format(outputs="y"), ["body"]),  # as onnx's checker and ONNX Runtime say
        (SCAN.format(second=""), []),
        (SCAN.format(second=", float s"), ["body"]),
    ],
)
def test_bodies_get_and_give_what_their_nodes_do(body, found):
    text = f'<ir_version: 10, opset_import: ["" : 18]> g (float[2] x, bool k, int64 n) => (float[2] y) {{ {body} }}'
    errors = [problem for problem in check_model(builders.model(text)) if problem.severity == "error"]
    assert [problem.rule for problem in errors] == found


def test_bodies_of_old_files_list_their_constants_as_inputs():
    text = """
        <ir_version: %d, opset_import: ["" : 8]>
        g (float[2] x, bool c) => (float[2] y)
        { [choice] y = If (c) <then_branch: graph = yes () => (p) { p = Relu (x) },
            else_branch: graph = no () => (q) { q = Add (x, w) }> }
    """
    for version, expected in ((3, []), (10, ["body", "body-initializer"])):
        document = builders.document(text % version)
        body = builders.graph(document, "no")
        value = Value("w")
        user = body.nodes[0]
        with document.edit("Constant") as edit:
            edit.do(SetGraphInputs(body, (value,)))
            edit.do(SetInitializer(body, value, ArrayTensor(np.float32([1, 2]))))
            edit.do(SetInput(user, 1, value))
        assert sorted(p.rule for p in check_model(document.model) if p.severity == "error") == expected


def test_a_name_in_very_many_bodies_is_reported_where_it_hides():
    bodies = "\n".join(
        f"""o{i} = If (c) <then_branch = t () => (float[2] {hides}) {{ {hides} = Neg (x) }},
            else_branch = e () => (float[2] q) {{ q = Abs (x) }}>"""
        for i in range(100)
        for hides in ["o99" if i == 98 else "q"]
    )
    model = builders.model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[2] x) => (float[2] o99) {{ {bodies} }}'
    )
    found = [problem for problem in check_model(model) if problem.rule == "shadowing"]
    assert [problem.message for problem in found] == ["o99 hides a value of an outer graph"]
    many = "\n".join(
        f"""p{i} = If (c) <then_branch = t () => (float[2] y) {{ y = Neg (x) }},
            else_branch = e () => (float[2] q) {{ q = Abs (x) }}>"""
        for i in range(100)
    )
    model = builders.model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[2] x) => (float[2] y) {{ {many} y = Neg (p0) }}'
    )
    assert len([problem for problem in check_model(model) if problem.rule == "shadowing"]) == 100


OUTER = {
    "an input": "y = If (k) <then_branch = t () => (s) { s = Neg(x) }, else_branch = e () => (x) { }>",
    "a constant": "y = If (k) <then_branch = t () => (s) { s = Neg(x) }, else_branch = e () => (c) { }>",
    "a result": "r = Abs(x) y = If (k) <then_branch = t () => (r) { }, else_branch = e () => (r) { }>",
    "in a loop": """y, z = Loop (n, k, x) <body = b (int64 i, bool g, float[2] v) => (k, float[2] w, x) {
        w = Neg(v) }> """,
    "further in": """y = If (k) <then_branch = t () => (s) { s = If (k) <
        then_branch = i () => (x) { }, else_branch = j () => (u) { u = Neg(x) }> },
        else_branch = e () => (q) { q = Abs(x) }>""",
}


@pytest.mark.parametrize("case", OUTER)
def test_returning_an_outer_value_is_fixed_by_an_identity(case):
    head = '<ir_version: 10, opset_import: ["" : 18]> g (float[2] x, bool k, int64 n) => (float[2] y)'
    document = builders.document(f"{head} <float[2] c = {{1, 2}}> {{ {OUTER[case]} }}")
    feeds = {"x": np.array([1, -2], np.float32), "k": np.array(True), "n": np.array(2)}
    expected = Session(document.model).run(feeds).outputs["y"].tolist()
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(to_bytes(document.model), full_check=True)
    while found := [p for p in check_model(document.model) if p.rule == "outer-output"]:
        builders.one_edit(document, found[0].fix.apply)
    onnx.checker.check_model(to_bytes(document.model), full_check=True)
    assert not [p for p in check_model(document.model) if p.severity == "error"]
    assert Session(document.model).run(feeds).outputs["y"].tolist() == expected
