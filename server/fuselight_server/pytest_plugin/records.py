"""What a process that runs tests tells the one that reports them: plain data, because pytest-xdist sends it as JSON.

Invariant: a record is a dict of JSON's own types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import encode
from fuselight_server.cli.formats.json import finding_as_json
from fuselight_server.commands.compile_tests import failed_test
from fuselight_server.pytest_plugin.check_types import RECORD, Counted, StoppedCheck, test_name
from fuselight_server.pytest_plugin.compiled import CompileResult
from fuselight_server.pytest_plugin.failures import complete_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from fuselight_server.base.finding import Finding


def complete(
    report: pytest.TestReport,
    item: pytest.Item,
    call: pytest.CallInfo[None],
    checks: Sequence[Counted | StoppedCheck],
) -> None:
    """Show the findings of a failed check in a report, and give it the record of the checks."""
    results = [check for check in checks if isinstance(check, CompileResult)]
    causes = complete_report(report, call.excinfo, results)
    if call.when == "call" or (call.when == "setup" and report.failed):
        setattr(
            report,
            RECORD,
            record_of(test_name(report.nodeid), checks, causes, is_listed=are_listed(item.config)),
        )


def are_listed(config: pytest.Config) -> bool:
    """Whether the session shows or writes all checks."""
    return bool(config.getoption("fuselight") or config.getoption("fuselight_report"))


def record_of(
    test: str, checks: Sequence[Counted | StoppedCheck], causes: Sequence[Finding], *, is_listed: bool
) -> dict[str, Any]:
    """The record of a test. `causes`: the findings that made it fail; `is_listed`: whether its checks are shown."""
    return {
        "checks": [*map(_check, checks)] if is_listed else [],
        "failed": encode(failed_test(test, causes)) if causes else None,
        "baseline": {
            key: encode(entry)
            for check in checks
            if isinstance(check, CompileResult)
            for key, entry in check.baseline.items()
        },
    }


def _check(check: Counted | StoppedCheck) -> dict[str, Any]:
    if isinstance(check, CompileResult):
        return {**_completed(check), "stopped": None}
    if isinstance(check, StoppedCheck):
        return {**_stopped(check), "stopped": check.reason}
    raise TypeError(type(check))


def _stopped(check: StoppedCheck) -> dict[str, Any]:
    """As `_completed`, without numbers: they are not known."""
    return {
        "name": check.label,
        "graphs": None,
        "breaks": None,
        "recompiles": None,
        "summary": f"stopped: {check.reason}",
        "path": check.path,
        "line": check.line,
        "torch": None,
        "failed": True,
        "lines": [],
        "findings": [],
    }


def _completed(check: CompileResult) -> dict[str, Any]:
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
