"""What compiled code does otherwise than eager mode, besides numbers."""

from __future__ import annotations

import pytest

from fuselight.measure.accuracy.results import CallResults
from fuselight.shared.report import Aspect
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.results.other_differences import other_differences


def raising(name: str) -> CallRecord:
    return CallRecord(CallResults(), raised=name, message="sizes do not match")


@pytest.mark.parametrize("eager", ["RuntimeError", "ValueError"])
def test_the_error_of_an_operator_is_the_same_under_the_name_that_dynamo_gives_it(eager: str) -> None:
    """Code that handles a RuntimeError handles TorchRuntimeError, too; what handles a ValueError does not."""
    differences = other_differences(raising("TorchRuntimeError"), raising(eager))
    assert [difference.aspect for difference in differences] == (
        [] if eager == "RuntimeError" else [Aspect.EXCEPTION]
    )
    assert other_differences(raising(""), raising(eager))[0].aspect is Aspect.EXCEPTION
