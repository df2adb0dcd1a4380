"""The command line: commands that do the program's tasks without a window, and opening windows.

Exit status: 0 fine, 1 a problem or a difference was found, 2 it could not be done, 3 no window can be opened here.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_workbench.viewer.cli.terminal import EXIT_FAILED, EXIT_OK, error_lines

if TYPE_CHECKING:
    from onnx_workbench.model.errors import ModelError

#: Every command with its line in the help; the module of the same name in viewer.cli does it.
COMMANDS = {
    "info": "what is in a model",
    "render": "draw a model into a PNG, SVG or PDF file",
    "check": "every problem of a model with its place",
    "run": "run a model and print or save its values",
    "test": "run a model on its test data and compare",
    "infer": "infer types and shapes and write them into a model",
    "simplify": "fold, fuse and remove what a model does not need",
    "convert": "write a model in another form",
    "extract": "cut out the part between values",
    "split": "cut a model in two at values",
    "merge": "bring another model into one",
    "edit": "do the edits of a recorded script",
    "diff": "what differs between two models",
}

_USAGE = "onnx-workbench [MODEL ...]\n       onnx-workbench COMMAND ...   (see onnx-workbench COMMAND --help)"
_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run a command, or open windows for the files named; returns the exit status."""
    _write_whatever_comes()
    if arguments and arguments[0] in COMMANDS:
        return _run_command(arguments[0], arguments[1:])
    parser = _window_parser()
    options = parser.parse_args(arguments)
    if options.version:
        from onnx_workbench.viewer.core.version import version

        print(f"onnx-workbench {version()}")
        return EXIT_OK
    meant = _command_meant(options.models)
    if meant:
        parser.error(f"there is neither a command nor a file {options.models[0]!r}; did you mean {meant!r}?")
    return _open_windows(options.models, sample=options.sample, alone=options.new_instance)


def _command_meant(models: Sequence[str]) -> str:
    """The command that the first word was meant for, when it is like one and no file; nothing otherwise."""
    if not models or Path(models[0]).suffix or Path(models[0]).exists():
        return ""
    from difflib import get_close_matches

    return next(iter(get_close_matches(models[0], COMMANDS, 1)), "")


def _write_whatever_comes() -> None:
    """Not every output has every character, a pipe on Windows least of all: write escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a windowed program has none
            stream.reconfigure(errors="backslashreplace")


def _window_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name.ljust(width)}  {help_}" for name, help_ in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="onnx-workbench",
        usage=_USAGE,
        description="See, edit, run and debug ONNX models.",
        epilog=f"commands:\n{commands}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="file to open; - reads standard input")
    parser.add_argument("--sample", action="store_true", help="open the model that comes with the program")
    parser.add_argument(
        "--new-instance", action="store_true", help="open another window even where the program runs already"
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    return parser


def _open_windows(models: list[str], *, sample: bool, alone: bool) -> int:
    from onnx_workbench.viewer.preflight import EXIT_CANNOT_START, find_problem

    if models and "-" not in models and not sample and not alone:
        from onnx_workbench.viewer.files.single_instance import hand_over

        missing = [name for name in models if not Path(name).exists()]
        if missing == models or hand_over([name for name in models if name not in missing]):
            for name in missing:
                print(f"error: The file does not exist\n  {name}", file=sys.stderr)
            if missing != models:
                print("Opened in the window that is open already; --new-instance opens another.")
            return EXIT_FAILED if missing else EXIT_OK
    problem = find_problem()
    if problem is not None:
        print(problem, file=sys.stderr)
        return EXIT_CANNOT_START
    from onnx_workbench.viewer.app import run

    return run([*models, *(["--sample"] if sample else [])])


def _run_command(name: str, arguments: Sequence[str]) -> int:
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.process_memory import OVERHEAD, limit_memory, process_budget
    from onnx_workbench.model.progress import Cancelled

    module = import_module(f"onnx_workbench.viewer.cli.{name}")
    parser = argparse.ArgumentParser(
        prog=f"onnx-workbench {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print facts as JSON")
    parser.add_argument("--salvage", action="store_true", help="work with what is left of a file that ends early")
    module.add_arguments(parser)
    options = parser.parse_args(arguments)
    limit_memory(process_budget() + OVERHEAD)
    try:
        status: int = module.run(options)
        sys.stdout.flush()
    except ModelError as error:
        _print_error(error, as_json=options.json)
        return EXIT_FAILED
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # The reader (head, less) has gone; nothing more can be said, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILED
        _print_error(ModelError(error.strerror or str(error), str(error.filename or "")), as_json=options.json)
        return EXIT_FAILED
    except MemoryError as error:
        detail = f"A command may use {process_budget() / 1e9:.1f} GB, three quarters of this machine's. {error}"
        _print_error(ModelError("There is not enough memory for this model", detail), as_json=options.json)
        return EXIT_FAILED
    except (KeyboardInterrupt, Cancelled):
        print("stopped", file=sys.stderr)
        return _INTERRUPTED
    return status


def _print_error(error: ModelError, *, as_json: bool) -> None:
    if as_json:
        from onnx_workbench.viewer.style.labels import place_text

        print(json.dumps({"error": {"title": error.title, "detail": error.detail, "place": place_text(error.place)}}))
    for line in error_lines(error):
        print(line, file=sys.stderr)
