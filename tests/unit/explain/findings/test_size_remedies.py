"""Advice for a size that varied: by all values of the run, and by what the program does to keep it fixed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from fuselight.shared.report import (
    Branch,
    Compile,
    FileFacts,
    GuardCause,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Report,
    Symbol,
    TracedFacts,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF, WHOLE, again, failed, untried
from tests.support.reports import FILE, ROOT, at, report

RULE = "by default, torch compiles a size of 0 or 1 separately, even a dynamic one"
MARK = "torch._dynamo.mark_dynamic(x, 0)"
SLOWER = "Kernels for dynamic sizes can be slower"


def recompiled(*sizes: int, limit: bool = False, name: str = "x", **changes: Any) -> tuple[Recompile, ...]:
    """The recompilations of a function that is called with one size of `x` after the other."""
    pairs = list(itertools.pairwise(sizes))
    return tuple(
        again(
            failed(f"{name}.size(0) was {was}, now {now}", source=name, **changes),
            compile_id=None if limit and number == len(pairs) - 1 else f"0/{number + 1}",
        )
        for number, (was, now) in enumerate(pairs)
    )


def of_sizes(*sizes: int, limit: bool = False, makes_dynamic: bool = True, **parts: Any) -> Report:
    compiles = tuple(
        Compile(f"0/{number}", 0, Outcome.COMPILED, makes_dynamic=makes_dynamic)
        for number in range(len(sizes))
    )
    return report(frames=(WHOLE,), compiles=compiles, recompiles=recompiled(*sizes, limit=limit), **parts)


def first_of(facts: Report) -> Finding:
    return next(finding for finding in findings(facts) if finding.code == "FL201")


UNTRIED = (
    f"Mark the size as dynamic before the call: {MARK}",
    "Compile with torch.compile(..., dynamic=True)",
)


@pytest.mark.parametrize(
    ("sizes", "hints", "changes", "severity"),
    [
        ((6, 1), (f"Expect it: {RULE}",), (), Severity.INFORMATION),
        ((1, 6), (f"Expect it: {RULE}",), (), Severity.INFORMATION),
        ((9, 1, 5), (f"Expect it: {RULE}",), UNTRIED, Severity.INFORMATION),
        ((9, 1, 5, 0), (f"Expect it: {RULE}",), UNTRIED, Severity.INFORMATION),
        ((1, 0, 5), (f"Expect it: {RULE}",), (), Severity.INFORMATION),
        ((1, 5, 9), (f"Expect it: {RULE}",), UNTRIED[1:], Severity.WARNING),
        ((4, 7), (), UNTRIED, Severity.WARNING),
    ],
)  # fmt: skip
def test_all_values_of_the_run_decide(
    sizes: tuple[int, ...], hints: tuple[str, ...], changes: tuple[str, ...], severity: Severity
) -> None:
    finding = first_of(of_sizes(*sizes))
    pending = f"{len(changes)} possible change{'s are' if len(changes) > 1 else ' is'} not tried yet"
    assert finding.hints == (*hints, *([pending] if changes else []))
    assert (untried(finding), finding.severity) == (changes, severity)


ENGINE = Location(f"{ROOT}/engine.py", 11)


@pytest.mark.parametrize(
    ("places", "where"),
    [
        ((at(40),), "Remove dynamic=False from torch.compile (line 40)"),
        ((ENGINE,), "Remove dynamic=False from torch.compile (engine.py:11)"),
        ((at(40), ENGINE), "Remove dynamic=False from torch.compile (line 40 and engine.py:11)"),
    ],
)
@pytest.mark.parametrize("sizes", [(1, 2, 4, 8), (5, 1, 7), (3, 6)])
def test_a_program_that_forbids_dynamic_sizes_is_told_the_line(
    sizes: tuple[int, ...], places: tuple[Location, ...], where: str
) -> None:
    finding = first_of(of_sizes(*sizes, makes_dynamic=False, static_compiles=places))
    assert any(where in text for text in untried(finding))
    assert finding.fixes == ()


def test_a_recompilation_that_dynamic_false_causes_is_on_the_line_of_that_call() -> None:
    blamed = first_of(of_sizes(4, 5, makes_dynamic=False, static_compiles=(at(40),)))
    assert blamed.span.line == 40
    assert "dynamic=False of this torch.compile forbids" in blamed.message
    assert "the value is read here" in {related.message for related in blamed.related}
    assert "dynamic=False" in untried(blamed)[0]
    grown = first_of(of_sizes(1, 2, 4, makes_dynamic=False, static_compiles=(at(40),)))
    assert grown.span.line == 40, "one finding, also where a size of 1 comes first"
    for innocent in (
        of_sizes(4, 5, makes_dynamic=True, static_compiles=(at(40),)),
        of_sizes(4, 5, makes_dynamic=False, static_compiles=(at(40), ENGINE)),
        of_sizes(1, 6, makes_dynamic=False, static_compiles=(at(40),)),
    ):
        assert first_of(innocent).span.line != 40


def test_dynamic_false_is_not_to_blame_for_a_single_size_of_one() -> None:
    finding = first_of(of_sizes(1, 6, makes_dynamic=False, static_compiles=(at(40),)))
    assert finding.hints[0].startswith("Expect it: ")


@pytest.mark.parametrize("is_static", [True, False])
def test_the_limit_has_the_same_advice(*, is_static: bool) -> None:
    stopped = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit reached (8)")
    facts = of_sizes(1, 2, 4, 8, limit=True, makes_dynamic=not is_static, not_compiled=(stopped,))
    (finding,) = (item for item in findings(facts) if item.code == "FL102")
    assert any("dynamic=True" in text for text in untried(finding))


GENERAL: dict[str, Any] = {
    "difference": "2 <= x.size(0) no longer holds: x.size(0) is 1",
    "source": "x",
    "cause": GuardCause.RELATION,
    "code": "2 <= L['x'].size()[0]",
    "was": None,
    "now": "1",
}


def test_a_size_of_one_is_expected_where_compiled_code_serves_each_larger_size() -> None:
    finding = first_of(report(recompiles=(again(failed(**GENERAL)),)))
    assert finding.hints == (f"Expect it: {RULE}",)


def test_a_size_of_one_is_expected_beside_something_else() -> None:
    cache = failed("cache was None, now a list of 2", source="cache", cause=GuardCause.NONE)
    step = again(failed("ids.size(1) was 10, now 1", source="ids"), cache)
    finding = first_of(report(recompiles=(step,)))
    assert finding.hints[0].startswith("Expect it: ")
    assert "pad to a size" not in finding.message


def test_tensors_that_become_small_together_are_marked_together() -> None:
    def step(was: int, now: int, number: int) -> Recompile:
        sizes = [failed(f"{name}.size(0) was {was}, now {now}", source=name) for name in ("x", "y")]
        return again(*sizes, compile_id=f"0/{number}")

    finding = first_of(report(recompiles=(step(7, 1, 1), step(1, 12, 2))))
    assert any(text.endswith(f"{MARK}, torch._dynamo.mark_dynamic(y, 0)") for text in untried(finding))


SOURCE = {
    20: "    def forward(self, x):\n",
    21: "        rows, width = x.shape\n",
    22: "        if rows > self.most:\n",
    23: "            return self.in_parts(x)\n",
    24: "        return self.whole(x) if x.size(1) else x\n",
}


def branching(
    branch: Branch,
    *,
    range_: str = "[17, inf]",
    difference: str = "x.size(0) was 8, now 24",
    lines: Mapping[int, str] | None = None,
    **changes: Any,
) -> Finding:
    symbol = Symbol("s0", "x.size(0)", hint="24", range=range_)
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=(symbol,)))
    facts = TracedFacts(files={FILE: FileFacts(branches=(branch,))})
    again_ = again(failed(difference, **changes))
    given = report(frames=(WHOLE,), compiles=compiles, recompiles=(again_,), facts=facts)
    return next(
        finding
        for finding in findings(given, read_line=lambda _path, line: (lines or SOURCE).get(line))
        if finding.code == "FL201"
    )


BOTH = Branch(22, 11, 22, 27, true=1, false=1)
RELATION = {
    "difference": "2 <= x.size(0) <= 16 no longer holds: x.size(0) is 24",
    "source": "",
    "code": "2 <= L['x'].size()[0] <= 16",
    "now": "24",
    "cause": GuardCause.RELATION,
}


@pytest.mark.parametrize("changes", [{}, RELATION, {"range_": "[2, 7]"}])
def test_a_branch_on_the_size_with_two_sides_is_expected(changes: dict[str, Any]) -> None:
    finding = branching(BOTH, **changes)
    assert finding.hints == ("Expect it: each side of the branch on line 22 needs its own compile",)
    assert (finding.severity, finding.fixes) == (Severity.INFORMATION, ())


@pytest.mark.parametrize(
    ("test", "is_expected"),
    [
        ("x.shape[0] == 8", True),
        ("x.size(0) != 8", True),
        ("not 8 < x.shape[0] <= 24", True),
        ("x.shape[0] > 100", False),  # both sizes take one side
        ("x.shape[1] == 8", False),  # another dimension
        ("x.shape[0] == self.most", False),
        ("x.shape[0] == 8 and self.fast", False),
    ],
)
def test_a_condition_that_parts_the_sizes_needs_both_compiles(test: str, *, is_expected: bool) -> None:
    """The new code may accept the size before, and a mark is an error where the other side fixes the size."""
    finding = branching(BOTH, range_="[2, inf]", lines={**SOURCE, 22: f"        if {test}:\n"})
    assert ("each side of the branch on line 22" in finding.hints[0]) == is_expected
    assert any(MARK in text for text in untried(finding)) != is_expected


@pytest.mark.parametrize(
    ("branch", "range_"),
    [
        (BOTH, "[2, inf]"),  # the new code accepts the size before
        (dataclasses.replace(BOTH, false=0), "[17, inf]"),  # one side was never taken
        (Branch(24, 32, 24, 41, true=1, false=0), "[17, inf]"),
    ],
)
def test_a_branch_that_does_not_tell_the_sizes_apart_is_not_named(branch: Branch, range_: str) -> None:
    finding = branching(branch, range_=range_)
    assert any(MARK in text for text in untried(finding))
    assert finding.severity is Severity.WARNING
