"""How measured times are written: what has no meaning as a number is not written as one."""

from __future__ import annotations

import pytest

from fuselight.report import Culprit, Failure, Machine
from fuselight_server.measured import words


@pytest.mark.parametrize(
    ("part", "text"), [(0.0, "+- <1%"), (0.012, "+- 1%"), (1.0, "+- 100%"), (51.5, "+- >100%")]
)
def test_a_spread_wider_than_the_time_has_no_number(part: float, text: str) -> None:
    assert words.spread(part) == text


def test_a_device_is_named_without_marks_of_trade() -> None:
    assert words.device(Machine("Intel(R) Xeon(R) Processor")) == "Intel Xeon Processor"
    assert words.device(Machine("NVIDIA H200", index=1)) == "NVIDIA H200 (1)"
    assert words.device(Machine("?")) == "a device without a name"


def test_a_failure_is_told_in_sentences() -> None:
    assert (
        words.failed(Failure(Culprit.USER, "inputs", "no inputs.", "give it some"))
        == "no inputs. Give it some"
    )
    assert words.failed(Failure(Culprit.USER, "inputs", "no inputs", "")) == "no inputs"
