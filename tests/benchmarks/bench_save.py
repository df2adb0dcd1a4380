"""How fast models are saved after an edit, beside a plain copy of the file and onnx.save in the same run.

python -m tests.benchmarks.bench_save [--megabytes 500] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.large_models import write_weights_model

_PROBE = """
import json, os, sys, time
path, out, way = sys.argv[1:]
def peak():  # of this program alone: ru_maxrss also counts the one that started it
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
os.fsync = lambda descriptor: None  # the disk's own speed is no part of the comparison
if way == "copy":
    before = peak(); start = time.perf_counter()
    with open(path, "rb") as source, open(out, "wb") as target:
        left = os.path.getsize(path)
        while left: left -= os.copy_file_range(source.fileno(), target.fileno(), left)
elif way == "ours":
    from onnx_workbench.model.io.reader.read import load
    from onnx_workbench.model.io.writer.save import save
    from onnx_workbench.model.history.steps import SetField
    model = load(path)
    SetField(model.graph.nodes.first, "name", "edited").apply()
    before = peak(); start = time.perf_counter()
    save(model, out)
else:
    import onnx
    model = onnx.load(path)
    model.graph.node[0].name = "edited"
    before = peak(); start = time.perf_counter()
    onnx.save(model, out)
print(json.dumps([time.perf_counter() - start, (peak() - before) / 1024, peak() / 1024]))
"""


def measure(path: Path, out: Path, way: str, rounds: int = 5) -> tuple[float, float, float]:
    """Median seconds, most memory in MB that saving added, and most in all."""
    found = []
    for _ in range(rounds):
        out.unlink(missing_ok=True)
        run = subprocess.run(
            [sys.executable, "-c", _PROBE, str(path), str(out), way], capture_output=True, text=True, check=True
        )
        found.append(json.loads(run.stdout))
    return statistics.median(f[0] for f in found), max(f[1] for f in found), max(f[2] for f in found)


def main() -> None:
    """Measure and print ratios against the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        path, out = Path(name, "model.onnx"), Path(name, "out.onnx")
        write_weights_model(path, arguments.megabytes)
        print(f"{path.stat().st_size / 1e6:.0f} MB, one edit, saved to another file, no fsync")
        results = {way: measure(path, out, way) for way in ("copy", "ours", "onnx")}
        for way, (seconds, added, total) in results.items():
            print(f"  {way:<6}{seconds:8.3f} s {added:+9.1f} MB {total:9.1f} MB in all")
        ratio = results["ours"][0] / results["copy"][0]
        print(f"  S3: {ratio:.2f} x a plain copy (bar 2.5), {results['ours'][1]:+.1f} MB (bar +30)")


if __name__ == "__main__":
    main()
