"""What a second start of a test's check compiles again: pytest runs the test alone, twice, with a fresh cache folder.

Invariant: both starts are processes of their own, because what differs between processes is what makes caches miss.
They build and call the object as the test does, with the backend that the test gives it, and end there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fuselight.capture.calls.observed_calls import ObservedCall, make_calls, start_logged
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.report import Report
from fuselight_server.base.formatting import format_count
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.commands.warm import STARTS, WarmState, WarmTarget, compare_starts
from fuselight_server.pytest_plugin.check_types import START_VARIABLE, Explained, test_name
from fuselight_server.pytest_plugin.finding_lines import finding_line
from fuselight_server.pytest_plugin.list_tuples import ListTuple

_SECONDS = 1800.0
_TAIL = 25
"""Lines of a start's output that an error shows."""
_WORDS = {
    WarmState.WARM: "everything came from caches",
    WarmState.COMPILED_AGAIN: "compiled again",
    WarmState.NOTHING_COMPILED: "nothing was compiled",
}


@dataclass(frozen=True)
class SecondStart(Explained):
    """What the caches did in the second start; true if everything came from them."""

    label: str
    state: WarmState
    hits: int
    misses: int
    """Lookups that found nothing, and compiles that torch cannot cache."""
    findings: tuple[str, ...] = ListTuple()
    """A line for each miss whose cause is known."""

    def __bool__(self) -> bool:
        """Whether nothing was compiled again."""
        return self.state is not WarmState.COMPILED_AGAIN

    def __repr__(self) -> str:
        """`<second start of Net: 2 hits, 1 miss, compiled again>`."""
        numbers = f"{format_count(self.hits, 'hit')}, {format_count(self.misses, 'miss', 'misses')}"
        cause = f"; {self.findings[0]}" if self.findings else ""
        return f"<second start of {self.label}: {numbers}, {_WORDS.get(self.state, self.state.value)}{cause}>"

    def explanation(self) -> list[str]:
        """List the causes."""
        return list(self.findings)


@dataclass(frozen=True)
class StartedTest:
    """What a started test is asked for."""

    number: int
    """The check that is made for real."""
    log: str
    cache: str
    known: dict[str, list[Any]]
    """By the number of earlier checks: what their second starts did, for tests that ask for them."""
    compares: bool = False
    """Whether the process around it compares the compiled calls of the check."""
    results: dict[str, str] = field(default_factory=dict)
    """By the number of earlier checks: the verdicts on their results, for tests that ask for them."""
    estimates: bool = False
    """Whether the memory of the check is estimated, and written into `log`."""
    peaks: dict[str, list[int]] = field(default_factory=dict)
    """By the number of earlier checks: bytes in eager mode and compiled, for tests that ask for them."""


def asked_start() -> StartedTest | None:
    """What this test was started for; None if nothing started it."""
    text = os.environ.get(START_VARIABLE)
    return None if not text else StartedTest(**parse_json(text))


def make_if_asked(
    number: int,
    model: Callable[..., Any],
    calls: Sequence[ObservedCall],
    settings: Mapping[str, Any],
    roots: tuple[str, ...],
) -> None:
    """In a started test: make the check that it was started for, and end the test. `roots`: the user's folders."""
    start = asked_start()
    if start is None or start.number != number:
        return
    if start.compares:
        make_calls(model, calls, settings=settings)
        pytest.skip("started for its results")
    if start.estimates:
        from fuselight_server.pytest_plugin.estimates_file import write_estimates  # noqa: PLC0415 - few tests ask for it

        write_estimates(model, calls, settings, roots, start.log)
        Path(start.log, _DONE).touch()
        pytest.skip("started for its memory")
    start_logged(model, calls, settings=settings, log=start.log, cache=start.cache)
    Path(start.log, _DONE).touch()
    pytest.skip("started for its caches")


_DONE = "done"


def start_twice(
    item: pytest.Item, number: int, label: str, report: Report, known: Mapping[int, SecondStart]
) -> SecondStart:
    """Start a check of a test twice. Raises RuntimeError if the test cannot be started alone."""
    __tracebackhide__ = True
    start = asked_start()
    if start is not None:
        state, hits, misses = start.known.get(str(number), [WarmState.WARM.value, 0, 0])
        return SecondStart(label, WarmState(state), hits, misses)
    with owned_folder("pytest-warm") as folder:
        logs = [Path(folder, name.replace(" ", "_")) for name in STARTS]
        for name, log in zip(STARTS, logs, strict=True):
            log.mkdir()
            earlier = {
                str(key): [value.state.value, value.hits, value.misses] for key, value in known.items()
            }
            started = StartedTest(number, str(log), str(Path(folder, "caches")), earlier)
            run_started(item, started, f"the {name}", "nothing is known of its caches. `warm`")
        return _result(label, compare_starts(report, logs, SourceFiles().line, {}))


def run_started(item: pytest.Item, start: StartedTest, name: str, lost: str) -> None:
    """Run a test alone, as `start` asks. Raises RuntimeError that names the run, and what is `lost` without it."""
    __tracebackhide__ = True
    command = [sys.executable, "-m", "pytest", *test_arguments(item)]
    ended = subprocess.run(  # noqa: S603 - pytest itself, on the test that is running
        command,
        cwd=item.config.invocation_params.dir,
        env={**os.environ, START_VARIABLE: json.dumps(vars(start))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )
    if not Path(start.log, _DONE).exists():
        tail = "\n".join(ended.stdout.splitlines()[-_TAIL:])
        raise RuntimeError(
            f"{name} of `{item.nodeid}` did not reach this check, so {lost} needs a test that pytest can run alone.\n"
            f"{tail}"
        )
    Path(start.log, _DONE).unlink()


def test_arguments(item: pytest.Item) -> Iterator[str]:
    """The arguments of pytest that run one test alone, with the plugins and settings of the session."""
    config = item.config
    file, separator, name = test_name(item.nodeid).partition("::")
    yield str(config.rootpath / file) + separator + name
    yield from ("-q", "-p", "no:cacheprovider", "--rootdir", str(config.rootpath))
    yield f"--import-mode={config.getoption('importmode')}"
    if config.inipath is not None:
        yield from ("-c", str(config.inipath))
    for plugin in config.getoption("plugins", default=None) or ():
        yield from ("-p", plugin)
    for override in config.getoption("override_ini", default=None) or ():
        yield from ("-o", override)
    if config.pluginmanager.hasplugin("xdist"):
        yield from ("-n", "0")


def _result(label: str, target: WarmTarget) -> SecondStart:
    rows = target.second.results if target.second is not None else ()
    lost = target.second.lost if target.second is not None else ()
    hits = sum(row.count for row in rows if not row.is_lost)
    lines = ListTuple(map(finding_line, target.findings))
    return SecondStart(label, target.state, hits, sum(row.count for row in lost), lines)
