import pytest

from onnx_workbench.model.analysis.search import parse, search
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.steps import SetAttribute
from onnx_workbench.model.ir.attributes import Attribute, AttributeKind
from tests.model import builders

MODEL = """
<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
net (float[N, 3, 224, 224] image, bool flag) => (float[N, 10] scores)
<float[1, 2, 2, 1] weights = {1, 2, 3, 4}, int64[2] Sizes = {-1, 10}>
{
    [Conv_0] a = Conv <kernel_shape: ints = [3, 3], auto_pad: string = "SAME_UPPER", strides = [2, 2]> (image, weights)
    [conv_1] b = Conv <kernel_shape: ints = [3, 3], group = 1> (a, missing)
    [gelu] c = com.microsoft.Gelu (b)
    [choice] d = If (flag) <
        then_branch: graph = yes () => (float[N] p) { [deep_relu] p = Relu (c) },
        else_branch: graph = no () => (float[N] q) { [deep_neg] q = Neg (c) }
    >
    [flat] scores = Reshape (d, Sizes)
}
"""


@pytest.fixture(scope="module")
def model():
    return builders.model(MODEL)


def found(model, text):
    return [item.name for item in search(model, parse(text)) if item is not None]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("conv", ["Conv_0", "conv_1"]),
        ("CONV 1", ["conv_1"]),
        ('"Conv_0"', ["Conv_0"]),
        ('"conv_0"', []),
        ("'Relu'", ["deep_relu"]),
        ("same_upper", ["Conv_0"]),
        ("op:conv", ["Conv_0", "conv_1"]),
        ("op:*elu", ["gelu", "deep_relu"]),
        ("op:com.microsoft:gelu", ["gelu"]),
        ("name:/^conv/", ["conv_1"]),
        ("/^conv/i", ["Conv_0", "conv_1"]),
        ("name:deep", ["deep_relu", "deep_neg"]),
        ("attr:kernel_shape=[3,3]", ["Conv_0", "conv_1"]),
        ("attr:kernel_shape=[3, 3] attr:auto_pad", ["Conv_0"]),
        ("attr:group=1", ["conv_1"]),
        ("attr:auto_pad=same_upper", ["Conv_0"]),
        ("is:input", ["image", "flag"]),
        ("is:output", ["scores", "p", "q"]),
        ("is:initializer", ["weights", "Sizes"]),
        ("is:undefined", ["missing"]),
        ("is:value deep", []),
        ("224", ["image"]),
        ("bool", ["flag"]),
        ("1,2,2,1", ["weights"]),
        ("1×2×2×1", ["weights"]),
        ("shape:?,3,224,* is:value", ["image"]),
        ("shape:*,10 is:value", ["scores"]),
        ("dtype:int64", ["flat", "Sizes"]),
        ("dtype:float32 is:input", ["image"]),
        ("op:conv -name:1", ["Conv_0"]),
        ("", []),
        ("   ", []),
        ("nothing here", []),
    ],
)
def test_queries(model, query, names):
    assert found(model, query) == names


@pytest.mark.parametrize("query", ["name:/(/", "is:nonsense", "/[/"])
def test_what_cannot_be_understood_is_said(query):
    with pytest.raises(ModelError):
        parse(query)


@pytest.mark.parametrize(
    "query", ['"', "'", "-", "attr:", "op:", "name:", "shape:", "shape:[", "attr:x=[", "a:b", "[", "//"]
)
def test_half_typed_queries_are_no_error(model, query):
    found(model, query)


def test_inferred_types_can_be_searched(model):
    from onnx_workbench.model.ir.types import ElementType, Shape, TensorType

    query = parse(
        "shape:5,5", lambda value: TensorType(ElementType.FLOAT, Shape((5, 5))) if value.name == "a" else None
    )
    assert [item.name for item in search(model, query) if item is not None] == ["Conv_0", "a", "conv_1"]


def test_a_large_model_lets_the_window_breathe():
    from onnx_workbench.model.history.steps import InsertNode
    from onnx_workbench.model.ir.graph import Graph, Model, Node

    graph = Graph("wide")
    for index in range(2000):
        InsertNode(graph, Node("Relu", name=f"n{index}")).apply()
    results = list(search(Model(graph), parse("n1999")))
    assert [r.name for r in results if r is not None] == ["n1999"]
    assert results.count(None) > 3


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("attr:alpha=1e-5", ["leaky"]),
        ("attr:alpha=0.00001", ["leaky"]),
        ("attr:alpha=1e-05", ["leaky"]),
        ("attr:alpha=1e-4", []),
        ("max", ["leaked"]),
        ("max,2", ["leaked"]),
    ],
)
def test_numbers_however_spelled_and_names_with_an_x(query, names):
    model = builders.model("""g (float[1] a) => (float[max, 2] leaked)
        { [leaky] leaked = LeakyRelu <alpha: float = 0.00001> (a) }""")
    assert found(model, query) == names


class Numbers(tuple):
    """Numbers of an attribute, which are not to be gone through."""

    __slots__ = ()

    def __iter__(self):
        raise AssertionError


def test_a_list_of_very_many_numbers_is_compared_by_its_beginning():
    model = builders.document().model
    node = next(iter(model.graph.nodes))
    for attribute in (
        Attribute("many", AttributeKind.INTS, Numbers(range(1000))),
        Attribute("few", AttributeKind.INTS, (1, 2)),
        Attribute("empty", AttributeKind.STRINGS, ("", "", "")),
    ):
        SetAttribute(node, attribute.name, attribute).apply()

    assert found(model, "attr:many=[0,1,2]") == []
    assert found(model, "attr:few=[1,2]") == [node.name]
    assert found(model, "attr:few=[1,2,3]") == []
    assert found(model, "attr:few=[1]") == []
    assert found(model, "attr:few=") == []
    assert found(model, "attr:empty=[,,]") == [node.name]
