"""Edit scripts: edits of a model as JSON lines with names instead of ids, to be replayed on its next export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document, HistoryEntry
from onnx_workbench.model.history.step_codec import decode, is_known
from onnx_workbench.model.scripts.object_names import ObjectNames
from onnx_workbench.model.scripts.three_way_merge import adapted, noted

FORMAT = "onnx-workbench edit script"
_VERSION = 1


def export(document: Document) -> str:
    """Return the edits from the opened state of the model to the current one, one per line after a header.

    Goes back and forward through the history, so it costs about as much as the edits did. Runs on the thread that owns
    the model; listeners are notified of undo and redo.
    """
    path = _path(document.current)
    here = document.current
    document.go_to(document.root)
    names = ObjectNames(document.model)
    lines = [json.dumps({"format": FORMAT, "version": _VERSION, "model": document.model.graph.name})]
    try:
        for parent, entry in path:
            parent.latest = entry
            lines.append(json.dumps({"edit": entry.title, "steps": _steps(document, entry, names)}))
    finally:
        document.go_to(here)
    return "\n".join(lines) + "\n"


def _steps(document: Document, entry: HistoryEntry, names: ObjectNames) -> list[dict[str, Any]]:
    """Encode each step while the model is in the state it applies to."""
    applied = []
    encoded = []
    try:
        for step in entry.steps:
            if is_known(step, names):
                encoded.append(noted(step, names))
            names.before(step)
            applied.append(step.apply())
    finally:
        names.settled()
        for inverse in reversed(applied):
            inverse.apply()
    document.redo()
    return encoded


def _path(entry: HistoryEntry) -> list[tuple[HistoryEntry, HistoryEntry]]:
    """Return the history entries from the root to this one, each with its parent."""
    path = []
    while entry.parent is not None:
        path.append((entry.parent, entry))
        entry = entry.parent
    return path[::-1]


def text_of(content: bytes) -> str:
    """Decode the content of a script file; raise ModelError for a file of another kind."""
    try:
        return content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise _no_script() from error


def _no_script() -> ModelError:
    return ModelError("This is not an edit script", f'It is text whose first line holds "format": "{FORMAT}".')


def parse(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the edits of a script with their line numbers; ModelError names the invalid line and the reason."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for position, (number, line) in enumerate(lines):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            if position == 0:
                raise _no_script() from error
            raise ModelError(f"Line {number} of the script is not JSON", str(error)) from error
        if position == 0:
            if not isinstance(entry, dict) or entry.get("format") != FORMAT:
                raise _no_script()
            if entry.get("version") != _VERSION:
                raise ModelError(f"The script has version {entry.get('version')}", f"Version {_VERSION} is understood.")
            continue
        if not isinstance(entry, dict) or "edit" not in entry or not isinstance(entry.get("steps"), list):
            raise ModelError(f"Line {number} of the script is not an edit", 'Expected {"edit": title, "steps": [...]}.')
        yield number, entry
    if not lines:
        raise ModelError("The script is empty", f'Its first line must hold "format": "{FORMAT}".')


def replay(document: Document, text: str) -> int:
    """Apply the edits of a script to a model, each as one history entry; return their number.

    All or nothing: when a line does not fit the model, the applied edits are undone and ModelError names the line.
    """
    return _replay_all(document, parse(text))


def _replay_all(document: Document, edits: Iterable[tuple[int, dict[str, Any]]]) -> int:
    names = ObjectNames(document.model)
    start = document.current
    count = 0
    try:
        for number, entry in edits:
            _replay_one(document, names, number, entry)
            count += 1
    except BaseException:
        document.go_to(start)
        raise
    return count


def _replay_one(document: Document, names: ObjectNames, number: int, entry: dict[str, Any]) -> None:
    document.end_gesture()
    with document.edit(str(entry["edit"])) as edit:
        for line in entry["steps"]:
            try:
                step = decode(adapted(line, names), names)
                names.before(step)
                edit.do(step)
            except ModelError as error:
                raise ModelError(f"Line {number} does not apply: {error.title}", error.detail, error.place) from error
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
                message = f"{type(error).__name__}: {error}"[:300]
                raise ModelError(f"Line {number} of the script is damaged", message) from error
    names.settled()
