"""Results of rings of tests, read from the JUnit files of their runners, and the order that the last results give.

Invariant: a run that failed without naming a test, or that left no file, counts as a failure.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from node_tools import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

ARTIFACTS = ROOT / "artifacts"
SLOWEST = 15
"""Tests listed at the end of a run."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m|#x1B\[[0-9;]*m|\[\d+m")
_ALLOWED = re.compile(r"mark\.timeout\((\d+)\)")
_ERROR = re.compile(r"\w*(Error|Exception|Failed)\b|Test timeout")
_LINE = 200
"""Characters of what a failed test said that the summary shows."""


@dataclass(frozen=True)
class Outcome:
    """Result of a ring. `skipped_because` says why the ring, or a part of it, did not run."""

    ring: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Processor time of all its processes; 0 where the system does not count it."""
    skipped_because: str | None = None
    suspects: tuple[str, ...] = ()
    """Failures to run once more, alone: pytest node ids, or what a script calls a part of its tests."""
    script: Path | None = None
    """The script that ran the tests, if pytest did not."""
    failures: tuple[tuple[str, str], ...] = ()
    """(test, first line of what it said) of each test that failed."""
    second_try: tuple[str, ...] = ()
    """Tests that failed first and passed alone: each has a fault, in the test or in the product."""
    slowest: tuple[tuple[float, str], ...] = ()
    """(seconds, test) of the slowest tests, slowest first."""

    def __str__(self) -> str:
        if not (self.passed or self.failed):
            return f"{self.ring}: skipped: {self.skipped_because}"
        text = f"{self.ring}: {self.passed} passed, {self.failed} failed"
        if self.skipped:
            text += f", {self.skipped} skipped"
        text += f" in {self.seconds:.0f} s"
        if self.cpu_seconds:
            text += f", {self.cpu_seconds:.0f} s of CPU"
        if self.second_try:
            text += f"; PASSED ONLY ON A SECOND TRY: {', '.join(self.second_try)}"
        return f"{text}; skipped: {self.skipped_because}" if self.skipped_because else text


@dataclass(frozen=True)
class Ended:
    """How a command ended, and the processor time of it and of all processes that it led to."""

    code: int
    cpu_seconds: float = 0.0


def joined(ring: str, parts: Sequence[Outcome], seconds: float) -> Outcome:
    """The outcome of a ring whose parts ran in parallel, in `seconds`."""
    if not parts:
        return Outcome(ring, failed=1, skipped_because="its tests are missing")
    return Outcome(
        ring,
        passed=sum(part.passed for part in parts),
        failed=sum(part.failed for part in parts),
        skipped=sum(part.skipped for part in parts),
        seconds=seconds,
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        slowest=slowest_tests(parts),
        failures=tuple(failure for part in parts for failure in part.failures),
    )


def slowest_tests(parts: Sequence[Outcome]) -> tuple[tuple[float, str], ...]:
    """(seconds, test) of the slowest tests of these parts, slowest first."""
    return tuple(sorted((time for part in parts for time in part.slowest), reverse=True)[:SLOWEST])


def read_junit(ring: str, results: Path, *, ended: Ended, seconds: float) -> Outcome:
    """The outcome in a JUnit file. A run without a file, or one that failed without naming a test, is one failure."""
    cases = _cases(results)
    if cases is None:
        return Outcome(ring, failed=1, seconds=seconds, cpu_seconds=ended.cpu_seconds)
    failures = tuple((_name(case), failure) for case in cases if (failure := _failure(case)) is not None)
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(failures) - skipped
    failed = len(failures) or int(ended.code != 0)
    times = sorted(((float(case.get("time") or 0), _name(case)) for case in cases), reverse=True)
    return Outcome(
        ring,
        passed=passed,
        failed=failed,
        skipped=skipped,
        seconds=seconds,
        cpu_seconds=ended.cpu_seconds,
        slowest=tuple(times[:SLOWEST]),
        failures=failures,
    )


def _cases(results: Path) -> list[ET.Element] | None:
    """The tests of a JUnit file; None if it is missing or its writer was killed while it wrote."""
    try:
        return list(ET.parse(results).getroot().iter("testcase"))  # noqa: S314 - our own test runner wrote it
    except (FileNotFoundError, ET.ParseError):
        return None


def _name(case: ET.Element) -> str:
    """How a test is called: `tests/unit/shared/test_wire.py::test_frames[3]` of pytest, `file > test` of others."""
    file, name = case.get("classname", ""), case.get("name", "")
    return (
        f"{file.replace('.', '/')}.py::{name}"
        if file.startswith("tests.")
        else " > ".join(filter(None, (file, name)))
    )


def _failure(case: ET.Element) -> str | None:
    """What a failed test said, in one line without the colors of a terminal; None if it did not fail."""
    failure = case.find("failure")
    failure = case.find("error") if failure is None else failure
    if failure is None:
        return None
    # What Playwright calls the message of a failure is the name of its test.
    texts = [failure.get("message") or "", failure.text or ""]
    lines = [line.strip() for text in texts for line in _COLOR.sub("", text).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return ([*errors, *lines, "no message"])[0][:_LINE]


def longest_first(ring: str, files: Sequence[Path]) -> list[Path]:
    """The files in the order in which they start: by the seconds of the ring's last run on this machine.

    A long file that starts last would run with nothing next to it. A file that has not run starts first: those that
    allow their tests more time than others do, then the largest.
    """
    seconds = _last_seconds(ring)

    def order(file: Path) -> tuple[float, int, int]:
        known = seconds.get(_relative(file))
        if known is not None:
            return (-known, 0, 0)
        allowed = _ALLOWED.findall(file.read_text(encoding="utf-8"))
        return (-math.inf, -max(map(int, allowed), default=0), -file.stat().st_size)

    return sorted(files, key=order)


def equal_parts(ring: str, files: Sequence[Path], count: int) -> list[list[Path]]:
    """The files as up to `count` parts that take equally long, by the seconds of the last run on this machine.

    A file that has not run counts by its size.
    """
    seconds = _last_seconds(ring)
    sizes = {file: file.stat().st_size for file in files}
    known = [file for file in files if _relative(file) in seconds]
    per_byte = sum(seconds[_relative(file)] for file in known) / (sum(sizes[file] for file in known) or 1)
    costs = {file: seconds.get(_relative(file), sizes[file] * (per_byte or 1)) for file in files}
    parts: list[list[Path]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for file in sorted(files, key=lambda file: -costs[file]):
        lightest = loads.index(min(loads))
        parts[lightest].append(file)
        loads[lightest] += costs[file]
    return [sorted(part) for part in parts if part]


def _last_seconds(ring: str) -> dict[str, float]:
    """What each file, by its path in the repository, took in the ring's last run on this machine."""
    seconds: dict[str, float] = {}
    for results in (ARTIFACTS / "junit").glob(f"{ring}*.xml"):
        if not re.fullmatch(rf"{ring}(-\d+)?", results.stem):
            continue
        for case in _cases(results) or ():
            path = _name(case).partition("::")[0]
            seconds[path] = seconds.get(path, 0.0) + float(case.get("time") or 0)
    return seconds


def _relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
