"""How long finding repeated blocks and turning them into functions takes, against reading the same model.

Run as a script, as `python -m tests.benchmarks.bench_repeats` from the root of the tree.
"""

from __future__ import annotations

import time

from onnx_workbench.model.analysis.repeated_blocks import repeated_blocks
from onnx_workbench.model.convert import extract_blocks
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from tests.benchmarks.bench_differences import chain


def main() -> None:
    """A chain of equal blocks, and one with a block that is different in the middle."""
    for count in (5_000, 100_000):
        for title, extra in (("equal", -1), ("one other", count // 6)):
            data = chain(count, extra)
            start = time.perf_counter()
            document = Document(load(data))
            reading = time.perf_counter() - start
            start = time.perf_counter()
            blocks = repeated_blocks(document.model.graph)
            finding = time.perf_counter() - start
            start = time.perf_counter()
            with document.edit("Extract") as edit:
                extract_blocks(edit)
            taken = time.perf_counter() - start
            covered = sum(block.size * len(block.occurrences) for block in blocks)
            print(
                f"{count:>7,} nodes {title:>9}: finding {finding:5.2f} s = {finding / reading:5.1f} × reading, "
                f"functions {taken:5.2f} s = {taken / reading:5.1f} ×; {covered:,} nodes covered"
            )


if __name__ == "__main__":
    main()
