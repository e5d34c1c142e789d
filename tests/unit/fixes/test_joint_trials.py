"""Changes that help only together: which are tried at once, and that none stays which is not needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from fuselight.shared.protocol import CaptureRequest, InputsPlan, Target
from fuselight.shared.report import CallCure, CureGoal, CureKind, CureTrial, Tier, TrialCounts
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.fixes.verification import cure_trials
from fuselight_server.fixes.verification.cure_trials import TrialBudget, try_cures
from tests.support.reports import FILE, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fuselight.shared.report import Report


def tensor(name: str, line: int = 20) -> CallCure:
    return CallCure(CureKind.TENSOR, FILE, line, (name,))


def setting(name: str, line: int) -> CallCure:
    return CallCure(CureKind.SETTING, FILE, line, value=f'{{"{name}": true}}', goal=CureGoal.BREAKS)


def finding_at(line: int, *cures: CallCure, tried: Iterable[CureTrial] = ()) -> Finding:
    """A finding with its changes in the state that the trials leave."""
    known = {trial.cure: trial for trial in tried}

    def state(cure: CallCure) -> RemedyState:
        trial = known.get(cure)
        if trial is None:
            return RemedyState.NOT_TRIED
        return RemedyState.TRIED if trial.cures else RemedyState.REFUSED

    remedies = tuple(FindingRemedy(f"Change {_name(cure)}", state(cure), cure=cure) for cure in cures)
    cures = tuple(dataclasses.replace(cure, text=f"Change {_name(cure)}") for cure in cures)
    span = Span(FILE, line, 0)
    return Finding(
        *("FL201", Severity.WARNING, "recompiled", "", span),
        tier=Tier.CAPTURE,
        target="Net",
        inputs="",
        torch="2.13.0",
        remedies=remedies,
        cures=cures,
    )


def _name(cure: CallCure) -> str:
    return cure.subjects[0] if cure.subjects else next(iter(cure.settings))


NO_GAIN, HARM = "there are still 5 compiles", "the results differ"
ChangesByLine = Mapping[int, tuple[CallCure, ...]]


async def tried(
    monkeypatch: pytest.MonkeyPatch,
    by_line: ChangesByLine,
    verdict: Callable[[frozenset[str]], tuple[int, str]],
    uncovered: ChangesByLine | None = None,
) -> list[tuple[tuple[str, ...], bool, str]]:
    """The trials of a report with such changes by line: what changed, whether it cures, and its text.

    `uncovered`: the changes for findings that only a run with a change has.
    """
    given = report(trial=TrialCounts(4))
    answer = report(trial=TrialCounts(4))

    async def run(request: Any) -> Report:
        return given if request.trial.cure is None else answer

    def findings_of(known: Report, **_options: Any) -> tuple[Finding, ...]:
        lines = {**by_line, **(uncovered or {})} if known is answer else by_line
        return tuple(finding_at(line, *cures, tried=known.trials) for line, cures in lines.items())

    def trial_of(cure: CallCure, *_reports: Report) -> CureTrial:
        after, refused = verdict(frozenset(map(_name, cure.changes)))
        return CureTrial(cure, 5, after, refused, breaks=after, compiles=after)

    monkeypatch.setattr(cure_trials, "findings", findings_of)
    monkeypatch.setattr(cure_trials, "trial_of", trial_of)
    request = CaptureRequest(1, 1, Target(FILE, "Net", "module", 10, compiled=True), InputsPlan(), ("/",))
    known = await try_cures(
        request, given, run, budget=TrialBudget(None), read_line=lambda _path, _line: None
    )
    return [
        (tuple(map(_name, trial.cure.changes)), trial.cures, trial.cure.text if trial.cure.also else "")
        for trial in known.trials
    ]


@pytest.mark.asyncio
async def test_two_changes_that_help_only_together_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    by_line = {21: (tensor("a"),), 22: (tensor("b"),), 31: (tensor("c", 30),), 32: (tensor("d", 30),)}
    pairs = ({"a", "b"}, {"c", "d"})
    trials = await tried(monkeypatch, by_line, lambda names: (1, "") if names in pairs else (5, NO_GAIN))
    assert trials[4:] == [
        (("a", "b"), True, "Change a and change b"),
        (("c", "d"), True, "Change c and change d"),
    ]


@pytest.mark.asyncio
async def test_what_is_not_needed_is_left_out_and_what_harms_is_never_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_line = {line: (tensor(name),) for line, name in enumerate(("a", "b", "bad", "c", "d"), 21)}

    def verdict(names: frozenset[str]) -> tuple[int, str]:
        if "bad" in names:
            return 1, HARM
        return (2, "") if {"a", "c"} <= names else (5, NO_GAIN)

    trials = await tried(monkeypatch, by_line, verdict)
    several = [names for names, _, text in trials if text]
    assert several[0] == ("a", "b", "c", "d")
    assert all(text.lower().count("change ") == len(names) for names, _, text in trials if text), "own words"
    assert ("a", "c") in several
    assert not any("bad" in names for names in several)
    assert not any(cures for names, cures, _ in trials if len(names) == 1)


@pytest.mark.asyncio
async def test_where_a_change_helps_alone_no_other_is_tried_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    by_line = {21: (tensor("a"),), 22: (tensor("b"),)}
    trials = await tried(monkeypatch, by_line, lambda _names: (2, ""))
    assert [names for names, *_ in trials] == [("a",), ("b",)]


@pytest.mark.asyncio
async def test_a_break_that_a_setting_uncovers_is_tried_with_the_setting_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_line, uncovered = {8: (setting("scalars", 8),)}, {9: (setting("shapes", 9),)}

    def verdict(names: frozenset[str]) -> tuple[int, str]:
        return (0, "") if len(names) == 2 else (1, "it breaks the graph on line 9")

    trials = await tried(monkeypatch, by_line, verdict, uncovered)
    assert trials == [
        (("scalars",), False, ""),
        (("scalars", "shapes"), True, "Change scalars and change shapes"),
        (("shapes",), False, ""),
    ]


@pytest.mark.asyncio
async def test_changes_of_one_finding_that_leave_compiles_alone_are_tried_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_line = {21: (tensor("a"), tensor("b")), 22: (tensor("c"),)}

    def verdict(names: frozenset[str]) -> tuple[int, str]:
        return (1, "") if {"a", "b"} <= names else (3, "")

    trials = await tried(monkeypatch, by_line, verdict)
    assert [names for names, *_ in trials] == [("a",), ("b",), ("c",), ("a", "b")]


@pytest.mark.asyncio
async def test_of_many_changes_whole_kinds_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = tuple(dataclasses.replace(tensor(f"x{n}.size(0)"), kind=CureKind.MARK) for n in range(5))
    by_line = {21: (tensor("a"), tensor("b")), 22: marks}

    def verdict(names: frozenset[str]) -> tuple[int, str]:
        return (1, "") if {"a", "b"} <= names else (5, NO_GAIN)

    several = [names for names, *_ in await tried(monkeypatch, by_line, verdict) if len(names) > 1]
    assert [len(names) for names in several] == [7, 5, 2]


def test_the_lists_of_two_settings_of_one_name_are_joined() -> None:
    first, second = (
        dataclasses.replace(setting("x", 8), value=f'{{"ignored": ["{name}"]}}') for name in ("info", "warn")
    )
    assert dataclasses.replace(first, also=(second,)).settings == {"ignored": ["info", "warn"]}
