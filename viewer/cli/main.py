"""The command line: runs a command, or opens windows for the files named. Exit statuses are in `commands`."""

from __future__ import annotations

import argparse
import gc
import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from onnx_workbench.viewer.cli.commands import (
    COMMANDS,
    HELP_COMMANDS,
    PROGRAM,
    add_load_argument,
    command_module,
    command_parser,
    window_parser,
)
from onnx_workbench.viewer.cli.terminal import EXIT_FAILED, EXIT_OK, print_error

if TYPE_CHECKING:
    from onnx_workbench.model.errors import ModelError

_INTERRUPTED = 130

#: Objects made between two collections: imports and plans make many and leave no cycles, and a command ends soon.
_GARBAGE = 20_000


def main(arguments: Sequence[str]) -> int:
    """Run a command, or open windows for the files named; returns the exit status."""
    _escape_unencodable()
    if arguments and arguments[0] in COMMANDS | HELP_COMMANDS:
        return _run_command(arguments[0], arguments[1:])
    parser = window_parser()
    options = parser.parse_args(arguments)
    if options.version:
        from onnx_workbench.exec.kernels.shared.byte_products import numkong
        from onnx_workbench.viewer.program.version import version

        print(f"{PROGRAM} {version()}\n8-bit products by {numkong().text}")
        return EXIT_OK
    if options.register or options.unregister:
        return _register(add=options.register)
    meant = _command_meant(options.models)
    if meant:
        parser.error(f"no command and no file is called {options.models[0]!r}; did you mean {meant!r}?")
    if options.goto and (len(options.models) != 1 or options.models == ["-"]):
        parser.error("--goto shows a node of one file")
    return _open_windows(
        options.models, goto=options.goto or "", load=options.load, sample=options.sample, alone=options.new_instance
    )


def _command_meant(models: Sequence[str]) -> str:
    """Return the command that the first word was meant for, when it is like one and no file; nothing otherwise."""
    if not models or Path(models[0]).suffix or os.access(models[0], os.F_OK):
        return ""
    from difflib import get_close_matches

    return next(iter(get_close_matches(models[0], [*COMMANDS, *HELP_COMMANDS], 1)), "")


def _escape_unencodable() -> None:
    """Escape characters that the encoding of an output lacks, as a pipe on Windows does, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a windowed program has none
            stream.reconfigure(errors="backslashreplace")


def _open_windows(models: list[str], *, goto: str, load: list[str], sample: bool, alone: bool) -> int:
    from onnx_workbench.viewer.preflight import EXIT_CANNOT_START, find_problem

    if models and "-" not in models and not sample and not alone and not load:  # code is loaded only here
        from onnx_workbench.model.errors import ModelError
        from onnx_workbench.viewer.program.single_instance import send_to_running_instance

        missing = [name for name in models if not os.access(name, os.F_OK)]
        if missing == models or send_to_running_instance([name for name in models if name not in missing], goto):
            for name in missing:
                print_error(ModelError("The file does not exist", name))
            if missing != models:
                print("Opened in the running program; --new-instance starts another.")
            return EXIT_FAILED if missing else EXIT_OK
    problem = find_problem()
    if problem is not None:
        print(problem, file=sys.stderr)
        return EXIT_CANNOT_START
    from onnx_workbench.viewer.program import language, qt_imports

    language.choose()
    qt_imports.read_no_sources()
    from onnx_workbench.viewer.app import run

    return run([*models, *(["--sample"] if sample else [])], goto, load)


def _register(*, add: bool) -> int:
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.viewer.program import desktop

    try:
        print(desktop.register() if add else desktop.unregister())
    except ModelError as error:
        print_error(error)
        return EXIT_FAILED
    except OSError as error:
        print_error(ModelError(error.strerror or str(error), str(error.filename or "")))
        return EXIT_FAILED
    return EXIT_OK


def _run_command(name: str, arguments: Sequence[str]) -> int:
    from onnx_workbench.model.budget import OVERHEAD, limit_memory, process_budget
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.model.progress import Cancelled

    gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
    module, as_json = command_module(name), False
    try:
        if {"-h", "--help"} & {*arguments}:
            _load_extensions(_extensions_named(arguments))  # what they add is listed
        options = command_parser(name).parse_args(arguments)
        as_json = getattr(options, "json", False)
        limit_memory(process_budget() + OVERHEAD)
        _load_extensions(getattr(options, "load", ()))
        with _output_of(module, name, options):
            status: int = module.run(options)
        sys.stdout.flush()
    except ModelError as error:
        _print_error(error, as_json=as_json)
        return EXIT_FAILED
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # The reader (head, less) has gone; nothing more can be written, not even at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_FAILED
        _print_error(ModelError(error.strerror or str(error), str(error.filename or "")), as_json=as_json)
        return EXIT_FAILED
    except MemoryError as error:
        detail = f"A command may use {process_budget() / 1e9:.1f} GB, three quarters of this machine's. {error}"
        _print_error(ModelError("There is not enough memory for this model", detail), as_json=as_json)
        return EXIT_FAILED
    except (KeyboardInterrupt, Cancelled):
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    return status


def _output_of(module: ModuleType, command: str, options: argparse.Namespace) -> AbstractContextManager[None]:
    """Prepare for a file on standard output (``-o -``); ModelError for a command that writes several."""
    if str(getattr(options, "output", "")) != "-":
        return nullcontext()
    from onnx_workbench.model.errors import ModelError
    from onnx_workbench.viewer.cli.output import to_standard_output

    file: str = getattr(module, "STANDARD_OUTPUT", "model.onnx")
    if not file:
        raise ModelError(f"{command} writes two files", "Standard output is one: name a file.")
    return to_standard_output(options, file)


def _extensions_named(arguments: Sequence[str]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_load_argument(parser)
    named: list[str] = parser.parse_known_args(arguments)[0].load
    return named


def _load_extensions(sources: Sequence[str]) -> None:
    if sources:
        from onnx_workbench.model import extensions

        for source in sources:
            extensions.load(source)


def _print_error(error: ModelError, *, as_json: bool) -> None:
    if as_json:
        from onnx_workbench.viewer.style.labels import place_text

        print(json.dumps({"error": {"title": error.title, "detail": error.detail, "place": place_text(error.place)}}))
    print_error(error)
