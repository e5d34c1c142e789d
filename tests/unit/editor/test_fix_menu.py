"""What the menu offers: the titles of fixes, and what each entry does."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable

import pytest
from lsprotocol import types

from fuselight.shared.protocol import Progress, RunRequest, VerifyRequest
from fuselight.shared.report import Aspect, CallComparison, CaseFamily, Difference, Report, Verification
from fuselight.shared.report.verification import ONE_SIDE
from fuselight_server.base.settings import FixSettings
from fuselight_server.editor.results.captures import capture_result_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.fixes.rewrites.families import FixClass
from tests.support.fix_world import (
    EXACT,
    ONE_FIXED,
    TEXT,
    UNVERIFIED,
    VERIFIED,
    FixWorld,
    differing,
    replaced,
)


@pytest.mark.asyncio
async def test_a_fix_is_listed_with_its_verdict_after_the_light_bulb_asked(world: FixWorld) -> None:
    world.gate.clear()
    assert await world.titles(automatic=True) == [UNVERIFIED]
    world.gate.set()
    assert await world.verified() == [VERIFIED]
    assert world.session.tasks.active == {}
    count = len(world.requests)
    (action,) = await world.actions()
    assert len(world.requests) == count == 4, "two runs of each text; the second menu needs none"
    resolved = await world.resolve(action)
    assert world.text_after(resolved.edit) == ONE_FIXED
    assert resolved.command is None


@pytest.mark.asyncio
async def test_an_entry_with_a_command_of_its_own_keeps_it(world: FixWorld) -> None:
    command = types.Command(
        "Use the inputs of train.py", "fuselight.server.useInputs", arguments=[{"target": "f"}]
    )
    resolved = await world.resolve(types.CodeAction("Use the inputs of train.py", command=command))
    assert resolved.command == command


@pytest.mark.asyncio
async def test_a_title_says_if_one_side_of_a_branch_was_not_compared(world: FixWorld) -> None:
    world.verification = dataclasses.replace(EXACT, notes=(f"the condition was always True: {ONE_SIDE}",))
    assert await world.verified() == [f"{VERIFIED}, one side not tried"]


@pytest.mark.asyncio
async def test_a_client_without_disabled_actions_gets_no_refused_fix_and_a_command_says_why(
    world: FixWorld,
) -> None:
    world.verification = differing(Aspect.OUTPUT)
    world.settings(FixSettings(verify="choice"))
    (action,) = await world.actions()
    assert action.command is not None
    assert action.data is None, "an editor that resolves an entry with the focus must not start a run"
    assert world.requests == []
    await world.apply(action)
    assert world.ui.messages == ["`Use where` was not applied: it differs (eager, recorded inputs)."]
    assert world.edits == []
    assert await world.titles() == []


@pytest.mark.asyncio
async def test_a_first_answer_says_that_other_inputs_are_checked_and_is_withdrawn_if_one_differs(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, is_checking = world._execute, asyncio.Event()

    async def gated(request: RunRequest, show: Callable[[Progress], None]) -> Report:
        if isinstance(request, VerifyRequest) and request.cases and not is_checking.is_set():
            world.gate.clear()
            is_checking.set()
        return await execute(request, show)

    monkeypatch.setattr(world, "_execute", gated)
    await world.titles()
    await asyncio.wait_for(is_checking.wait(), 60)
    (action,) = await world.actions()
    assert action.title == f"{VERIFIED}, still comparing"
    monkeypatch.setattr(world, "_execute", execute)
    world.verification = differing(Aspect.OUTPUT)
    world.gate.set()
    resolved = await world.resolve(action)
    assert resolved.edit is None, "it is applied only after all calls"
    assert await world.titles() == []


@pytest.mark.asyncio
async def test_a_title_names_the_cases_that_differ_and_such_a_fix_is_not_among_all_exact_ones(
    world: FixWorld,
) -> None:
    other = Difference(Aspect.OUTPUT, "it differs")
    case = CallComparison(
        0, "where int32 overflows", compiled=False, differences=(other,), family=CaseFamily.EXTREME
    )
    world.verification = Verification((*EXACT.comparisons, case))
    assert await world.verified() == [f"{VERIFIED}, except where int32 overflows"]
    (action,) = await world.actions()
    assert action.is_preferred is None
    assert await world.session.verify_all(world.path) is not None
    assert world.session._files._known[world.path].attempts == ()


@pytest.mark.asyncio
async def test_a_change_of_behavior_is_said_and_previewed_and_never_preferred(world: FixWorld) -> None:
    world.offers(replaced("where", "Use rand", FixClass.CHANGES, "random numbers"))
    assert await world.titles() == ["Verify and preview: Use rand (changes behavior)"]
    await world.verified()
    (action,) = await world.actions()
    assert action.title == "Use rand: 2 → 1 breaks, changes behavior: random numbers"
    assert action.is_preferred is None
    for preview, confirms in (("behavior", True), ("never", False), ("always", True)):
        world.settings(FixSettings(preview=preview))  # type: ignore[arg-type]  # the words of the setting
        resolved = await world.resolve(types.CodeAction(title=action.title, data=action.data))
        assert resolved.edit is not None
        assert resolved.edit.change_annotations is not None
        assert resolved.edit.change_annotations["fix"].needs_confirmation is confirms


@pytest.mark.asyncio
async def test_a_finding_of_an_edited_file_offers_the_run_that_finds_its_fixes(world: FixWorld) -> None:
    report = world.report_of(TEXT, name="f")
    of_other_file = dataclasses.replace(report, target=dataclasses.replace(report.target, path="other.py"))
    world.state.accept_result(capture_result_of(Key("other.py", "f"), 1, of_other_file, ()))
    world.edit(TEXT.replace("return branch(x)", "return branch(x + 1)"))
    (action,) = await world.actions()
    assert action.title == "Run f to look for fixes: its code has changed since the last run"
    assert action.command is not None
    assert action.command.command == "fuselight.server.run"
    assert action.command.arguments == [{"uri": world.server.uri_of(world.path), "target": "f"}]
    assert not world.requests, "nothing runs before it is chosen"
    world.runs.queue.waiting[Key(world.path, "f")] = None
    assert await world.titles() == [], "a run is on its way"
    world.runs.queue.waiting.clear()
    world.state.trusted = False
    assert await world.titles() == []
    world.state.trusted = True
    world.edit(TEXT)
    assert await world.titles() == [UNVERIFIED]


@pytest.mark.asyncio
async def test_a_read_only_file_has_no_fix(world: FixWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert await world.titles() == []
