"""Print the manual page.

To install it: onnx-workbench man > ~/.local/share/man/man1/onnx-workbench.1
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from onnx_workbench.viewer.cli.commands import (
    COMMANDS,
    EXIT_STATUSES,
    HELP_COMMANDS,
    PROGRAM,
    command_parser,
    options_of,
    positionals_of,
    takes_value,
    value_name,
    window_parser,
)
from onnx_workbench.viewer.cli.terminal import EXIT_OK
from onnx_workbench.viewer.program.version import version

_ENVIRONMENT = (
    ("NO_COLOR", "When set and not empty, nothing is printed in color."),
    ("COLUMNS", "Width of the help and of progress lines."),
)


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """None."""


def run(_options: argparse.Namespace) -> int:
    """Print the page as roff source, made from the arguments of all commands."""
    print("\n".join(_page()))
    return EXIT_OK


def _page() -> Iterator[str]:
    window = window_parser()
    yield f'.TH {PROGRAM.upper()} 1 "" "{PROGRAM} {version()}" "User Commands"'
    yield ".SH NAME"
    yield f"{_roff(PROGRAM)} \\- {_roff((window.description or '').rstrip('.').lower().replace('onnx', 'ONNX'))}"
    yield ".SH SYNOPSIS"
    yield f".B {_roff(PROGRAM)}\n[\\fIoption\\fR ...] [\\fIMODEL\\fR ...]\n.br"
    yield f".B {_roff(PROGRAM)}\n\\fICOMMAND\\fR [\\fIoption\\fR ...] [\\fIargument\\fR ...]"
    yield ".SH DESCRIPTION"
    yield f"Without a command, {_roff(PROGRAM)} opens a window with the files that are named."
    yield from _arguments(window)
    yield ".SH COMMANDS"
    for name in COMMANDS | HELP_COMMANDS:
        parser = command_parser(name)
        yield f".SS {name}"
        usage = re.sub(r"\s+", " ", parser.format_usage()).removeprefix("usage: ")
        yield _roff(usage.strip())
        for paragraph in (parser.description or "").strip().split("\n\n"):
            yield ".PP"
            yield _roff(paragraph) if _is_prose(paragraph) else f".nf\n{_roff(paragraph)}\n.fi"
        yield from _arguments(parser)
        if parser.epilog:
            yield f".PP\n.nf\n{_roff(parser.epilog.strip())}\n.fi"
    yield ".SH EXIT STATUS"
    for status, text in EXIT_STATUSES:
        yield f".TP\n.B {status}\n{_roff(text)}"
    yield ".SH ENVIRONMENT"
    for name, text in _ENVIRONMENT:
        yield f".TP\n.B {name}\n{_roff(text)}"


def _is_prose(paragraph: str) -> bool:
    """Return whether a paragraph may be filled: it is not made of lines that start alike, as examples are."""
    return not all(re.match(r"\w+: ", line) for line in paragraph.splitlines())


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in positionals_of(parser):
        yield f".TP\n\\fI{_roff(value_name(action))}\\fR\n{_roff(action.help or '')}"
    for action in options_of(parser):
        value = f" \\fI{_roff(value_name(action))}\\fR" if takes_value(action) else ""
        flags = ", ".join(f"\\fB{_roff(flag)}\\fR{value}" for flag in action.option_strings)
        yield f".TP\n{flags}\n{_roff(action.help or '')}"


def _roff(text: str) -> str:
    """Escape a text for roff: backslashes, hyphens that are to stay, and what would be a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)
