"""FL941: accesses of Triton kernels outside of their tensors."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import KernelFault
from fuselight_server.base.finding import Severity
from fuselight_server.explain.findings import findings
from tests.support.reports import LIBRARY, at, report

READ = KernelFault("scale", at(40), "load", "x", 1000, 1000, program=(3, 0, 0), launch=(at(12),))


def test_a_fault_is_on_the_line_of_the_kernel_with_its_launch() -> None:
    (finding,) = findings(report(kernel_faults=(READ,)))
    assert (finding.code, finding.severity, finding.span.line) == ("FL941", Severity.ERROR, 40)
    assert finding.title == "`scale` reads `x[1000]`, and `x` has 1,000 elements"
    assert "Program (3, 0, 0) does, and the access has no mask." in finding.message
    assert finding.hints == ("Give tl.load a mask: `mask=offsets < n`.",)
    assert [related.span.line for related in finding.related] == [12]


def test_the_kernel_of_a_library_is_on_the_line_that_launches_it() -> None:
    fault = dataclasses.replace(READ, location=dataclasses.replace(at(7), path=LIBRARY))
    (finding,) = findings(report(kernel_faults=(fault,)))
    assert finding.span.line == 12
    assert [(related.span.path, related.span.line) for related in finding.related] == [(LIBRARY, 7)]


@pytest.mark.parametrize(
    ("change", "title", "hint"),
    [
        (
            {"access": "store", "offset": -(2**31), "elements": 1},
            "`scale` writes `x[-2147483648]`, and `x` has 1 element",
            "64 bits",
        ),
        ({"access": "store", "masked": True}, "`scale` writes `x[1000]`", "Compare the offsets"),
        ({"access": "atomic"}, "`scale` changes `x[1000]`", "tl.atomic_add a mask"),
        ({"argument": ""}, "`scale` reads an address that is outside of all its tensors", "mask"),
    ],
)
def test_each_kind_of_access_has_its_words(change: dict[str, object], title: str, hint: str) -> None:
    (finding,) = findings(report(kernel_faults=(dataclasses.replace(READ, **change),)))  # type: ignore[arg-type]
    assert finding.title.startswith(title)
    assert hint in finding.hints[0]
