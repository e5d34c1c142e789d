"""Fixes that are verified and applied in a session whose worker answers from the text."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding
from fuselight_server.base.settings import FixSettings, Settings
from fuselight_server.editor.handlers import fix_commands
from fuselight_server.editor.handlers.status import verifying
from fuselight_server.editor.handlers.work_progress import VerificationProgress
from fuselight_server.editor.results import open_documents
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.session import fix_session, verifications
from fuselight_server.editor.session.fix_offers import LineFixes
from fuselight_server.editor.session.state import Folder
from fuselight_server.editor.session.verifications import InterruptedVerificationError
from fuselight_server.execution.runs.keys import Key
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from tests.support.fix_world import ALL_FIXED, ONE_FIXED, TEXT, UNVERIFIED, VERIFIED, FixWorld, replaced


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
@pytest.mark.parametrize("is_for_all", [False, True])
async def test_a_chosen_fix_that_is_compared_for_long_is_announced(
    world: FixWorld, monkeypatch: pytest.MonkeyPatch, *, is_for_all: bool
) -> None:
    monkeypatch.setattr(fix_commands, "_RESOLVE_SECONDS", 0.01)
    monkeypatch.setattr(verifications, "_SILENT_SECONDS", 0.01)
    announced, say = asyncio.Event(), world.ui.say

    def say_and_set(text: str, *, error: bool) -> None:
        say(text, error=error)
        announced.set()

    monkeypatch.setattr(world.ui, "say", say_and_set)
    world.gate.clear()
    if is_for_all:
        applying = asyncio.create_task(fix_commands.apply_all(world.server, {"uri": world.uri}))
    else:
        (action,) = await world.actions()
        applying = asyncio.create_task(world.apply(await world.resolve(action)))
    await announced.wait()
    assert world.edits == []
    world.gate.set()
    await applying
    (message,) = world.ui.messages
    assert "still compared with the present code" in message
    assert world.text_after(world.edits[0]) == (ALL_FIXED if is_for_all else ONE_FIXED)


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

    def create(params: types.WorkDoneProgressCreateParams) -> Future[None]:
        created.append(params.token)
        answer: Future[None] = Future()
        answer.set_result(None)
        return answer

    world.state.client.progress = True
    world.server.spawn = lambda work, _what: tasks.append(asyncio.ensure_future(work))
    world.server.progress = lambda params: sent.append((params.token, params.value))
    world.server.window_work_done_progress_create = create
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

    monkeypatch.setattr(open_documents, "keys_on_disk", keys_on_disk)
    (_, fixed) = world.session._results._results
    files = fixed.report.files
    files.update({"/closed.py": "key", world.path: files.pop(world.path)})  # the edited one is the last
    world.edit(f"{TEXT}# more\n")
    assert read == []
    world.edit(ONE_FIXED)
    assert read == ["/closed.py"], "this text ran"


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
