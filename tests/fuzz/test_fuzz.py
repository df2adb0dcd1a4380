"""Random models and operator cases by a seed, which a failure names; fresh ones with HYPOTHESIS_PROFILE=fresh.

`python -m tests.fuzz --models 1000 --seed S` runs more of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import onnx
import onnx.parser
import pytest
from hypothesis import settings

from onnx_workbench.model.inference.infer import infer
from onnx_workbench.model.ir.types import TensorType
from tests.fuzz.cases import Case, as_text, one_helper_process
from tests.fuzz.generator import FLOAT, MICROSOFT, NEWEST, OLDEST, U8, Builder, finished, random_model
from tests.fuzz.operators.registry import all_operators, apply
from tests.fuzz.oracles import ORACLES, shrunk, verdict
from tests.fuzz.sweeps import sweep
from tests.fuzz.transformations import type_differs

#: Fixed where the examples of hypothesis are.
SEED = 1 if settings.default.derandomize else random.SystemRandom().randrange(1 << 32)
pytestmark = [
    pytest.mark.random,
    pytest.mark.filterwarnings("ignore"),  # of numpy in the reference, which computes with whatever comes
]


@pytest.fixture(scope="module", autouse=True)
def helpers() -> Iterator[None]:
    with one_helper_process():
        yield


def found_in(seed: str, number: int, oracles: tuple[str, ...]) -> str:
    """What is wrong with a random model, shrunk."""
    case = Case(random_model(seed), number)
    for oracle in oracles:
        if message := verdict(oracle, case):
            return f"seed {seed!r}, {oracle}: {message}\n{shrunk(oracle, case, message)}"
    return ""


def hours(*values: object) -> object:
    """Parameters of a test that takes an hour or more."""
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])


@pytest.mark.parametrize(("models", "each"), [(40, 2), hours(500, len(ORACLES))])
def test_random_models(models: int, each: int) -> None:
    """Each goes through so many of the oracles, in turn."""
    names = list(ORACLES)
    for number in range(models):
        chosen = tuple(names[(each * number + i) % len(names)] for i in range(each))
        if message := found_in(f"{SEED}:{number}", number, chosen):
            pytest.fail(message)


@pytest.mark.parametrize("cases", [pytest.param(200, marks=pytest.mark.long), hours(5000)])
def test_operator_cases(cases: int) -> None:
    for finding in sweep(SEED, range(cases)):
        pytest.fail(str(finding))


@pytest.mark.parametrize("opset", range(OLDEST, NEWEST + 1))
def test_models_are_valid_in_each_operator_set(opset: int) -> None:
    for seed in range(4):
        model = random_model(f"{SEED}:{seed}", opset=opset)
        assert model.opset_import[0].version == opset
        onnx.checker.check_model(model)


def test_shapes_of_microsoft_operators_are_inferred() -> None:
    """A part that is cut off behind one needs the rank of its output; what depends on data has no more than that."""
    chosen = [o for o in all_operators() if o.domain == MICROSOFT]
    for number in range(8 * len(chosen)):
        builder = Builder(random.Random(f"{SEED}:{number}"), 21)
        builder.input(FLOAT, (2, 3, 4))
        builder.input(U8, (3, 4))
        if not apply(builder, chosen[number % len(chosen)]):
            continue
        proto = finished(builder)
        for value in proto.graph.output:
            value.type.tensor_type.ClearField("shape")
        case = Case(proto, number)
        model = case.load()
        types = infer(model)
        for node in model.graph.nodes:
            if node.domain == MICROSOFT:
                found = types.type_of(node.outputs[0])
                assert isinstance(found, TensorType), node.op_type
                assert found.shape is not None, node.op_type
                for _, result in case.results:
                    assert not type_differs(found, result.values[node.outputs[0].name], {}), as_text(proto)


def test_a_seed_always_gives_the_same_model() -> None:
    assert random_model(7).SerializeToString() == random_model(7).SerializeToString()


def test_a_finding_is_shown_in_a_smaller_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, float[M] y) => (float[N] a, float[M] b) {
          c = Relu (x)
          d = Exp (c)
          e = Neg (d)
          a = Add (e, c)
          b = Abs (y)
        }""")

    def has_exp(case: Case) -> str:
        return "Exp" if any(node.op_type == "Exp" for node in case.proto.graph.node) else ""

    monkeypatch.setitem(ORACLES, "exp", has_exp)
    small = onnx.parser.parse_model(shrunk("exp", Case(model), "Exp"))
    assert [node.op_type for node in small.graph.node] == ["Exp"]


def test_an_exception_is_a_finding() -> None:
    assert "raised ModelError" in verdict("simplify", Case(onnx.ModelProto()))


def test_casts_beside_chosen_nodes_go_where_they_lose_effect() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float16[2] y) { a = Relu (x) y = Cast <to = 10> (a) }""")
    assert not [message for seed in range(16) if (message := verdict("nodes", Case(model, seed)))]


def test_inlined_functions_may_reuse_the_names_around_them() -> None:
    """So ONNX Runtime writes them; what its model computes is compared all the same."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 22]>
        g (float[2] x, bool c) => (float[2] y, float[2] z) {
          y = HardSwish (x)
          z = If (c) <
            then_branch = g1 () => (float[2] a) { a = HardSwish (x) },
            else_branch = g2 () => (float[2] b) { b = Neg (x) }>
        }""")
    assert not verdict("optimised", Case(model))
