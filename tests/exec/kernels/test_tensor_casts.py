"""Cast, CastLike and BitCast between all element types."""

from __future__ import annotations

import numpy as np

from tests.exec.kernels.harness import call


def test_old_files_may_have_the_number_of_the_type() -> None:
    assert call("Cast", [np.ones(2, np.float32)], opset=1, to=7).dtype == np.int64
