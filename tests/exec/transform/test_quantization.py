"""Quantization: the loss, what is kept in float, ranges, bad data, and the same from ONNX Runtime's quantizer."""

import json
import pickle
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import onnx_workbench as ow
from onnx_workbench.exec.transform.quantization import quantize
from onnx_workbench.exec.transform.quantization.calibration import samples_of, split
from onnx_workbench.exec.transform.quantization.plan import QuantizeOptions
from onnx_workbench.exec.transform.quantization.quantize import Quantization
from onnx_workbench.exec.transform.quantization.ranges import Histogram, chosen_range, quantize_weight, scale_of
from onnx_workbench.model.history.working_copy import WorkingCopy
from onnx_workbench.model.io.writer.save import to_bytes
from onnx_workbench.model.ir.graph import Graph
from onnx_workbench.model.ir.types import ElementType
from onnx_workbench.model.progress import Progress
from onnx_workbench.viewer.cli.main import main
from tests.onnx_runtime import session_or_skip

NETWORK = """
<ir_version: 8, opset_import: ["" : 13]>
network (float[1, 4, 12, 12] x) => (float[1, 10] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    b = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (b, w2)
    d = Add (b, c)
    e = GlobalAveragePool (d)
    f = Flatten (e)
    y = Gemm <transB = 1> (f, w3, b3)
}
"""
WORDS = """
<ir_version: 8, opset_import: ["" : 13]>
words (int64[N] places) => (float[N, 48] y) {
    a = Gather (table, places)
    b = MatMul (a, matrix)
    y = Tanh (b)
}
"""


def model_of(text: str, seed: int = 0, **shapes: tuple[int, ...]) -> ow.Model:
    proto = onnx.parser.parse_model(text)
    generator = np.random.default_rng(seed)
    for name, shape in shapes.items():
        array = generator.normal(0, 0.2, shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return ow.load(proto.SerializeToString())


def network(seed: int = 0) -> ow.Model:
    return model_of(NETWORK, seed, w1=(16, 4, 3, 3), b1=(16,), w2=(16, 16, 3, 3), w3=(10, 16), b3=(10,))


def words() -> ow.Model:
    return model_of(WORDS, table=(100, 40), matrix=(40, 48))


def images(count: int = 8) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(7)
    return [{"x": generator.normal(0, 1, (1, 4, 12, 12)).astype(np.float32)} for _ in range(count)]


def operators(model: ow.Model | Graph) -> list[str]:
    return [node.op_type for node in (model if isinstance(model, Graph) else model.graph).nodes]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"method": "weights"}, 35),
        ({"method": "weights", "type": "int4"}, 15),
        ({"method": "dynamic"}, 30),
        ({}, 30),
        ({"type": "uint8", "calibration": "mse"}, 20),
        ({"type": "int8", "calibration": "percentile"}, 25),
        ({"type": "uint8", "calibration": "mse", "per_channel": False}, 25),
        ({"type": "int16"}, 35),
        ({"type": "float8e4m3"}, 20),
        ({"preset": "onnxruntime"}, 30),
        ({"preset": "tensorrt"}, 30),
        ({"preset": "qnn"}, 25),
    ],
)
def test_a_network_keeps_its_outputs(options, least):
    model = network()
    report = ow.quantize(model, inputs=images(), **options)
    assert not report.refused
    assert report.snr > least
    assert report.after < report.before / 2
    assert (report.samples, report.checked) == (0 if "method" in options else 6, 2)
    assert {layer.operator for layer in report.quantized} >= {"Conv"}
    assert not [problem for problem in ow.check(model) if problem.severity == "error"]


DENSE = """
<ir_version: 8, opset_import: ["" : 13]>
dense (float[1, 40] x) => (float[1, 40] y) { y = Gemm <transB = %d> (x, w%s) }
"""


@pytest.mark.long
@pytest.mark.parametrize("method", ["weights", "dynamic", "static"])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", ["", ", b"])
def test_square_weights_are_multiplied_the_right_way_round(method, transposed, bias):
    model = model_of(DENSE % (transposed, bias), w=(40, 40), b=(40,))
    generator = np.random.default_rng(3)
    inputs = [{"x": generator.normal(0, 1, (1, 40)).astype(np.float32)} for _ in range(8)]
    report = ow.quantize(model, method=method, inputs=inputs)
    assert not report.refused
    assert [layer.operator for layer in report.quantized] == ["Gemm"]
    assert report.snr > 30


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [{"method": "weights"}, {"method": "dynamic"}, {"preset": "onnxruntime", "method": "weights", "type": "int4"}],
)
def test_embeddings_are_gathered_as_integers(options):
    model = words()
    report = ow.quantize(model, **options)
    assert not report.refused
    assert report.snr > 18
    table = next(node for node in model.graph.nodes if node.op_type == "Gather").inputs[0]
    assert table.initializer.element_type is ElementType.INT8
    assert ("MatMulNBits" in operators(model)) == (options.get("type") == "int4")


@pytest.mark.parametrize("method", ["static", "dynamic", "weights"])
def test_each_layer_is_compared_with_onnx_runtime_on_what_that_found(method):
    pytest.importorskip("onnxruntime")
    report = ow.quantize(network(), method=method, inputs=images())
    remark = next(one for one in report.remarks if "ONNX Runtime computes" in one)
    assert "exactly the same" in remark or float(remark.split(" ")[-2]) > 100


def test_weights_of_few_bits_have_zero_points_if_allowed():
    for options, symmetric in (
        ({"type": "int4"}, False),
        ({"type": "int8"}, True),
        ({"type": "int4", "preset": "tensorrt"}, True),
    ):
        assert QuantizeOptions(method="weights", **options).checked().symmetric == symmetric


@pytest.mark.parametrize("columns", [8, 40])
def test_turned_rows_compute_the_same_in_onnx_runtime(columns):
    text = WORDS.replace("b = MatMul (a, matrix)", "t = Transpose (a) b = MatMul (matrix, t)").replace(
        "[N, 48]", "[48, N]"
    )
    model = model_of(text, table=(100, columns), matrix=(48, columns))
    report = ow.quantize(model, method="dynamic")
    assert [layer.operator for layer in report.quantized] == ["Gather"]
    proto = to_bytes(model)
    plain = session_or_skip(proto)
    runtime = pytest.importorskip("onnxruntime")
    feeds = {"places": np.arange(100)}
    fast = runtime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    assert np.allclose(fast.run(None, feeds)[0], plain.run(None, feeds)[0], atol=1e-5)


def test_two_bits_in_blocks_of_matmulnbits():
    model = words()
    report = ow.quantize(model, method="weights", type="int2", preset="onnxruntime")
    assert not report.refused
    assert report.snr > 4


def test_one_undo_takes_quantization_back():
    document = ow.Document(network())
    before = operators(document.model)
    ow.quantize(document, inputs=images())
    assert "QuantizeLinear" in operators(document.model)
    document.undo()
    assert operators(document.model) == before
    assert document.undo_title is None


def test_layers_that_are_kept_say_why():
    report = ow.quantize(network(), inputs=images(), keep=["Gemm"])
    assert {(layer.operator, layer.kept) for layer in report.layers if layer.kept} == {("Gemm", "you keep it")}
    with pytest.raises(ow.ModelError, match="no node 'Gem'"):
        ow.quantize(network(), inputs=images(), keep=["Gem"])


@pytest.mark.long
def test_the_fewest_layers_are_kept_to_reach_a_ratio():
    whole = ow.quantize(network(), inputs=images())
    report = ow.quantize(network(), inputs=images(), reach=whole.snr + 3)
    assert report.snr >= whole.snr + 3
    kept = [layer for layer in report.layers if layer.kept]
    assert kept
    assert report.quantized
    assert max(layer.alone for layer in kept) <= min(layer.alone for layer in report.quantized)
    with pytest.raises(ow.ModelError, match="500 dB cannot be reached"):
        ow.quantize(network(), inputs=images(), reach=500)


_NUMBERS = ", ".join(f"{value:.4f}" for value in np.random.default_rng(4).normal(0, 0.2, 40 * 48))
BODIES = """
<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
g (bool c, float[2, 40] x) => (float[2, 48] y, float[2, 48] z) {
    x2 = Abs (x)
    y = If (c) <then_branch = t () => (float[2, 48] p) { p = MatMul (x2, m) },
                else_branch = e () => (float[2, 48] q) { r = MatMul (x2, m) q = Neg (r) }>
    z = local.product (x)
}
<domain: "local", opset_import: ["" : 13]>
product (a) => (b) { w = Constant <value = float[40, 48] {NUMBERS}> () b = MatMul (a, w) }
""".replace("NUMBERS", _NUMBERS)


@pytest.mark.parametrize("method", ["weights", "dynamic", "static"])
def test_layers_in_bodies_and_functions_are_quantized(method):
    generator = np.random.default_rng(5)
    feeds = [{"c": np.array(n % 2 == 0), "x": generator.normal(0, 1, (2, 40)).astype(np.float32)} for n in range(4)]
    model = model_of(BODIES, m=(40, 48))
    report = ow.quantize(model, method=method, inputs=feeds)
    assert not report.refused
    assert (len(report.quantized), report.snr > 30) == (3, True)
    assert any("of 3 weights alone" in remark for remark in report.remarks) == (method == "static")
    assert report.after < report.before / 2
    assert ("MatMulInteger" in operators(model.functions[0].body)) == (method == "dynamic")


def test_weights_of_recurrent_layers_are_quantized_by_static_too():
    text = """
<ir_version: 8, opset_import: ["" : 13]>
g (float[6, 1, 20] x) => (float[1, 1, 20] y) { , y = GRU <hidden_size = 20> (x, w, r) }
""".replace("{ ,", "{ all,")
    generator = np.random.default_rng(5)
    feeds = [{"x": generator.normal(0, 1, (6, 1, 20)).astype(np.float32)} for _ in range(4)]
    report = ow.quantize(model_of(text, w=(1, 60, 20), r=(1, 60, 20)), inputs=feeds)
    assert [layer.operator for layer in report.quantized] == ["GRU"]
    assert report.snr > 30
    with pytest.raises(ow.ModelError, match="Nothing can be quantized") as error:
        ow.quantize(model_of(text, w=(1, 60, 20), r=(1, 60, 20)), inputs=feeds, preset="qnn")
    assert "its values have no ranges" in error.value.detail


def test_weights_that_are_integers_already_are_named():
    text = DENSE.replace("x, w%s", "x, v").replace(
        "{ y", "{ i = Constant <value = int8[40, 1] {%s}> () c = Cast <to = 1> (i) v = Mul (c, s) y"
    )
    model = model_of(text.replace("%d", "0") % ", ".join(str(n % 90) for n in range(40)), s=(1, 40))
    with pytest.raises(ow.ModelError, match="Nothing can be quantized") as error:
        ow.quantize(model, method="weights")
    assert "its weights are integers already, of which Cast makes floats" in error.value.detail


BAD = {
    "no value": [{"z": np.zeros(3, np.float32)}],
    "infinities or NaN": [{"x": np.full((1, 4, 12, 12), np.nan, np.float32)}],
    "constant": [{"x": np.full((1, 4, 12, 12), 2, np.float32)}] * 3,
    "no inputs": [],
    "is empty": [{"x": np.zeros((1, 0, 12, 12), np.float32)}],
    "does not run on input 1": [{"x": np.eye(12, dtype=np.float32)[None, None]}],
    "another type": [{"x": np.ones((1, 4, 12, 12))}],
}


@pytest.mark.parametrize("text", BAD)
def test_data_that_do_not_fit_are_refused(text):
    model = network()
    before = operators(model)
    with pytest.raises(ow.ModelError) as error:
        ow.quantize(model, inputs=BAD[text])
    assert text in f"{error.value.title} {error.value.detail}"
    assert operators(model) == before


def test_options_that_do_not_exist_are_refused():
    for options, text in (
        ({"preset": "tpu"}, "no preset 'tpu'"), ({"type": "int4"}, "not a type for static"),
        ({"calibration": "max"}, "no calibration"), ({"percentile": 3}, "not a percentile"),
        ({"preset": "qnn", "type": "int8"}, "preset qnn"),
    ):  # fmt: skip
        with pytest.raises(ow.ModelError, match=text):
            ow.quantize(network(), inputs=images(), **options)
    with pytest.raises(ow.ModelError, match="Inputs are missing"):
        ow.quantize(network())


def test_the_command_writes_the_model_and_a_report(tmp_path: Path, capsys):
    ow.save(network(), tmp_path / "model.onnx")
    data = tmp_path / "data"
    data.mkdir()
    for number, feeds in enumerate(images()):
        np.savez(data / f"{number}.npz", **feeds)
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    command = ["quantize", str(tmp_path / "model.onnx"), "-o", str(out), "--inputs", str(data), "--report", str(report)]
    assert main([*command, "--calibration", "mse", "--no-per-channel", "--keep", "Gemm"]) == 0
    assert "kept in float: Gemm: you keep it" in capsys.readouterr().out
    facts = json.loads(report.read_text())
    assert facts["outputs"]["y"] > 15
    assert "QuantizeLinear" in operators(ow.load(out))
    np.savez(data / "9.npz", x=np.full((1, 4, 12, 12), np.inf, np.float32))
    out.unlink()
    assert main(command) == 2
    assert not out.exists()


def test_histograms_keep_their_size_and_counts_as_ranges_grow():
    histogram, arrays = Histogram(), [np.random.default_rng(1).normal(0, 10.0**n, 1000) for n in range(-3, 4)]
    for array in arrays:
        histogram.add(array)
    whole = np.concatenate(arrays)
    assert histogram.counts.sum() == whole.size
    assert (histogram.low, histogram.high) == (whole.min(), whole.max())
    low, high = chosen_range(histogram, "percentile", ElementType.INT8, symmetric=False, percentile=90)
    bin_width = 2 * histogram.reach / len(histogram.counts)
    assert np.allclose((low, high), np.percentile(whole, (5, 95)), atol=4 * bin_width)


def test_outliers_are_clipped_for_the_least_square_error():
    histogram = Histogram()
    histogram.add(np.concatenate([np.random.default_rng(2).normal(0, 1, 200_000), [40.0]]))
    low, high = chosen_range(histogram, "mse", ElementType.INT8, symmetric=True)
    assert high < 30
    assert scale_of(low, high, ElementType.INT8, symmetric=True).zero == 0


@pytest.mark.parametrize("kind", [ElementType.INT8, ElementType.INT4, ElementType.INT2])
@pytest.mark.parametrize(("axis", "block"), [(None, 0), (1, 0), (0, 32)])
def test_weights_are_within_half_a_step(kind, axis, block):
    array = np.random.default_rng(3).uniform(-1, 1, (70, 9)).astype(np.float32)
    found = quantize_weight(array, kind, axis=axis, block=block)
    scales = np.repeat(found.scales, block, axis=0)[:70] if block else found.scales
    error = np.abs(found.numbers.astype(np.float32) * scales - array)
    assert np.median(error / np.abs(np.broadcast_to(scales, array.shape))) <= 0.5
    assert found.numbers.shape == array.shape


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("calibration", ["minmax", "percentile"])
def test_the_loss_is_not_above_that_of_onnx_runtimes_quantizer(tmp_path: Path, seed, calibration):
    quantization = pytest.importorskip("onnxruntime.quantization")
    samples, path = images(48), tmp_path / "model.onnx"
    ow.save(network(seed), path)

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = iter([s for n, s in enumerate(samples, 1) if n % 4])

        def get_next(self):
            return next(self.left, None)

    way = {"minmax": "MinMax", "percentile": "Percentile"}[calibration]
    quantization.quantize_static(
        path, tmp_path / "theirs.onnx", Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
        calibrate_method=getattr(quantization.CalibrationMethod, way), activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )  # fmt: skip
    model = network(seed)
    report = ow.quantize(model, inputs=samples, preset="onnxruntime", calibration=calibration, percentile=99.999)
    theirs, exact = ow.Session(ow.load(tmp_path / "theirs.onnx")), ow.Session(network(seed))
    pairs = [(exact.run(s).values["y"], theirs.run(s).values["y"]) for s in samples[3::4]]
    noise = sum(float(((a - b) ** 2).sum()) for a, b in pairs)
    signal = sum(float((a**2).sum()) for a, _ in pairs)
    assert report.snr >= 10 * np.log10(signal / noise) - 0.5
    ow.save(model, tmp_path / "ours.onnx")
    assert (tmp_path / "ours.onnx").stat().st_size <= (tmp_path / "theirs.onnx").stat().st_size


def test_narrower_ranges_are_chosen_by_relative_entropy():
    generator = np.random.default_rng(2)
    histogram = Histogram()
    histogram.add(np.concatenate([generator.normal(0, 1, 200_000), [40.0]]))
    for kind, symmetric in ((ElementType.INT8, True), (ElementType.UINT8, False)):
        low, high = chosen_range(histogram, "entropy", kind, symmetric=symmetric)
        assert 2 < high < 30
        assert low < -1
    assert chosen_range(histogram, "entropy", ElementType.INT16, symmetric=True) == (histogram.low, 40)


def test_what_matters_is_not_clipped_for_the_least_entropy():
    """Most values behind Relu are zeros, which cost nothing; a few large ones carry the signal."""
    generator = np.random.default_rng(2)
    histogram = Histogram()
    histogram.add(np.concatenate([np.maximum(generator.normal(0, 1, 20_000), 0), generator.uniform(9, 10, 400)]))
    _, high = chosen_range(histogram, "entropy", ElementType.UINT8, symmetric=False)
    assert high > 9


@pytest.mark.parametrize("kind", [ElementType.INT8, ElementType.INT4, ElementType.INT2])
@pytest.mark.parametrize(("axis", "block"), [(1, 0), (0, 32)])
def test_errors_of_weights_that_are_summed_cancel_out(kind, axis, block):
    array = np.random.default_rng(3).normal(0.1, 1, (64, 9)).astype(np.float32)
    sums, squares = [], []
    for summed in (False, True):
        found = quantize_weight(array, kind, axis=axis, block=block, summed=summed)
        scales = np.repeat(found.scales, block, axis=0) if block else found.scales
        errors = (found.numbers.astype(np.float32) - array / scales).reshape(-1, block or 64, 9)
        sums.append(np.abs(errors.sum(axis=1)).mean())
        squares.append((errors**2).sum())
    assert sums[1] < sums[0] / 2
    assert squares[1] < 1.3 * squares[0]


@pytest.mark.parametrize("kind", [ElementType.INT8, ElementType.INT4, ElementType.INT2])
def test_zero_points_of_weights_help_where_they_are_not_around_zero(kind):
    array = np.random.default_rng(3).uniform(-0.2, 1, (70, 9)).astype(np.float32)
    errors = []
    for symmetric in (True, False):
        found = quantize_weight(array, kind, axis=0, block=32, symmetric=symmetric)
        scales, zeros = (np.repeat(p.astype(np.float32), 32, axis=0)[:70] for p in (found.scales, found.zeros))
        errors.append(np.square((found.numbers.astype(np.float32) - zeros) * scales - array).sum())
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize(("preset", "operator"), [("any", "DequantizeLinear"), ("onnxruntime", "MatMulNBits")])
def test_blocks_have_zero_points(preset, operator):
    model = words()
    report = ow.quantize(model, method="weights", type="int4", preset=preset, symmetric=False)
    assert not report.refused
    assert report.snr > 18
    node = next(node for node in model.graph.nodes if node.op_type == operator)
    assert node.inputs[-1].name.endswith("zero_point")


def test_losses_of_layers_on_inputs_in_float_alone_and_of_sizes():
    said = []

    class Heard(Progress):  # every report, not ten in a second
        def report(self, done, total, text=""):
            said.append(text)

    report = ow.quantize(network(), inputs=images(), alone=True, progress=Heard())
    assert "Quantizing each layer alone" in said
    assert not [text for text in said if text.endswith(" nodes")]  # what single runs report
    first, *others = report.quantized
    assert first.local == pytest.approx(first.accumulated, abs=0.01)  # nothing before it is quantized
    assert all(one.local >= one.accumulated - 0.5 for one in others)
    assert all(one.alone is not None for one in report.quantized)
    assert all(one.saved is not None and one.saved > 0 for one in report.quantized if one.operator != "Add")
    assert [count for count, *_ in report.curve] == [0, 1, 2]
    assert report.curve[0][1:] == (report.after, report.snr)
    assert report.curve[0][1] < report.curve[1][1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "reach"),
    [
        ({}, 45.0),
        ({"preset": "qnn", "calibration": "mse"}, None),
        ({"method": "dynamic"}, None),
        ({"method": "weights", "type": "int4", "compensate": True}, None),
    ],
)
def test_another_copy_is_quantized_in_the_same_way_without_a_run(options, reach, monkeypatch):
    model, chosen = network(), QuantizeOptions(**options)
    work = Quantization(WorkingCopy(model), chosen, split(samples_of(images(), model.graph)))
    report = work.run(reach=reach)
    assert bool([layer for layer in report.layers if layer.kept.startswith("to reach")]) == (reach is not None)
    monkeypatch.setattr(quantize, "run", None)
    again = Quantization(WorkingCopy(model), chosen)
    again.repeat(pickle.loads(pickle.dumps(work.found)))  # as it comes from another process
    assert to_bytes(again.copy.document.model) == to_bytes(work.copy.document.model)


def test_weights_that_constants_make_are_folded_first():
    model = model_of(DENSE.replace("x, w%s", "x, v").replace("{ y", "{ v = Mul (w, s) y") % 0, w=(40, 40), s=(1,))
    report = ow.quantize(model, method="weights")
    assert (report.refused, len(report.quantized)) == ("", 1)
    assert "Mul" not in operators(model)


CORRELATED = """
<ir_version: 8, opset_import: ["" : 13]>
network (float[8, 64] x) => (float[8, 24] z) {
    a = MatMul (x, w1)
    b = Relu (a)
    z = Gemm <transB = 1> (b, w2)
}
"""


@pytest.mark.parametrize(
    "options", [{"type": "int4", "preset": "onnxruntime"}, {"type": "int2", "symmetric": False}, {}]
)
def test_errors_of_weights_are_compensated_on_the_inputs(options):
    generator = np.random.default_rng(6)
    mixed = generator.normal(0, 1, (6, 64))
    rows = [generator.normal(0, 1, (8, 6)) @ mixed + generator.normal(0, 0.1, (8, 64)) for _ in range(16)]
    inputs = [{"x": row.astype(np.float32)} for row in rows]
    reports = []
    for compensate in (False, True):
        model = model_of(CORRELATED, w1=(64, 40), w2=(24, 40))
        reports.append(ow.quantize(model, method="weights", inputs=inputs, compensate=compensate, **options))
    assert reports[1].refused == ""
    assert reports[1].after == reports[0].after
    assert reports[1].snr > reports[0].snr + 1
    with pytest.raises(ow.ModelError, match="Inputs are missing"):
        ow.quantize(network(), method="weights", compensate=True)
    with pytest.raises(ow.ModelError, match="not compensated by static"):
        ow.quantize(network(), inputs=images(), compensate=True)
