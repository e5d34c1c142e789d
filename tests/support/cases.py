"""Annotated cases: a source file says, on each line, which findings that line gets.

    y = x.sum().item()  # warning: [GB0124] ".item()"
        #  ^^^^^^^^^^

A comment `# SEVERITY: [CODE] "text"` at the end of a line expects one finding there: the text, upper and lower
case alike, occurs in its title or message. A line may have several, one after the other, and those on separate lines
in the comment lines beneath it count as its own. `^^^` in a comment line beneath gives the exact columns of the
line's findings: one run of carets for each, in their order.
Severities are `error`, `warning`, `info` and `hint`. `# warning(2.11, 2.13): [CODE] "text"` expects the finding with
these releases of torch only.

Invariant: a finding without an expectation fails a case just as an expectation without a finding does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fuselight_server.base.finding import Severity
from tests.support.case_files import MAIN_RELEASE, RELEASES, RELEASES_NAMED, named, releases_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuselight_server.base.finding import Finding

WORDS = {
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "info": Severity.INFORMATION,
    "hint": Severity.HINT,
}
_NAMES = {severity: word for word, severity in WORDS.items()}

_EXPECTATION = re.compile(rf'# ({"|".join(WORDS)}){RELEASES_NAMED}: \[(\w+)\] "([^"\n]+)"')
_LOOKS_LIKE_ONE = re.compile(rf"#\s*(?:{'|'.join(WORDS)})\s*(?:\([^()]*\))?\s*:?\s*\[")
_CARETS = re.compile(r"\s*#[ ^]*\^[ ^]*")
_WIDTH = 120


class CaseError(ValueError):
    """A case that cannot be parsed; the message says what to correct."""


@dataclass(frozen=True)
class Expectation:
    """One finding that is expected on a line."""

    line: int
    severity: Severity
    code: str
    text: str
    columns: tuple[int, int] | None = None
    """Start and end in UTF-8 bytes; None accepts any."""
    releases: tuple[str, ...] = RELEASES
    """The releases of torch with which it is expected."""

    @property
    def comment(self) -> str:
        return f'# {_NAMES[self.severity]}{named(self.releases)}: [{self.code}] "{self.text}"'

    def __str__(self) -> str:
        return f"{self.line}: {self.comment[2:]}"


def expectations(text: str) -> tuple[Expectation, ...]:
    """The expectations of a case, in line order. Raises CaseError."""
    return tuple(
        expectation for block in _blocks(text) for part in block.parts for expectation in part.expected
    )


@dataclass
class _Part:
    """Expectations with their line of carets, which may be empty."""

    expected: list[Expectation]
    carets: str = ""


@dataclass
class _Block:
    """A line of the program with the comments below it."""

    number: int
    line: str
    parts: list[_Part]
    source: list[str] = field(default_factory=list)
    """The line and its comments as in the file."""


def _blocks(text: str) -> list[_Block]:
    """The lines of the program. Raises CaseError."""
    blocks = [_Block(0, "", [_Part([])])]
    for number, line in enumerate(text.splitlines(), 1):
        part = blocks[-1].parts[-1]
        if _EXPECTATION.match(line.lstrip()) is None and not _CARETS.fullmatch(line):
            part = _Part([])
            blocks.append(_Block(number, _EXPECTATION.sub("", line).rstrip(), [part]))
        blocks[-1].source.append(line)
        if _CARETS.fullmatch(line):
            runs = [match.span() for match in re.finditer(r"\^+", line)]
            if part.carets or len(runs) != len(part.expected):
                raise CaseError(
                    f"line {number}: {len(runs)} runs of ^ under {len(part.expected)} expectations"
                )
            part.expected = [
                replace(expectation, columns=run)
                for expectation, run in zip(part.expected, runs, strict=True)
            ]
            part.carets = line
            continue
        if part.carets:
            part = _Part([])
            blocks[-1].parts.append(part)
        here = [
            Expectation(
                blocks[-1].number, WORDS[match[1]], match[3], match[4], releases=releases_of(match[2])
            )
            for match in _EXPECTATION.finditer(line)
        ]
        if len(_LOOKS_LIKE_ONE.findall(line)) != len(here):
            raise CaseError(f'line {number}: an expectation is `# warning: [CODE] "text"`')
        part.expected += here
    return blocks[1:]


def disagreements(
    path: str, text: str, findings: Iterable[Finding], release: str = MAIN_RELEASE
) -> list[str]:
    """All differences between a case and its findings, as text; empty if they agree."""
    expected = [expectation for expectation in expectations(text) if release in expectation.releases]
    out = []
    for finding in sorted(findings, key=lambda finding: (finding.span.path, finding.span.line, finding.code)):
        if finding.span.path != path:
            out.append(f"in another file: {describe(finding)}")
            continue
        wanted = next((expectation for expectation in expected if _fits(expectation, finding)), None)
        if wanted is None:
            out.append(f"unexpected: {describe(finding)}")
        else:
            expected.remove(wanted)
    return out + [f"missing: {expectation}" for expectation in expected]


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


def rewritten(path: str, text: str, findings: Sequence[Finding], release: str = MAIN_RELEASE) -> str:
    """The case with its expectations for one release rewritten from `findings`; valid carets stay.

    A quoted text is kept where it still fits a finding of that line, so that wording stays hand-chosen. What comes with
    the main release is expected with every release, what comes with another one with that one alone.
    """
    out: list[str] = []
    for block in _blocks(text):
        left = [
            finding for finding in findings if (finding.span.path, finding.span.line) == (path, block.number)
        ]
        left.sort(key=lambda finding: (finding.span.column or 0, finding.code))
        has_carets = any(part.carets for part in block.parts)
        before = [expectation for part in block.parts for expectation in part.expected]
        for part in block.parts:
            updated = [_updated(expectation, left, release) for expectation in part.expected]
            part.carets = "" if None in updated else part.carets
            part.expected = [expectation for expectation in updated if expectation is not None]
        if not left and before == [expectation for part in block.parts for expectation in part.expected]:
            out += block.source
            continue
        indent = block.line[: len(block.line) - len(block.line.lstrip())]
        if has_carets and release != MAIN_RELEASE:
            block.parts += [
                _Part([_expected(finding, release)], _carets(finding, indent)) for finding in left
            ]
        else:
            block.parts[0].expected += [_expected(finding, release) for finding in left]
        first, *others = block.parts
        out += _annotated(block.line, [expectation.comment for expectation in first.expected])
        out += [first.carets] if first.carets else []
        for part in others:
            out += [indent + expectation.comment for expectation in part.expected]
            out += [part.carets] if part.carets else []
    return "\n".join(out) + "\n"


def _updated(wanted: Expectation, left: list[Finding], release: str) -> Expectation | None:
    """`wanted` after a run with `release`; a matching finding is removed from `left`."""
    fitting = next((finding for finding in left if _fits(wanted, finding)), None)
    if fitting is not None:
        left.remove(fitting)
        return replace(
            wanted, releases=tuple(text for text in RELEASES if text in {*wanted.releases, release})
        )
    others = tuple(text for text in wanted.releases if text != release)
    gone = not others or (release == MAIN_RELEASE and wanted.releases == RELEASES)
    return None if gone else replace(wanted, releases=others)


def _expected(finding: Finding, release: str) -> Expectation:
    title = finding.title.replace('"', "'")
    releases = RELEASES if release == MAIN_RELEASE else (release,)
    return Expectation(finding.span.line, finding.severity, finding.code, title, releases=releases)


def _carets(finding: Finding, indent: str) -> str:
    span = finding.span
    if span.end_line not in (None, span.line) or not span.column or not span.end_column:
        return ""
    mark = f"{indent}#" if span.column > len(indent) else "#"
    return f"{mark:{span.column}}{'^' * (span.end_column - span.column)}"


def _annotated(line: str, comments: list[str]) -> list[str]:
    """`line` and its expectations: at its end if they fit, otherwise on separate lines below it."""
    one_line = "  ".join([line, *comments])
    if len(one_line) <= _WIDTH and not line.lstrip().startswith("#"):
        return [one_line]
    indent = line[: len(line) - len(line.lstrip())]
    return [line, *(indent + comment for comment in comments)]
