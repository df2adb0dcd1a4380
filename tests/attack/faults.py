"""Conversions on a disk that is full, by a random generator."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

from onnx_workbench.model.io.reader.read import load


def convert_on_small_disk(path: Path, rng: random.Random) -> str:
    """Convert a file into itself where files may have so many bytes only; "" if it is whole then."""
    size = rng.randrange(1, 2 * path.stat().st_size)
    words = ["convert", str(path), "--strip", "doc", "-o", str(path), "--check", "0"]
    before = path.read_bytes()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "onnx_workbench", *words]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    if "Traceback" in done.stderr or done.returncode not in (0, 2):
        return f"exit {done.returncode} with {size} bytes: {done.stderr[-500:]}"
    if done.returncode and path.read_bytes() != before:
        return f"the file changed with {size} bytes: {done.stderr[-500:]}"
    found = load(path)
    problems = [v.initializer.problem for v in found.graph.initializers if v.initializer is not None]
    return "" if not any(problems) else f"{problems[:2]} with {size} bytes"
