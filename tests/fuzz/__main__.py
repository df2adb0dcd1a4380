"""The long run: ``python -m tests.fuzz --models 20000 --cases 50000 --seed 1``; mismatches are printed, shrunk."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
import warnings
from collections import Counter

from tests.fuzz.cases import Case, one_helper_process
from tests.fuzz.generator import random_model
from tests.fuzz.oracles import ORACLES, kind_of, shrunk, verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--models", type=int, default=0, help="how many random models")
    parser.add_argument("--cases", type=int, default=0, help="how many cases of single operators")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    parser.add_argument("--oracles", nargs="*", choices=ORACLES, default=list(ORACLES))
    parser.add_argument("--each", type=int, default=len(ORACLES), help="how many oracles a model goes through")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    print(f"seed {given.seed}", flush=True)
    found: Counter[str] = Counter()
    began = time.monotonic()
    with one_helper_process():
        for number in range(given.models):
            model_found(f"{given.seed}:{number}", given, found)
            if number % 100 == 99:
                print(f"{number + 1} models, {time.monotonic() - began:.0f} s, {sum(found.values())} found", flush=True)
        if given.cases:
            from tests.fuzz.sweeps import sweep

            for start in range(0, given.cases, 1000):
                end = min(start + 1000, given.cases)
                for case in sweep(given.seed, range(start, end)):
                    found[case.kind] += 1
                    if found[case.kind] == 1:
                        print(case, flush=True)
                print(f"{end} cases, {time.monotonic() - began:.0f} s, {sum(found.values())} found", flush=True)
    for kind, count in found.most_common():
        print(f"{count:6} {kind}")
    return 1 if found else 0


def model_found(seed: str, given: argparse.Namespace, found: Counter[str]) -> None:
    """Try a model and print what is found, as a small model where it was not found before."""
    number = int(seed.split(":")[1])
    case = Case(random_model(seed), number)
    chosen = [given.oracles[(number + i) % len(given.oracles)] for i in range(min(given.each, len(given.oracles)))]
    for oracle in chosen:
        message = verdict(oracle, case)
        kind = f"{oracle}: {kind_of(message)}"
        if not message:
            continue
        found[kind] += 1
        print(f"--- {seed} {oracle}: {message}", flush=True)
        if found[kind] == 1 and not given.no_shrink:
            print(shrunk(oracle, case, message), flush=True)


if __name__ == "__main__":
    sys.exit(main())
