"""Whether two models compute the same: what may differ, and what is said where it does."""

import tracemalloc

import pytest

from onnx_workbench.exec.inspect import equivalence
from onnx_workbench.exec.inspect.equivalence import compare_isolated, compare_models
from onnx_workbench.model.progress import Cancelled, Progress
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
    assert compare_models(same, lost).reason == "outputs differ: output y is missing"


def test_a_value_that_nothing_gives_is_the_reason():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[4] x) => (float[4] y) {{ y = {} }}'
    whole, broken = builders.model(text.format("Neg(x)")), builders.model(text.format("Add(x, nowhere)"))
    assert "nothing defines 'nowhere'" in compare_models(broken, whole).reason
    found = compare_models(whole, broken)
    assert (found.agrees, found.fails) == (False, True)
    assert str(found) == "the model no longer runs (nothing defines 'nowhere')"


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
    assert compare_models(whole, other).reason == "outputs differ: output y is of type float32, and was float64"


ENDLESS = """<ir_version: 10, opset_import: ["" : 22]> g (float[2] x) => (float[2] y) {
    more = Constant <value = bool {1}> ()
    y = Loop (, more, x) < body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t)
        { d = Identity (c) t = OP (s) } >
}"""


@pytest.mark.long
def test_what_takes_too_long_is_not_compared():
    before, after = (builders.model(ENDLESS.replace("OP", op)) for op in ("Neg", "Identity"))
    for compare in (compare_models, compare_isolated):
        found = compare(before, after, time_limit=1)
        assert (found.agrees, str(found)) == (None, "not compared: running the models takes longer than 1 s")


@pytest.mark.long
def test_a_model_that_does_not_end_any_more_differs():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[2] x) => (float[2] y) { y = Neg (x) }'
    found = compare_models(builders.model(text), builders.model(ENDLESS.replace("OP", "Neg")), time_limit=1)
    assert (found.agrees, found.reason) == (False, "the model no longer runs (time limit)")


@pytest.mark.long
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_a_process_of_its_own_finds_what_this_one_does(factor):
    models = scaled("float", 1.0), scaled("float", factor)
    assert compare_isolated(*models) == compare_models(*models)


def test_inputs_of_all_the_memory_are_not_made():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[1099511627776] x) => (float[1] y) {{ y = {} (x) }}'
    found = compare_isolated(*(builders.model(text.format(op)) for op in ("Neg", "Abs")))
    assert found.agrees is None
    assert "No value can be generated for 'x'" in str(found)


@pytest.mark.long
def test_a_comparison_is_stopped():
    progress = Progress(lambda *_: progress.cancel())
    with pytest.raises(Cancelled):
        compare_isolated(scaled("float", 1.0), scaled("float", 1.0), progress=progress)


@pytest.mark.long
def test_values_that_grow_without_end_are_not_compared():
    nodes = " ".join(f"v{i + 1} = Concat <axis = 0> (v{i}, v{i})" for i in range(45))
    text = f'<ir_version: 10, opset_import: ["" : 22]> g (float[2] v0) => (float[n] y) {{ {nodes} y = OP (v45) }}'
    found = compare_isolated(*(builders.model(text.replace("OP", op)) for op in ("Neg", "Identity")))
    assert found.agrees is None
    assert "over the limit of 268,435,456 bytes" in str(found)


@pytest.fixture
def largest(monkeypatch):
    """Limit of one value in bytes, while numpy tells what it allocates."""
    monkeypatch.setattr(equivalence, "value_limit", lambda: 16 << 20)
    tracemalloc.start()
    yield 16 << 20
    tracemalloc.stop()


def test_the_second_model_does_not_run_where_the_first_fails(largest):
    nodes = " ".join(f"v{i + 1} = Concat <axis = 0> (v{i}, v{i})" for i in range(45))
    model = builders.model(
        f"""<ir_version: 10, opset_import: ["" : 22]> g () => (float[n] y)
        <float[2] v0 = {{1, 2}}> {{ {nodes} y = Neg (v45) }}"""
    )
    tracemalloc.reset_peak()
    assert compare_models(model, model).agrees is None
    assert tracemalloc.get_traced_memory()[1] < 3 * largest  # of one run: the largest, and all smaller ones


def test_values_that_are_too_large_together_are_not_compared(largest):
    names = [f"v{i}" for i in range(8)]
    nodes = " ".join(f"{name} = Add (x, c{i})" for i, name in enumerate(names))
    constants = ", ".join(f"float[1] c{i} = {{{i}}}" for i in range(8))
    text = f"""<ir_version: 10, opset_import: ["" : 22]> g (float[3145728] x) => (float[3145728] y)
        <{constants}> {{ {nodes} y = Sum ({", ".join(names)}) }}"""
    model = builders.model(text)
    tracemalloc.reset_peak()
    found = compare_models(model, model)
    assert found.agrees is None
    assert "memory limit" in str(found)
    assert tracemalloc.get_traced_memory()[1] < 4 * largest


def test_size_0_is_tried():
    """A difference there is reported, and refuses nothing: many conversions cannot be exact for it."""
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[N, 4] x) => (float[N, 4] y) {{ {} }}'
    nodes = "t = Transpose (x) s = Shape (x) y = Reshape OP (t, s)"
    whole, shaped = (builders.model(text.format(nodes.replace("OP", op))) for op in ("<allowzero = 1>", ""))
    found = compare_models(whole, shaped)
    assert found.agrees
    assert [remark.split(" (")[0] for remark in found.remarks] == ["where N is 0, the model no longer runs"]
    assert compare_models(whole, whole).remarks == ()


def test_outputs_that_say_nothing_are_reported():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[2] x) => (float[2] y, float[2] z) { y = Relu (x) OP }'
    nan = "a = Abs (x) n = Neg (a) o = Constant <value_float = -1.0> () m = Add (n, o) z = Log (m)"
    model = builders.model(text.replace("OP", nan))
    assert compare_models(model, model).remarks == ("output z has no element that is a number",)


def test_a_model_of_one_size_is_said_to_be_compared_at_that_alone():
    text = """<ir_version: 10, opset_import: ["" : 22]> g (float[1, M] x) => (float[a, b] y)
        <float[8] w = {1., 2., 3., 4., 5., 6., 7., 8.}> { y = Add(x, w) z = Concat<axis = 0>(x, y) }"""
    model = builders.model(text)
    assert compare_models(model, model).remarks == (
        "compared at the default sizes of M only: the original does not run at M = 3",
    )


def test_an_error_is_said_with_the_size_of_the_values():
    text = '<ir_version: 10, opset_import: ["" : 22]> g (float[9] x) => (float[9] y) <float f = {F}> { y = Mul (x, f) }'
    before, after = (builders.model(text.replace("F", factor)) for factor in ("1000.0", "1000.01"))
    found = compare_models(before, after)
    assert found.largest_error == pytest.approx(found.magnitude * 1e-5, rel=0.01)
    assert found.snr == pytest.approx(100, abs=1)
    assert f"where values reach {found.magnitude:.3g} (SNR 100 dB)" in str(found)
