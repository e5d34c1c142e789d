"""A run that ended without a report is shown by its failure, under the tier that was requested."""

from __future__ import annotations

import pytest

from fuselight.shared.protocol import CaptureRequest, GenerateRequest, InputsPlan, Target
from fuselight.shared.report import Culprit, Failure, Tier
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.failures import failure_report

TARGET = Target("/w/model.py", "Net", "module", 7, compiled=False)


@pytest.mark.parametrize(("kind", "tier"), [(CaptureRequest, Tier.CAPTURE), (GenerateRequest, Tier.KERNELS)])
def test_the_report_has_the_tier_that_failed(
    kind: type[CaptureRequest | GenerateRequest], tier: Tier
) -> None:
    request = kind(id=1, generation=3, target=TARGET, inputs=InputsPlan(), roots=("/w",))
    report = failure_report(request, Failure(Culprit.FUSELIGHT, "internal", "KeyError: 'x'"), None)
    assert (report.tier, report.generation, report.roots) == (tier, 3, ("/w",))
    (finding,) = findings(report)
    assert (finding.code, finding.tier, finding.span.line, finding.title) == (
        "FL403",
        tier,
        7,
        "Fuselight failed: KeyError: 'x'",
    )
