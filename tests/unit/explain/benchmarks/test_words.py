"""Names of devices, and failures as text."""

from __future__ import annotations

from fuselight.shared.report import Culprit, Failure, Machine, MeasuredMemory
from fuselight_server.explain.benchmarks import words
from tests.support.measured import measured, row


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


def test_the_peaks_of_tensors_are_named_by_configuration() -> None:
    known = [
        row("eager", memory=MeasuredMemory(4_000_000, 0)),
        row("default", memory=MeasuredMemory(3_000_000, 0)),
    ]
    lost = row("dynamic")
    assert words.peaks_of_tensors(measured(*known, lost), 3) == "peak of tensors eager 4 MB, default 3 MB"
    assert words.peaks_of_tensors(measured(*known), 0) == "peak of tensors eager 4 MB"
    assert not words.peaks_of_tensors(measured(lost), 3)
