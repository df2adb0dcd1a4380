"""``python -m onnx_workbench`` and the ``onnx-workbench`` script."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the program with the process's arguments; returns the exit status."""
    if getattr(sys, "frozen", False):
        # A frozen program starts itself as its worker; this turns that process into one and does not return.
        from multiprocessing import freeze_support

        freeze_support()
        if sys.argv[1:2] == ["--child"]:  # as onnx_workbench.model.sandbox starts its helpers
            from onnx_workbench.model.sandbox_child import child_main

            child_main()
            return 0
    from onnx_workbench.viewer.cli.main import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
