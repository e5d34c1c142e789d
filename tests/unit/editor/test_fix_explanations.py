"""Verified and refused fixes in the hover, the report and the menu, with their reasons."""

from __future__ import annotations

import asyncio
import dataclasses
import os

import pytest
from lsprotocol import types

from fuselight.shared.report import Aspect, CallComparison, CaseFamily, Difference, Verification
from fuselight.shared.report.verification import ONE_SIDE
from fuselight_server.editor.handlers.hover import with_fixes
from fuselight_server.editor.handlers.report_tree import report_tree
from fuselight_server.editor.messages.params import ReportTreeParams
from fuselight_server.editor.results.finding_hover import explanations_of
from fuselight_server.editor.results.shown_findings import ShownFinding
from fuselight_server.editor.session import fix_attempts
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import priority
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite
from tests.support.fix_world import EXACT, FIRST, TEXT, UNVERIFIED, VERIFIED, FixWorld, differing, replaced

REFUSED = "tried and refused: it differs (eager, recorded inputs)"


async def hover_of(world: FixWorld) -> str:
    """What a hover says of the findings of the first line."""
    findings = [finding.now() for finding in world.state.captures[Key(world.path, "f")].findings]
    first = [ShownFinding(finding) for finding in findings if finding.span.line == FIRST + 1]
    snapshot = world.state.snapshot(world.uri, {})
    assert first
    assert snapshot is not None
    return "\n\n".join(explanations_of(snapshot, [await with_fixes(world.server, item) for item in first]))


@pytest.mark.asyncio
async def test_a_refused_fix_stays_in_the_menu_with_its_reason_and_its_advice_is_withdrawn(
    world: FixWorld,
) -> None:
    world.state.client = dataclasses.replace(world.state.client, disabled_actions=True)
    world.verification = differing(Aspect.OUTPUT)
    before = await hover_of(world)
    assert before.startswith("**Fix, not tried yet:** Use where. Quick Fix verifies it.")
    assert "What to do:" in before
    assert world.requests == [], "a hover verifies nothing"
    assert await world.verified() == ["Use where"]
    (action,) = await world.actions()
    assert action.disabled == types.CodeActionDisabled(REFUSED)
    assert (action.edit, action.command, action.data, action.is_preferred) == (None, None, None, None)
    shown = await hover_of(world)
    assert shown.startswith(f"Use where: {REFUSED}.")
    assert "What to do:" not in shown

    world.edit(TEXT.replace("return branch(x)", "return branch(x) + 1"))
    world.ran(world.document.source.text)
    assert await world.titles() == [UNVERIFIED], "what was refused belongs to the text that it was tried on"


def refused(*kinds: str) -> tuple[RefusedRewrite, ...]:
    return tuple(RefusedRewrite(kind, f"Use {kind}", f"`lr` is no {kind}") for kind in kinds)


@pytest.mark.asyncio
async def test_fixes_that_no_run_is_needed_for_to_refuse_them_are_in_the_menu_and_the_hover(
    world: FixWorld,
) -> None:
    world.offers(replaced("where", "Use where", FixClass.EXACT), *refused("where", "cond", "a", "b", "c"))
    world.gate.clear()
    assert await world.titles() == [UNVERIFIED], "a client without disabled actions"
    world.state.client = dataclasses.replace(world.state.client, disabled_actions=True)
    first, *others = await world.actions()
    assert (first.title, first.disabled) == (UNVERIFIED, None)
    assert [(action.title, action.disabled and action.disabled.reason) for action in others] == [
        (f"Use {kind}", f"no fix is offered: `lr` is no {kind}") for kind in ("cond", "a", "b")
    ], "three at most, and none of a kind that is offered"
    shown = await hover_of(world)
    assert "Use cond: no fix is offered: `lr` is no cond." in shown
    assert "Use where: no fix" not in shown
    assert shown.count("no fix is offered: ") == 3
    assert "What to do:" in shown, "advice that was not tried stays"
    world.gate.set()
    assert await world.verified() == [VERIFIED, "Use cond", "Use a", "Use b"]
    assert "no fix is offered: " not in await hover_of(world), "a verified fix comes before everything"


@pytest.mark.asyncio
async def test_a_finding_without_a_fix_says_why_and_a_read_only_file_is_a_reason(world: FixWorld) -> None:
    world.state.client = dataclasses.replace(world.state.client, disabled_actions=True)
    world.offers(lambda *_: (), *refused("where"))
    (action,) = await world.actions()
    assert action.disabled == types.CodeActionDisabled("no fix is offered: `lr` is no where")
    assert action.diagnostics is not None
    assert world.requests == []
    world.offers(replaced("where", "Use where", FixClass.EXACT))
    os.chmod(world.path, 0o444)  # noqa: PTH101 - paths stay text
    (action,) = await world.actions()
    if os.access(world.path, os.W_OK):  # a superuser may write
        assert action.title == UNVERIFIED
    else:
        assert action.disabled == types.CodeActionDisabled(f"no fix is offered: {world.path} is read-only")


async def report_of(world: FixWorld) -> tuple[str, list[tuple[str, str]]]:
    """The first line of the report, and the fixes that it says are not offered."""
    (target,) = (await report_tree(world.server, ReportTreeParams(world.uri)))["nodes"]
    groups = [child for child in target["children"] if child["contextValue"] == "refusals"]
    assert all(group["label"] == f"Fixes not offered ({len(group['children'])})" for group in groups)
    entries = [(node["label"], node["description"]) for group in groups for node in group["children"]]
    return target["children"][0]["tooltip"].splitlines()[-1], entries


@pytest.mark.asyncio
async def test_the_line_to_fix_first_names_the_fix_that_passed_while_its_text_is_there(
    world: FixWorld,
) -> None:
    first = "Fix line 5 of model.py first: the graph of Net.forward ends here"
    await asyncio.sleep(0)
    world.ui.shown.clear()
    assert (await report_of(world))[0] == first
    await world.verified()
    assert world.path in world.ui.shown, "lens and report are drawn again"
    result = world.state.captures[Key(world.path, "f")]
    assert world.session.attempts.first_fix(result) == "Use where: verified"
    assert (await report_of(world))[0] == f"{first} (Use where: verified)"
    world.edit(f"# new\n{TEXT}")
    assert world.session.attempts.first_fix(result) == ""


@pytest.mark.asyncio
async def test_a_fix_of_another_kind_of_finding_or_with_limits_is_no_plain_advice(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Difference(Aspect.OUTPUT, "it differs")
    case = CallComparison(
        0, "where int32 overflows", compiled=False, differences=(other,), family=CaseFamily.EXTREME
    )
    world.verification = Verification((*EXACT.comparisons, case), notes=(f"always True: {ONE_SIDE}",))
    await world.verified()
    result = world.state.captures[Key(world.path, "f")]
    limits = "except where int32 overflows, one side not tried"
    assert world.session.attempts.first_fix(result) == f"Use where: verified, {limits}"
    monkeypatch.setattr(priority, "RECOMPILED", frozenset({"GB0170", "GB0059"}))
    assert world.session.attempts.first_fix(result) == "", "the line costs a break"


@pytest.mark.asyncio
async def test_the_report_lists_refused_fixes_with_their_reasons(world: FixWorld) -> None:
    world.offers(replaced("where", "Use where", FixClass.EXACT), *refused("cond", "where"))
    untried = [
        ("Use cond", "line 5: no fix is offered: `lr` is no cond"),
        ("Use cond", "line 6: no fix is offered: `lr` is no cond"),
    ]
    assert (await report_of(world))[1] == untried
    assert world.requests == [], "a report verifies nothing"
    world.verification = differing(Aspect.OUTPUT)
    await world.verified()
    assert (await report_of(world))[1] == [("Use where", f"line 5: {REFUSED}"), *untried]
    world.edit(f"# new\n{TEXT}")
    assert (await report_of(world))[1] == [], "what was refused belongs to the text that it was tried on"


@pytest.mark.asyncio
async def test_the_report_waits_for_no_search_and_is_drawn_again_after_it(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.offers(replaced("where", "Use where", FixClass.EXACT), *refused("cond", "where"))
    monkeypatch.setattr(fix_attempts, "_SOON", 0.0)
    world.ui.drawn.clear()
    assert [(await report_of(world))[1] for _ in range(3)] == [[], [], []]
    await world.ui.drawn.wait()
    assert len((await report_of(world))[1]) == 2


@pytest.mark.asyncio
async def test_the_verified_fix_is_the_first_line_of_the_hover(world: FixWorld) -> None:
    await world.verified()
    shown = await hover_of(world)
    assert shown.startswith(
        "**Fix, verified:** Use where: 2 → 1 breaks, same results. Apply it with Quick Fix."
    )
