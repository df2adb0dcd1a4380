"""Edit scripts: edits of a model as JSON lines with names instead of ids, to be replayed on its next export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.history.step_codec import decode, is_known
from onnx_workbench.model.scripts.object_names import ObjectNames
from onnx_workbench.model.scripts.three_way_merge import adapted, noted

FORMAT = "onnx-workbench edit script"
_VERSION = 1


def export(document: Document) -> str:
    """Return the edits from the opened state of the model to the current one, one per line after a header.

    Takes the edits back and makes them again, so it costs about as much as they did; listeners are not called. Runs on
    the thread that owns the model.
    """
    lines = [json.dumps({"format": FORMAT, "version": _VERSION, "model": document.model.graph.name})]
    way = document.way(document.root)
    inverses = []
    with document.at(document.root):
        names = ObjectNames(document.model)
        try:
            for entry, steps, _ in way:
                encoded = []
                for step in steps:
                    if is_known(step, names):
                        encoded.append(noted(step, names))
                    names.before(step)
                    inverses.append(step.apply())
                names.settled()
                lines.append(json.dumps({"edit": entry.title, "steps": encoded}))
        finally:
            for inverse in reversed(inverses):
                inverse.apply()
    return "\n".join(lines) + "\n"


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
