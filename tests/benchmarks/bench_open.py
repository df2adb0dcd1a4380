"""How fast models open, beside onnx.load, the protobuf runtime and onnx-ir on the same file in the same run.

    python -m tests.benchmarks.bench_open [--full] [--folder DIR]

Each measurement runs in a process of its own, so that peak memory is its own. `--full` uses the sizes of the stated
bars (about 5 GB of files); without it they are a tenth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.large_models import (
    write_constants_model,
    write_external_model,
    write_nodes_model,
    write_weights_model,
)

_PROBE = """
import json, sys, time
path, way = sys.argv[1:]
import gc
def peak():  # of this program alone: ru_maxrss also counts the one that started it
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
if way.startswith("ours"):
    import numpy, google.protobuf.message
    from onnx_workbench.model.io.reader.read import load
    import onnx_workbench.model.io.reader.read, onnx_workbench.model.io.tensors.packing, onnx_workbench.model.ir.types
elif way == "onnx": import onnx
elif way == "upb":
    from onnx_workbench.model.io.protobuf import ModelProto
    data = open(path, "rb").read()
else: import onnx_ir
before = peak(); cpu = time.process_time(); start = time.perf_counter()
if way == "ours": kept = load(path)
elif way == "ours-value": kept = load(path).graph.initializers[7].initializer.numpy().mean()
elif way == "ours-statistics":
    for value in load(path).graph.initializers:
        tensor = value.initializer
        for at in range(0, tensor.size, 1 << 20): tensor.read(at, at + (1 << 20)).min()
elif way == "onnx": kept = onnx.load(path)
elif way == "upb": kept = ModelProto.FromString(data)
else: kept = onnx_ir.load(path)
print(json.dumps([time.perf_counter() - start, time.process_time() - cpu, (peak() - before) / 1024]))
"""


def measure(path: Path, way: str, rounds: int = 3) -> tuple[float, float, float]:
    """Least seconds, least CPU seconds, and peak memory in MB beyond the imports."""
    found = []
    for _ in range(rounds):
        run = subprocess.run(
            [sys.executable, "-c", _PROBE, str(path), way], capture_output=True, text=True, check=False
        )
        if run.returncode:
            return float("nan"), float("nan"), float("nan")
        found.append(json.loads(run.stdout))
    return min(f[0] for f in found), min(f[1] for f in found), max(f[2] for f in found)


def drop_from_cache(path: Path) -> None:
    """Make the next read a cold one, as far as the system lets an ordinary user."""
    import os

    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def show(label: str, found: tuple[float, float, float]) -> None:
    """One line of results."""
    print(f"  {label:<28}{found[0] * 1000:10.1f} ms wall {found[1] * 1000:10.1f} ms cpu {found[2]:+9.1f} MB")


def main() -> None:
    """Measure and print ratios against the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    scale = 1.0 if arguments.full else 0.1
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        _weights(folder, scale)
        _many_nodes(folder)
        _elsewhere(folder, scale)


def _weights(folder: Path, scale: float) -> None:
    small, large, huge = folder / "small.onnx", folder / "large.onnx", folder / "huge.onnx"
    write_weights_model(small, int(800 * scale))
    write_weights_model(large, int(1900 * scale))
    ours_small, ours, theirs = measure(small, "ours"), measure(large, "ours"), measure(large, "onnx")
    print(f"weights, {large.stat().st_size / 1e9:.2f} GB in one file")
    show("ours", ours)
    show("onnx.load", theirs)
    print(f"  L1 warm: 1/{theirs[0] / ours[0]:.0f} of onnx.load (bar 1/50)   L2: {ours[2]:+.1f} MB (bar +20)")
    print(f"  L3: {ours[0] / ours_small[0]:.1f} x the time of {small.stat().st_size / 1e9:.2f} GB (bar 5)")
    drop_from_cache(large)
    cold = measure(large, "ours", 1)
    drop_from_cache(large)
    theirs_cold = measure(large, "onnx", 1)
    print(f"  L1 cold: {cold[0] * 1000:.1f} ms, 1/{theirs_cold[0] / cold[0]:.0f} of onnx.load (bar 1/25)")
    statistics = measure(large, "ours-statistics", 1)
    print(f"  L8: statistics over everything {statistics[0]:.2f} s, {statistics[2]:+.1f} MB (bar +150)")
    large.unlink()
    write_weights_model(huge, int(2600 * scale))
    print(f"  L4: {huge.stat().st_size / 1e9:.2f} GB in {measure(huge, 'ours')[0] * 1000:.1f} ms")
    huge.unlink()


def _many_nodes(folder: Path) -> None:
    path = folder / "nodes.onnx"
    write_nodes_model(path, 100_000)
    ours, runtime, ir = measure(path, "ours", 5), measure(path, "upb", 5), measure(path, "ir")
    print("100,000 nodes")
    for label, found in (("ours, linked objects", ours), ("protobuf runtime alone", runtime), ("onnx-ir", ir)):
        show(label, found)
    ratio = ours[1] / runtime[1]
    print(f"  {ours[1] / ir[1]:.2f} of onnx-ir's CPU time (bar 0.33), {ratio:.1f} x the bare parse of the runtime")


def _elsewhere(folder: Path, scale: float) -> None:
    path = folder / "constants.onnx"
    write_constants_model(path, int(500 * scale))
    ours, theirs = measure(path, "ours"), measure(path, "onnx")
    print(f"{path.stat().st_size / 1e6:.0f} MB in Constant and If attributes")
    show("ours", ours)
    print(f"  L7: 1/{theirs[0] / ours[0]:.0f} of onnx.load (bar 1/50)")
    path = folder / "external.onnx"
    write_external_model(path, int(3000 * scale))
    ours, value = measure(path, "ours"), measure(path, "ours-value")
    print(f"{path.with_suffix('.data').stat().st_size / 1e9:.2f} GB of external data")
    show("ours", ours)
    print(f"  L5: open {ours[0] * 1000:.1f} ms (bar 50), with one tensor's mean {value[0] * 1000:.1f} ms (bar 50 more)")


if __name__ == "__main__":
    main()
