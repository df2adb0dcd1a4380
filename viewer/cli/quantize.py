"""Quantize a model to integers or float8: weights alone, or activations too, with ranges from typical inputs.

The loss is printed as signal-to-noise ratios in decibels on inputs that are kept aside from calibration: 20 dB are an
error of a tenth, 40 dB of a hundredth. It is that of the outputs, and for each layer that of the outputs where it is
quantized alone, that of its own output on inputs in float (local) and on quantized ones (accumulated). Layers that
stay in float are listed with the reason. When the result does not run or load, nothing is written and the exit status
is 1.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench import api
from onnx_workbench.exec.transform.quantization.plan import METHODS, PRESETS
from onnx_workbench.exec.transform.quantization.ranges import CALIBRATIONS
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.text.formatting import bytes_text, display, plural
from onnx_workbench.viewer.cli.arguments import add_picture_arguments, natural, picture_options
from onnx_workbench.viewer.cli.output import add_output_arguments, write_model
from onnx_workbench.viewer.cli.terminal import (
    EXIT_FOUND,
    EXIT_OK,
    json_text,
    load_model,
    print_json,
    print_message,
    print_table,
    progress,
    shorten,
)

if TYPE_CHECKING:
    from onnx_workbench.exec.transform.quantization.quantize import QuantizationReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, how to quantize, inputs, and the file to write."""
    types = dict.fromkeys(name for names in METHODS.values() for name in names)
    presets = "\n".join(f"  {name}: {preset.doc}" for name, preset in PRESETS.items())
    parser.epilog = f"presets:\n{presets}"
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument(
        "--method", choices=tuple(METHODS), default="static",
        help="static: activations too, ranges from --inputs; dynamic: ranges found at run time; weights: these alone",
    )  # fmt: skip
    parser.add_argument(
        "--type", choices=tuple(types),
        help="type of activations for static, of weights for others; int4 and int2 in blocks, for matrices",
    )  # fmt: skip
    parser.add_argument("--preset", choices=tuple(PRESETS), default="any", help="what the target takes (any)")
    parser.add_argument(
        "--inputs", metavar="PATH",
        help=".npz or .json file, or a folder of such, of pictures or of test_data_set folders; every fourth is kept "
        "aside for the loss",
    )  # fmt: skip
    parser.add_argument(
        "--calibration", choices=tuple(CALIBRATIONS), default="minmax", help="how ranges are chosen (minmax)"
    )
    parser.add_argument("--percentile", type=float, default=99.999, metavar="P", help="with that calibration (99.999)")
    parser.add_argument(
        "--per-channel", action=argparse.BooleanOptionalAction, default=True, help="a scale per output channel (yes)"
    )
    parser.add_argument(
        "--symmetric", action=argparse.BooleanOptionalAction, help="zero points in the middle (as the preset)"
    )
    parser.add_argument("--block-size", type=natural, default=32, metavar="N", help="of int4 and int2 weights (32)")
    parser.add_argument(
        "--compensate", action="store_true",
        help="for weights: choose numbers of matrices whose errors make up for each other on --inputs (GPTQ)",
    )  # fmt: skip
    parser.add_argument(
        "--keep", action="append", default=[], metavar="NODE", help="operator or pattern of node names to keep in float"
    )
    parser.add_argument(
        "--reach", type=float, metavar="DB", help="keep the fewest layers in float with which outputs reach this ratio"
    )
    parser.add_argument(
        "--alone", action="store_true", help="also measure what each layer costs alone, and sizes against loss"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the result as JSON")
    add_picture_arguments(parser)
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Quantize, measure and write."""
    model = load_model(options)
    with progress("Quantizing") as running:
        report = api.quantize(
            model, method=options.method, type=options.type, inputs=options.inputs, calibration=options.calibration,
            percentile=options.percentile, per_channel=options.per_channel, symmetric=options.symmetric,
            block_size=options.block_size, keep=options.keep, preset=options.preset, reach=options.reach,
            alone=options.alone, compensate=options.compensate,
            image=picture_options(options), progress=running,
        )  # fmt: skip
    if not report.refused:
        write_model(model, options)
    if options.report is not None:
        try:
            options.report.write_text(json_text(report) + "\n", encoding="utf-8")
        except OSError as error:
            raise ModelError(f"{options.report.name} cannot be written", error.strerror or str(error)) from error
    if options.json:
        print_json(report)
    else:
        _print(report)
    return EXIT_FOUND if report.refused else EXIT_OK


def _print(report: QuantizationReport) -> None:
    rows: list[tuple[str, ...]] = [("layer", "operator", "alone", "local", "accumulated", "saves")]
    by_loss = sorted(report.quantized, key=lambda one: math.inf if one.accumulated is None else one.accumulated)
    for one in by_loss:
        ratios = map(_ratio, (one.alone, one.local, one.accumulated))
        rows.append((display(one.name, 60), one.operator, *ratios, "" if one.saved is None else bytes_text(one.saved)))
    print_table(rows)
    for (operator, reason), count in Counter((one.operator, one.kept) for one in report.layers if one.kept).items():
        print(shorten(f"kept in float: {operator}: {reason}" + (f" ({count} times)" if count > 1 else ""), 300))
    for count, size, snr in report.curve:
        print(f"{count} more layers kept in float: {bytes_text(size)}, {_ratio(snr)}")
    print(f"\nconstant data: {bytes_text(report.before)} before, {bytes_text(report.after)} after")
    for name, snr in report.outputs.items():
        print(f"output {display(name, 60)}: {_ratio(snr)} (on {plural(report.checked, 'input')})")
    for remark in report.remarks:
        print(shorten(f"  {remark}", 500, elide="end"))
    if report.refused:
        print_message("error", f"nothing was written: {report.refused}")


def _ratio(snr: float | None) -> str:
    return "" if snr is None else "equal" if snr == math.inf else f"{snr:.1f} dB"
