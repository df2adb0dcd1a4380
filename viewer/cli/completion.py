"""Print a script that completes commands, options and file names.

bash: add   eval "$(onnx-workbench completion bash)"   to ~/.bashrc
zsh:  add   eval "$(onnx-workbench completion zsh)"    to ~/.zshrc, after compinit
fish: run   onnx-workbench completion fish > ~/.config/fish/completions/onnx-workbench.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from onnx_workbench.viewer.cli.commands import (
    COMMANDS,
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

_FUNCTION = "_" + PROGRAM.replace("-", "_")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to print a script for")


def run(options: argparse.Namespace) -> int:
    """Print the script, made from the arguments of all commands."""
    scripts = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    print("\n".join(scripts[options.shell]()))
    return EXIT_OK


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    return ((name, command_parser(name)) for name in COMMANDS | HELP_COMMANDS)


def _flags(parser: argparse.ArgumentParser) -> str:
    return " ".join(flag for action in options_of(parser) for flag in action.option_strings)


def _choices(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _takes_files(action: argparse.Action) -> bool:
    """Return whether file names are offered for a value: for paths and plain texts, not for numbers."""
    return action.type in (None, Path) and not action.choices


def _bash() -> Iterator[str]:
    names = " ".join(COMMANDS | HELP_COMMANDS)
    yield f"{_FUNCTION}() {{"
    yield "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words="
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'        words="{names} {_flags(window_parser())}"'
    yield "    else"
    yield '        case "$command $before" in'
    for name, parser in _parsers():
        for action in parser._actions:
            if action.choices:
                befores = action.option_strings or [name]
                patterns = "|".join(f'"{name} {before}"' for before in befores)
                yield f'            {patterns}) words="{_choices(action)}" ;;'
    yield "        esac"
    yield '        if [ -z "$words" ] && [ "${word#-}" != "$word" ]; then'
    yield '            case "$command" in'
    for name, parser in _parsers():
        yield f'                {name}) words="{_flags(parser)}" ;;'
    yield "            esac"
    yield "        fi"
    yield "    fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield "        local IFS=$'\\n'"
    yield '        COMPREPLY+=($(compgen -f -- "$word"))'
    yield "    fi"
    yield "}"
    yield f"complete -o default -F {_FUNCTION} {PROGRAM}"


def _zsh() -> Iterator[str]:
    yield f"#compdef {PROGRAM}"
    yield f"{_FUNCTION}() {{"
    yield "    local -a commands"
    yield "    commands=("
    for name, text in (COMMANDS | HELP_COMMANDS).items():
        yield f"        '{name}:{_in_quotes(text)}'"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then"
    yield "        _describe command commands"
    yield f"        _arguments {' '.join(_zsh_arguments(window_parser()))}"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words"
    yield "    (( CURRENT-- ))"
    yield "    case $command in"
    for name, parser in _parsers():
        yield f"        {name}) _arguments {' '.join(_zsh_arguments(parser))} ;;"
    yield "        *) _files ;;"
    yield "    esac"
    yield "}"
    yield f"if [[ $funcstack[1] == {_FUNCTION} ]]; then"
    yield f'    {_FUNCTION} "$@"'
    yield "else"
    yield f"    compdef {_FUNCTION} {PROGRAM}"
    yield "fi"


def _zsh_arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in options_of(parser):
        text = _zsh_text(action.help or "")
        value = f":{_zsh_text(value_name(action))}:{_zsh_values(action)}" if takes_value(action) else ""
        for flag in action.option_strings:
            yield f"'*{flag}[{text}]{value}'"
    for action in positionals_of(parser):
        place = "*" if action.nargs == "*" else ""
        yield f"'{place}:{_zsh_text(value_name(action))}:{_zsh_values(action)}'"


def _zsh_values(action: argparse.Action) -> str:
    return f"({_choices(action)})" if action.choices else "_files" if _takes_files(action) else " "


def _zsh_text(text: str) -> str:
    for character in "\\:[]":
        text = text.replace(character, f"\\{character}")
    return _in_quotes(text)


def _in_quotes(text: str) -> str:
    """Escape a text for a word in single quotes of a POSIX shell."""
    return text.replace("'", "'\\''")


def _fish() -> Iterator[str]:
    for name, text in (COMMANDS | HELP_COMMANDS).items():
        yield f"complete -c {PROGRAM} -n __fish_use_subcommand -a {name} -d {_fish_text(text)}"
    yield from _fish_options(window_parser(), "__fish_use_subcommand")
    for name, parser in _parsers():
        yield from _fish_options(parser, f"'__fish_seen_subcommand_from {name}'")


def _fish_options(parser: argparse.ArgumentParser, condition: str) -> Iterator[str]:
    start = f"complete -c {PROGRAM} -n {condition}"
    for action in options_of(parser):
        flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in action.option_strings)
        value = f" -x -a '{_choices(action)}'" if action.choices else ""
        if not value and takes_value(action):
            value = " -r" if _takes_files(action) else " -x"
        yield f"{start} {flags}{value} -d {_fish_text(action.help or '')}"
    for action in positionals_of(parser):
        if action.choices:
            yield f"{start} -f -a '{_choices(action)}'"


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
