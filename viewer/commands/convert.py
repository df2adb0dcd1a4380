"""Convert a model: another form, operator set, precision or IR version; dimensions frozen or freed; parts stripped.

What changed is printed, and what a person should look at; when something cannot be done, nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from model.document import Document, Transaction
from model.edits.names import regenerate_initializer_names, regenerate_node_names, regenerate_value_names
from model.errors import ModelError
from model.graph import Model, Value
from viewer.commands.arguments import sizes
from viewer.commands.terminal import EXIT_OK, print_json, progress, read_model
from viewer.commands.writing import add_output_arguments, write_model
from viewer.text import display, number_text, plural

if TYPE_CHECKING:
    from model.passes.convert import Report
    from model.progress import Progress
    from model.types import Type


_MOST_DIGITS = 4  # of an axis


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
    parser.add_argument(
        "--free", action="append", default=[], metavar="[INPUT:AXIS=]NAME",
        help="give one dimension of an input this name, or the first one of all inputs and outputs; the rest follows",
    )  # fmt: skip
    parser.add_argument(
        "--strip", action="append", default=[], metavar="PART", help="take away: doc, metadata, producer or types"
    )
    parser.add_argument(
        "--functions", choices=("inline", "extract"),
        help="replace all calls by what the functions do, or what the model repeats by calls of functions",
    )  # fmt: skip
    parser.add_argument(
        "--rename", action="append", default=[], choices=tuple(RENAMED),
        help="give these new names: nodes by operator and number, values and initializers after their nodes",
    )  # fmt: skip
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
    from model.passes.convert import extract_blocks, freeze, strip

    reports: list[Report] = []
    if options.strip:
        with document.edit("Strip") as edit:
            reports.append(strip(edit, options.strip))
    if options.freeze:
        with document.edit("Freeze dimensions") as edit:
            reports.append(freeze(edit, sizes(options.freeze)))
    if options.free:
        reports += _free(document, options.free, converting)
    if options.functions == "inline":
        reports.append(_inline(document))
    if options.opset is not None:
        reports.append(_opset(document, options.opset, converting))
    if options.precision is not None:
        reports += _precision(document, options, converting)
    if options.functions == "extract":
        with document.edit("Extract repeated blocks") as edit:
            reports.append(extract_blocks(edit, converting))
    reports += [_rename(document, what) for what in RENAMED if what in options.rename]
    if options.ir_version is not None:
        reports.append(_claim(document, options.ir_version))
    return reports


def _free(document: Document, given: Sequence[str], converting: Progress) -> list[Report]:
    from model.passes.convert import free_batch, free_dimensions
    from model.passes.inference import infer

    reports = []
    for name in (text for text in given if "=" not in text):
        with document.edit("Free the batch") as edit:
            reports.append(free_batch(edit, name))
    places = dict(_place(text) for text in given if "=" in text)
    if places:
        types = infer(document.model, progress=converting)
        with document.edit("Free dimensions") as edit:
            reports.append(free_dimensions(edit, document.model.graph, places, types.type_of))
    return reports


def _place(text: str) -> tuple[tuple[str, int], str]:
    """What ``x:2=width`` says: an input, its axis, and the name of its size."""
    place, _, name = text.rpartition("=")
    value, _, axis = place.rpartition(":")
    if not value or not axis.isdecimal() or len(axis) > _MOST_DIGITS or not name.strip():
        raise ModelError(f"{text!r} names no dimension", "Write it as INPUT:AXIS=NAME, such as x:2=width.")
    return (value, int(axis)), name.strip()


def _inline(document: Document) -> Report:
    from model.edits.functions import inline_all
    from model.passes.convert import Report

    report = Report()
    functions = len(document.model.functions)
    with document.edit("Inline functions") as edit:
        calls = inline_all(edit)
    if functions:
        report.changed(f"{plural(calls, 'call')} of {plural(functions, 'function')} inlined", document.model)
    return report


def _opset(document: Document, version: int, converting: Progress) -> Report:
    from model.passes.convert import convert_opset
    from model.passes.inference import infer

    def types() -> Callable[[Value], Type | None]:
        return infer(document.model, progress=converting).type_of

    known = types()
    with document.edit("Convert operator set") as edit:
        return convert_opset(edit, version, known, converting, infer=types)


#: What can get new names, and the edit that gives them.
RENAMED: dict[str, Callable[[Transaction, Model], int]] = {
    "nodes": regenerate_node_names,
    "initializers": regenerate_initializer_names,
    "values": regenerate_value_names,
}


def _rename(document: Document, what: str) -> Report:
    from model.passes.convert import Report

    report = Report()
    with document.edit(f"Regenerate names of {what}") as edit:
        count = RENAMED[what](edit, document.model)
    if count:
        report.changed(f"{count:,} {what} have new names", document.model)
    return report


def _claim(document: Document, version: int) -> Report:
    from model.edits.properties import set_ir_version
    from model.passes.convert import Report

    report = Report()
    before = document.model.ir_version
    with document.edit("Set IR version") as edit:
        set_ir_version(edit, version)
    if before != version:
        report.changed(f"the IR version is {version} instead of {before}", document.model)
    return report


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
