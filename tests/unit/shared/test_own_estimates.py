"""One launch, one estimated time: that of the compiled kernel, if it is clear which one is meant."""

from __future__ import annotations

import pytest

from fuselight.shared.own_estimates import with_own_estimates
from fuselight.shared.report import GeneratedGraph, Kernel, KernelKind, Location, OwnKernel, Phase


def launch(name: str, moved: int = 8, kind: KernelKind = KernelKind.USER_TRITON) -> Kernel:
    return Kernel(name, kind, 0, bytes_read=moved, bytes_written=4, estimate_us=0.7, bound="launch")


def own(
    name: str, us: float | None, moved: int = 8, bound: str | None = "compute", reason: str = ""
) -> OwnKernel:
    return OwnKernel(
        name,
        Location("own.py", 3),
        5,
        bytes_read=moved,
        bytes_written=4,
        estimate_us=us,
        bound=bound,
        not_estimated=reason,
    )


@pytest.mark.parametrize(
    ("kernel", "known", "expected"),
    [
        (launch("scan_0"), [own("scan", 40.0)], (40.0, "compute")),
        (launch("scan_12"), [own("scan", 40.0), own("scans", 3.0)], (40.0, "compute")),
        (launch("scan_2_0"), [own("scan_2", 5.0), own("scan", 40.0)], (5.0, "compute")),
        (launch("scan_0", 16), [own("scan", 40.0), own("scan", 80.0, 16)], (80.0, "compute")),
        (launch("scan_0", 24), [own("scan", 40.0)], (40.0, "compute")),
        (
            launch("count_0"),
            [own("count", None, bound=None, reason="contended atomic operations")],
            (None, None),
        ),
        (launch("scan_0", 24), [own("scan", 40.0), own("scan", 80.0, 16)], (80.0, "compute")),
        (launch("scan_0", 12), [own("scan", 40.0), own("scan", 80.0, 16)], (0.7, "launch")),
        (launch("scan_0"), [own("scan", None, bound=None)], (0.7, "launch")),
        (launch("other_0"), [own("scan", 40.0)], (0.7, "launch")),
        (launch("scan_0", kind=KernelKind.TRITON), [own("scan", 40.0)], (0.7, "launch")),
    ],
)
def test_the_estimate_is_that_of_the_compiled_kernel(
    kernel: Kernel, known: list[OwnKernel], expected: tuple[float | None, str | None]
) -> None:
    graph = GeneratedGraph("0/0", Phase.INFERENCE, kernels=(launch("other"), kernel))
    (changed,) = with_own_estimates([graph], known)
    first, second = changed.kernels
    assert first == launch("other")
    assert (second.estimate_us, second.bound) == expected
