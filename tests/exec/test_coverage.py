"""Every operator version there is: how many have a kernel or a function body that stands in for one."""

from __future__ import annotations

import onnx.defs

from onnx_workbench.exec.engine.function_bodies import has_body
from onnx_workbench.exec.errors import MissingKernelError
from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import find

SAME_DOMAIN = {"ai.onnx": ""}


def pairs() -> list[tuple[str, str, int]]:
    """Domain, operator and version of all that is not deprecated."""
    return sorted(
        (SAME_DOMAIN.get(s.domain, s.domain), s.name, s.since_version)
        for s in onnx.defs.get_all_schemas_with_history()
        if not s.deprecated
    )


def runs(domain: str, name: str, version: int) -> bool:
    try:
        find(name, version, domain)
    except MissingKernelError:
        return has_body(name, version, domain)
    return True


def test_nearly_every_operator_version_runs() -> None:
    load()
    missing = [pair for pair in pairs() if not runs(*pair)]
    assert len(pairs()) >= 654
    assert len(pairs()) - len(missing) >= 640, missing
    newest = {(d, n): v for d, n, v in pairs()}
    assert not [m for m in missing if newest[m[:2]] == m[2]], "an operator's newest version is missing"
