"""Traits of operators: complete, and in agreement with the schemas."""

import pytest

from onnx_workbench.model import schemas
from onnx_workbench.model.ir.attributes import AttributeKind
from onnx_workbench.model.schemas import microsoft, onnx_package, traits

KNOWN = sorted({*onnx_package.versions(), *((microsoft.DOMAIN, name) for name in microsoft.names())})
LISTED = [(domain, name) for domain, table in traits.TABLES.items() for name in table]


def every_version(domain, name):
    return [schemas.find(name, since, domain) for since in schemas.versions(name, domain)]


@pytest.mark.parametrize("domain", sorted({domain for domain, _ in KNOWN}))
def test_every_operator_of_any_version_has_traits(domain):
    """A new operator is sorted in by hand, also where it has none but its category."""
    assert {name for d, name in KNOWN if d == domain} <= set(traits.TABLES.get(domain, {}))


def test_operators_are_listed_by_name():
    for table in traits.TABLES.values():
        assert list(table) == sorted(table)


def test_an_unknown_operator_has_none():
    assert traits.find("Brandnew") == traits.find("Relu", "my.domain") == traits.OperatorTraits()


def test_attributes_that_set_the_output_type_name_types():
    named = [(d, n, known.type_attribute) for d, n in LISTED if (known := traits.find(n, d)).type_attribute]
    assert len(named) >= 10
    for domain, name, attribute in named:
        kinds = {s.attributes[attribute].kind for s in every_version(domain, name) if attribute in s.attributes}
        assert AttributeKind.INT in kinds, (name, attribute)


def test_operators_with_subgraphs_say_how_these_are_tied():
    for name in traits.TABLES[""]:
        kinds = {a.kind for schema in every_version("", name) for a in schema.attributes.values()}
        assert (AttributeKind.GRAPH in kinds) == (traits.find(name).first_result is not None), name


def test_inputs_that_traits_refer_to_exist():
    for domain, name in KNOWN:
        known = traits.find(name, domain)
        most = max(schema.max_inputs for schema in every_version(domain, name))
        places = [*(known.moves or ()), *(known.neutral or (0, ()))[1]]
        places += [place for place in (known.shape_of, known.first_argument) if place is not None]
        places += known.sizes
        assert all(place < most for place in places), name


def test_sizes_are_numbers_and_none_is_data():
    """A size is a number; what an operator moves, or what the output has the shape of, is none."""
    for domain, name in KNOWN:
        known = traits.find(name, domain)
        assert known.shape_of not in known.sizes, name
        newest = every_version(domain, name)[-1]
        for index in known.sizes:
            formal = newest.input(index)
            assert formal is None or not {"tensor(string)", "tensor(complex64)"} & formal.types, (name, index)


def test_a_result_of_the_shape_of_an_input_excludes_broadcasting():
    for domain, name in LISTED:
        known = traits.find(name, domain)
        assert known.shape_of is None or not known.broadcasts, name


def test_microsoft_results_shaped_like_an_input_have_its_type():
    """Inference takes both from it, but for what has a rule of its own."""
    for name, known in traits.TABLES[microsoft.DOMAIN].items():
        if known.shape_of is not None and name not in ("QuantizeLinear", "DequantizeLinear"):
            schema = schemas.find(name, 1, microsoft.DOMAIN)
            assert schema.types_by(known.shape_of, schema.output(0)), name


def test_reductions_have_axes():
    for domain, name in LISTED:
        if traits.find(name, domain).is_reduction:
            for schema in every_version(domain, name):
                assert {"axes", "axis"} & {*schema.attributes, *(p.name for p in schema.inputs)}
