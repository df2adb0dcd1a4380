"""Writes the pages of the manual that are made from the program: commands, operators, keys."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from onnx_workbench.exec import kernels
from onnx_workbench.exec.kernels import registry
from onnx_workbench.viewer.actions import Menu, actions
from onnx_workbench.viewer.cli.commands import (
    COMMANDS,
    EXIT_STATUSES,
    HELP_COMMANDS,
    PROGRAM,
    command_parser,
    window_parser,
)

FOLDER = Path(__file__).resolve().parent / "reference"
_WIDTH = 100  # characters of a line in the help of a command


def write_pages() -> None:
    """Write the generated pages; git ignores them."""
    for name, make in PAGES.items():
        (FOLDER / f"{name}.md").write_text("\n".join(make()) + "\n", encoding="utf-8")


def command_page() -> Iterator[str]:
    """The help of every command."""
    yield "# Commands\n"
    yield "Every command that works on models takes `--json`, and `-` for standard input in place of a file.\n"
    yield "## Exit status\n"
    for status, text in EXIT_STATUSES:
        yield f"- {status}: {text}"
    yield "\n## Opening windows\n"
    yield from _help(window_parser())
    for name in COMMANDS | HELP_COMMANDS:
        yield f"\n## {name}\n"
        yield from _help(command_parser(name))


def _help(parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = parser.formatter_class
    parser.formatter_class = lambda prog: formatter(prog, width=_WIDTH)  # else it follows the terminal
    yield f"```text\n{parser.format_help().rstrip()}\n```"


def operator_page() -> Iterator[str]:
    """The operators that can be run, with the versions that have a kernel."""
    yield "# Operators\n"
    yield (
        f"The executor of {PROGRAM} computes these operators. The numbers are the operator set versions that changed "
        "the operator and that the executor knows. Other operators open, can be edited and keep everything the file "
        "says of them; a run stops where one would be computed.\n"
    )
    kernels.load()
    versions: dict[str, dict[str, list[int]]] = {}
    for one in registry.all_kernels():
        versions.setdefault(one.domain or "ai.onnx", {}).setdefault(one.op_type, []).append(one.since)
    for domain, operators in sorted(versions.items()):
        yield f"## {domain}\n"
        yield f"{len(operators)} operators.\n"
        yield "| Operator | Versions |\n| --- | --- |"
        for name, numbers in sorted(operators.items()):
            yield f"| {name} | {', '.join(map(str, sorted(numbers)))} |"
        yield ""


def key_page() -> Iterator[str]:
    """The shortcuts of all actions, by menu."""
    yield "# Keys\n"
    for menu in Menu:
        mine = [one for one in actions() if one.place is not None and one.place.menu is menu and one.keys]
        yield f"## {menu.value.replace('&', '')}\n"
        yield "| Action | Keys |\n| --- | --- |"
        for one in mine:
            yield f"| {one.plain_title} | {', '.join(f'`{keys}`' for keys in one.keys)} |"
        yield ""


PAGES = {"commands": command_page, "operators": operator_page, "keys": key_page}
