"""Names of devices, and failures as text."""

from __future__ import annotations

from fuselight.shared.report import Culprit, Failure, Machine
from fuselight_server.explain.benchmarks import words


def test_a_device_name_has_no_trademark_signs() -> None:
    assert words.device(Machine("Intel(R) Xeon(R) Processor")) == "Intel Xeon Processor"
    assert words.device(Machine("NVIDIA H200", index=1)) == "NVIDIA H200 (1)"
    assert words.device(Machine("?")) == "a device without a name"


def test_a_failure_is_reported_in_sentences() -> None:
    assert (
        words.failed(Failure(Culprit.USER, "inputs", "no inputs.", "give it some"))
        == "no inputs. Give it some"
    )
    assert words.failed(Failure(Culprit.USER, "inputs", "no inputs", "")) == "no inputs"
