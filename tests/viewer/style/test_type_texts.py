from onnx_workbench.model.ir.graph import Value
from onnx_workbench.model.ir.types import ElementType, SequenceType, Shape, TensorType
from onnx_workbench.viewer.style.type_texts import dimension_prefix, edge_text, short_type, value_text, whole_type


def tensor(*dims, element=ElementType.FLOAT):
    return TensorType(element, Shape(dims))


def test_long_symbols_leave_the_rank_visible():
    assert short_type(tensor("DynamicDimension.0", 16, None, "batch")) == "float DynamicD…nsion.0×16×?×batch"
    assert short_type(tensor("N", 16, "div(H - 2, 2) + 1")) == "float N×16×H//2"
    assert short_type(None) == ""


def test_a_whole_type_is_as_in_the_file():
    name = "a_long_name_of_a_dimension" * 4
    assert whole_type(tensor(name, "div(H + 1, 2)")) == f"float {name}×div(H + 1, 2)"
    assert short_type(tensor("div(H + 1, 2)", 3)) == "float ⌈H/2⌉×3"
    assert whole_type(None) == ""


def test_the_common_prefix_of_dimension_names_is_left_out():
    types = [tensor("p2o.DynamicDimension.0", 3), tensor("p2o.DynamicDimension.1", "p2o.DynamicDimension.12")]
    prefix = dimension_prefix(Value(f"v{n}", type_) for n, type_ in enumerate(types))
    assert prefix == "p2o.Dynamic"
    assert short_type(SequenceType(types[1]), prefix) == "seq(float Dimension.1×Dimension.12)"
    assert edge_text(tensor("2*p2o.DynamicDimension.1", 3), prefix) == "2*Dimension.1×3"


def test_edges_say_the_element_type_unless_it_is_float():
    assert edge_text(tensor(3)) == "[3]"
    assert edge_text(tensor()) == "scalar"
    assert edge_text(tensor(element=ElementType.INT64)) == "int64 scalar"
    assert edge_text(TensorType(ElementType.FLOAT, None)) == "float"
    assert edge_text(None) == ""


def test_a_value_without_a_type_has_no_text():
    assert value_text(Value("v")) == ""
    assert value_text(Value("v", tensor(2, 2))) == "float 2×2"
