"""Extensions: Python files and installed packages, named by the user, that add operators, checks, passes and more.

    extension = extensions.load("/home/me/my_ops.py")      # or "entry:NAME" of the group onnx_workbench.extensions

Nothing is loaded because a model names it. What a file registers while it is loaded belongs to its extension, and is
unregistered by `unload` or when loading fails. Other processes of the program follow with `load_exactly(state())`.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

from onnx_workbench.model.errors import ModelError, errors_to, faults_to, is_interrupt
from onnx_workbench.model.progress import Cancelled

#: The group of entry points by which installed packages offer extensions: a module, or a function to call.
GROUP = "onnx_workbench.extensions"
ENTRY = "entry:"

Kind = Literal["operator", "check", "pass", "action", "reader", "view"]

_Result = TypeVar("_Result")

#: Sources of the loaded extensions, with their numbers in the main process.
State = tuple[tuple[str, int], ...]


@dataclass(slots=True, eq=False)
class Extension:
    """A loaded extension. `source` is an absolute path or ``entry:NAME``; `contents` is what it registered, by kind."""

    source: str
    contents: list[tuple[Kind, str]] = field(default_factory=list)
    number: int = field(default_factory=itertools.count(1).__next__)  # a file that is loaded again gets another number
    _undo: list[Callable[[], object]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the file, or of the entry point."""
        return name_of(self.source)


_loaded: dict[str, Extension] = {}
_loading: list[Extension] = []  # the extension being loaded, innermost last


def name_of(source: str) -> str:
    """Return the name of a source for messages: the name of the file, or of the entry point."""
    return source.removeprefix(ENTRY) if source.startswith(ENTRY) else Path(source).name


def loaded() -> list[Extension]:
    """Return the loaded extensions, in the order they were loaded."""
    return list(_loaded.values())


def state() -> State:
    """Return the extensions that other processes must load."""
    return tuple((one.source, one.number) for one in loaded())


def entry_points() -> list[str]:
    """Return the sources that installed packages offer, without importing them."""
    from importlib import metadata  # which reads mail headers: for those who use it

    return sorted({f"{ENTRY}{entry.name}" for entry in metadata.entry_points(group=GROUP)})


def register(kind: Kind, name: str, undo: Callable[[], object]) -> None:
    """Record a registration by the extension that is being loaded, with its undo function; otherwise do nothing."""
    if _loading:
        extension = _loading[-1]
        extension.contents.append((kind, name))
        extension._undo.append(undo)


def add(kind: Kind, name: str, registry: dict[str, Any], thing: object) -> None:
    """Add an object to a registry by name; unloading removes it unless another extension replaced it since."""
    registry[name] = thing

    def take_back() -> None:
        if registry.get(name) is thing:
            del registry[name]

    register(kind, name, take_back)


def load(named: str | Path) -> Extension:
    """Execute a file, or import an entry point; return an extension that is loaded already as it is.

    ModelError names the extension, with the traceback as detail; its registrations are undone then.
    """
    source = str(named) if str(named).startswith(ENTRY) else str(Path(named).absolute())
    known = _loaded.get(source)
    if known is not None:
        return known
    extension = Extension(source)
    failed: list[BaseException] = []
    _loading.append(extension)
    try:
        with faults_to(failed.append):
            _execute(source)
    finally:
        _loading.pop()
        if failed or sys.exc_info()[0] is not None:
            _take_back(extension)
    if failed:
        raise ModelError(f"The extension {extension.name} cannot be loaded", _report(failed[0], source))
    _loaded[source] = extension
    return extension


def load_all(wanted: Iterable[str]) -> list[ModelError]:
    """Load several extensions; return the errors of those that cannot be loaded."""
    errors: list[ModelError] = []
    for source in wanted:
        with errors_to(errors.append, ModelError):
            load(source)
    return errors


def load_exactly(wanted: State) -> list[ModelError]:
    """Unload extensions that are not wanted or were reloaded since, and load the rest; return the errors."""
    for extension in loaded():
        if (extension.source, extension.number) not in wanted:
            unload(extension.source)
    errors: list[ModelError] = []
    for source, number in wanted:
        with errors_to(errors.append, ModelError):
            load(source).number = number
    return errors


def unload(source: str) -> None:
    """Undo the registrations of an extension; do nothing if it is not loaded. Its module stays imported."""
    extension = _loaded.pop(source, None)
    if extension is not None:
        _take_back(extension)


def _take_back(extension: Extension) -> None:
    while extension._undo:
        extension._undo.pop()()


def _execute(source: str) -> None:
    if source.startswith(ENTRY):
        from importlib import metadata

        name = source.removeprefix(ENTRY)
        (entry, *_) = metadata.entry_points(group=GROUP, name=name) or (None,)
        if entry is None:
            raise ModelError(f"There is no installed extension {name}", f"No package has it in {GROUP}.")
        found = entry.load()
        if callable(found):
            found()
        return
    path = Path(source)
    if not path.is_file():
        raise ModelError("This is not a regular file" if path.exists() else "The file does not exist", source)
    module_name = f"onnx_workbench_extension_{sha256(source.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ModelError("It is not a Python file", "Its name must end with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickle look it up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise


def _report(error: BaseException, source: str) -> str:
    """Return the error with its traceback, starting at the extension's own frames."""
    if isinstance(error, ModelError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if frame.filename == source), len(frames))
    lines = traceback.format_list(frames[first:]) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()


def call(title: str, owner: Callable[..., Any], function: Callable[..., _Result], *given: Any) -> _Result:
    """Call a function of an extension, or one that processes what the extension's function `owner` returned.

    An error in it, `sys.exit` and the like included, becomes a ModelError with this title and `blame` as detail;
    ModelError, Cancelled, MemoryError and Ctrl+C pass.
    """
    try:
        return function(*given)
    except (Cancelled, MemoryError, ModelError):
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise ModelError(title, blame(error, file_of(owner))) from error


def file_of(function: Callable[..., Any]) -> str:
    """Return the path of the file that defines a function; "<unknown>" for other callables."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "<unknown>" if code is None else str(code.co_filename)


def about(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring, as one line."""
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def blame(error: BaseException, path: str) -> str:
    """Describe an error in a function of a file in one line: the file's last line in the traceback, and the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f", line {frames[-1].lineno}" if frames else ""
    return f"{Path(path).name}{where}: {type(error).__name__}: {error}"
