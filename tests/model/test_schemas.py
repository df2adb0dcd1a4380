from onnx import defs

from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.signatures import signature_of
from onnx_workbench.model.ir.attributes import AttributeKind, make_attribute
from onnx_workbench.model.ir.types import ElementType, SequenceType, Shape, TensorType
from onnx_workbench.model.schemas import microsoft
from tests.model import builders


def test_the_newest_version_not_newer_is_found():
    assert schemas.find("Softmax", 12).since_version == 11
    assert schemas.find("Softmax", 13).since_version == 13
    assert schemas.find("Gelu", 19) is None


def test_a_domain_of_its_own():
    assert schemas.find("TreeEnsemble", 5, "ai.onnx.ml").domain == "ai.onnx.ml"
    assert schemas.find("TreeEnsemble", 5) is None


def test_every_signature_of_the_onnx_package_converts():
    for raw in defs.get_all_schemas_with_history():
        schema = schemas.find(raw.name, raw.since_version, raw.domain)
        assert schema is not None
        assert schema.since_version == raw.since_version
        assert set(raw.attributes) - set(schema.attributes) <= {"consumed_inputs"}
        assert len(schema.inputs) == len(raw.inputs)


def test_documentation_ends_lines_as_markdown_does():
    assert (
        schemas.find("ZipMap", 1, "ai.onnx.ml").doc.splitlines()[0]
        == "Creates a map from the input and the attributes.  "
    )
    for raw in defs.get_all_schemas():
        schema = schemas.find(raw.name, raw.since_version, raw.domain)
        every = schema, *schema.inputs, *schema.outputs, *schema.attributes.values()
        assert not any("<br" in one.doc for one in every)


def test_defaults_and_choices_of_attributes():
    conv = schemas.find("Conv", 22)
    assert conv.attributes["auto_pad"].choices == ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    assert conv.is_default(make_attribute("group", 1))
    assert not conv.is_default(make_attribute("group", 2))
    assert not conv.is_default(make_attribute("kernel_shape", [3, 3]))


def test_choices_fit_the_kind_of_an_attribute_and_hold_its_default():
    """Official models were said to have odd values, such as 1 where the choices were texts."""
    every = [schemas.find(raw.name, raw.since_version, raw.domain) for raw in defs.get_all_schemas_with_history()]
    kinds = {AttributeKind.INT: int, AttributeKind.STRING: str}
    for schema in (*every, *map(microsoft.read, microsoft.names())):
        for name, attribute in schema.attributes.items():
            if not attribute.choices:
                continue
            place = f"{schema.name} {schema.since_version} {name}"
            assert {type(choice) for choice in attribute.choices} == {kinds.get(attribute.kind)}, place
            assert attribute.default is None or attribute.default.value in attribute.choices, place


def test_choices_are_those_of_the_version():
    modes = {version: schemas.find("GridSample", version).attributes["mode"].choices for version in (16, 20)}
    assert modes == {16: ("bilinear", "nearest", "bicubic"), 20: ("linear", "nearest", "cubic")}
    assert "output_half_pixel" in schemas.find("RoiAlign", 16).attributes["coordinate_transformation_mode"].choices


def test_parameters_know_which_types_they_allow():
    conv = schemas.find("Conv", 22)
    assert conv.input(0).allows(TensorType(ElementType.FLOAT, Shape((1, 3, "h", None))))
    assert not conv.input(0).allows(TensorType(ElementType.INT64))
    assert schemas.find("SequenceLength", 11).input(0).allows(SequenceType(TensorType(ElementType.FLOAT)))


def test_variadic_inputs_repeat_the_last_parameter():
    concat = schemas.find("Concat", 13)
    assert concat.input(99).name == concat.inputs[0].name
    assert concat.max_inputs > 1000
    assert schemas.find("Relu", 14).input(1) is None


def test_operators_of_microsoft_are_known():
    found = schemas.find("SkipLayerNormalization", 1, "com.microsoft")
    assert [p.name for p in found.inputs][:3] == ["input", "skip", "gamma"]
    assert found.min_inputs == 3
    assert found.attributes["epsilon"].default.value > 0


def test_operators_offers_what_the_imports_allow():
    names = {s.name for s in schemas.operators({"": 12})}
    assert "Conv" in names
    assert "Gelu" not in names
    assert "FusedConv" not in names
    assert "FusedConv" in {s.name for s in schemas.operators({"": 12, "com.microsoft": 1})}


def test_a_registered_document_wins_until_forgotten():
    custom = [schemas.Schema("Conv", "", 1, doc="mine"), schemas.Schema("Mine", "my.domain", 3)]
    schemas.register(custom)
    try:
        assert schemas.find("Conv", 22).doc == "mine"
        assert schemas.find("Mine", 2, "my.domain") is None
        assert schemas.find("Mine", 4, "my.domain").since_version == 3
    finally:
        schemas.unregister(custom)
    assert schemas.find("Conv", 22).doc != "mine"
    assert schemas.versions("Mine", "my.domain") == ()


def test_of_two_documents_with_one_operator_the_other_stays():
    first, second = [schemas.Schema("Mine", "my.domain", 3, doc="1")], [schemas.Schema("Mine", "my.domain", 3, doc="2")]
    schemas.register(first)
    schemas.register(second)
    assert schemas.find("Mine", 3, "my.domain").doc == "2"
    schemas.unregister(second)
    assert schemas.find("Mine", 3, "my.domain").doc == "1"
    schemas.unregister(first)
    assert schemas.find("Mine", 3, "my.domain") is None


def test_a_functions_attributes_are_of_the_kind_that_its_nodes_say():
    document = builders.document("""
    <ir_version: 10, opset_import: ["" : 21, "l" : 1]>
    g (float[2] x) => (float[2] y) { [call] y = l.f (x) }
    <domain: "l", opset_import: ["" : 21]>
    f <axis, factor, idle> (v) => (o)
    { c = Constant <value_float: float = @factor> () s = Softmax <axis: int = @axis> (v) o = Mul (s, c) }
    """)
    schema = signature_of(builders.node(document, "call"))
    kinds = {name: formal.kind for name, formal in schema.attributes.items()}
    assert kinds == {"axis": AttributeKind.INT, "factor": AttributeKind.FLOAT}
    assert not schema.is_signature_known, "nobody says what idle is"
