"""Progress is not a regression: a finding that a fix uncovers in code that ran in eager mode does not refuse it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report import (
    Break,
    Compile,
    Culprit,
    Fact,
    Failure,
    FileFacts,
    Frame,
    Graph,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Report,
    Symbol,
    TargetRef,
    Tier,
    TracedFacts,
    Versions,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.verification.comparison import TextComparison
from fuselight_server.fixes.verification.finding_changes import FindingChanges, finding_changes
from fuselight_server.fixes.verification.patches import patch_of, patch_verdict
from fuselight_server.fixes.verification.progress import CompileProgress
from fuselight_server.fixes.verification.verdict import VerdictKind
from fuselight_server.source.line_map import LineMap

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")
PATH = "/w/m.py"
OLD = "def f(x):\n    for i in x:\n        cure\n        h = i + 1\n    y = h * 2\n    stop\n    return y\n"
NEW = OLD.replace("cure", "cured")
LINES = {PATH: LineMap.between(OLD, NEW)}
DEF = Location(PATH, 1, function="f")
SKIPPED = NotCompiled(NotCompiledKind.SKIPPED, "f", DEF, "in a loop")


def at(line: int) -> Location:
    return Location(PATH, line, function="f")


def run(
    *,
    compiled: tuple[int, ...] = (),
    stops: tuple[int, ...] = (),
    skips: bool = False,
    traced: tuple[int, ...] = (),
    symbol: Symbol | None = None,
) -> Report:
    """A report of `f`: lines whose operators are in a graph, lines with breaks, and whether `f` is skipped."""
    graph = Graph(len(compiled), lines=tuple((at(line),) for line in compiled))
    record = Compile("0/0", 0, Outcome.COMPILED, graph=graph, symbols=(symbol,) if symbol else ())
    facts = tuple(Fact(line, 4, line, 5, ()) for line in traced)
    return Report(
        *(VERSIONS, TargetRef(PATH, "f", 1, "function"), Tier.CAPTURE, 1),
        frames=(Frame("f", DEF),),
        compiles=(record,) if compiled or symbol else (),
        breaks=tuple(
            Break("0/0", ("GB0059",), ("print",), (at(line),), frame_function="f", frame_skipped=skips)
            for line in stops
        ),
        not_compiled=(SKIPPED,) if skips else (),
        roots=("/w",),
        facts=TracedFacts(files={PATH: FileFacts(facts)}),
    )


def finding_of(code: str, line: int, severity: Severity = Severity.WARNING, subject: str = "") -> Finding:
    span = Span(PATH, line, 4, line, 8)
    return Finding(code, severity, f"{code} here", "", span, Tier.CAPTURE, "f", "", "2.13", subject=subject)


CURED = finding_of("GB0170", 3)


def changes(old: Report, new: Report, *after: Finding, moves_break: bool = False) -> FindingChanges:
    progress = CompileProgress(old, new, LINES)
    return finding_changes(CURED, (CURED,), after, progress, moves_break=moves_break)


def test_a_break_that_more_compiled_code_uncovers_comes_next() -> None:
    uncovered = finding_of("GB0059", 6)
    result = changes(run(stops=(3,), skips=True), run(compiled=(4, 5), stops=(6,)), uncovered)
    assert (result.why, result.next) == ("", (uncovered,))


def test_a_break_in_code_that_was_compiled_before_refuses() -> None:
    result = changes(
        run(compiled=(4,), stops=(3,)), run(compiled=(4, 5), stops=(6,)), finding_of("GB0059", 6)
    )
    assert result.why == "it causes another finding: GB0059 on m.py:6: GB0059 here"


@pytest.mark.parametrize("compiled", [(), (4,)])
def test_a_patch_names_what_it_uncovers_by_the_rule_of_fixes(compiled: tuple[int, ...]) -> None:
    """A break in code that was compiled before is new."""
    before, after = run(compiled=compiled, stops=(3,), skips=not compiled), run(compiled=(4, 5), stops=(6,))
    assert patch_codes(NEW, before, after) == ([["GB0059"], []] if not compiled else [[], ["GB0059"]])


@pytest.mark.parametrize(
    ("line", "is_next"),
    [
        ("cured", True),
        ("torch._dynamo.config.reorderable_logging_functions.add(print)", True),
        ("torch._dynamo.config.trace_autograd_ops = True", True),
        ("torch._dynamo.config.capture_scalar_outputs = True", False),
        ("with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True): pass", False),
    ],
)
def test_a_patch_of_settings_names_what_comes_next_but_for_those_that_move_a_break(
    line: str, *, is_next: bool
) -> None:
    old, new = run(stops=(3,), skips=True, traced=(2,)), run(stops=(4,), skips=True, traced=(2, 4))
    codes = patch_codes(OLD.replace("cure", line), old, new)
    assert codes == ([["GB0059"], []] if is_next else [[], ["GB0059"]])


def patch_codes(text: str, before: Report, after: Report) -> list[list[str]]:
    """The codes of the findings that a patch uncovers, and of those that are new."""
    fixer: Any = SimpleNamespace(
        findings=findings,
        findings_after=lambda report, _texts: findings(report),
        readings=lambda _texts: {},
        texts=SimpleNamespace(text={PATH: OLD}.get),
    )
    remedy = patch_of({PATH: text}, {PATH: OLD}, ())
    verdict = patch_verdict(fixer, remedy, (before, after), TextComparison(VerdictKind.SAME, "same results"))
    return [[finding.code for finding in rows] for rows in (verdict.next, verdict.new)]


def test_an_operator_that_is_lost_refuses() -> None:
    old, new = run(compiled=(5,), stops=(3,), skips=True), run(compiled=(4, 4), stops=(6,))
    assert changes(old, new, finding_of("GB0059", 6)).why
    assert (CompileProgress(old, new, LINES).gained, CompileProgress(old, new, LINES).lost) == (2, 1)


def test_a_function_that_newly_runs_in_eager_mode_refuses() -> None:
    old, new = run(stops=(3,), skips=True), run(compiled=(4, 5), stops=(6,))
    helper = NotCompiled(NotCompiledKind.SKIPPED, "g", Location(PATH, 9), "in a loop")
    assert changes(old, replace(new, not_compiled=(helper,)), finding_of("GB0059", 6)).why


def test_operators_of_a_function_that_reaches_the_recompile_limit_do_not_count() -> None:
    new = run(compiled=(4, 5))
    limit = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "f", DEF, "8 versions")
    assert CompileProgress(run(), new, LINES).gained == 2
    assert CompileProgress(run(), replace(new, not_compiled=(limit,)), LINES).gained == 0


def test_a_version_of_a_function_adds_no_operators() -> None:
    once = run(compiled=(4, 5))
    twice = replace(once, compiles=once.compiles * 2)
    assert CompileProgress(once, twice, LINES).gained == 0


def test_the_next_break_of_a_loop_comes_next_where_torch_gets_further() -> None:
    old, new = run(stops=(3,), skips=True, traced=(2,)), run(stops=(4,), skips=True, traced=(2, 4))
    assert changes(old, new, finding_of("GB0059", 4)).next
    assert CompileProgress(old, new, LINES).traced == (1, 2)


def test_a_setting_that_only_moves_a_break_is_refused() -> None:
    old, new = run(stops=(3,), skips=True, traced=(2,)), run(stops=(4,), skips=True, traced=(2, 4))
    assert changes(old, new, finding_of("GB0170", 4), moves_break=True).why


def test_a_break_at_which_torch_stops_as_early_as_before_is_refused() -> None:
    old, new = run(stops=(3,), skips=True, traced=(2, 4)), run(stops=(4,), skips=True, traced=(2, 4))
    assert changes(old, new, finding_of("GB0059", 4)).why


def test_a_later_break_under_fullgraph_comes_next() -> None:
    def failing(line: int, *traced: int) -> Report:
        failure = Failure(Culprit.USER, "fullgraph", "break", stack=(at(line),))
        return replace(run(traced=traced), failures=(failure,))

    later = finding_of("FL404", 6, Severity.ERROR)
    assert changes(failing(3, 2), failing(6, 2, 4, 5), later).next == (later,)
    assert changes(failing(3, 2, 5), failing(6, 2, 4), later).why
    assert changes(run(stops=(3,)), failing(6, 2, 4, 5), later).why


def test_recompilations_of_a_function_that_was_skipped_come_next() -> None:
    new = replace(run(compiled=(4, 5)), recompiles=(Recompile("f", DEF, (), "0/1"),))
    again = finding_of("FL201", 2)
    assert changes(run(stops=(3,), skips=True), new, again).next == (again,)
    assert changes(run(compiled=(4,), stops=(3,)), new, again).why


@pytest.mark.parametrize(
    ("before", "now", "code", "is_refused"),
    [
        ("ffg", "fg", "FL201", False),
        ("ffg", "ff", "FL201", False),
        ("fg", "fg", "FL201", False),
        ("fg", "gg", "FL201", True),
        ("ffff", "fg", "FL201", True),
        ("ffg", "fg", "FL102", True),
    ],
)
def test_a_recompilation_with_another_first_cause_is_not_new_if_there_are_no_more(
    before: str, now: str, code: str, *, is_refused: bool
) -> None:
    """Each letter is a recompilation of the function of that name."""
    old, new = (
        replace(run(compiled=(4,)), recompiles=tuple(Recompile(name, DEF, (), "0/1") for name in names))
        for names in (before, now)
    )
    assert bool(changes(old, new, finding_of(code, 6)).why) is is_refused


@pytest.mark.parametrize(
    ("new", "is_refused"),
    [
        (finding_of("FL104", 4, Severity.INFORMATION), False),
        (finding_of("FL503", 4), False),
        (finding_of("FL301", 4, subject="x.size(1)"), False),
        (finding_of("FL301", 4, subject="x.size(0)"), True),
        (finding_of("FL301", 4, Severity.ERROR, subject="x.size(1)"), True),
        (finding_of("FL203", 4), True),
    ],
)
def test_what_says_nothing_against_the_new_text_does_not_refuse(new: Finding, *, is_refused: bool) -> None:
    """A size that is a constant now refuses a fix only if the code of the old text kept it symbolic."""
    dynamic = run(compiled=(4,), symbol=Symbol("s0", "x.size(0)"))
    assert bool(changes(dynamic, run(compiled=(4,)), new).why) is is_refused


@pytest.mark.parametrize(
    ("old", "new", "is_refused"),
    [
        (finding_of("GB0124", 5), finding_of("GB0059", 5), False),
        (finding_of("FL102", 5), finding_of("FL201", 5), False),
        (finding_of("GB0124", 5), finding_of("FL201", 5), True),
        (finding_of("GB0124", 6), finding_of("GB0059", 5), True),
    ],
)
def test_a_finding_in_other_words_on_its_line_is_not_new(
    old: Finding, new: Finding, *, is_refused: bool
) -> None:
    again = (Recompile("f", DEF, (), "0/1"),) if new.code == "FL201" else ()
    progress = CompileProgress(run(compiled=(4,)), replace(run(compiled=(4,)), recompiles=again), LINES)
    result = finding_changes(CURED, (CURED, old), (new,), progress, moves_break=False)
    assert bool(result.why) is is_refused


def test_a_fix_of_the_first_place_of_a_cause_leaves_the_others() -> None:
    first = replace(finding_of("GB0007", 3), also_at=(finding_of("GB0007", 5),))
    progress = CompileProgress(run(), run(), LINES)
    left = finding_changes(first, (first,), (finding_of("GB0007", 5),), progress, moves_break=False)
    there = finding_changes(first, (first,), (first,), progress, moves_break=False)
    assert (left.why, there.why) == ("", "the finding is still there")


@pytest.mark.parametrize(
    ("is_tried", "why"), [(True, ""), (False, "the calls that are repeated compile as often as before")]
)
def test_a_trial_on_all_calls_outranks_how_often_a_few_repeated_calls_compile(
    why: str, *, is_tried: bool
) -> None:
    again = finding_of("FL201", 3)
    progress = CompileProgress(run(), run(), LINES)
    result = finding_changes(again, (again,), (again,), progress, moves_break=False, is_tried=is_tried)
    assert result.why == why


@pytest.mark.parametrize(
    ("before", "now", "is_refused"),
    [("ff", "ff", False), ("ff", "f", False), ("f", "ff", True), ("f", "g", True)],
)
def test_a_trial_on_all_calls_leaves_a_recompilation_its_other_causes(
    before: str, now: str, *, is_refused: bool
) -> None:
    """Guards that failed beside the one of the finding are a finding once that guard is gone."""
    old, new = (
        replace(run(compiled=(4,)), recompiles=tuple(Recompile(name, DEF, (), "0/1") for name in names))
        for names in (before, now)
    )
    again, other = finding_of("FL201", 3), finding_of("FL201", 5)
    progress = CompileProgress(old, new, LINES)
    result = finding_changes(again, (again,), (other,), progress, moves_break=False, is_tried=True)
    assert bool(result.why) is is_refused


def test_a_caused_and_an_uncovered_finding_have_their_lines_in_the_file_as_it_was_read() -> None:
    def as_read(finding: Finding) -> Finding:  # a fix that passed before has added a line
        return replace(finding, span=replace(finding.span, line=finding.span.line - 1))

    new, finding = run(compiled=(4, 5), stops=(6,)), finding_of("GB0059", 6)
    uncovered, caused = (
        finding_changes(
            CURED, (CURED,), (finding,), CompileProgress(old, new, LINES, as_read), moves_break=False
        )
        for old in (run(stops=(3,), skips=True), run())
    )
    assert [finding.span.line for finding in uncovered.next] == [5]
    assert caused.why.startswith("it causes another finding: GB0059 on m.py:5: ")
