"""RNN, GRU and LSTM against ONNX Runtime over directions, lengths, activations and states; old versions; bad shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.registry import find
from tests.examples import examples
from tests.exec.kernels.harness import assert_same, call, check_against, ort_one_node

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
PREPARE: dict[str, Any] = {name: find(name, 14).prepare for name in ("RNN", "GRU", "LSTM")}
OUTPUTS = {"RNN": 2, "GRU": 2, "LSTM": 3}


def inputs_of(op_type: str, steps: int, batch: int, width: int, hidden: int, directions: int, *parts: str) -> list[Any]:
    """X, W, R and those of B, lengths, h, c, P that are named in `parts`."""
    rng = np.random.default_rng(0)
    gates = GATES[op_type] * hidden

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) / max(2, hidden**0.5)).astype(np.float32)

    result = [normal(steps, batch, width), normal(directions, gates, width), normal(directions, gates, hidden)]
    result.append(normal(directions, 2 * gates) if "B" in parts else None)
    lengths = rng.integers(1, steps + 1, batch).astype(np.int32)
    result.append(lengths if "lengths" in parts else None)
    result.append(normal(directions, batch, hidden) if "h" in parts else None)
    if op_type == "LSTM":
        result.append(normal(directions, batch, hidden) if "c" in parts else None)
        result.append(normal(directions, 3 * hidden) if "P" in parts else None)
    while result[-1] is None:
        result.pop()
    return result


@pytest.mark.long
@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    "parts", [(), ("B",), ("B", "h", "c"), ("B", "lengths"), ("B", "lengths", "h", "c"), ("P", "B")]
)
@pytest.mark.parametrize("opset", [7, 14])
def test_agrees_with_onnxruntime(op_type: str, direction: str, parts: tuple[str, ...], opset: int) -> None:
    directions = 2 if direction == "bidirectional" else 1
    inputs = inputs_of(op_type, 6, 3, 5, 4, directions, *parts)
    check_against(
        *(ort_one_node, op_type, inputs),
        opset=opset,
        outputs=OUTPUTS[op_type],
        rtol=1e-4,
        atol=1e-5,
        direction=direction,
        hidden_size=4,
    )


@pytest.mark.parametrize(
    ("op_type", "more"),
    [
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"linear_before_reset": 1, "clip": 0.4}),
        ("GRU", {"clip": 0.3}),
        ("LSTM", {"clip": 0.3}),
        ("RNN", {"clip": 0.0}),
        ("RNN", {"clip": -0.5}),
        ("LSTM", {"input_forget": 1}),
        ("RNN", {"activations": ("Relu",)}),
        ("RNN", {"activations": ("LeakyRelu",), "activation_alpha": (0.2,)}),
        ("RNN", {"activations": ("Affine",), "activation_alpha": (0.5,), "activation_beta": (0.1,)}),
        ("RNN", {"activations": ("Elu",), "activation_alpha": (1.5,)}),
        ("RNN", {"activations": ("ScaledTanh",), "activation_alpha": (0.7,), "activation_beta": (1.3,)}),
        ("RNN", {"activations": ("Softsign",)}),
        ("RNN", {"activations": ("Softplus",)}),
        (
            "LSTM",
            {"activations": ("HardSigmoid", "Tanh", "Relu"), "activation_alpha": (0.3,), "activation_beta": (0.4,)},
        ),
        ("GRU", {"activations": ("HardSigmoid", "Softsign"), "activation_alpha": (0.2,), "activation_beta": (0.5,)}),
    ],
)
def test_attributes_agree_with_onnxruntime(op_type: str, more: dict[str, Any]) -> None:
    inputs = inputs_of(op_type, 5, 2, 3, 4, 1, "B", "h", "c")
    check_against(
        *(ort_one_node, op_type, inputs),
        opset=14,
        outputs=OUTPUTS[op_type],
        rtol=1e-4,
        atol=1e-5,
        hidden_size=4,
        **more,
    )


@settings(max_examples=examples(30), deadline=None)
@given(
    st.sampled_from(sorted(GATES)),
    *[st.integers(0, 40), st.integers(1, 70), st.integers(0, 1), st.integers(0, 1)],
)
def test_every_slicing_of_the_state_gives_the_same(op_type: str, batch: int, hidden: int, large: int, lbr: int) -> None:
    # The quick steps cut products by batch and hidden size; a clip that never clips takes the general ones.
    hidden = hidden * 8 if large else hidden
    inputs = inputs_of(op_type, 4, batch, 3, hidden, 1, "B", "h", "c")
    more = {"linear_before_reset": lbr} if op_type == "GRU" else {}
    quick = call(op_type, inputs, opset=14, outputs=OUTPUTS[op_type], hidden_size=hidden, **more)
    plain = call(op_type, inputs, opset=14, outputs=OUTPUTS[op_type], hidden_size=hidden, clip=1e9, **more)
    for a, b in zip(quick, plain, strict=True):
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 12), (3, 128), (2, 320)])
def test_two_directions_are_each_direction_alone(op_type: str, batch: int, hidden: int) -> None:
    inputs = inputs_of(op_type, 5, batch, 4, hidden, 2, "B", "h", "c")
    more = {"linear_before_reset": batch % 2} if op_type == "GRU" else {}
    both = call(op_type, inputs, opset=14, direction="bidirectional", **more)
    for d, direction in enumerate(("forward", "reverse")):
        alone = [None if one is None else one if n in (0, 4) else one[d : d + 1] for n, one in enumerate(inputs)]
        expected = call(op_type, alone, opset=14, direction=direction, **more)
        assert_same([both[0][:, d : d + 1], *(end[d : d + 1] for end in both[1 : OUTPUTS[op_type]])],
                    list(expected[: OUTPUTS[op_type]]), rtol=1e-5, atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("op_type", GATES)
def test_equal_lengths_end_the_sequences_early(op_type: str) -> None:
    inputs = inputs_of(op_type, 6, 2, 3, 4, 2, "B", "lengths", "h", "c")
    inputs[4] = np.array([4, 4], np.int32)
    y, *ends = call(op_type, inputs, opset=14, direction="bidirectional")[: OUTPUTS[op_type]]
    inputs[0], inputs[4] = inputs[0][:4], None
    short, *expected = call(op_type, inputs, opset=14, direction="bidirectional")[: OUTPUTS[op_type]]
    assert_same([y[:4], *ends], [short, *expected])
    assert not y[4:].any()


@pytest.mark.parametrize("op_type", GATES)
def test_layout_one_is_layout_zero_transposed(op_type: str) -> None:
    inputs = inputs_of(op_type, 5, 3, 4, 6, 2, "B", "h", "c")
    straight = call(op_type, inputs, opset=14, outputs=3, direction="bidirectional", hidden_size=6)
    swapped = [v.swapaxes(0, 1) if i in (0, 5, 6) and v is not None else v for i, v in enumerate(inputs)]
    other = call(op_type, swapped, opset=14, outputs=3, direction="bidirectional", hidden_size=6, layout=1)
    np.testing.assert_allclose(other[0], straight[0].transpose(2, 0, 1, 3), rtol=1e-6)
    for a, b in zip(other[1:], straight[1:], strict=True):
        if b is not None:
            np.testing.assert_allclose(a, b.swapaxes(0, 1), rtol=1e-6)


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("opset", [1, 3, 6])
def test_first_versions_are_the_seventh_with_output_sequence(op_type: str, opset: int) -> None:
    inputs = inputs_of(op_type, 3, 2, 4, 5, 1, "B")
    old = call(op_type, inputs, opset=opset, outputs=2, output_sequence=1, hidden_size=5)
    new = call(op_type, inputs, opset=7, outputs=2, hidden_size=5)
    for a, b in zip(old, new, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("op_type", GATES)
def test_prepared_weights_give_the_same(op_type: str) -> None:
    inputs = inputs_of(op_type, 4, 2, 3, 4, 1, "B", "h", "c")
    constants = [None, *inputs[1:4], *[None] * (len(inputs) - 4)]
    prepared = PREPARE[op_type](constants, hidden_size=4)
    assert prepared is not None
    plain = call(op_type, inputs, opset=14, outputs=OUTPUTS[op_type], hidden_size=4)
    for _ in range(2):
        for a, b in zip(prepared(*inputs), plain, strict=False):
            assert_same(a, b)
    assert PREPARE[op_type]([None, None, inputs[2]], hidden_size=4) is None


def test_a_bias_that_is_no_constant_is_used() -> None:
    inputs = inputs_of("LSTM", 4, 2, 3, 4, 1, "B")
    prepared = PREPARE["LSTM"]([None, inputs[1], inputs[2], None], hidden_size=4)
    assert prepared is not None
    assert_same(prepared(*inputs)[0], call("LSTM", inputs, opset=14, outputs=3, hidden_size=4)[0])


def test_half_precision_comes_back_as_such() -> None:
    inputs = [v if v is None else v.astype(np.float16) for v in inputs_of("LSTM", 4, 2, 3, 4, 1, "B")]
    y, h, c = call("LSTM", inputs, opset=14, outputs=3, hidden_size=4)
    assert y.dtype == h.dtype == c.dtype == np.float16


def test_a_sequence_of_no_steps_keeps_the_state() -> None:
    inputs = inputs_of("LSTM", 1, 2, 3, 4, 1, "B", "h", "c")
    inputs[0] = inputs[0][:0]
    y, h, c = call("LSTM", inputs, opset=14, outputs=3, hidden_size=4)
    assert y.shape == (0, 1, 2, 4)
    np.testing.assert_array_equal(h, inputs[5])
    np.testing.assert_array_equal(c, inputs[6])


@pytest.mark.parametrize(
    ("change", "attributes"),
    [
        ({0: np.zeros((4, 2), np.float32)}, {}),
        ({0: np.zeros((4, 2, 9), np.float32)}, {}),
        ({1: np.zeros((1, 15, 3), np.float32)}, {}),
        ({2: np.zeros((2, 16, 4), np.float32)}, {}),
        ({3: np.zeros((1, 31), np.float32)}, {}),
        ({4: np.array([1, 99], np.int32)}, {}),
        ({4: np.array([-1, 1], np.int32)}, {}),
        ({5: np.zeros((1, 3, 4), np.float32)}, {}),
        ({}, {"direction": "sideways"}),
        ({}, {"activations": ("Sigmoid", "Tanh")}),
        ({}, {"activations": ("Sigmoid", "Tanh", "Nothing")}),
        ({}, {"hidden_size": 5}),
    ],
)
def test_what_does_not_fit_is_named(change: dict[int, Any], attributes: dict[str, Any]) -> None:
    inputs: list[Any] = inputs_of("LSTM", 4, 2, 3, 4, 1, "B", "h", "c")
    for index, value in change.items():
        inputs[index] = value
    with pytest.raises(KernelError):
        call("LSTM", inputs, opset=14, outputs=3, **attributes)
