"""Whether two models compute the same: what may differ, and what is said where it does."""

import pytest

from onnx_workbench.exec.inspect.equivalence import compare_models
from tests.model import builders


def scaled(kind, factor):
    return builders.model(
        f"""<ir_version: 10, opset_import: ["" : 22]> g ({kind}[64] x, {kind}[1] like) => ({kind}[64] y)
        <float[1] w = {{{factor}}}> {{ v = CastLike(w, like) y = Mul(x, v) }}"""
    )


@pytest.mark.parametrize(
    ("kind", "factor", "agrees"),
    [("float", 1.00001, True), ("float", 1.01, False), ("float16", 1.01, True), ("float16", 1.5, False)],
)
def test_outputs_may_be_off_by_what_the_precision_of_the_model_makes(kind, factor, agrees):
    found = compare_models(scaled(kind, 1.0), scaled(kind, factor))
    assert found.agrees is agrees
    assert found.runs == (3 if agrees else 0)


def test_a_model_of_fewer_bits_may_be_off_from_the_one_it_came_from():
    whole = scaled("float", 1.0)
    assert compare_models(whole, scaled("float16", 1.01)).agrees
    assert compare_models(scaled("float16", 1.01), whole).agrees


def test_what_is_random_or_lost_is_said():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[4] x) => (float[4] y) {{ y = {} (x) }}'
    same, random = (builders.model(text.format(op)) for op in ("Relu", "RandomNormalLike"))
    assert compare_models(random, random).agrees is None
    lost = builders.model(text.format("Relu").replace(" y", " z"))
    assert compare_models(same, lost).reason == "output y is gone"


def test_a_value_that_nothing_gives_is_the_reason():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[4] x) => (float[4] y) {{ y = {} }}'
    whole, broken = builders.model(text.format("Neg(x)")), builders.model(text.format("Add(x, nowhere)"))
    assert "nothing defines 'nowhere'" in compare_models(broken, whole).reason
    found = compare_models(whole, broken)
    assert (found.agrees, found.fails) == (False, True)
    assert str(found) == "the model does not run any more (nothing defines 'nowhere')"
