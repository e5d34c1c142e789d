"""The hooks of one session: they collect the records of tests, and write and show them at its end.

Invariant: what reads and writes files is imported only where a check ran, or an earlier session has left something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuselight_server.pytest_plugin.check_types import INTERRUPTED, RECORD, test_name

if TYPE_CHECKING:
    from pathlib import Path

    from fuselight_server.pytest_plugin.session_results import SessionResults

_STALE = "fuselight_stale"
_FAILED = (".fuselight", "tests.json")
_BASELINE = "fuselight-tests.json"
"""`NAME` of commands/count_baseline.py, which is not imported for this."""


class SessionHooks:
    """Registered with pytest for each session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[pytest.TestReport] = []
        self._ran: set[str] = set()
        self._not_passed: set[str] = set()
        self._stale: set[str] = set()
        """Names that earlier sessions have kept of tests that do not exist any more."""
        self._lines: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Find what was kept of tests that are gone, before `-k` leaves some out."""
        if self._has_kept():
            from fuselight_server.pytest_plugin.session_results import stale_tests  # noqa: PLC0415 - only then

            self._stale |= stale_tests(self._config, items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the record of a test."""
        test = test_name(report.nodeid)
        self._ran.add(test)
        if report.outcome != "passed":
            self._not_passed.add(test)  # its teardown may fail after its checks were compared
        elif report.when == "setup":
            self._not_passed.discard(test)  # it is tried again
        if hasattr(report, RECORD):
            self._reports.append(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process of pytest-xdist has collected."""
        self._stale |= set(getattr(node, "workeroutput", {}).get(_STALE, ()))

    def pytest_sessionfinish(self) -> None:
        """Write what the session leaves; in a process of pytest-xdist, hand it over."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_STALE] = sorted(self._stale)
        elif (
            self._reports
            or INTERRUPTED in self._config.stash
            or self._has_options()
            or (self._ran and self._has_kept())
        ):
            self._lines = self._finish().lines(is_full=bool(self._config.getoption("fuselight")))

    def _finish(self) -> SessionResults:
        from fuselight_server.pytest_plugin.session_results import SessionResults  # noqa: PLC0415 - few sessions do

        results = SessionResults(self._ran, self._stale)
        for report in self._reports:
            results.add_test(test_name(report.nodeid), report.outcome, getattr(report, RECORD))
        for test, checks in self._config.stash.get(INTERRUPTED, {}).items():
            results.add_interrupted(self._config, test, checks)
        results.write_results(self._config, self._not_passed)
        return results

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the section."""
        if self._lines:
            terminalreporter.section("Fuselight")
            for line in self._lines:
                terminalreporter.line(line)

    def _has_options(self) -> bool:
        names = ("fuselight", "fuselight_report", "fuselight_update")
        return any(self._config.getoption(name) for name in names)

    def _has_kept(self) -> bool:
        root: Path = self._config.rootpath
        baseline = str(self._config.getini("fuselight_baseline")) or _BASELINE
        return root.joinpath(*_FAILED).exists() or (root / baseline).exists()
