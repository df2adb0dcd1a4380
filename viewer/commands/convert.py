"""Convert a model: another form, operator set, precision or IR version; dimensions frozen or freed; parts stripped.

What changed is printed, and what a person should look at; when something cannot be done, nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from model.document import Document
from model.errors import ModelError
from viewer.commands.terminal import EXIT_OK, print_json, progress, read_model
from viewer.commands.writing import add_output_arguments, write_model
from viewer.text import display, number_text

if TYPE_CHECKING:
    from model.passes.convert import Report
    from model.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, what to convert, and the file to write."""
    parser.add_argument("model", metavar="IN", help="file to read; - reads standard input")
    parser.add_argument("--opset", type=int, metavar="N", help="convert to this version of ai.onnx")
    parser.add_argument("--ir-version", type=int, metavar="N", help="claim this IR version")
    parser.add_argument("--precision", choices=("float32", "float16", "bfloat16"), help="of weights and computing")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="WHAT",
        help="with --precision: an operator, or a pattern of node names, that stays as it is; inputs-outputs for those",
    )  # fmt: skip
    parser.add_argument(
        "--freeze", action="append", default=[], metavar="NAME=SIZE", help="give a named dimension a number"
    )
    parser.add_argument("--free", metavar="NAME", help="make the first dimension of inputs and outputs this name")
    parser.add_argument(
        "--strip", action="append", default=[], metavar="PART", help="take away: doc, metadata, producer or types"
    )
    add_output_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Read, convert and write."""
    document = Document(read_model(options.model))
    with progress("Converting") as converting:
        reports = convert(document, options, converting)
    write_model(document.model, options)
    changes = [line for report in reports for line in report.summary()]
    warnings = [remark.text for report in reports for remark in report.warnings]
    if options.json:
        told: dict[str, Any] = {"output": str(options.output)}
        if reports:
            told |= {"changes": [{"what": text, "times": count} for text, count in changes], "warnings": warnings}
        print_json(told)
        return EXIT_OK
    for text, count in changes:
        print(display(f"{number_text(count):>7} × {text}", 300, elide="end"))
    for text in warnings:
        print(display(f"warning: {text}", 500, elide="end"))
    return EXIT_OK


def convert(document: Document, options: argparse.Namespace, converting: Progress) -> list[Report]:
    """Everything asked for, one edit each."""
    from model.edits.properties import set_ir_version
    from model.passes.convert import convert_opset, free_batch, freeze, strip
    from model.passes.inference import infer

    reports: list[Report] = []
    if options.strip:
        with document.edit("Strip") as edit:
            reports.append(strip(edit, options.strip))
    if options.freeze:
        with document.edit("Freeze dimensions") as edit:
            reports.append(freeze(edit, sizes(options.freeze)))
    if options.free:
        with document.edit("Free the batch") as edit:
            reports.append(free_batch(edit, options.free))
    if options.opset is not None:
        types = infer(document.model, progress=converting)
        with document.edit("Convert operator set") as edit:
            reports.append(
                convert_opset(
                    edit,
                    options.opset,
                    types.type_of,
                    converting,
                    infer=lambda: infer(document.model, progress=converting).type_of,
                )
            )
    if options.precision is not None:
        reports += _precision(document, options, converting)
    if options.ir_version is not None:
        with document.edit("Set IR version") as edit:
            set_ir_version(edit, options.ir_version)
    return reports


def _precision(document: Document, options: argparse.Namespace, converting: Progress) -> list[Report]:
    """From whatever other precision the model has."""
    from model.passes.convert import PRECISIONS, Wish, convert_precision
    from model.passes.inference import infer

    target = PRECISIONS[options.precision]
    keep = [what for what in options.keep if what != "inputs-outputs"]
    reports = []
    for source in PRECISIONS.values():
        if source != target and (source.text == "float" or options.precision == "float32"):
            types = infer(document.model, progress=converting)
            wish = Wish(source, target, keep, keep_interface="inputs-outputs" in options.keep)
            with document.edit("Convert precision") as edit:
                reports.append(convert_precision(edit, wish, types.type_of, converting))
    return reports


def sizes(given: Sequence[str]) -> dict[str, int]:
    """What ``name=size`` texts say."""
    found = {}
    for text in given:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal() or len(size) > _MOST_DIGITS:
            raise ModelError(f"{text!r} gives no dimension a number", "Write it as name=number, such as batch=1.")
        found[name] = int(size)
    return found


_MOST_DIGITS = 18  # what surely fits 64 bits
