"""BeamSearch and WhisperBeamSearch around a small decoder after an encoder, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

from onnx_workbench.exec.results.run_result import RunResult
from onnx_workbench.exec.session import Session
from onnx_workbench.model.io.reader.read import load
from tests.onnx_runtime import session_or_skip

WORDS, SIZE, EOS, PAD, START = 14, 4, 3, 0, 1
IDS = np.array([[5, 4, 9, 2], [PAD, PAD, 6, 7]], np.int32)
SOUND = np.random.default_rng(5).standard_normal((2, SIZE, 6)).astype(np.float32)

ENCODE_TEXT = """
    taken = Cast <to = 1> (encoder_attention_mask)
    shares = Unsqueeze (taken, last)
    words = Gather (table, encoder_input_ids)
    encoder_hidden_states = Mul (words, shares)
"""
ENCODE_SOUND = "encoder_hidden_states = Transpose <perm = [0, 2, 1]> (encoder_input_ids)"
CROSS = """
    present_key_cross_0 = Unsqueeze (encoder_hidden_states, one)
    present_value_cross_0 = Mul (present_key_cross_0, half)
"""
BEGIN = """
    embedded = Gather (table, decoder_input_ids)
    present_key_self_0 = Unsqueeze (embedded, one)
    present_value_self_0 = Mul (present_key_self_0, half)
"""
ANSWER = """
    own = Mul (present_key_self_0, present_value_self_0)
    all_own = ReduceSum <keepdims = 0> (own, length)
    far = Mul (KEY, VALUE)
    all_far = ReduceMean <axes = [2], keepdims = 0> (far)
    state = Sub (all_own, all_far)
    hidden = Add (embedded, state)
    logits = MatMul (hidden, out)
"""
GO_ON = """
    embedded = Gather (table, input_ids)
    key = Unsqueeze (embedded, one)
    value = Mul (key, half)
    present_key_self_0 = Concat <axis = 2> (past_key_self_0, key)
    present_value_self_0 = Concat <axis = 2> (past_value_self_0, value)
"""
# What fills buffers of the greatest length: at the place after those taken.
FILL = """
    embedded = Gather (table, input_ids)
    key = Unsqueeze (embedded, one)
    value = Mul (key, half)
    places = Shape (past_key_self_0)
    place = Gather (places, length)
    range_start = Cast <to = 7> (past_sequence_length)
    nought = Sub (range_start, range_start)
    all_places = ConstantOfShape <value = int64[1] {1}> (place)
    counted = CumSum (all_places, zero)
    after = Add (range_start, one)
    here = Equal (counted, after)
    here_wide = Unsqueeze (here, last_of_one)
    present_key_self_0 = Where (here_wide, key, past_key_self_0)
    present_value_self_0 = Where (here_wide, value, past_value_self_0)
"""


def layers(*names: str) -> str:
    """Declarations of keys and values of one layer."""
    return ", ".join(
        f"float[b,1,{length},{SIZE}] {name}" for name, length in zip(names, "ppssqq"[: len(names)], strict=True)
    )


def graph(text: str, seed: int) -> Any:
    """A parsed graph with the weights it shares with others of the seed."""
    random = np.random.default_rng(seed)
    weights = {
        "table": random.standard_normal((WORDS, SIZE)), "out": 1.5 * random.standard_normal((SIZE, WORDS)),
        "half": np.array(0.5),
    }  # fmt: skip
    whole = {"one": [1], "last": [2], "length": [2], "zero": 0, "last_of_one": [1]}
    parsed = parser.parse_graph(text)
    given = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    given += [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in whole.items()]
    read = {name for node in parsed.node for name in node.input}
    parsed.initializer.extend(t for t in given if t.name in read)
    return parsed


def encoder(kind: str, seed: int) -> Any:
    """An encoder of text or sound; "cross" gives only its own keys and values, others begin the decoder too."""
    source = f"float[b,{SIZE},s] encoder_input_ids" if kind == "sound" else "int32[b,s] encoder_input_ids"
    mask = "" if kind == "sound" else ", int32[b,s] encoder_attention_mask"
    encode = ENCODE_SOUND if kind == "sound" else ENCODE_TEXT
    cross = layers("present_key_cross_0", "present_value_cross_0")
    if kind == "cross":
        return graph(f"encode ({source}{mask}) => ({cross}) {{ {encode} {CROSS} }}", seed)
    own = layers("present_key_self_0", "present_value_self_0")
    answer = ANSWER.replace("KEY", "present_key_cross_0").replace("VALUE", "present_value_cross_0")
    outputs = f"float[b,t,{WORDS}] logits, float[b,s,{SIZE}] encoder_hidden_states, {own}, {cross}"
    inputs = f"{source}{mask}, int32[b,t] decoder_input_ids"
    return graph(f"encode ({inputs}) => ({outputs}) {{ {encode} {CROSS} {BEGIN} {answer} }}", seed)


def decoder(kind: str, seed: int, *, buffers: int = 0, crossing: bool = False) -> Any:
    """A decoder after such an encoder, with one layer; `buffers` inputs say how it fills buffers."""
    past = layers("past_key_self_0", "past_value_self_0", "past_key_cross_0", "past_value_cross_0")
    report = ["int32[1] past_sequence_length", "int32[1] beam_width", "int32[e,w,q] cache_indirection"][:buffers]
    mask = [] if kind == "sound" else ["int32[b,s] encoder_attention_mask"]
    hidden = [f"float[b,s,{SIZE}] encoder_hidden_states"] if kind == "text" else []
    inputs = ", ".join(["int32[b,1] input_ids", *mask, *hidden, past, *report])
    answer = ANSWER.replace("KEY", "past_key_cross_0").replace("VALUE", "past_value_cross_0")
    cross = ", float[b,1,1,s] cross_qk_0" if crossing else ""
    look = (
        "keys = Transpose <perm = [0, 1, 3, 2]> (past_key_cross_0)\n cross_qk_0 = MatMul (key, keys)"
        if crossing
        else ""
    )
    outputs = f"float[b,1,{WORDS}] logits, {layers('present_key_self_0', 'present_value_self_0')}{cross}"
    return graph(f"decode ({inputs}) => ({outputs}) {{ {FILL if buffers else GO_ON} {answer} {look} }}", seed)


def built(kind: str, inputs: list[Any], *, seed: int = 0, outputs: int = 3, **more: Any) -> tuple[bytes, Any]:
    """A model of one node, and its feeds; inputs of None are left out."""
    buffers, crossing = more.pop("buffers", 0), bool(more.get("decoder_output_cross_qk"))
    op_type = more.pop("op_type", "WhisperBeamSearch" if kind == "sound" else "BeamSearch")
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    feeds = {n: v for n, v in zip(names, inputs, strict=True) if n}
    given = {"eos_token_id": EOS, "pad_token_id": PAD, "decoder_start_token_id": START} | more
    report = ["sequences", "sequences_scores", "scores", "cross_qk", "non_speech_probs"][:outputs]
    node = helper.make_node(
        op_type, names, report, domain="com.microsoft", model_type=2 if kind == "sound" else 1,
        encoder=encoder(kind, seed), decoder=decoder(kind, seed, buffers=buffers, crossing=crossing), **given,
    )  # fmt: skip
    declared = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()
    ]
    results = [helper.make_tensor_value_info(n, 6 if n == "sequences" else 1, None) for n in report]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", declared, results), opset_imports=imports, ir_version=8)
    return model.SerializeToString(), feeds


def ours(kind: str, inputs: list[Any], **more: Any) -> RunResult:
    model, feeds = built(kind, inputs, **more)
    return Session(load(model)).run(feeds)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


CASES = [
    ("text", [IDS, i32(9), i32(1), i32(3), i32(2), f32(1), f32(1)], {}),
    ("cross", [IDS, i32(9), i32(1), i32(3), i32(2), f32(1), f32(1)], {}),
    ("cross", [IDS, i32(12), i32(5), i32(4), i32(4), f32(0.6), f32(1.3)],
     {"early_stopping": 1, "no_repeat_ngram_size": 2}),
    ("cross", [IDS, i32(8), i32(0), i32(2), i32(1), f32(1), f32(1), None, None,
               i32(1, 0, 1, 1, 1, 1, 0, 1).reshape(2, 4)], {}),
    ("sound", [SOUND, i32(9), i32(1), i32(3), i32(2), f32(1), f32(1)], {}),
    ("sound", [SOUND, i32(11), i32(1), i32(2), i32(2), f32(1), f32(1.2), None, None, None,
               i32(1, 5, 1, 6).reshape(2, 2), None, None, None, f32(1.7)], {}),
    ("sound", [SOUND, i32(14), i32(1), i32(3), i32(3), f32(1), f32(1), None, None, None,
               i32(1, 5, 2, 1, 6, 2).reshape(2, 3), i32(1)],
     {"beginning_timestamp_token_id": 9, "no_timestamps_token_id": 8, "start_of_lm_token_id": 7,
      "translate_token_id": 5, "transcribe_token_id": 6, "early_stopping": 1}),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("kind", "inputs", "attributes"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_agrees_with_onnxruntime(kind: str, inputs: list[Any], attributes: dict[str, Any], seed: int) -> None:
    model, feeds = built(kind, inputs, seed=seed, **attributes)
    expected = session_or_skip(model).run(None, feeds)
    found = Session(load(model)).run(feeds).raise_for_failure()
    np.testing.assert_array_equal(found.values["sequences"], expected[0])
    np.testing.assert_allclose(found.values["sequences_scores"], expected[1], rtol=1e-4, atol=1e-5)
    steps = found.values["scores"]
    assert steps.shape == expected[2].shape
    report = (
        int(np.flatnonzero(steps.any((1, 2, 3))).max()) + 1
    )  # ONNX Runtime leaves the others as they were in memory
    np.testing.assert_allclose(steps[:report], expected[2][:report], rtol=1e-4, atol=1e-4)


def test_beam_search_takes_sound_as_whisper_beam_search_does() -> None:
    inputs = [SOUND, i32(9), i32(1), i32(3), i32(2), f32(1), f32(1), None, None, None, i32(1, 5, 1, 6).reshape(2, 2)]
    old, new = (ours("sound", inputs, op_type=op_type) for op_type in ("BeamSearch", "WhisperBeamSearch"))
    np.testing.assert_array_equal(old.values["sequences"], new.raise_for_failure().values["sequences"])


def test_buffers_give_what_caches_that_grow_give() -> None:
    inputs = [IDS, i32(9), i32(1), i32(3), i32(2), f32(1), f32(1)]
    plain = ours("cross", inputs, seed=1).raise_for_failure().values
    for buffers in (1, 3):
        filled = ours("cross", inputs, seed=1, buffers=buffers).raise_for_failure().values
        np.testing.assert_array_equal(filled["sequences"], plain["sequences"])
        np.testing.assert_allclose(filled["scores"], plain["scores"], rtol=1e-5)


def test_the_first_tokens_are_those_that_are_forced() -> None:
    forced = i32(4, 7, 8, -1).reshape(2, 2)
    inputs = [SOUND, i32(8), i32(8), i32(2), i32(2), f32(1), f32(1)] + [None] * 6 + [forced]
    free, bound = (
        ours("sound", given).raise_for_failure().values["sequences"] for given in ([*inputs[:13], None], inputs)
    )
    assert bound[0, :, 1].tolist() == [4, 4]
    assert bound[0, :, 2].tolist() == [7, 7]
    assert bound[1, :, 1].tolist() == [8, 8]
    assert not np.array_equal(free, bound)


def test_attention_weights_follow_each_sequence_between_beams() -> None:
    inputs = [SOUND, i32(7), i32(7), i32(3), i32(2), f32(1), f32(1)] + [None] * 5 + [i32(0, 0).reshape(1, 2)]
    found = ours("sound", inputs, seed=2, outputs=5, decoder_output_cross_qk=1, no_speech_token_id=6)
    values = found.raise_for_failure().values
    table = next(t for t in decoder("sound", 2).initializer if t.name == "table")
    keys = numpy_helper.to_array(table)[values["sequences"][:, :, 1:-1]]
    np.testing.assert_allclose(values["cross_qk"][:, :, 0], np.einsum("brtc,bcs->brts", keys, SOUND), rtol=1e-4)
    assert values["cross_qk"].shape == (2, 2, 1, 5, 6)
    np.testing.assert_allclose(values["non_speech_probs"], np.exp(values["scores"][0, :, 0, 6]), rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes"),
    [
        ("cross", [IDS, i32(9), i32(1), i32(2), i32(1)], {"decoder_start_token_id": -1}),
        ("cross", [IDS, i32(1), i32(1), i32(2), i32(1)], {}),
        ("cross", [IDS, i32(9), i32(1), i32(2), i32(1), None, None, None, None, i32(1)], {}),
        ("cross", [IDS, i32(9), i32(1), i32(2), i32(1), *[None] * 6, i32(1)], {}),
        ("cross", [IDS, i32(9), i32(1), i32(2), i32(1)], {"buffers": 2}),
        ("sound", [SOUND, i32(9), i32(1), i32(2), i32(1), *[None] * 5, i32(1)], {}),
        ("sound", [SOUND, i32(9), i32(1), i32(2), i32(1), *[None] * 6, i32(1)], {}),
        ("sound", [SOUND, i32(9), i32(1), i32(2), i32(1)], {"outputs": 5}),
        ("sound", [SOUND, i32(9), i32(1), i32(2), i32(1)], {"decoder_output_cross_qk": 1, "outputs": 4}),
        ("sound", [SOUND, i32(9), i32(1), i32(2), i32(1), *[None] * 7, i32(3, 0).reshape(1, 2)],
         {"decoder_output_cross_qk": 1, "outputs": 4}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_what_does_not_fit_is_refused(kind: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    assert [f.kind for f in ours(kind, inputs, **attributes).failures] == ["KernelError"]


def test_beams_past_the_memory_limit_are_refused() -> None:
    model, feeds = built("cross", [np.tile(IDS, (1, 50)), i32(3), i32(0), i32(2000), i32(1)])
    assert [f.kind for f in Session(load(model)).run(feeds, max_tensor=1 << 18).failures] == ["LimitError"]
