"""The commands of the command line and their arguments, for parsing, help, completion and the manual page."""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType

PROGRAM = "onnx-workbench"

#: Commands that work on models, each with its line in the help; the module of the same name in viewer.cli runs it.
COMMANDS = {
    "info": "show what is in a model",
    "render": "draw a model as PNG, SVG, PDF or web page",
    "check": "list the problems of a model",
    "run": "run a model and print or save its values",
    "compare": "compare the values of a model with another model, a file or ONNX Runtime",
    "test": "run a model on its test data",
    "find": "find the places where a model computes what a pattern does",
    "infer": "infer types and shapes and write them into a model",
    "simplify": "fold, fuse and remove what a model does not need",
    "rewrite": "replace what a model computes by rules",
    "convert": "change the format, opset, precision or dimensions of a model",
    "quantize": "quantize a model to integers, with the loss of each layer",
    "extract": "extract the part of a model between values",
    "reduce": "find the smallest part of a model that still fails",
    "split": "split a model in two at values",
    "merge": "merge another model into a model",
    "edit": "apply a recorded edit script",
    "diff": "list the differences of two models",
}

#: Commands about the command line itself.
HELP_COMMANDS = {
    "help": "show the help of a command",
    "completion": "print a completion script for bash, zsh or fish",
    "man": "print the manual page",
}

#: Exit statuses, for the help and the manual page.
EXIT_STATUSES = (
    (0, "success"),
    (1, "a problem, a difference or a failed node was found"),
    (2, "the command could not be carried out"),
    (3, "no window can be opened here"),
)

_USAGE = f"{PROGRAM} [MODEL ...]\n       {PROGRAM} COMMAND ...   (see {PROGRAM} help COMMAND)"


def window_parser() -> argparse.ArgumentParser:
    """Parse the arguments of a call without a command."""
    listed = COMMANDS | HELP_COMMANDS
    width = max(map(len, listed))
    commands = "\n".join(f"  {name.ljust(width)}  {text}" for name, text in listed.items())
    statuses = "\n".join(f"  {status}  {text}" for status, text in EXIT_STATUSES)
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=_USAGE,
        description="View, edit, run and debug ONNX models.",
        epilog=f"commands:\n{commands}\n\nexit status:\n{statuses}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="file to open; - reads standard input")
    parser.add_argument("--goto", metavar="NODE", help="select and show the node of this name, or that makes a value")
    add_load_argument(parser)
    parser.add_argument("--sample", action="store_true", help="open the sample model")
    parser.add_argument("--new-instance", action="store_true", help="start another instance of the program")
    parser.add_argument(
        "--register", action="store_true", help="add menu entry, icon and file types for this user (Linux)"
    )
    parser.add_argument("--unregister", action="store_true", help="remove what --register added")
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    return parser


def add_load_argument(parser: argparse.ArgumentParser) -> None:
    """Extensions: files whose code is executed, and so only those that the user names here."""
    text = "execute a Python file that adds operators or checks; may be given several times"
    parser.add_argument("--load", metavar="FILE.py", action="append", default=[], help=text)


def command_module(name: str) -> ModuleType:
    """Import the module of a command."""
    return import_module(f"onnx_workbench.viewer.cli.{name}")


def command_parser(name: str) -> argparse.ArgumentParser:
    """Parse the arguments of a command."""
    module = command_module(name)
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if name in COMMANDS:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
        add_load_argument(parser)
        parser.add_argument("--salvage", action="store_true", help="use what is left of a file that ends early")
    module.add_arguments(parser)
    return parser


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options of a parser, without positional arguments."""
    return [action for action in parser._actions if action.option_strings]


def positionals_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the positional arguments of a parser."""
    return [action for action in parser._actions if not action.option_strings]


def takes_value(action: argparse.Action) -> bool:
    """Return whether an option is followed by a value."""
    return action.nargs != 0


def value_name(action: argparse.Action) -> str:
    """Return the name of an argument's value, as in the help."""
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
