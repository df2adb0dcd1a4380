"""What only bytes of a file can hold: texts that are no UTF-8, numbers that fit no element, unknown enumerators."""

import pytest
from onnx import TensorProto, helper

from onnx_workbench.model.checks import check_model
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.viewer.cli.main import main
from tests.model import builders

MARK = b"QQ"


@pytest.fixture
def problems(tmp_path):
    """Write a model in which MARK becomes bytes that are no UTF-8; the rules that find errors, with their places."""

    def problems(change):
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"], name="neg")], "g", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        change(model)
        path = tmp_path / "made.onnx"
        path.write_bytes(model.SerializeToString().replace(MARK, b"\xff\xfe"))
        read = load(path)
        return read, [problem for problem in check_model(read) if problem.severity == "error"]

    return problems


@pytest.mark.parametrize(
    ("change", "report"),
    [
        (lambda m: setattr(m, "producer_name", "QQ"), "The producer of the model is not UTF-8"),
        (lambda m: m.metadata_props.add(key="k", value="aQQ"), "The metadata k of the model is not UTF-8"),
        (lambda m: setattr(m.graph, "name", "QQ"), "The name of a graph is not UTF-8"),
        (lambda m: setattr(m.graph.node[0], "name", "QQ"), "The name of \udcff\udcfe is not UTF-8"),
        (lambda m: setattr(m.graph.node[0], "doc_string", "QQ"), "The description of neg is not UTF-8"),
        (lambda m: m.graph.node[0].attribute.add(name="QQ", type=2), "The attribute of neg is not UTF-8"),
        (lambda m: m.graph.initializer.add(name="QQ", data_type=1, dims=[0]), "The name of a value is not UTF-8"),
        (
            lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "QQ"),
            "The size of the type of x is not UTF-8",
        ),
    ],
)
def test_texts_that_are_no_utf_8_are_reported_where_they_are(problems, change, report):
    _, found = problems(change)
    (problem,) = [problem for problem in found if problem.rule == "utf-8"]
    assert problem.message == report
    assert "0xff" in problem.detail


def test_names_that_are_no_utf_8_are_linked_like_others(problems):
    def change(model):
        model.graph.node.add(op_type="Abs", input=["QQ"], output=["z"])
        model.graph.node.insert(0, helper.make_node("Neg", ["x"], ["QQ"]))

    model, found = problems(change)
    first, _, last = model.graph.nodes
    assert last.inputs == first.outputs
    assert {problem.rule for problem in found} == {"utf-8"}  # none is out of order


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"data_type": TensorProto.INT8, "int32_data": [1, 300]},
            "Number 1 of int32_data is 300; -128 to 127 is allowed",
        ),
        ({"data_type": TensorProto.FLOAT16, "int32_data": [70000, 0]}, "Number 0 of int32_data is 70,000"),
        ({"data_type": TensorProto.UINT32, "uint64_data": [1 << 32, 0]}, "Number 0 of uint64_data is 4,294,967,296"),
        ({"data_type": TensorProto.UINT8, "int32_data": [255, 0]}, ""),
        ({"data_type": TensorProto.FLOAT16, "int32_data": [65535, 0]}, ""),
    ],
)
def test_numbers_that_fit_no_element_are_reported(problems, fields, reason):
    _, found = problems(lambda m: m.graph.initializer.append(TensorProto(name="w", dims=[2], **fields)))
    assert [problem.rule for problem in found] == (["tensor-range"] if reason else [])
    assert all(problem.detail.startswith(reason) and problem.place.name == "w" for problem in found)


def test_an_unknown_data_location_is_reported(problems):
    tensor = TensorProto(name="w", dims=[2], data_type=TensorProto.INT8, raw_data=b"ab").SerializeToString()
    _, found = problems(lambda m: m.graph.initializer.add().ParseFromString(tensor + bytes([14 << 3, 99])))
    assert [(problem.rule, problem.place.name) for problem in found] == [("data-location", "w")]


def test_a_sparse_tensor_of_more_elements_than_can_be_is_reported(problems):
    values, indices = helper.make_tensor("w", 1, [1], [1.0]), helper.make_tensor("i", 7, [1], [0])
    sparse = helper.make_sparse_tensor(values, indices, [1 << 40, 1 << 40])
    _, found = problems(lambda m: m.graph.sparse_initializer.append(sparse))
    assert [problem.rule for problem in found] == ["sparse-tensor"]
    assert "1,208,925,819,614,629,174,706,176 elements" in found[0].detail


def test_infer_says_that_a_function_calls_itself(tmp_path, capsys):
    text = """<ir_version: 8, opset_import: ["" : 17, "d" : 1]> g (float[2] x) => (float[2] y) { y = d.F (x) }
        <domain: "d", opset_import: ["d" : 1]> F (x) => (y) { y = d.F (x) }"""
    path = builders.model_file(tmp_path / "endless.onnx", text)
    assert main(["infer", str(path), "-o", str(tmp_path / "out.onnx")]) == 1
    assert "Function F calls itself" in capsys.readouterr().err
