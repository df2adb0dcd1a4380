"""What Qt's binding does at each import, left out.

PySide looks for its own name in the source text of every module that is imported, for the sake of `from __feature__
import`, which nothing here uses. Finding and reading some 700 files takes a tenth of opening a model.
"""

from __future__ import annotations

from importlib import import_module

_HOOK = "feature_imported"


def read_no_sources() -> None:
    """Import modules from now on without PySide reading their source text; no effect where it does not do that."""
    import_module("PySide6.QtCore")  # brings the modules looked for below with it
    for name in ("shibokensupport.feature", "shibokensupport.signature.loader"):
        try:
            module = import_module(name)
        except ImportError:  # of a PySide made in another way
            continue
        if hasattr(module, _HOOK):
            setattr(module, _HOOK, _nothing)


def _nothing(_module: object) -> None:
    pass
