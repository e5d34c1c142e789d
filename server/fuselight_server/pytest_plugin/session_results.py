"""What a session found in all of its checks: for the terminal, a report, the editor and the baseline.

Invariant: the process that reports the session collects it, whichever process ran a test, and writes each file once.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import decode
from fuselight.shared.foreign_files import write_whole
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.formatting import format_count
from fuselight_server.base.store import Store
from fuselight_server.commands import count_baseline
from fuselight_server.commands.compile_tests import FailedCompileTest, keep_failed, read_failed
from fuselight_server.commands.count_baseline import CountEntry
from fuselight_server.commands.sources import shown_path
from fuselight_server.pytest_plugin import baselines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pytest

    from fuselight_server.pytest_plugin.check_types import Counted, StoppedCheck

_SCHEMA = 1
_INTERRUPTED = "interrupted"
"""The outcome of a test of which pytest makes no report."""


@dataclass
class _TestRecord:
    """The checks of one test."""

    test: str
    outcome: str
    checks: list[dict[str, Any]]


@dataclass
class SessionResults:
    """The records of the tests that ran."""

    ran: set[str]
    """The names of all tests, with checks or without."""
    stale: set[str]
    """What earlier sessions have kept of tests that do not exist any more: entries of the baseline, failed tests."""
    tests: dict[str, _TestRecord] = field(default_factory=dict)
    failed: dict[str, FailedCompileTest] = field(default_factory=dict)
    entries: dict[str, dict[str, CountEntry]] = field(default_factory=dict)
    """By test, what it would change in the baseline."""
    notes: list[str] = field(default_factory=list)

    def add_test(self, test: str, outcome: str, record: dict[str, Any]) -> None:
        """Take the record of a test. Of a test that is tried again, the last try counts."""
        self.tests[test] = _TestRecord(test, outcome, record["checks"])
        self.failed.pop(test, None)
        if record["failed"] is not None:
            self.failed[test] = decode(FailedCompileTest, record["failed"])
        self.entries[test] = {key: decode(CountEntry, entry) for key, entry in record["baseline"].items()}

    def add_interrupted(
        self, config: pytest.Config, test: str, checks: Sequence[Counted | StoppedCheck]
    ) -> None:
        """Take the checks of a test that did not end."""
        from fuselight_server.pytest_plugin.records import are_listed, record_of  # noqa: PLC0415 - checks ran here

        self.tests[test] = _TestRecord(
            test, _INTERRUPTED, record_of(test, checks, (), is_listed=are_listed(config))["checks"]
        )

    def write_results(self, config: pytest.Config, not_passed: Collection[str]) -> None:
        """Write what the session leaves; a test that did not pass leaves the baseline as it is."""
        passed = [entries for test, entries in self.entries.items() if test not in not_passed]
        self._write_baseline(config, {key: entry for entries in passed for key, entry in entries.items()})
        self._keep_failed(config)
        self._write_report(config)

    def _write_baseline(self, config: pytest.Config, entries: dict[str, CountEntry]) -> None:
        if not entries and not self.stale:
            return  # the file is not read where nothing in it is used
        path, is_update = baselines.path_of(config), bool(config.getoption(baselines.UPDATE))
        try:
            known = count_baseline.read(path)
            stale = self.stale & known.keys()
            removed = stale if is_update else set()
            if entries or removed:
                count_baseline.write(path, entries, removed)
                self.notes.append(_written(path, known, entries, removed))
        except CommandError as error:
            self.notes.append(f"the baseline was not written: {error}")
            return
        except OSError as error:
            self.notes.append(_unwritten("the baseline", path, error))
            return
        if stale - removed:
            count = format_count(len(stale), "entry", "entries")
            whose = "belongs to a test that does" if len(stale) == 1 else "belong to tests that do"
            listed = ", ".join(sorted(stale))
            self.notes.append(
                f"{count} of the baseline {whose} not exist: {listed}. --fuselight-update removes them"
            )

    def _keep_failed(self, config: pytest.Config) -> None:
        try:
            keep_failed(Store.at(config.rootpath), self.ran | self.stale, self.failed.values())
        except OSError as error:
            self.notes.append(f"failed tests are not shown in the editor: {error}")

    def _write_report(self, config: pytest.Config) -> None:
        name = config.getoption("fuselight_report")
        if name is None:
            return
        data = {
            "schema": _SCHEMA,
            "tests": [
                {
                    "test": record.test,
                    "outcome": record.outcome,
                    "checks": [
                        {key: value for key, value in check.items() if key not in {"lines", "summary"}}
                        for check in record.checks
                    ],
                }
                for record in self.tests.values()
            ],
        }
        path = Path(config.invocation_params.dir, name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, f"{json.dumps(data, indent=2)}\n".encode(), mode=0o644)
        except OSError as error:
            self.notes.append(_unwritten("the report", path, error))

    def lines(self, *, is_full: bool) -> list[str]:
        """The lines of the terminal's section: every check, if `is_full`, and the notes."""
        return [*(self._checks() if is_full else ()), *self.notes]

    def _checks(self) -> Iterator[str]:
        for record in self.tests.values():
            yield record.test
            for check in record.checks:
                yield f"  {check['name']}: {check['summary']}"
                yield from (f"    {line}" for line in check["lines"])
        checks = [check for record in self.tests.values() for check in record.checks]
        completed = [check for check in checks if check["stopped"] is None]
        if not completed:
            yield "no check was completed"
            return
        broken = sum(check["breaks"] > 0 for check in completed)
        again = sum(check["recompiles"] > 0 for check in completed)
        stopped = f", {len(checks) - len(completed):,} stopped" if len(checks) > len(completed) else ""
        counted = f"{format_count(len(checks), 'check')} in {format_count(len(self.tests), 'test')}"
        yield f"{counted}: {broken} with graph breaks, {again} with recompilations{stopped}"


def _unwritten(what: str, path: Path, error: OSError) -> str:
    return f"{what} `{shown_path(str(path))}` was not written: {error.strerror or error}"


def _written(
    path: Path, known: dict[str, CountEntry], changed: dict[str, CountEntry], removed: set[str]
) -> str:
    new = sum(key not in known for key in changed)
    parts = [(new, "added"), (len(changed) - new, "changed"), (len(removed), "removed")]
    words = ", ".join(f"{format_count(count, 'entry', 'entries')} {what}" for count, what in parts if count)
    return f"baseline {shown_path(str(path))}: {words}"


def stale_tests(config: pytest.Config, items: Iterable[pytest.Item]) -> set[str]:
    """What earlier sessions have kept of tests that do not exist any more."""
    if config.getoption("lf", default=False):
        items = ()  # pytest does not collect the tests of a file that did not fail
    with contextlib.suppress(CommandError):  # each check says so
        entries = baselines.entries_of(config)
        kept = [failed.test for failed in read_failed(Store.at(config.rootpath))]
        collected = [baselines.key_of(item, 1) for item in items]
        return stale_entries([*entries, *kept], collected, config.args, config.rootpath)
    return set()


def stale_entries(
    entries: Iterable[str], collected: Iterable[str], arguments: Iterable[str], root: Path
) -> set[str]:
    """Entries whose tests are gone, as far as a session can tell: it collected their whole file, or there is none."""
    tests = set(collected)
    files = {test.partition("::")[0] for test in tests}
    partial = {argument.replace("\\", "/").partition("::")[0] for argument in arguments if "::" in argument}
    gone = set()
    for entry in entries:
        test = _test_of(entry)
        file = test.partition("::")[0]
        is_partial = any(name.endswith(file) or file.endswith(name) for name in partial)
        if (file in files and not is_partial and test not in tests) or not (root / file).exists():
            gone.add(entry)
    return gone


def _test_of(entry: str) -> str:
    """The name of the test of an entry, without the number of the check."""
    test, separator, number = entry.rpartition("#")
    return test if separator and number.isdecimal() else entry
