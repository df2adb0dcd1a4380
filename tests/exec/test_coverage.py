"""Every operator version there is has a kernel: nothing stands in for a missing one."""

from __future__ import annotations

import onnx.defs

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


def test_every_operator_version_has_a_kernel() -> None:
    load()
    missing = []
    for domain, name, version in pairs():
        try:
            find(name, version, domain)
        except MissingKernelError:
            missing.append((domain, name, version))
    assert len(pairs()) >= 654
    assert not missing
