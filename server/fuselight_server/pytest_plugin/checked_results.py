"""Whether the compiled calls of a test's check give the results of eager mode: pytest runs the test alone, in a worker.

Invariant: the comparison is that of `fuselight accuracy`, in processes of their own: the test's process is as it was. A
test that cannot run alone raises an error, and is never as eager mode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import decode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report import Report
from fuselight_server.commands.accuracy import ResultsState, state_of
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.explain.findings import findings_of_results
from fuselight_server.explain.findings.common.result_words import (
    STAGE_NAMES,
    compared_calls,
    results_in_words,
    setting_text,
    wrong_calls,
)
from fuselight_server.pytest_plugin.check_types import START_VARIABLE, Explained
from fuselight_server.pytest_plugin.finding_lines import finding_line
from fuselight_server.pytest_plugin.list_tuples import ListTuple
from fuselight_server.pytest_plugin.second_start import StartedTest, asked_start, test_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

_SECONDS = 3600.0
_PROCESS = "fuselight_server.pytest_plugin.comparison_process"
_PROGRAM = """\
import os
import sys

import pytest

if __name__ == "__main__":
    os.chdir({folder!r})
    sys.path.insert(0, {folder!r})
    pytest.main({arguments!r})
"""
_FILE = "fuselight_accuracy_of_a_test.py"
"""The name of the program, which is on no disk."""


@dataclass(frozen=True)
class CheckedResults(Explained):
    """The verdict on the compiled calls of a check; true if calls were compared, and all are as in eager mode."""

    label: str
    state: ResultsState
    verdict: str
    """`as eager (2 calls, 5 values compared)`."""
    compared: int = 0
    """Calls with a verdict."""
    wrong: int = 0
    """Calls that differ."""
    findings: tuple[str, ...] = ListTuple()
    """A line for each difference: `model.py:12: FL801 results of ... differ from eager mode`."""
    causes: tuple[str, ...] = ListTuple()
    """The stage that is wrong and the settings that were tried, a line for each."""
    report: Report | None = None
    """Everything that was recorded; None in a test that another one has started."""

    def __bool__(self) -> bool:
        """Whether all compared calls are as in eager mode."""
        return self.state is ResultsState.AS_EAGER

    def __repr__(self) -> str:
        """`<results of Net: as eager (2 calls, 5 values compared)>`."""
        cause = f"; {self.findings[0]}" if self.findings else ""
        return f"<results of {self.label}: {self.verdict}{cause}>"

    def explanation(self) -> list[str]:
        """List the differences, then their causes."""
        return [*self.findings, *self.causes]


def compare_results_of(
    item: pytest.Item,
    number: int,
    label: str,
    known: Mapping[int, CheckedResults],
    options: Mapping[str, Any],
) -> CheckedResults:
    """Compare the compiled calls of a check of a test. Raises RuntimeError if the test cannot run alone.

    `options`: values of ACCURACY_OPTIONS, by name.
    """
    __tracebackhide__ = True
    start = asked_start()
    if start is not None:  # of another check: what it has shown there
        state = start.results.get(str(number), ResultsState.AS_EAGER.value)
        return CheckedResults(label, ResultsState(state), state)
    states = {str(key): value.state.value for key, value in known.items()}
    started = StartedTest(number, "", "", {}, compares=True, results=states)
    answer = _answer(item, started, options)
    reports = [decode(Report, entry) for entry in answer["reports"]]
    report = next(iter(reports), None)
    if report is None or report.results is None or not report.results.call_count:
        raise RuntimeError(
            f"`{item.nodeid}` did not reach this check when it ran again, so its results were not compared. "
            f"`accuracy` needs a test that pytest can run alone.\n{_reason(report, answer['problems'])}"
        )
    return _results(label, report)


def _answer(item: pytest.Item, started: StartedTest, options: Mapping[str, Any]) -> dict[str, Any]:
    __tracebackhide__ = True
    folder = str(item.config.invocation_params.dir)
    text = _PROGRAM.format(folder=folder, arguments=list(test_arguments(item)))
    asked = {"path": str(Path(item.config.rootpath, _FILE)), "text": text, "options": dict(options)}
    ended = subprocess.run(  # noqa: S603 - Fuselight itself, with this Python
        [sys.executable, "-m", _PROCESS],
        cwd=folder,
        env={**os.environ, START_VARIABLE: json.dumps(vars(started))},
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"the results of `{item.nodeid}` were not compared: {ended.stderr.strip()}")
    answer: dict[str, Any] = parse_json(ended.stdout)
    return answer


def _reason(report: Report | None, problems: list[str]) -> str:
    failures = report.failures if report is not None else ()
    output = report.output.stdout if report is not None and report.output is not None else ""
    return "\n".join([*(failure.message for failure in failures), *problems, output.strip()]).strip()


def _results(label: str, report: Report) -> CheckedResults:
    results = report.results
    assert results is not None  # noqa: S101 - the caller has looked
    rows = findings_of_results(report, read_line=SourceFiles().line)
    return CheckedResults(
        label,
        state_of(report),
        results_in_words(results),
        len(compared_calls(results)),
        len(wrong_calls(results)),
        ListTuple(map(finding_line, rows)),
        ListTuple(dict.fromkeys(_causes(report))),
        report,
    )


def _causes(report: Report) -> Iterator[str]:
    for cause in report.results.causes if report.results is not None else ():
        yield f"wrong {STAGE_NAMES[cause.stage]}"
        for setting in cause.tried:
            if setting.cures:
                yield f"as in eager mode with {setting_text(setting)}"
