"""What a failed test shows of its checks: the findings as a section, and the causing line in the summary.

Invariant: a failure that is not about a check stays as it is. The report that pytest made is kept; nothing but its
place, its message and one section changes, so that every reporter and pytest-xdist can read it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from _pytest._code.code import ExceptionChainRepr, ExceptionInfo, ReprExceptionInfo, ReprFileLocation

from fuselight_server.commands.compile_checks import causing
from fuselight_server.pytest_plugin.compiled import CODES, CompileResult
from fuselight_server.pytest_plugin.expectations import ExpectationError
from fuselight_server.pytest_plugin.finding_lines import summary_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from fuselight_server.base.finding import Finding

_SECTION = "Fuselight"
_FORECAST = re.compile(r"\d changes? that compiles? ")
_NARROWED = re.compile(r"\.(sizes|likely)\b")
"""An attribute of the forecast, as pytest writes what an assertion has evaluated."""
_NOUNS = {"graph": "graphs", "break": "breaks", "recompilation": "recompiles"}


def complete_report(
    report: pytest.TestReport,
    excinfo: ExceptionInfo[BaseException] | None,
    checks: Sequence[CompileResult],
) -> tuple[Finding, ...]:
    """Add the findings to the report of a failure that is about one of the checks; return those that explain it."""
    if excinfo is None or not report.failed:
        return ()
    failed = failed_check(excinfo.value, checks)
    if failed is None or not isinstance(report.longrepr, (ExceptionChainRepr, ReprExceptionInfo)):
        return ()
    new = excinfo.value.findings if isinstance(excinfo.value, ExpectationError) else ()
    rows = new or causing(failed.check, _codes_of(excinfo.value))
    if rows:
        report.longrepr = _placed(report.longrepr, rows[0])
    advice = _forecast_text(failed, str(excinfo.value))
    if advice:
        report.longrepr.addsection(f"{_SECTION}: forecast of {failed.label}", advice)
    text = failed.findings_text()
    if text:
        report.longrepr.addsection(f"{_SECTION}: {failed.label}", text)
    return rows


def failed_check(error: BaseException, checks: Sequence[CompileResult]) -> CompileResult | None:
    """The check that an exception is about: it says so, a call of it raised it, or an assertion names it."""
    if isinstance(error, ExpectationError):
        return next((check for check in checks if check is error.check), None)
    for check in checks:
        if check.error is error:
            return check
    if isinstance(error, AssertionError):
        text = str(error)
        return next((check for check in reversed(checks) if _is_named(check, text)), None)
    return None


def _is_named(check: CompileResult, text: str) -> bool:
    """Whether the text has a number, the findings or the forecast of a check, as their reprs name it."""
    name = re.escape(check.label)
    return re.search(rf"(\d (\w+) of|\) of|<check of|that compiles?) {name}(?![#\w.])", text) is not None


def _forecast_text(check: CompileResult, failure: str) -> str:
    """The changes that a failed assertion is about, each with its cost and what to do; empty where it lists them."""
    if not check.check.has_forecast or _FORECAST.search(failure) is None:
        return ""
    changes = check.forecast
    for name in dict.fromkeys(_NARROWED.findall(failure)):
        changes = changes.sizes if name == "sizes" else changes.likely
    lines = changes.explanation()
    return "" if lines and lines[0] in failure else "\n".join(lines)


def _codes_of(error: BaseException) -> tuple[str, ...]:
    """How the codes of findings begin that explain the number in a failed assertion."""
    match = re.search(r"\d (graph|break|recompilation)s? of ", str(error))
    return CODES[_NOUNS[match[1]]] if match else ()


def _placed(
    longrepr: ExceptionChainRepr | ReprExceptionInfo, finding: Finding
) -> ExceptionChainRepr | ReprExceptionInfo:
    """The representation of a failure, whose place is the line of a finding."""
    crash = ReprFileLocation(finding.span.path, finding.span.line, summary_of(finding))
    if isinstance(longrepr, ReprExceptionInfo):
        return ReprExceptionInfo(reprtraceback=longrepr.reprtraceback, reprcrash=crash)
    *earlier, (traceback, _, description) = longrepr.chain
    return ExceptionChainRepr([*earlier, (traceback, crash, description)])
