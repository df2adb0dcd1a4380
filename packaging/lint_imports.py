"""import-linter on a checkout: it reads a package where it lies, and ours joins its folders when it is imported."""

import sys

from importlinter import cli

import onnx_workbench  # noqa: F401 - imported before import-linter looks for it

if __name__ == "__main__":
    sys.exit(cli.lint_imports_command(sys.argv[1:]))
