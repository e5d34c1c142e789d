"""Which line to fix first: each rule on its own, then reports of whole kinds."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json

import pytest

from fuselight.shared.report import (
    Break,
    Compile,
    Culprit,
    Failure,
    Frame,
    Graph,
    GuardCause,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Problem,
    Recompile,
    Report,
    TargetRef,
    UnseenChange,
    UnseenKind,
)
from fuselight_server.base.finding import Severity, rank
from fuselight_server.base.option_names import with_options
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.findings import print_findings
from fuselight_server.cli.formats.fix_first import NO_CHANGE, NO_KNOWN_CHANGE, NOT_TRIED, print_first
from fuselight_server.cli.formats.json import as_json
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.priority import (
    FindingCost,
    Priority,
    advice,
    more_like_the_first,
    of_reports,
    priorities,
    ranked,
)
from tests.support.recompilations import DEF, READ, SIZE, again, failed
from tests.support.reports import FILE, at, broken, report

TWO_GRAPHS = (
    Compile("0/0", 0, Outcome.COMPILED, graph=Graph(3)),
    Compile("1/0", 1, Outcome.COMPILED, graph=Graph(2), seconds=1.25),
)
FRAMES = (Frame("Net.forward", at(20)), Frame("Net.forward", at(20), resumes_at=22))


def line(number: int, **changes: object) -> FindingCost:
    return dataclasses.replace(FindingCost(FILE, number), **changes)  # type: ignore[arg-type]


def test_a_recompilation_that_no_fix_takes_away_does_not_count() -> None:
    mode = failed("grad mode was on, now off", source="", cause=GuardCause.GLOBAL_STATE, kind="GRAD_MODE")
    expected, size = again(dataclasses.replace(mode, born=(READ,))), again(SIZE)
    breaks = (broken(at(22)), broken(at(26)))
    (only,) = [line for line in priorities_of(breaks, expected) if line.cost.line == 22]
    assert "recompilation" not in only.gain
    (both,) = [line for line in priorities_of(breaks, expected, size) if line.cost.line == 22]
    assert "and it causes 1 recompilation" in both.gain
    assert priorities_of((), expected) == ()


def priorities_of(breaks: tuple[Break, ...], *recompiles: Recompile) -> tuple[Priority, ...]:
    return priorities(Context.of(report(frames=FRAMES, breaks=breaks, recompiles=recompiles)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (line(9, ends_run=True), line(1, eager=("a", "b"), is_target_eager=True)),
        (line(9, ends_run=True), line(1, is_wrong=True)),
        (line(9, is_wrong=True), line(1, eager=("a", "b"), is_target_eager=True)),
        (line(9, is_wrong=True), line(1, breaks=9, limited=("a",))),
        (line(9, eager=("a",)), line(1, breaks=9, recompilations=9, seconds=9.0)),
        (line(9, eager=("a",), is_target_eager=True), line(1, eager=("b", "c"))),
        (line(9, eager=("a", "b")), line(1, eager=("c",), breaks=5)),
        (line(9, limited=("a",)), line(1, breaks=3)),
        (line(9, eager=("a",), is_target_eager=True), line(1, limited=("b",))),
        (line(9, limited=("a",)), line(1, eager=("b", "c"))),
        (line(9, recompilations=4, is_of_each_number=True), line(1, eager=("b",))),
        (line(9, limited=("a",)), line(1, recompilations=9, is_of_each_number=True)),
        (line(9, recompilations=4, is_of_each_number=True), line(1, breaks=3, recompilations=9, seconds=9.0)),
        (line(9, breaks=1, eager_us=40.0), line(1, breaks=3, eager_us=2.0)),
        (line(9, breaks=1, eager_us=1.0), line(1, breaks=1, recompilations=8)),
        (line(9, breaks=2), line(1, breaks=1, recompilations=8, seconds=8.0)),
        (line(9, breaks=1, recompilations=2), line(1, breaks=1, recompilations=1)),
        (line(9, breaks=1), line(1, recompilations=20, seconds=20.0)),
        (line(9, recompilations=1, seconds=2.0), line(1, recompilations=5, seconds=1.0)),
        (line(9, recompilations=5), line(1, recompilations=1)),
        (line(9, breaks=1), line(1, breaks=1)),
    ],
)
def test_each_rule_decides_before_the_later_ones(first: FindingCost, second: FindingCost) -> None:
    given = (
        [first, second]
        if first.breaks == second.breaks == 1 and not first.recompilations
        else [second, first]
    )
    assert ranked([*given, line(5)]) == [first, second], "a line that costs nothing is left out"


def words(given: Report) -> list[str]:
    return [priority.words() for priority in priorities(Context.of(given))]


def test_a_break_that_leaves_the_whole_target_eager() -> None:
    skipped = NotCompiled(
        NotCompiledKind.SKIPPED,
        "Net.forward",
        at(20),
        "break in a loop",
        stack=(at(21), at(38)),
        gb_id="GB0170",
    )
    given = report(
        frames=FRAMES,
        breaks=(broken(at(21), at(38), frame_skipped=True), broken(at(50), frame_function="helper")),
        not_compiled=(skipped,),
    )
    first = "Fix line 38 of model.py first: all of Net runs in eager mode because of it"
    assert words(given) == [first, "Fix line 50 of model.py first: the graph of helper ends here"]
    named = "Fix line 38 of model.py first: all of Net.forward runs in eager mode because of it"
    rest = named.replace("all of", "the rest of")
    assert words(dataclasses.replace(given, compiles=TWO_GRAPHS))[0] == rest, "an earlier part has graphs"
    cell = TargetRef("cell [18]", "cell [18]", 1, "main")
    assert words(dataclasses.replace(given, target=cell))[0] == named, "a cell runs in eager mode by itself"


def test_a_break_that_splits_a_function_and_carries_a_value() -> None:
    given = report(
        frames=FRAMES,
        compiles=TWO_GRAPHS,
        breaks=(broken(at(22)), broken(at(22), compile_id="0/1")),
        recompiles=(Recompile("Net.forward", at(22), (), compile_id="1/0"),),
    )
    assert (
        words(given)[0]
        == "Fix line 22 of model.py first: it splits Net.forward into 2 graphs, and it causes 1 recompilation (1.2 s)"
    )


@pytest.mark.parametrize(
    ("before", "after", "gain"),
    [
        (3, 2, "it splits Net.forward into 2 graphs"),
        (3, None, "the graph of Net.forward ends here"),
        (None, 2, "the graph of Net.forward starts after it"),
        (None, None, "no graph continues across it"),
    ],
)
def test_only_graphs_beside_a_break_are_what_it_splits(
    before: int | None, after: int | None, gain: str
) -> None:
    sizes = {"0/0": (0, before), "1/0": (1, after), "0/1": (0, 9)}
    compiles = tuple(
        Compile(name, frame, Outcome.COMPILED, graph=Graph(size) if size else None)
        for name, (frame, size) in sizes.items()
    )
    given = report(frames=FRAMES, compiles=compiles, breaks=(broken(at(22)),))
    assert words(given) == [f"Fix line 22 of model.py first: {gain}"]


def test_a_break_in_a_called_function_names_that_function_as_its_finding_does() -> None:
    frames = (Frame("step", at(10)), Frame("helper", at(20)), Frame("helper", at(20), resumes_at=22))
    compiles = tuple(
        Compile(f"{number}/0", number, Outcome.COMPILED, graph=Graph(size))
        for number, size in enumerate((2, 3, 1))
    )
    inlined = broken(at(12), at(22), frame_function="step")
    own = broken(at(22), compile_id="1/0", frame_function="helper")
    given = report(frames=frames, compiles=compiles, breaks=(inlined, own))
    (first,) = of_reports([given], findings(given))
    (finding,) = (item for item in findings(given) if item.span.line == 22)
    assert first.gain == "it splits helper into 2 graphs"
    assert finding.cost[0].startswith("`helper` is split into 2 graphs")


def test_functions_of_python_itself_are_not_what_a_line_leaves_in_eager_mode() -> None:
    read = at(12, function="forward")
    inside = at(997, path="/usr/lib/python3.11/functools.py", function="__get__")
    skipped = tuple(
        NotCompiled(NotCompiledKind.SKIPPED, name, place, "lock", stack=stack, gb_id="GB0142", caller=caller)
        for name, place, stack, caller in (
            ("Rope.forward", at(11), (read, inside), ()),
            ("cached_property.__get__", inside, (inside,), (read,)),
        )
    )
    given = report(
        breaks=(broken(read, inside, gb="GB0142", frame_skipped=True, frame_function="Rope.forward"),),
        not_compiled=skipped,
        compiles=TWO_GRAPHS,
        frames=FRAMES,
    )
    (first,) = of_reports([given], findings(given))
    assert first.gain == "all of Rope.forward runs in eager mode because of it"


def test_a_program_that_runs_in_eager_mode_is_named_by_its_function() -> None:
    skipped = NotCompiled(NotCompiledKind.SKIPPED, "train", at(20), "in a loop", stack=(at(38),))
    given = report(breaks=(broken(at(38), frame_skipped=True),), not_compiled=(skipped,))
    given = dataclasses.replace(given, target=dataclasses.replace(given.target, name="__main__"))
    assert words(given) == ["Fix line 38 of model.py first: all of train runs in eager mode because of it"]


def test_the_recompile_limit() -> None:
    limit = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "step", at(30), "limit")
    given = report(
        not_compiled=(limit,),
        recompiles=(Recompile("step", at(30), ()), Recompile("other", at(40), (), compile_id="1/0")),
        compiles=TWO_GRAPHS,
    )
    assert words(given) == [
        "Fix line 30 of model.py first: step reached the recompile limit because of it",
        "Fix line 40 of model.py first: it causes 1 recompilation (1.2 s)",
    ]


def test_a_single_line_is_named_where_that_says_more_than_its_finding() -> None:
    given = report(frames=FRAMES, compiles=TWO_GRAPHS, breaks=(broken(at(22)),))
    lines = priorities(Context.of(given))
    assert advice(lines) is advice(lines, FILE) is None
    assert advice(lines, "/project/other.py") == lines[0]
    eager = Priority(line(9, eager=("a",)), "")
    assert advice([eager]) == eager
    assert advice([]) is None


@pytest.mark.parametrize(
    ("cost", "code", "at_line", "gained"),
    [
        (line(9, breaks=1, recompilations=3), "GB0170", 9, True),
        (line(9, breaks=1, recompilations=3), "FL201", 9, False),
        (line(9, eager=("a",)), "FL404", 9, True),
        (line(9, recompilations=1), "FL102", 9, True),
        (line(9, limited=("a",)), "FL201", 9, True),
        (line(9, recompilations=1), "GB0170", 9, False),
        (line(9, breaks=1), "GB0170", 8, False),
    ],
)
def test_a_line_names_a_fix_of_what_it_costs(
    cost: FindingCost, code: str, at_line: int, *, gained: bool
) -> None:
    assert Priority(cost, "").is_gained_by(code, cost.path, at_line) is gained


def test_what_ended_the_run_comes_first() -> None:
    failure = Failure(Culprit.USER, "exception", "KeyError: 'a'", stack=(at(33),))
    given = report(breaks=(broken(at(22)),), failures=(failure,))
    assert words(given)[0] == "Fix line 33 of model.py first: the run ends there"


def test_breaks_that_the_user_wrote_are_no_advice() -> None:
    assert words(report(breaks=(broken(at(22), gb="GB0025"),))) == []


def test_only_lines_with_a_finding_count_and_the_json_has_the_first() -> None:
    given = report(
        frames=(*FRAMES, dataclasses.replace(FRAMES[1], resumes_at=26)),
        compiles=(*TWO_GRAPHS, Compile("2/0", 2, Outcome.COMPILED, graph=Graph(1))),
        breaks=(broken(at(22)), broken(at(26), gb="GB0059", compile_id="1/0")),
    )
    actual_findings = findings(given)
    assert [priority.cost.line for priority in of_reports([given], actual_findings)] == [22, 26]
    kept = [finding for finding in actual_findings if finding.span.line == 26]
    assert [priority.cost.line for priority in of_reports([given, given], kept)] == [26], (
        "line 22 is ignored in the source"
    )
    data = json.loads(
        as_json(CheckOutcome(findings=kept, reports=[given]), fix_command="fuselight fix model.py")
    )
    first = data["fix_first"]
    assert (first["line"], first["codes"], first["graphs"]) == (26, ["GB0059"], 3)
    assert first["title"] == "Fix line 26 of model.py first: it splits Net.forward into 3 graphs"
    assert (first["fix"], first["verified"]) == ("fuselight fix model.py", None), "a check verifies nothing"
    assert json.loads(as_json(CheckOutcome()))["fix_first"] is None


def test_what_is_only_information_is_not_the_first_to_fix_unless_it_stops_compiling() -> None:
    breaks = (broken(at(22)), broken(at(22), gb="GB0124"), broken(at(26), gb="GB0059", compile_id="1/0"))
    given = report(frames=FRAMES, compiles=TWO_GRAPHS, breaks=breaks)
    noted = [
        dataclasses.replace(finding, severity=Severity.INFORMATION) if finding.span.line == 22 else finding
        for finding in findings(given)
    ]
    assert [priority.cost.line for priority in of_reports([given], noted)] == [26]
    skipped = NotCompiled(NotCompiledKind.SKIPPED, "train", at(20), "in a loop", stack=(at(38),))
    given = report(breaks=(broken(at(38), frame_skipped=True),), not_compiled=(skipped,))
    noted = [dataclasses.replace(finding, severity=Severity.INFORMATION) for finding in findings(given)]
    assert [priority.cost.eager for priority in of_reports([given], noted)] == [("train",)]


@pytest.mark.parametrize(
    ("text", "is_step"),
    [
        ("Expect one compile for each value of `self.config.mode`", False),
        ("Expect one compile for `mask` as None, and one for each other kind of value", False),
        ("Or expect one compile for each set of parameters that are trained", False),
        ("Expect one compile for each device, or move the tensors to one device before the call", True),
        ("Expect it: torch compiles a view separately. A copy starts at 0: pass x.clone()", True),
        ("Expect one compile each for train() and eval(); call eval() before an evaluation", True),
        ("Pass `x` as a tensor", True),
    ],
)
def test_what_is_only_to_be_expected_is_no_step(text: str, is_step: bool) -> None:  # noqa: FBT001 - a case
    assert FindingRemedy(text).is_step is is_step
    assert FindingRemedy(text, RemedyState.NOT_TRIED).is_step
    assert not FindingRemedy(text, RemedyState.REFUSED).is_step


def test_a_finding_without_a_step_is_not_the_first_to_fix() -> None:
    given = report(frames=FRAMES, compiles=TWO_GRAPHS, recompiles=(again(SIZE),))
    (finding,) = findings(given)
    expect = FindingRemedy("Expect one compile for each value of `x.size(0)`")
    step = FindingRemedy("Mark the size as dynamic", RemedyState.TRIED)
    refused = FindingRemedy("Pass `x` as a tensor", RemedyState.REFUSED)
    with_step = CheckOutcome([dataclasses.replace(finding, remedies=(expect, step))], [given])
    assert [priority.cost.line for priority in with_step.priorities] == [READ.line]
    assert not with_step.needs_no_change
    untried = FindingRemedy("Compile with dynamic=True", RemedyState.NOT_TRIED)
    pending = CheckOutcome([dataclasses.replace(finding, remedies=(expect, untried))], [given])
    assert (pending.priorities, pending.needs_no_change) == ((), False), "nobody knows whether it helps"
    without = CheckOutcome([dataclasses.replace(finding, remedies=(expect, refused))], [given])
    assert without.priorities == ()
    assert without.needs_no_change
    stream = io.StringIO()
    print_first(without, Terminal(stream))
    assert stream.getvalue().strip() == NO_CHANGE
    for cures, words in ((finding.cures, with_options(NOT_TRIED)), ((), NO_KNOWN_CHANGE)):
        again_and_again = dataclasses.replace(finding, remedies=(expect,), count=3, cures=cures)
        print_first(CheckOutcome([again_and_again], [given]), Terminal(stream := io.StringIO()))
        assert stream.getvalue().strip() == words
    without.problems.append(Problem("capture", "guards", "not read"))
    assert not without.needs_no_change


LOOPS = """\
def note(x):
    print(x.sum().item())


def run(x, steps):
    for step in range(steps):
        print(step)
        note(x)
    while x.sum() > steps:
        x = x - 1
    print(x)
"""


@pytest.mark.parametrize(
    ("stack", "in_loop"),
    [
        ((at(7, (8, 19), function="run"),), " (print in the loop on line 6)"),
        (
            (at(8, function="run"), at(2, (10, 24), function="note")),
            " (note is called in the loop on line 6)",
        ),
        ((at(9, (10, 25), function="run"),), " (in the loop on line 9)"),
        ((at(11, (4, 12), function="run"),), ""),
    ],
)
def test_a_line_in_a_loop_is_named_with_the_loop(stack: tuple[Location, ...], in_loop: str) -> None:
    kinds = ("Data-dependent branching", "graph break in loop")
    given = report(breaks=(broken(*stack, types=kinds), broken(at(1))))
    lines = LOOPS.splitlines()
    shown = findings(given, read_line=lambda _path, line: lines[line - 1] if line <= len(lines) else None)
    words = next(item.words() for item in of_reports([given], shown) if item.cost.line == stack[-1].line)
    is_called = "is called in the" in in_loop
    message = next(item.message for item in shown if item.span.line == stack[-1].line)
    assert ("The function of this line is called in the loop on line" in message) is is_called
    assert words.startswith(f"Fix line {stack[-1].line} of model.py first{in_loop}: ")


def test_a_break_in_a_generator_comes_before_the_generator_that_it_stops() -> None:
    part, called = at(5, function="chunks"), at(12, function="run")
    given = report(
        breaks=(
            broken(called, part, gb="GB8335", frame_skipped=True, frame_function="run"),
            broken(called, at(6, function="chunks"), gb="GB0059", frame_function="chunks"),
        ),
        not_compiled=(
            NotCompiled(NotCompiledKind.SKIPPED, "run", at(11), "no", stack=(called, part), gb_id="GB8335"),
        ),
    )
    lines = of_reports([given], findings(given))
    assert [item.cost.line for item in lines] == [6, 5]
    assert lines[1].gain.endswith("it follows from the graph break on line 6")


def test_a_measured_time_in_eager_mode_ranks_breaks_and_is_marked() -> None:
    given = report(
        frames=(*FRAMES, dataclasses.replace(FRAMES[1], resumes_at=26)),
        compiles=(*TWO_GRAPHS, Compile("2/0", 2, Outcome.COMPILED, graph=Graph(1))),
        breaks=(broken(at(22)), broken(at(26), gb="GB0059", compile_id="1/0")),
    )
    outcome = CheckOutcome(findings=list(findings(given)), reports=[given])
    assert [priority.cost.line for priority in outcome.priorities] == [22, 26]
    outcome.eager_us = {(FILE, 26): 1234.0, (FILE, 99): 9.0}
    assert [priority.cost.line for priority in outcome.priorities] == [26, 22]
    assert outcome.priorities[0].words().endswith("; 1.23 ms of a call in eager mode (measured)")
    assert "measured" not in outcome.priorities[1].words()
    assert json.loads(as_json(outcome))["fix_first"]["eager_us"] == 1234.0


def test_a_time_does_not_count_for_a_line_that_ends_the_run() -> None:
    priority = Priority(line(9, ends_run=True, breaks=1), "the run ends there")
    assert priority.measured(5.0) is priority


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([], ""),
        ([line(3, breaks=1)], ""),
        ([line(3, ends_run=True)], "1 more line ends a run: 3"),
        (
            [line(3, ends_run=True), line(5, ends_run=True), line(7, eager=("f",))],
            "2 more lines end a run: 3 and 5",
        ),
        ([line(n, ends_run=True) for n in range(2, 7)], "5 more lines end a run: 2, 3, 4 and 2 more"),
    ],
)
def test_other_lines_that_end_a_run_are_counted_and_named(others: list[FindingCost], words: str) -> None:
    lines = [Priority(cost, "") for cost in (line(1, ends_run=True), *others)]
    assert more_like_the_first(lines, lambda priority: str(priority.cost.line)) == words


def test_other_lines_that_leave_functions_in_eager_mode_are_named_after_the_first() -> None:
    lines = [Priority(line(number, eager=("f",)), "") for number in (1, 2)]
    assert more_like_the_first(lines, lambda priority: f"model.py:{priority.cost.line}") == (
        "1 more line leaves functions in eager mode: model.py:2"
    )
    broken_lines = [Priority(line(number, breaks=1), "") for number in (1, 2)]
    assert more_like_the_first(broken_lines, lambda priority: f"model.py:{priority.cost.line}") == ""


def test_a_fix_is_a_step_also_where_the_run_says_only_what_to_expect() -> None:
    given = report(frames=FRAMES, compiles=TWO_GRAPHS, recompiles=(again(SIZE),))
    expect = FindingRemedy("Expect one compile for each value of `x.size(0)`")
    fix = FindingRemedy("Compile it for any size", RemedyState.NOT_TRIED, is_fix=True)
    (finding,) = (dataclasses.replace(item, remedies=(expect,)) for item in findings(given))
    outcome = CheckOutcome([finding], [given])
    for remedies in ((expect,), (fix, expect)):
        stream = io.StringIO()
        print_findings(outcome, Terminal(stream), iter([dataclasses.replace(finding, remedies=remedies)]))
        assert (NO_CHANGE in stream.getvalue()) is (fix not in remedies)


def test_a_wrong_result_comes_before_a_break_and_is_named_with_what_else_its_line_costs() -> None:
    lost = UnseenChange(UnseenKind.LOST_ADDITION, "self.seen", "Net.forward", at(20), (at(26),))
    given = report(
        frames=FRAMES, compiles=TWO_GRAPHS, breaks=(broken(at(22)), broken(at(26))), unseen=(lost,)
    )
    lines = of_reports([given], findings(given))
    assert [priority.cost.line for priority in lines] == [26, 22]
    first = advice(lines)
    assert first is not None
    lost_words, _, split = first.gain.partition("; ")
    assert lost_words == "compiled code of Net.forward adds nothing to self.seen"
    assert "graph of Net.forward" in split
    assert first.is_gained_by("FL205", FILE, 26)
    assert not first.is_gained_by("GB0170", FILE, 26)
    alone = dataclasses.replace(given, breaks=())
    only = advice(of_reports([alone], findings(alone)), FILE)
    assert only is not None, "it is named also where it is the only line"
    ordered = sorted(findings(given), key=rank)
    assert ordered[0].code == "FL205", "agents and the report get it first"


def test_a_value_with_ever_new_numbers_comes_before_one_with_few() -> None:
    def of(name: str, line: int, *values: object) -> list[Recompile]:
        pairs = itertools.pairwise(values)
        changed = (
            failed(
                f"{name} was {was}, now {now}",
                source=name,
                was=str(was),
                now=str(now),
                cause=GuardCause.NUMBER,
            )
            for was, now in pairs
        )
        return [again(dataclasses.replace(failure, born=(at(line),))) for failure in changed]

    few, many = of("flag", 22, 1, 2, 1, 2, 1, 2), of("step", 26, 1, 2, 3, 4)
    lines = priorities_of((broken(at(30)),), *few, *many)
    assert [priority.cost.line for priority in lines] == [26, 30, 22]
    assert lines[0].gain.endswith("3 recompilations, one for each new number")
    assert not lines[2].gain.endswith("number")


@pytest.mark.parametrize("is_limited", [True, False])
def test_a_value_that_later_versions_read_elsewhere_counts_on_the_line_of_its_finding(
    *, is_limited: bool
) -> None:
    """Torch guards on the first read of each compile: a decay is first a constant, then read where it is passed on."""
    values = (0.5, 0.25, 0.125, 0.0625, 0.03125)
    changes = [
        again(
            failed(f"decay was {was}, now {now}", source="decay", born=(at(21 if index else 24),)),
            compile_id=f"0/{index + 1}",
        )
        for index, (was, now) in enumerate(itertools.pairwise(values))
    ]
    if is_limited:
        changes[-1] = dataclasses.replace(changes[-1], compile_id=None)
    limit = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit")
    given = report(
        frames=FRAMES,
        breaks=(broken(at(30)),),
        recompiles=tuple(changes),
        not_compiled=(limit,) if is_limited else (),
    )
    shown = [
        dataclasses.replace(item, remedies=(FindingRemedy("Pass `decay` as a tensor"),))
        for item in findings(given)
    ]
    first, second = of_reports([given], shown)
    assert (first.cost.line, second.cost.line) == (24, 30)
    assert first.gain == (
        "Net.forward reached the recompile limit because of it"
        if is_limited
        else "it causes 4 recompilations, one for each new number"
    )
    of_limit = [item for item in shown if item.code == "FL102"]
    assert [item.follows.span.line for item in of_limit if item.follows] == [24] * is_limited


def test_a_limit_counts_where_its_finding_says_that_it_follows_from() -> None:
    """With the source, a counter and the dict that it is written with are one finding: the report alone has two."""
    source = {
        20: "def forward(self, x):",
        21: "    self.seen[self.n] = x",
        22: "    self.n += 1",
        23: "    print(x)",
    }
    empty = failed(
        "self.seen was empty, now a dict of 1",
        "DICT_LENGTH",
        "self.seen",
        cause=GuardCause.KEYS,
        born=(at(21),),
    )
    steps = [
        failed(
            f"self.n was {n}, now {n + 1}", "EQUALS_MATCH", "self.n", born=(at(22),), cause=GuardCause.NUMBER
        )
        for n in range(5)
    ]
    changes = [
        again(empty, steps[0]),
        *(again(item, compile_id=f"0/{n}") for n, item in enumerate(steps[1:4], 2)),
    ]
    limit = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit")
    given = report(
        frames=FRAMES,
        breaks=(broken(at(23)),),
        recompiles=(*changes, again(steps[4], compile_id=None)),
        not_compiled=(limit,),
    )
    shown = findings(given, read_line=lambda _path, number: source.get(number))
    assert [item.span.line for item in shown if item.code == "FL201"] == [21]
    first, second = of_reports([given], shown)
    assert (first.cost.line, first.gain) == (21, "Net.forward reached the recompile limit because of it")
    assert second.cost.line == 23
