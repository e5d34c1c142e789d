"""The recompile limit: when it is named, and for which changes a higher one is tried."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import (
    Compile,
    CureGoal,
    CureKind,
    CureTrial,
    Frame,
    GuardCause,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Report,
    TrialCounts,
)
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.recompilations import DEF, again, failed
from tests.support.reports import at, report

FRAME = Frame("Net.forward", DEF, parameters=("kind",))
STOPPED = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit reached (8)")
COUNTS = TrialCounts(calls=12)
SETTING = "Set torch._dynamo.config.recompile_limit = 32 before the first call"


def of_versions(
    count: int,
    *,
    cause: GuardCause = GuardCause.VALUE,
    stopped: bool = False,
    step: int = -1,
    **parts: object,
) -> Report:
    """A report of a function with `count` versions for the values of `kind`, and one more call if it is `stopped`.

    Numbers change by `step` each time.
    """
    recompiles: list[Recompile] = []
    for number in range(1, count + stopped):
        was, now = (
            repr(f"v{item}") if cause is GuardCause.VALUE else str(20 + step * item)
            for item in (number - 1, number)
        )
        failure = failed(
            f"kind was {was}, now {now}", source="kind", cause=cause, was=was, now=now, expression="L['kind']"
        )
        entries = tuple(Mismatch(f"0/{entry}", (failure,)) for entry in reversed(range(number)))
        compile_id = None if number == count else f"0/{number}"
        recompiles.append(dataclasses.replace(again(failure, compile_id=compile_id), entries=entries))
    compiles = tuple(Compile(f"0/{number}", 0, Outcome.COMPILED) for number in range(count))
    given = report(frames=(FRAME,), compiles=compiles, recompiles=tuple(recompiles), **parts)
    return dataclasses.replace(given, not_compiled=(STOPPED,) if stopped else ())


def of_code(given: Report, code: str) -> Finding:
    return next(finding for finding in findings(given) if finding.code == code)


@pytest.mark.parametrize(
    ("versions", "limit", "is_named"),
    [(7, "", False), (8, "", True), (8, "16", False), (4, "4", True), (2, "", False)],
)
def test_the_last_version_that_the_limit_allows_is_named(
    versions: int, limit: str, *, is_named: bool
) -> None:
    given = of_versions(versions)
    config = {"recompile_limit": limit} if limit else {}
    given = dataclasses.replace(given, environment=dataclasses.replace(given.environment, config=config))
    message = of_code(given, "FL201").message
    assert (f"All {limit or 8} versions" in message) is is_named


def test_the_limit_of_the_own_torch_compile_is_counted_and_raised() -> None:
    def with_own(given: Report) -> Report:
        compiles = tuple(dataclasses.replace(item, own_limit=3) for item in given.compiles)
        return dataclasses.replace(given, compiles=compiles)

    last = of_code(with_own(of_versions(3)), "FL201")
    assert "All 3 versions that recompile_limit of its torch.compile allows exist" in last.message
    exceeded = of_code(with_own(of_versions(3, stopped=True)), "FL102")
    (cure,) = (cure for cure in exceeded.cures if cure.goal is CureGoal.LIMITED)
    assert (cure.kind, cure.value) == (CureKind.LIMIT, "12")
    assert not cure.settings
    assert not any("torch._dynamo.config" in hint for hint in exceeded.hints)
    number = of_code(with_own(of_versions(3, cause=GuardCause.NUMBER, stopped=True)), "FL102")
    assert (
        "Raise recompile_limit of its torch.compile only if `kind` has a bounded number of values: it had 4 in these "
        "calls" in number.hints
    )


def test_a_float_that_torch_has_with_fewer_digits_is_one_value() -> None:
    floats = ["0.1", "0.30000000000000004", "0.06666666666666667"]
    before = ["0.1", "0.3", "0.0666666666667"]
    failures = [
        failed("kind changed", source="kind", cause=GuardCause.NUMBER, was=was, now=now)
        for was, now in zip(before, [*floats[1:], "0.1"], strict=True)
    ]
    recompiles = tuple(again(failure, compile_id=None) for failure in failures)
    given = dataclasses.replace(report(frames=(FRAME,), recompiles=recompiles), not_compiled=(STOPPED,))
    assert any("it had 3 in these calls" in hint for hint in of_code(given, "FL102").hints)


def test_what_filled_the_limit_comes_before_the_mode_of_the_last_call() -> None:
    given = of_versions(8, cause=GuardCause.NUMBER, stopped=True)
    mode = failed("grad mode was on, now off", cause=GuardCause.GLOBAL_STATE, source="")
    *counted, last = given.recompiles
    last = dataclasses.replace(
        last, entries=tuple(Mismatch(item.compile_id, (mode,)) for item in last.entries)
    )
    finding = of_code(dataclasses.replace(given, recompiles=(*counted, last)), "FL102")
    assert (
        "What filled it: kind was 14, now 13; this value differed in 7 of 7 recompilations. "
        "The call that exceeded it: grad mode" in (finding.message)
    )
    assert not any("grad mode" in hint for hint in finding.hints)
    alone = of_code(dataclasses.replace(given, recompiles=(counted[0], last)), "FL102")
    assert "What filled it: kind was 20, now 19" in alone.message
    mixed = of_code(
        dataclasses.replace(
            given, recompiles=(counted[0], dataclasses.replace(last, compile_id="0/2"), last)
        ),
        "FL102",
    )
    assert "What filled it" not in mixed.message


def test_what_grows_at_each_compile_has_no_bound_and_no_higher_limit() -> None:
    bounded = of_code(of_versions(8, cause=GuardCause.NUMBER, stopped=True), "FL102")
    assert "Nothing in the run bounds" not in bounded.message
    growing = of_code(of_versions(8, cause=GuardCause.NUMBER, stopped=True, step=2), "FL102")
    bound = (
        "Nothing in the run bounds the number of versions: `kind` was greater at each compile, from 20 to 36."
    )
    assert bound in growing.message
    assert not any("recompile_limit" in hint for hint in growing.hints)
    endless = of_code(of_versions(8, cause=GuardCause.NUMBER, stopped=True, step=2), "FL201")
    step = (
        "Keep what reads `kind` out of the compiled code: it is greater at each compile, and torch compiles no more "
        "than 8 versions"
    )
    for finding in (growing, endless):
        assert any(hint.startswith(step) for hint in finding.hints)
        assert not any(hint.startswith("Expect one compile for each") for hint in finding.hints)


def test_a_value_that_grows_is_expected_to_compile_up_to_the_limit() -> None:
    finding = of_code(of_versions(5, cause=GuardCause.NUMBER, step=2), "FL201")
    assert "Expect one compile for each value of `kind`, up to the recompile limit of 8 versions" in {
        remedy.text for remedy in finding.remedies
    }


def test_values_that_change_apart_need_a_version_for_each_combination() -> None:
    def compiled(number: int, source: str, was: str, now: str) -> Recompile:
        failure = failed(
            f"{source} was {was}, now {now}", source=source, cause=GuardCause.VALUE, was=was, now=now
        )
        return again(failure, compile_id=f"0/{number}")

    changes = [("kind", "'a'", "'b'"), ("flag", "True", "False"), ("kind", "'b'", "'c'")]
    recompiles = tuple(compiled(number, *change) for number, change in enumerate(changes, 1))
    given = dataclasses.replace(of_versions(4), recompiles=recompiles)
    hints = {hint for finding in findings(given) if finding.code == "FL201" for hint in finding.hints}
    assert "Expect one compile for each combination of `kind` and `flag` that occurs" in hints
    assert not any(
        hint.startswith(("Expect one compile for each value", "Expect one compile for each str"))
        for hint in hints
    )


def test_sizes_of_other_objects_are_not_said_to_grow() -> None:
    given = of_versions(8, cause=GuardCause.NUMBER, stopped=True, step=2)
    recompiles = tuple(
        dataclasses.replace(
            item, entries=tuple(dataclasses.replace(entry, other_object=True) for entry in item.entries)
        )
        for item in given.recompiles
    )
    finding = of_code(dataclasses.replace(given, recompiles=recompiles), "FL102")
    assert "Nothing in the run bounds" not in finding.message


def test_a_list_that_is_compared_with_the_version_for_an_empty_one_grows() -> None:
    given = of_versions(5, cause=GuardCause.LENGTH, stopped=True)
    recompiles = tuple(
        again(
            failed(f"rows was empty, now a list of {number}", source="rows", cause=GuardCause.LENGTH),
            compile_id=item.compile_id,
        )
        for number, item in enumerate(given.recompiles, 1)
    )
    finding = of_code(dataclasses.replace(given, recompiles=recompiles), "FL102")
    assert "`len(rows)` was greater at each compile, from 0 to 5" in finding.message


def test_a_string_that_comes_with_a_growing_container_gets_no_higher_limit() -> None:
    def with_length(number: int, item: Recompile) -> Recompile:
        grown = failed(f"len(seen) was {number}, now {number + 1}", source="seen", cause=GuardCause.LENGTH)
        first, *rest = item.entries
        entries = (dataclasses.replace(first, failures=(*first.failures, grown)), *rest)
        return dataclasses.replace(item, entries=entries)

    given = of_versions(8, stopped=True)
    recompiles = tuple(with_length(number, item) for number, item in enumerate(given.recompiles))
    finding = of_code(dataclasses.replace(given, recompiles=recompiles), "FL102")
    assert "`len(seen)` was greater at each compile, from 0 to 8" in finding.message
    assert not any(cure.goal is CureGoal.LIMITED for cure in finding.cures)


def test_the_last_version_of_fullgraph_is_followed_by_an_exception() -> None:
    given = dataclasses.replace(of_versions(8), fullgraph=True)
    assert "a call that matches none of them raises an exception" in of_code(given, "FL201").message


def test_a_limit_that_was_exceeded_is_named_by_its_own_finding_alone() -> None:
    assert "All 8 versions" not in of_code(of_versions(8, stopped=True), "FL201").message


def test_a_higher_limit_is_tried_for_kinds_of_values_and_not_for_numbers() -> None:
    kinds, numbers = (
        of_code(of_versions(8, cause=cause, stopped=True), "FL102")
        for cause in (GuardCause.VALUE, GuardCause.NUMBER)
    )
    assert [cure.settings for cure in kinds.cures if cure.goal is CureGoal.LIMITED] == [
        {"recompile_limit": 32}
    ]
    assert not any(cure.goal is CureGoal.LIMITED for cure in numbers.cures)
    assert not any(SETTING in hint for hint in kinds.hints), "it was not tried yet"
    assert any("Raise torch._dynamo.config.recompile_limit only" in hint for hint in numbers.hints)


def test_a_higher_limit_cures_if_no_call_is_left_in_eager_mode() -> None:
    without = of_versions(8, stopped=True)
    cure = next(cure for cure in of_code(without, "FL102").cures if cure.goal is CureGoal.LIMITED)

    def tried(cured: Report) -> CureTrial:
        before, after = (dataclasses.replace(item, trial=COUNTS) for item in (without, cured))
        return trial_of(cure, before, after)

    enough, same = tried(of_versions(12)), tried(of_versions(32, stopped=True))
    assert enough.cures
    assert not same.cures
    shown = of_code(dataclasses.replace(without, trials=(enough,)), "FL102").hints[0]
    assert shown.startswith(f"{SETTING} (tried: 8 → 12 compiles, and then no call in eager mode)")
    refused = of_code(dataclasses.replace(without, trials=(same,)), "FL102").hints
    assert not any(SETTING in hint for hint in refused)


@pytest.mark.parametrize(
    ("line", "is_counted"), [("    entry['n'] += 1", True), ("    x = x * entry['n']", False)]
)
def test_no_limit_is_enough_for_a_number_that_the_code_changes_in_each_call(
    line: str, *, is_counted: bool
) -> None:
    """Also where the call that exceeds the limit differs in something else, as in a parameter of an optimizer."""
    counted = failed("entry['n'] was 1, now 2", source="entry['n']", born=(at(21),), cause=GuardCause.NUMBER)
    given = of_versions(8, stopped=True)
    mixed = tuple(
        again(counted, compile_id=item.compile_id) if item.compile_id in {"0/4", "0/5"} else item
        for item in given.recompiles
    )
    lines = {DEF.line: "def forward(self, x, kind):", 21: line, 22: "    return x"}
    shown = findings(
        dataclasses.replace(given, recompiles=mixed), read_line=lambda _path, number: lines.get(number)
    )
    (finding,) = (item for item in shown if item.code == "FL102")
    assert any(cure.text == SETTING for cure in finding.cures) is not is_counted
    assert any(hint.startswith("Change `entry` outside") for hint in finding.hints) is is_counted
    assert not (is_counted and any("recompile_limit" in hint for hint in finding.hints))
