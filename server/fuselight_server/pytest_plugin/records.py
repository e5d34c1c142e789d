"""What a process that runs tests tells the one that reports them: plain data, because pytest-xdist sends it as JSON.

Invariant: a record is a dict of JSON's own types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import encode
from fuselight_server.cli.formats.json import finding_as_json
from fuselight_server.commands.compile_tests import failed_test
from fuselight_server.pytest_plugin.compiled import CompileResult
from fuselight_server.pytest_plugin.failures import complete_report
from fuselight_server.pytest_plugin.session_hooks import RECORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from fuselight_server.base.finding import Finding
    from fuselight_server.pytest_plugin.stashed import Counted


def complete(
    report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None], checks: Sequence[Counted]
) -> None:
    """Show the findings of a failed check in a report, and give it the record of the checks."""
    results = [check for check in checks if isinstance(check, CompileResult)]
    causes = complete_report(report, call.excinfo, results)
    if call.when == "call" or (call.when == "setup" and report.failed):
        is_listed = bool(item.config.getoption("fuselight") or item.config.getoption("fuselight_report"))
        setattr(report, RECORD, record_of(report.nodeid, results, causes, is_listed=is_listed))


def record_of(
    test: str, checks: Sequence[CompileResult], causes: Sequence[Finding], *, is_listed: bool
) -> dict[str, Any]:
    """The record of a test. `causes`: the findings that made it fail; `is_listed`: whether its checks are shown."""
    return {
        "checks": [_check(check) for check in checks] if is_listed else [],
        "failed": encode(failed_test(test, causes)) if causes else None,
        "baseline": {key: encode(entry) for check in checks for key, entry in check.baseline.items()},
    }


def _check(check: CompileResult) -> dict[str, Any]:
    report = check.report
    caller = report.inputs.calls[0].location if report.inputs is not None and report.inputs.calls else None
    return {
        "name": check.label,
        "graphs": int(check.graphs),
        "breaks": int(check.breaks),
        "recompiles": int(check.recompiles),
        "summary": str(check.check.counts),
        "path": caller.path if caller else None,
        "line": caller.line if caller else None,
        "torch": report.versions.torch,
        "failed": check.error is not None,
        "lines": check.finding_lines(),
        "findings": [finding_as_json(finding, check.check.sources) for finding in check.findings],
    }
