"""``python -m onnx_workbench`` and the ``onnx-workbench`` script."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping


def main() -> int:
    """Run the program with the process's arguments; returns the exit status."""
    if getattr(sys, "frozen", False):
        restore_library_path(os.environ)
        # A frozen program starts itself as its worker; this turns that process into one and does not return.
        from multiprocessing import freeze_support

        freeze_support()
        if sys.argv[1:2] == ["--child"]:  # as onnx_workbench.model.sandbox starts its helpers
            from onnx_workbench.model.sandbox_child import child_main

            child_main()
            return 0
    from onnx_workbench.viewer.cli.main import main as run

    return run(sys.argv[1:])


def restore_library_path(environment: MutableMapping[str, str]) -> None:
    """Take back what the launcher of a bundle set: a browser with the manual must not load its libraries."""
    before = environment.pop("LD_LIBRARY_PATH_ORIG", None)
    environment.pop("LD_LIBRARY_PATH", None)
    if before is not None:
        environment["LD_LIBRARY_PATH"] = before


if __name__ == "__main__":
    sys.exit(main())
