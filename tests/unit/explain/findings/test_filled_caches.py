"""What to do where compiled code fills a cache of its own."""

from __future__ import annotations

import pytest

from fuselight.shared.report import GuardCause, GuardFailure
from fuselight_server.explain.findings import findings
from tests.support.recompilations import again, failed
from tests.support.reports import at, report

MASK = "self.mask was None, now a bool tensor of shape [16, 16]"
SIZE = "self.size was (4, 4), now (4, 6)"
OUTSIDE = "outside the compiled code, before the call"


def _hints(body: str, line: int, failure: GuardFailure) -> tuple[str, ...]:
    lines = ["class Net:", *(f"    {text}" for text in ("def forward(self, x, size):", *body.splitlines()))]
    numbered = dict(enumerate(lines, 1))
    place = at(line, (0, len(numbered[line])), function="Net.forward")
    guarded = failed(
        failure.difference, source=failure.source, cause=failure.cause, kind="EQUALS_MATCH", born=(place,)
    )
    facts = report(recompiles=(again(guarded),))
    (finding,) = findings(facts, read_line=lambda _path, number: numbered.get(number))
    return finding.hints


NONE = failed(MASK, source="self.mask", cause=GuardCause.NONE)
OF_SIZE = failed(SIZE, source="self.size", cause=GuardCause.VALUE)
OF_NUMBER = failed("self.most was 4, now 9", source="self.most", cause=GuardCause.NUMBER)
ONE_LINE = """\
    if self.mask is None:
        self.mask = build(size)
    return x"""
SEVERAL_LINES = """\
    if (
        self.mask is None
        or self.size != size
    ):
        self.mask = build(size)
        self.size = size
    return x"""
OF_CALL = """\
    if self.mask is None:
        self.mask = x + 1
        return x
    return x - self.mask"""
OF_RESULT = """\
    self.last = x.sum().item()
    if self.last > self.most:
        self.most = self.last
    return x"""
NESTED = """\
    y = x + 1
    if size > self.most:
        with torch.no_grad():
            self.most = self.table = grown(size)
    return y"""


@pytest.mark.parametrize(
    ("body", "line", "failure", "sets"),
    [
        (ONE_LINE, 3, NONE, "`self.mask`"),
        (SEVERAL_LINES, 5, OF_SIZE, "`self.mask` and `self.size`"),
        (NESTED, 4, OF_NUMBER, "`self.most` and `self.table`"),
    ],
)
def test_an_if_that_fills_a_cache_is_named(body: str, line: int, failure: GuardFailure, sets: str) -> None:
    first = _hints(body, line, failure)[0]
    assert first.startswith("Run the `if` on line ")
    assert f"which sets {sets}, {OUTSIDE}" in first
    assert first.endswith("This change of the code cannot be tried here")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("    if self.mask is None:\n        return x\n    return x * 2", 3),
        ("    if self.mask is None:\n        self.other = build(size)\n    return x", 3),
        (
            "    if self.mask is not None:\n        return x\n    else:\n        self.mask = size\n    return x",
            3,
        ),
        ("    if size:\n        self.mask = build(self.mask)\n    return x", 4),
        ("    mask = self.mask\n    if mask is None:\n        self.mask = build(size)\n    return x", 3),
    ],
)
def test_no_other_if_is_named(body: str, line: int) -> None:
    assert not any(OUTSIDE in hint for hint in _hints(body, line, NONE))


@pytest.mark.parametrize(("body", "line", "failure"), [(OF_CALL, 3, NONE), (OF_RESULT, 4, OF_NUMBER)])
def test_an_if_that_ends_the_call_or_reads_what_the_call_computes_cannot_run_before_it(
    body: str, line: int, failure: GuardFailure
) -> None:
    assert not any(OUTSIDE in hint for hint in _hints(body, line, failure))
