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


def test_sizes_vary_from_run_to_run():
    """A batch of 1 does not tell broadcasting from a sum over the batch."""
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[batch, M] x) => (float[a, b] y) {{ {} }}'
    whole = builders.model(text.format("y = Identity(x)"))
    summed = builders.model(text.format("z = Constant<value_ints = [0]>() y = ReduceSum(x, z)"))
    found = compare_models(whole, summed)
    assert (found.agrees, found.runs) == (False, 1)


def test_a_model_that_bears_one_size_alone_is_compared_at_that():
    text = """<ir_version: 10, opset_import: ["" : 22]> g (float[1, M] x) => (float[a, b] y)
        <float[8] w = {1., 2., 3., 4., 5., 6., 7., 8.}> { y = Add(x, w) z = Concat<axis = 0>(x, y) }"""
    assert compare_models(builders.model(text), builders.model(text.replace("Add(x, w)", "Add(w, x)"))).agrees


def test_an_output_of_another_type_than_declared_differs():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (double[4] x) => (double[4] y) {{ y = {} (x) }}'
    whole, other = (builders.model(text.format(op)) for op in ("Identity", "Cast <to = 1>"))
    assert compare_models(whole, other).reason == "output y is of type float32, and was float64"
