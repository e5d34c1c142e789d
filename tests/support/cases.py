"""Annotated cases: a source file says, on each line, which findings that line gets.

    y = x.sum().item()  # warning: [GB0124] ".item()"
        #  ^^^^^^^^^^

A comment `# SEVERITY: [CODE] "text"` at the end of a line expects one finding there: the text, upper and lower
case alike, occurs in its title or message. A line may have several, one after the other, and those on separate lines
in the comment lines beneath it count as its own. `^^^` in a comment line beneath gives the exact columns of the
line's findings: one run of carets for each, in their order.
Severities are `error`, `warning`, `info` and `hint`.

Invariant: a finding without an expectation fails a case just as an expectation without a finding does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight_server.finding import Finding

WORDS = {
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "info": Severity.INFORMATION,
    "hint": Severity.HINT,
}
_NAMES = {severity: word for word, severity in WORDS.items()}

_EXPECTATION = re.compile(rf'# ({"|".join(WORDS)}): \[(\w+)\] "([^"\n]+)"')
_LOOKS_LIKE_ONE = re.compile(rf"#\s*(?:{'|'.join(WORDS)})\s*:?\s*\[")
_CARETS = re.compile(r"\s*#[ ^]*\^[ ^]*")
_WIDTH = 120


class CaseError(ValueError):
    """A case that cannot be read: its author has to correct it."""


@dataclass(frozen=True)
class Expectation:
    """One finding that a line is to get."""

    line: int
    severity: Severity
    code: str
    text: str
    columns: tuple[int, int] | None = None
    """Start and end in UTF-8 bytes, None where any will do."""

    def __str__(self) -> str:
        return f'{self.line}: {_NAMES[self.severity]}: [{self.code}] "{self.text}"'


def expectations(text: str) -> tuple[Expectation, ...]:
    """What a case expects, in the order of its lines. Raises CaseError."""
    found: list[Expectation] = []
    on_line: list[Expectation] = []
    above = 0
    for number, line in enumerate(text.splitlines(), 1):
        if _CARETS.fullmatch(line):
            runs = [match.span() for match in re.finditer(r"\^+", line)]
            if len(runs) != len(on_line):
                raise CaseError(f"line {number}: {len(runs)} runs of ^ under {len(on_line)} expectations")
            found[len(found) - len(on_line) :] = [
                Expectation(one.line, one.severity, one.code, one.text, columns)
                for one, columns in zip(on_line, runs, strict=True)
            ]
            on_line = []
            continue
        alone = _EXPECTATION.match(line.lstrip()) is not None
        above = above if alone else number
        here = [
            Expectation(above, WORDS[match[1]], match[2], match[3]) for match in _EXPECTATION.finditer(line)
        ]
        if len(_LOOKS_LIKE_ONE.findall(line)) != len(here):
            raise CaseError(f'line {number}: an expectation is `# warning: [CODE] "text"`')
        on_line = [*on_line, *here] if alone else here
        found += here
    return tuple(found)


def disagreements(path: str, text: str, findings: Iterable[Finding]) -> list[str]:
    """Everything on which a case and its findings differ, in words; empty when they agree."""
    expected = list(expectations(text))
    out = []
    for finding in sorted(findings, key=lambda one: (one.span.path, one.span.line, one.code)):
        if finding.span.path != path:
            out.append(f"in another file: {describe(finding)}")
            continue
        wanted = next((one for one in expected if _fits(one, finding)), None)
        if wanted is None:
            out.append(f"unexpected: {describe(finding)}")
        else:
            expected.remove(wanted)
    return out + [f"missing: {one}" for one in expected]


def _fits(wanted: Expectation, finding: Finding) -> bool:
    if (wanted.line, wanted.code, wanted.severity) != (finding.span.line, finding.code, finding.severity):
        return False
    if wanted.columns is not None:
        span = finding.span
        ends_here = span.end_line in (None, span.line)
        if not ends_here or wanted.columns != (span.column, span.end_column):
            return False
    return wanted.text.lower() in f"{finding.title}\n{finding.message}".lower()


def describe(finding: Finding) -> str:
    """One finding as an expectation would name it, with its location and its complete text."""
    span = finding.span
    place = f"{span.line}:{span.column}-{span.end_line}:{span.end_column}"
    body = finding.message.replace("\n", "\n      ")
    return f'{place} {_NAMES[finding.severity]}: [{finding.code}] "{finding.title}"\n      {body}'


def rewritten(path: str, text: str, findings: Sequence[Finding]) -> str:
    """The case with its expectations rewritten from `findings`; valid carets stay.

    A quoted text is kept where it still fits a finding of that line, so that wording stays hand-chosen.
    """
    expected = expectations(text)
    lines = text.splitlines()
    above = 0
    out: list[str] = []
    for number, line in enumerate(lines, 1):
        wanted = [one for one in expected if one.line == above]
        if _CARETS.fullmatch(line):
            if all(any(_fits(one, finding) for finding in findings) for one in wanted):
                out.append(line)
            continue
        if _EXPECTATION.match(line.lstrip()):
            continue
        above = number
        here = [one for one in findings if (one.span.path, one.span.line) == (path, number)]
        here.sort(key=lambda one: (one.span.column or 0, one.code))
        wanted = [one for one in expected if one.line == number]
        out += _annotated(_EXPECTATION.sub("", line).rstrip(), [_comment(one, wanted) for one in here])
    return "\n".join(out) + "\n"


def _annotated(line: str, comments: list[str]) -> list[str]:
    """`line` and its expectations: at its end if they fit, otherwise on separate lines below it."""
    one_line = "  ".join([line, *comments])
    if len(one_line) <= _WIDTH and not line.lstrip().startswith("#"):
        return [one_line]
    indent = line[: len(line) - len(line.lstrip())]
    return [line, *(indent + comment for comment in comments)]


def _comment(finding: Finding, expected: Sequence[Expectation]) -> str:
    kept = next((one for one in expected if _fits(one, finding)), None)
    quoted = kept.text if kept else finding.title.replace('"', "'")
    return f'# {_NAMES[finding.severity]}: [{finding.code}] "{quoted}"'
