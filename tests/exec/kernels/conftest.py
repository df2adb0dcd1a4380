"""Random data of each test its own."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _own_numbers(request: pytest.FixtureRequest) -> None:
    """Begin the generators of the module anew: what a test draws must not depend on which ran before it."""
    seed = crc32(request.node.name.encode())
    for shared in vars(request.module).values():
        if isinstance(shared, np.random.Generator):
            shared.bit_generator.state = type(shared.bit_generator)(seed).state
