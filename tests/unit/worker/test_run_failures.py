"""Words of failures of runs that did not end by themselves."""

from __future__ import annotations

import pytest

from fuselight.worker.child.run_failures import timeout_failure


@pytest.mark.parametrize(
    ("seconds", "text"), [(600.0, "600 s"), (3.04, "3 s"), (0.25, "0.2 s"), (0.01, "0.01 s")]
)
def test_a_time_limit_is_never_zero(seconds: float, text: str) -> None:
    assert timeout_failure(seconds, (), None, None).message == f"killed after {text}"
