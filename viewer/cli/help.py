"""Show the help of a command, or of the program."""

from __future__ import annotations

import argparse

from onnx_workbench.viewer.cli.commands import COMMANDS, HELP_COMMANDS, command_parser, window_parser
from onnx_workbench.viewer.cli.terminal import EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command."""
    parser.add_argument(
        "command", nargs="?", metavar="COMMAND", choices=[*COMMANDS, *HELP_COMMANDS], help="a command of the program"
    )


def run(options: argparse.Namespace) -> int:
    """Print the help."""
    parser = window_parser() if options.command is None else command_parser(options.command)
    parser.print_help()
    return EXIT_OK
