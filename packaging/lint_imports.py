"""import-linter on a checkout: it reads a package where it lies, and ours joins its folders when it is imported."""

import importlib
import sys

from importlinter import cli

if __name__ == "__main__":
    importlib.import_module("onnx_workbench")
    sys.exit(cli.lint_imports_command(sys.argv[1:]))
