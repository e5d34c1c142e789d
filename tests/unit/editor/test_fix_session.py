"""Verified fixes in a session whose worker answers from the text: what is offered, applied, refused and undone."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol import types

from fuselight.shared.protocol import Progress, RunRequest, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    CallComparison,
    CaseFamily,
    Difference,
    Report,
    Verification,
    data_key,
)
from fuselight.shared.report.verification import ONE_SIDE
from fuselight_server.base.finding import Finding
from fuselight_server.base.settings import FixSettings, Settings
from fuselight_server.editor.handlers import fix_commands
from fuselight_server.editor.handlers.hover import with_fixes
from fuselight_server.editor.handlers.report_tree import report_tree
from fuselight_server.editor.handlers.status import verifying
from fuselight_server.editor.handlers.work_progress import VerificationProgress
from fuselight_server.editor.messages.params import ReportTreeParams
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.finding_hover import explanations_of
from fuselight_server.editor.results.shown_findings import ShownFinding
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session import fix_attempts, fix_session, state
from fuselight_server.editor.session.fix_offers import LineFixes
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.verifications import InterruptedVerificationError
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import priority
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite, Remedy
from fuselight_server.source.document import SourceDocument
from tests.support.fix_world import EXACT, FIRST, TEXT, FixWorld, differing, replaced


@pytest_asyncio.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FixWorld]:
    fix_world = FixWorld(tmp_path, monkeypatch)
    yield fix_world
    await fix_world.session.close()


ONE_FIXED = TEXT.replace("branch", "where", 1)
ALL_FIXED = TEXT.replace("branch", "where")
UNVERIFIED = "Verify and apply: Use where"
VERIFIED = "Use where: 2 → 1 breaks, same results"


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
        (f"Use {kind}", f"not offered: `lr` is no {kind}") for kind in ("cond", "a", "b")
    ], "three at most, and none of a kind that is offered"
    shown = await hover_of(world)
    assert "Use cond: not offered: `lr` is no cond." in shown
    assert "Use where: not offered" not in shown
    assert shown.count("not offered: ") == 3
    assert "What to do:" in shown, "advice that was not tried stays"
    world.gate.set()
    assert await world.verified() == [VERIFIED, "Use cond", "Use a", "Use b"]
    assert "not offered: " not in await hover_of(world), "a verified fix comes before everything"


@pytest.mark.asyncio
async def test_a_finding_without_a_fix_says_why_and_a_read_only_file_is_a_reason(world: FixWorld) -> None:
    world.state.client = dataclasses.replace(world.state.client, disabled_actions=True)
    world.offers(lambda *_: (), *refused("where"))
    (action,) = await world.actions()
    assert action.disabled == types.CodeActionDisabled("not offered: `lr` is no where")
    assert action.diagnostics is not None
    assert world.requests == []
    world.offers(replaced("where", "Use where", FixClass.EXACT))
    os.chmod(world.path, 0o444)  # noqa: PTH101 - paths stay text
    (action,) = await world.actions()
    if os.access(world.path, os.W_OK):  # a superuser may write
        assert action.title == UNVERIFIED
    else:
        assert action.disabled == types.CodeActionDisabled(f"not offered: {world.path} is read-only")


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
    first = "Fix model.py:5 first: the graph of Net.forward ends here"
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
        ("Use cond", "line 5: not offered: `lr` is no cond"),
        ("Use cond", "line 6: not offered: `lr` is no cond"),
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
async def test_questions_during_a_search_start_no_other(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.offers(replaced("where", "Use where", FixClass.EXACT))
    offers = world.session.offers
    searches = []
    search = offers._fixes_of

    async def counted(result: CaptureResult, finding: Finding) -> LineFixes:
        searches.append(finding)
        return await search(result, finding)

    monkeypatch.setattr(offers, "_fixes_of", counted)
    result = world.state.captures[Key(world.path, "f")]
    first, second = await asyncio.gather(offers.of_findings(result), offers.of_findings(result))
    assert first is second
    assert len(searches) == len(first) > 0


@pytest.mark.asyncio
async def test_the_verified_fix_is_the_first_line_of_the_hover(world: FixWorld) -> None:
    await world.verified()
    shown = await hover_of(world)
    assert shown.startswith(
        "**Fix, verified:** Use where: 2 → 1 breaks, same results. Apply it with Quick Fix."
    )


@pytest.mark.asyncio
async def test_a_verification_beyond_the_budget_goes_on_as_a_command(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_commands, "_RESOLVE_SECONDS", 0.01)
    world.gate.clear()
    (action,) = await world.actions()
    resolved = await world.resolve(action)
    assert resolved.edit is None
    assert resolved.command is not None
    applying = asyncio.create_task(world.apply(resolved))
    await asyncio.sleep(0)
    world.gate.set()
    await applying
    (edit,) = world.edits
    assert world.text_after(edit) == ONE_FIXED
    assert world.ui.messages == []


@pytest.mark.asyncio
async def test_the_result_of_a_fix_is_shown_when_it_is_applied_and_the_former_one_after_undo_and_redo(
    world: FixWorld,
) -> None:
    await world.verified()
    assert world.lens() == ("2 findings", False)
    for _ in range(2):
        world.edit(ONE_FIXED)
        assert world.lens() == ("1 findings", True)
        assert not world.state.captures[Key(world.path, "f")].stale
        world.edit(TEXT)
        assert world.lens() == ("2 findings", False)
        assert not world.state.captures[Key(world.path, "f")].stale
    world.edit(ONE_FIXED + "# more\n")
    assert world.state.captures[Key(world.path, "f")].stale, "this text was never verified"


@pytest.mark.asyncio
async def test_a_fix_can_be_applied_as_soon_as_it_has_passed(world: FixWorld) -> None:
    while await world.titles() != [VERIFIED]:
        continue
    world.edit(ONE_FIXED)
    assert world.lens() == ("1 findings", True)


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
async def test_an_edit_cancels_the_verification_and_an_old_fix_is_not_applied(world: FixWorld) -> None:
    world.gate.clear()
    (action,) = await world.actions(automatic=True)
    await asyncio.sleep(0)
    (running,) = world.session.tasks.active.values()
    world.edit(f"# new\n{TEXT}")
    await asyncio.wait({running.task})
    assert running.task.cancelled()
    assert UNVERIFIED not in await world.titles(), "where the finding is now is not known well enough"
    resolved = await world.resolve(action)
    assert resolved.edit is None
    assert resolved.command is not None
    await world.apply(resolved)
    assert world.ui.messages == ["The file has changed since the fix was offered. Open the menu again."]


@pytest.mark.asyncio
async def test_nothing_runs_without_consent_and_the_command_asks(world: FixWorld) -> None:
    world.allowed = False
    (action,) = await world.actions()
    assert action.title == UNVERIFIED
    resolved = await world.resolve(action)
    assert resolved.command is not None
    await world.apply(resolved)
    assert world.asked == [Key(world.path, "f")]
    go_on = world.go_on
    await fix_commands.apply_all(world.server, {"uri": world.uri})
    assert (world.asked, world.ui.messages) == ([Key(world.path, "f")] * 2, [])
    assert (world.requests, world.edits) == ([], [])
    world.allowed = True
    for again, text in ((go_on, ONE_FIXED), (world.go_on, ALL_FIXED)):
        again()
        await asyncio.gather(*world.spawned)
        assert world.text_after(world.edits[-1]) == text, "the chosen fix follows the consent"


@pytest.mark.asyncio
async def test_settings_say_when_a_verification_starts(world: FixWorld) -> None:
    for settings, run, counts in (
        (FixSettings(verify="choice"), "save", (0, 0)),
        (FixSettings(verify="menu"), "save", (0, 4)),
        (FixSettings(verify="cursor"), "manual", (0, 0)),
        (FixSettings(verify="cursor"), "save", (4, 4)),
    ):
        world.settings(settings, run=run)
        world.session.attempts._attempts.clear()
        world.session._targets._fixer = None
        world.requests.clear()
        await world.titles(automatic=True)
        await asyncio.gather(*(task.task for task in world.session.tasks.active.values()))
        automatic = len(world.requests)
        await world.verified()
        assert (automatic, len(world.requests)) == counts, (settings, run)


@pytest.mark.asyncio
async def test_an_interrupted_run_says_nothing_of_the_fix(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(_request: RunRequest, _show: object) -> Report:
        raise InterruptedVerificationError("the worker was closed")

    with monkeypatch.context() as patched:
        patched.setattr(world, "_execute", ends)
        (action,) = await world.actions()
        assert action.title == UNVERIFIED
        await world.apply(action)
    assert world.ui.messages == ["`Use where` was not applied: its verification was canceled."]
    assert await world.verified() == [VERIFIED]


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
@pytest.mark.parametrize("problem", [None, "the file has changed"])
async def test_a_client_with_a_preview_of_its_own_shows_and_applies_the_fix(
    world: FixWorld, problem: str | None
) -> None:
    world.offers(replaced("where", "Use rand", FixClass.CHANGES, "random numbers"))
    world.state.client = dataclasses.replace(world.state.client, previews_fixes=True)
    asked: list[tuple[str, Any]] = []

    async def ask(method: str, params: object) -> object:
        asked.append((method, params))
        return {"problem": problem}

    world.server.protocol = SimpleNamespace(send_request_async=ask)
    await world.verified()
    (action,) = await world.actions()
    resolved = await world.resolve(types.CodeAction(title=action.title, data=action.data))
    assert resolved.edit is None, "an edit that asks for a preview starts with nothing selected"
    await world.apply(resolved)
    edits = [
        {
            "range": {"start": {"line": 4, "character": 0}, "end": {"line": 5, "character": 0}},
            "newText": "    where(x)\n",
        }
    ]
    documents = [{"uri": world.uri, "version": 1, "edits": edits}]
    title = "Use rand: 2 → 1 breaks, changes behavior: random numbers"
    assert asked == [("fuselight/previewFix", {"label": title, "documents": documents})]
    assert world.edits == []
    assert world.ui.messages == ([f"`{title}` was not applied: {problem}."] if problem else [])

    world.settings(FixSettings(preview="never"))
    resolved = await world.resolve(types.CodeAction(title=action.title, data=action.data))
    assert resolved.edit is not None


@pytest.mark.asyncio
async def test_a_finding_of_an_edited_file_offers_the_run_that_finds_its_fixes(world: FixWorld) -> None:
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
async def test_all_exact_fixes_are_one_edit_each_verified_on_top_of_the_others(world: FixWorld) -> None:
    (action,) = await world.actions(only=["source.fixAll"])
    assert (action.kind, action.edit) == ("source.fixAll.fuselight", None)
    resolved = await world.resolve(action)
    assert world.text_after(resolved.edit) == TEXT.replace("branch", "where")
    new = [
        request for request in world.requests if isinstance(request, VerifyRequest) and not request.records
    ]
    assert [(request.overlays[world.path].count("where"), request.cases) for request in new] == [
        *((1, False), (1, True)),
        *((2, False), (2, True)),
    ]
    world.edit(TEXT.replace("branch", "where"))
    assert world.lens() == ("0 findings", True)


@pytest.mark.asyncio
async def test_all_exact_fixes_are_verified_for_the_later_targets_of_the_file(world: FixWorld) -> None:
    text = f"{TEXT}\n\n# fuselight: g(f32[4])\ndef g(x):\n    return f(x)\n"
    world.edit(text)
    for name in ("f", "g"):
        world.ran(text, name)
    world.others["g"] = differing(Aspect.OUTPUT)
    (action,) = await world.actions(only=["source.fixAll"])
    assert (await world.resolve(action)).edit is None
    new = [
        request.target.name
        for request in world.requests
        if isinstance(request, VerifyRequest) and not request.records
    ]
    assert new[:2] == ["f", "g"]


@pytest.mark.asyncio
async def test_a_fix_of_another_class_is_not_among_all_fixes(world: FixWorld) -> None:
    world.offers(replaced("where", "Use where", FixClass.EQUAL))
    assert await world.actions(only=["source.fixAll.fuselight"]) == []
    assert world.requests == []
    assert await world.verified() == [VERIFIED]


@pytest.mark.asyncio
async def test_a_save_gets_no_command_that_would_change_the_file_after_it(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_commands, "_RESOLVE_SECONDS", 0.01)
    world.gate.clear()
    (action,) = await world.actions(automatic=True, only=["source.fixAll"])
    resolved = await world.resolve(action)
    assert (resolved.edit, resolved.command) == (None, None)
    (asked,) = await world.actions(only=["source.fixAll"])
    assert (await world.resolve(asked)).command is not None
    world.gate.set()


@pytest.mark.asyncio
async def test_a_fix_of_two_files_is_one_edit_that_says_their_versions(world: FixWorld) -> None:
    main = str(Path(world.path).with_name("main.py"))
    await asyncio.to_thread(Path(main).write_text, "import torch\nrun()\n")

    def both(finding: Finding, _report: Report, read: Callable[[str], str]) -> tuple[Remedy, ...]:
        (here,) = replaced("where", "Use where", FixClass.EXACT)(finding, _report, read)
        texts = {**here.texts, main: read(main).replace("torch\n", "torch\nset_up()\n")}
        return (dataclasses.replace(here, texts=texts),)

    world.offers(both)
    (action,) = await world.actions()
    resolved = await world.resolve(action)
    assert resolved.edit is not None
    documents = {
        change.text_document.uri: (change.text_document.version, [edit.new_text for edit in change.edits])  # type: ignore[union-attr]  # no snippets
        for change in resolved.edit.document_changes or ()
        if isinstance(change, types.TextDocumentEdit)
    }
    assert documents == {
        world.uri: (1, ["    where(x)\n"]),
        Path(main).as_uri(): (None, ["set_up()\n"]),
    }
    await asyncio.to_thread(Path(main).write_text, "import torch\nrun(1)\n")
    again = await world.resolve(types.CodeAction(title=action.title, data=action.data))
    assert again.edit is None, "the other file has changed on the disk"


@pytest.mark.asyncio
async def test_progress_is_shown_while_a_fix_is_verified_and_its_cancel_ends_it(world: FixWorld) -> None:
    sent: list[tuple[object, object]] = []
    created: list[object] = []

    async def create(params: types.WorkDoneProgressCreateParams) -> None:
        created.append(params.token)

    world.state.client.progress = True
    world.server.spawn = lambda work, _what: tasks.append(asyncio.ensure_future(work))
    world.server.progress = lambda params: sent.append((params.token, params.value))
    world.server.window_work_done_progress_create_async = create
    tasks: list[asyncio.Future[None]] = []
    shown = VerificationProgress(world.server)
    world.session.tasks.on_change = shown.update
    world.gate.clear()
    await world.titles(automatic=True)
    await asyncio.gather(*tasks)
    ((token, begin),) = sent
    assert created == [token]
    assert isinstance(begin, types.WorkDoneProgressBegin)
    assert (begin.message, begin.cancellable) == ("verifying Use where", True)
    assert world.ui.status_changes == 1
    folder = world.state.folder_of(world.path)
    assert verifying(world.server, folder) == ["Use where"]
    assert verifying(world.server, Folder("/other", "file:///other", Settings())) == []
    assert not shown.cancel("another")
    (running,) = world.session.tasks.active.values()
    assert shown.cancel(str(token))
    await asyncio.wait({running.task})
    await asyncio.sleep(0)
    assert running.task.cancelled()
    assert [type(value) for _, value in sent[1:]] == [types.WorkDoneProgressEnd]
    assert world.ui.status_changes == 2
    assert verifying(world.server, folder) == []


@pytest.mark.asyncio
async def test_a_chosen_fix_waits_for_no_automatic_verification(world: FixWorld) -> None:
    def two(*given: Any) -> tuple[Remedy, ...]:
        return tuple(
            remedy
            for new in ("where", "cond")
            for remedy in replaced(new, f"Use {new}", FixClass.EXACT)(*given)
        )

    world.offers(two)
    world.gate.clear()
    _, second = await world.actions(automatic=True)
    first = next(iter(world.session.tasks.active.values())).task
    choosing = asyncio.create_task(world.apply(second))
    await asyncio.wait({first})
    assert first.cancelled()
    world.gate.set()
    await choosing
    assert world.text_after(world.edits[0]) == TEXT.replace("branch", "cond", 1)


@pytest.mark.asyncio
async def test_what_is_known_of_fixes_is_bounded(world: FixWorld) -> None:
    offers, attempts = world.session.offers, world.session.attempts
    offers._offers._most = attempts._attempts._most = 2
    for number in range(6):
        text = f"{TEXT}# {number}\n"
        world.edit(text)
        world.ran(text)
        assert await world.verified() == [VERIFIED]
    session = world.session
    assert (len(offers._offers), len(attempts._attempts), len(offers._findings)) == (2, 2, 1)
    assert len(session._results) <= fix_session.MAX_RESULTS
    assert session._targets._folder is not None
    kept = await asyncio.to_thread(os.listdir, session._targets._folder)
    assert len(kept) == 1, "the results of older texts are deleted"
    await session.close()
    assert not await asyncio.to_thread(os.path.exists, session._targets._folder)


@pytest.mark.asyncio
async def test_a_read_only_file_has_no_fix(world: FixWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert await world.titles() == []


@pytest.mark.asyncio
async def test_a_fix_that_was_canceled_can_be_chosen_before_its_run_has_ended(world: FixWorld) -> None:
    world.gate.clear()
    (action,) = await world.actions(automatic=True)
    await asyncio.sleep(0)
    (running,) = world.session.tasks.active.values()
    world.session.verify_in_background(())
    assert not running.task.done()
    choosing = asyncio.create_task(world.apply(action))
    await asyncio.sleep(0)
    world.gate.set()
    await choosing
    assert (running.task.cancelled(), world.ui.messages) == (True, [])
    assert world.text_after(world.edits[0]) == ONE_FIXED


@pytest.mark.asyncio
async def test_a_keystroke_reads_no_file(world: FixWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.verified()
    read: list[str] = []

    def keys_on_disk(path: str) -> frozenset[str]:
        read.append(path)
        return frozenset()

    monkeypatch.setattr(state, "keys_on_disk", keys_on_disk)
    (_, fixed) = world.session._results._results
    files = fixed.report.files
    files.update({"/closed.py": "key", world.path: files.pop(world.path)})  # the edited one is the last
    world.edit(f"{TEXT}# more\n")
    assert read == []
    world.edit(ONE_FIXED)
    assert read == ["/closed.py"], "this text ran"


@pytest.mark.asyncio
async def test_all_fixes_begin_with_the_unsaved_texts_and_do_not_undo_later_edits(world: FixWorld) -> None:
    other = str(Path(world.path).with_name("other.py"))
    await asyncio.to_thread(Path(other).write_text, "saved\n")
    document = Document(Path(other).as_uri(), other, 1, SourceDocument(other, "typed\n"), runnable=True)
    world.state.open(document)
    text = f"{TEXT}\n\n# fuselight: g(f32[4])\ndef g(x):\n    return f(x)\n"
    world.edit(text)
    world.ran(text)
    world.ran(text, "g", files={other: data_key(b"typed\n")})

    def both(finding: Finding, report: Report, read: Callable[[str], str]) -> tuple[Remedy, ...]:
        (here,) = replaced("where", "Use where", FixClass.EXACT)(finding, report, read)
        return (dataclasses.replace(here, texts={**here.texts, other: f"{read(other)}set_up()\n"}),)

    world.offers(both)
    world.gate.clear()
    verifying = asyncio.create_task(world.session.verify_all(world.path))
    await asyncio.wait_for(world.asked_to_run.wait(), 10)
    document.source.become("typed later\n")
    world.gate.set()
    fixes = await verifying
    assert fixes is not None
    assert fixes.attempts
    assert (fixes.before[other], fixes.after[other]) == ("typed\n", "typed\nset_up()\nset_up()\n")
    assert not world.session.is_current(fixes.before)


@pytest.mark.asyncio
async def test_a_canceled_verification_leaves_no_results_on_the_disk(world: FixWorld) -> None:
    world.gate.clear()
    await world.actions(automatic=True)
    await asyncio.wait_for(world.asked_to_run.wait(), 10)
    (running,) = world.session.tasks.active.values()
    world.session.cancel()
    await asyncio.wait({running.task})
    folder = world.session._targets._folder
    assert folder is not None
    assert await asyncio.to_thread(os.listdir, folder) == []
