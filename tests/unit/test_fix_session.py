"""Verified fixes in a session whose worker answers from the text: what is offered, applied, refused and undone."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from lsprotocol import types

from fuselight.protocol import Answer, Progress, Refused, RunRequest, VerifyRequest
from fuselight.report import (
    Aspect,
    CallComparison,
    Culprit,
    Difference,
    Failure,
    Inputs,
    Location,
    Report,
    Rung,
    TargetRef,
    Verification,
    data_key,
)
from fuselight.report.verification import ONE_SIDE
from fuselight_server.features import convert, fix_actions
from fuselight_server.features.code_action import code_action
from fuselight_server.features.status import verifying
from fuselight_server.finding import Finding
from fuselight_server.findings import findings
from fuselight_server.fixes import FixClass, Remedy, fixer
from fuselight_server.results.captures import capture_result_of
from fuselight_server.runs.keys import Key
from fuselight_server.runs.planning import RunOptions, named_runs
from fuselight_server.session import fix_session
from fuselight_server.session.analysis import Analysis
from fuselight_server.session.fix_session import FixSession, InterruptedVerificationError, PreparedRun
from fuselight_server.session.intake import ResultIntake
from fuselight_server.session.state import Document, Folder, State
from fuselight_server.settings import FixSettings, Interpreter, Settings
from fuselight_server.static.document import SourceDocument
from tests.support.recorded_ui import RecordedUi
from tests.support.reports import broken, report

TEXT = """\
import torch
# fuselight: f(f32[4])
@torch.compile
def f(x):
    branch(x)
    return branch(x)
"""
FIRST = 4
"""0-based line of the first finding."""
EXACT = Verification(tuple(CallComparison(0, "recorded inputs", compiled) for compiled in (False, True)))
DIFFERENT = CallComparison(0, "recorded inputs", False, (Difference(Aspect.OUTPUT, "it differs", False),))  # noqa: FBT003


def replaced(
    new: str, title: str, fix_class: FixClass, changes: str = ""
) -> Callable[..., tuple[Remedy, ...]]:
    def found(finding: Finding, _report: Report, read: Callable[[str], str]) -> tuple[Remedy, ...]:
        path = finding.span.path
        lines = read(path).split("\n")
        lines[finding.span.line - 1] = lines[finding.span.line - 1].replace("branch", new)
        return (Remedy(new, title, fix_class, {path: "\n".join(lines)}, changes),)

    return found


class TellingUi(RecordedUi):
    """Keeps what it is to say."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.status_changes = 0

    def status_changed(self) -> None:
        self.status_changes += 1

    def say(self, text: str, *, error: bool) -> None:
        assert not error
        self.said.append(text)


class World:
    """An open file with two findings, the session of its fixes, and the server that the features see."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = str(folder / "model.py")
        Path(self.path).write_text(TEXT)
        self.state = State()
        self.settings(FixSettings(verify="cursor"))
        self.state.client = dataclasses.replace(
            self.state.client, resolves_actions=True, document_changes=True, change_annotations=True
        )
        self.uri = Path(self.path).as_uri()
        self.state.open(Document(self.uri, self.path, 1, SourceDocument(self.path, TEXT), runnable=True))
        self.ui = TellingUi()
        self.requests: list[RunRequest] = []
        self.verification = EXACT
        self.others: dict[str, Verification] = {}
        """What the verification for a target finds instead."""
        self.gate = asyncio.Event()
        """Closed while verifications are to wait."""
        self.gate.set()
        self.allowed = True
        outcomes = ResultIntake(self.state, self.ui, generation=lambda: 1)
        self.session = FixSession(self.state, outcomes, prepare=self._prepare)
        self.edits: list[types.WorkspaceEdit] = []
        self.asked: list[Key] = []
        self.server: Any = SimpleNamespace(
            state=self.state,
            ui=self.ui,
            view=convert.Client("utf-8", self.state.read_line, convert.uri),
            encoding="utf-8",
            uri_of=convert.uri,
            analysis=SimpleNamespace(fixes=self.session, agrees_to_verification=self.asked.append),
            workspace_apply_edit_async=self._apply,
        )
        self._patch = monkeypatch
        self.offers(replaced("where", "Use where", FixClass.EXACT))
        self.ran(TEXT)

    def offers(self, remedies: Callable[..., object]) -> None:
        self._patch.setattr(fixer, "remedies", remedies)

    def settings(self, fixes: FixSettings, **others: Any) -> None:
        folder = str(Path(self.path).parent)
        self.state.folders[folder] = Folder(
            folder, "file:///w", Settings(fixes=fixes, **others), consent="run"
        )

    @property
    def document(self) -> Document:
        document = self.state.at(self.path)
        assert document is not None
        return document

    def report_of(self, text: str, verification: Verification | None = None, name: str = "f") -> Report:
        breaks = [
            broken(Location(self.path, number), compile_id=f"{number}/0")
            for number, line in enumerate(text.split("\n"), 1)
            if "branch" in line
        ]
        return report(
            target=TargetRef(self.path, name, 4, "function"),
            inputs=Inputs(Rung.DIRECTIVE, self.path, 2),
            roots=(str(Path(self.path).parent),),
            files={self.path: data_key(text.encode())},
            breaks=tuple(breaks),
            verification=verification,
        )

    def ran(self, text: str, name: str = "f") -> None:
        """Take in a run of the text."""
        made = self.report_of(text, name=name)
        self.state.accept(capture_result_of(Key(self.path, name), 1, made, findings(made)))

    def _prepare(self, key: Key, _automatic: bool) -> PreparedRun | None:  # noqa: FBT001 - a callback
        options = RunOptions(roots=(str(Path(self.path).parent),))
        (planned,) = named_runs(self.document.reading(), [key.name], options)
        return PreparedRun(planned.request(1, 1, options), self._execute, "python") if self.allowed else None

    async def _execute(self, request: RunRequest, _show: Callable[[Progress], None]) -> Report:
        self.requests.append(request)
        await self.gate.wait()
        is_new = isinstance(request, VerifyRequest) and not request.records
        text = request.overlays.get(self.path, TEXT)
        name = request.target.name
        found = self.others.get(name, self.verification)
        return self.report_of(text, found if is_new else Verification(), name)

    async def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.edits.append(params.edit)
        return types.ApplyWorkspaceEditResult(applied=True)

    def edit(self, text: str) -> None:
        """What a client does that sends the whole text."""
        document, source = self.document, self.document.source
        moved = source.become(text)
        assert moved is not None
        self.state.edit(self.path, moved)
        document.version += 1
        self.state.compare_with_text(self.path, source)
        self.session.edited(self.path)

    async def actions(
        self, *, automatic: bool = False, only: list[str] | None = None
    ) -> list[types.CodeAction]:
        kind = types.CodeActionTriggerKind.Automatic if automatic else types.CodeActionTriggerKind.Invoked
        at = types.Position(FIRST, 0)
        context = types.CodeActionContext([], only=only, trigger_kind=kind)
        params = types.CodeActionParams(types.TextDocumentIdentifier(self.uri), types.Range(at, at), context)
        made = await code_action(self.server, params) or []
        return [one for one in made if not one.title.startswith(("Ignore", "Open"))]

    async def titles(self, *, automatic: bool = False) -> list[str]:
        return [one.title for one in await self.actions(automatic=automatic)]

    async def verified(self) -> list[str]:
        """The titles when every verification has ended."""
        await self.actions()
        await asyncio.gather(*(one.task for one in self.session.active.values()), return_exceptions=True)
        return await self.titles()

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        return await fix_actions.resolve(self.server, action)

    async def apply(self, action: types.CodeAction) -> None:
        """What a client does with a chosen action that has a command."""
        given = (action.command.arguments or ())[0] if action.command is not None else action.data
        assert isinstance(given, dict)
        await fix_actions.apply_fix(self.server, given)

    def lens(self) -> tuple[str, bool]:
        result = self.state.captures[Key(self.path, "f")]
        return f"{len(result.findings)} findings", result.verified

    def text_after(self, edit: types.WorkspaceEdit | None) -> str:
        assert edit is not None
        assert edit.document_changes is not None
        lines = self.document.source.text.splitlines(keepends=True)
        for document in edit.document_changes:
            assert isinstance(document, types.TextDocumentEdit)
            assert document.text_document.version == self.document.version
            for one in reversed(document.edits):
                assert isinstance(one, (types.TextEdit, types.AnnotatedTextEdit))
                lines[one.range.start.line : one.range.end.line] = [one.new_text]
        return "".join(lines)


@pytest_asyncio.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    made = World(tmp_path, monkeypatch)
    yield made
    await made.session.close()


ONE_FIXED = TEXT.replace("branch", "where", 1)
UNVERIFIED = "Verify and apply: Use where"
VERIFIED = "Use where: 2 → 1 breaks, same results"


@pytest.mark.asyncio
async def test_a_fix_is_listed_with_its_verdict_after_the_light_bulb_asked(world: World) -> None:
    world.gate.clear()
    assert await world.titles(automatic=True) == [UNVERIFIED]
    world.gate.set()
    assert await world.verified() == [VERIFIED]
    assert world.session.active == {}
    count = len(world.requests)
    (action,) = await world.actions()
    assert len(world.requests) == count == 2, "one run of each text; the second menu needs none"
    resolved = await world.resolve(action)
    assert world.text_after(resolved.edit) == ONE_FIXED
    assert resolved.command is None


@pytest.mark.asyncio
async def test_a_title_says_if_one_side_of_a_branch_was_not_compared(world: World) -> None:
    world.verification = dataclasses.replace(EXACT, notes=(f"the condition was always True: {ONE_SIDE}",))
    assert await world.verified() == [f"{VERIFIED}, one side not tried"]


@pytest.mark.asyncio
async def test_a_fix_that_is_refused_is_not_listed_and_a_command_says_why(world: World) -> None:
    world.verification = Verification((DIFFERENT, *EXACT.comparisons))
    world.settings(FixSettings(verify="choice"))
    (action,) = await world.actions()
    assert action.command is not None
    assert action.data is None, "an editor that resolves an entry with the focus must not start a run"
    assert world.requests == []
    await world.apply(action)
    assert world.ui.said == ["`Use where` was not applied: it differs (eager, recorded inputs)."]
    assert world.edits == []
    assert await world.titles() == []


@pytest.mark.asyncio
async def test_a_verification_beyond_the_budget_goes_on_as_a_command(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_actions, "_RESOLVE_SECONDS", 0.01)
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
    assert world.ui.said == []


@pytest.mark.asyncio
async def test_the_result_of_a_fix_is_shown_when_it_is_applied_and_the_former_one_after_undo_and_redo(
    world: World,
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
async def test_a_fix_can_be_applied_as_soon_as_it_has_passed(world: World) -> None:
    while await world.titles() != [VERIFIED]:
        continue
    world.edit(ONE_FIXED)
    assert world.lens() == ("1 findings", True)


@pytest.mark.asyncio
async def test_an_edit_cancels_the_verification_and_an_old_fix_is_not_applied(world: World) -> None:
    world.gate.clear()
    (action,) = await world.actions(automatic=True)
    await asyncio.sleep(0)
    (running,) = world.session.active.values()
    world.edit(f"# new\n{TEXT}")
    await asyncio.wait({running.task})
    assert running.task.cancelled()
    assert await world.titles() == [], "where the finding is now is not known well enough"
    resolved = await world.resolve(action)
    assert resolved.edit is None
    assert resolved.command is not None
    await world.apply(resolved)
    assert world.ui.said == ["The file has changed since the fix was offered. Open the menu again."]


@pytest.mark.asyncio
async def test_nothing_runs_without_consent_and_the_command_asks(world: World) -> None:
    world.allowed = False
    (action,) = await world.actions()
    assert action.title == UNVERIFIED
    resolved = await world.resolve(action)
    assert resolved.command is not None
    await world.apply(resolved)
    assert world.asked == [Key(world.path, "f")]
    assert (world.requests, world.edits) == ([], [])


@pytest.mark.asyncio
async def test_settings_say_when_a_verification_starts(world: World) -> None:
    for settings, run, counts in (
        (FixSettings(verify="choice"), "save", (0, 0)),
        (FixSettings(verify="menu"), "save", (0, 2)),
        (FixSettings(verify="cursor"), "manual", (0, 0)),
        (FixSettings(verify="cursor"), "save", (2, 2)),
    ):
        world.settings(settings, run=run)
        world.session._attempts.clear()
        world.session._fixer = None
        world.requests.clear()
        await world.titles(automatic=True)
        await asyncio.gather(*(one.task for one in world.session.active.values()))
        automatic = len(world.requests)
        await world.verified()
        assert (automatic, len(world.requests)) == counts, (settings, run)


@pytest.mark.asyncio
async def test_an_interrupted_run_says_nothing_of_the_fix(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(_request: RunRequest, _show: object) -> Report:
        raise InterruptedVerificationError("the worker was closed")

    with monkeypatch.context() as patched:
        patched.setattr(world, "_execute", ends)
        (action,) = await world.actions()
        assert action.title == UNVERIFIED
        await world.apply(action)
    assert world.ui.said == ["`Use where` was not applied: its verification was canceled."]
    assert await world.verified() == [VERIFIED]


@pytest.mark.asyncio
async def test_a_change_of_behavior_is_said_and_previewed_and_never_preferred(world: World) -> None:
    world.offers(replaced("where", "Use rand", FixClass.CHANGES, "random numbers"))
    assert await world.titles() == ["Verify and apply: Use rand (changes behavior)"]
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
async def test_all_exact_fixes_are_one_edit_each_verified_on_top_of_the_others(world: World) -> None:
    (action,) = await world.actions(only=["source.fixAll"])
    assert (action.kind, action.edit) == ("source.fixAll.fuselight", None)
    resolved = await world.resolve(action)
    assert world.text_after(resolved.edit) == TEXT.replace("branch", "where")
    new = [one for one in world.requests if isinstance(one, VerifyRequest) and not one.records]
    assert [one.overlays[world.path].count("where") for one in new] == [1, 2]
    world.edit(TEXT.replace("branch", "where"))
    assert world.lens() == ("0 findings", True)


@pytest.mark.asyncio
async def test_all_exact_fixes_are_verified_for_the_later_targets_of_the_file(world: World) -> None:
    text = f"{TEXT}\n\n# fuselight: g(f32[4])\ndef g(x):\n    return f(x)\n"
    world.edit(text)
    for name in ("f", "g"):
        world.ran(text, name)
    world.others["g"] = Verification((DIFFERENT, *EXACT.comparisons))
    (action,) = await world.actions(only=["source.fixAll"])
    assert (await world.resolve(action)).edit is None
    new = [one.target.name for one in world.requests if isinstance(one, VerifyRequest) and not one.records]
    assert new[:2] == ["f", "g"]


@pytest.mark.asyncio
async def test_a_fix_of_another_class_is_not_among_all_fixes(world: World) -> None:
    world.offers(replaced("where", "Use where", FixClass.EQUAL))
    assert await world.actions(only=["source.fixAll.fuselight"]) == []
    assert world.requests == []
    assert await world.verified() == [VERIFIED]


@pytest.mark.asyncio
async def test_a_save_gets_no_command_that_would_change_the_file_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_actions, "_RESOLVE_SECONDS", 0.01)
    world.gate.clear()
    (action,) = await world.actions(automatic=True, only=["source.fixAll"])
    resolved = await world.resolve(action)
    assert (resolved.edit, resolved.command) == (None, None)
    (asked,) = await world.actions(only=["source.fixAll"])
    assert (await world.resolve(asked)).command is not None
    world.gate.set()


@pytest.mark.asyncio
async def test_a_fix_of_two_files_is_one_edit_that_says_their_versions(world: World) -> None:
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
        one.text_document.uri: (one.text_document.version, [edit.new_text for edit in one.edits])  # type: ignore[union-attr]  # no snippets
        for one in resolved.edit.document_changes or ()
        if isinstance(one, types.TextDocumentEdit)
    }
    assert documents == {
        world.uri: (1, ["    where(x)\n"]),
        Path(main).as_uri(): (None, ["set_up()\n"]),
    }
    await asyncio.to_thread(Path(main).write_text, "import torch\nrun(1)\n")
    again = await world.resolve(types.CodeAction(title=action.title, data=action.data))
    assert again.edit is None, "the other file has changed on the disk"


ENDS = st.sampled_from(["\n", "\r\n"])
LINES = st.lists(st.sampled_from(["", "x = 1", "    y = 'caf\xe9'", "\tz", "\U0001f600"]), max_size=8)


@examples(max_examples=150, deadline=None)
@given(
    old=LINES,
    new=LINES,
    end=ENDS,
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32"]),
    closed=st.booleans(),
)
def test_an_edit_gives_the_new_text_and_its_inverse_the_old_one(
    old: list[str], new: list[str], end: str, encoding: str, *, closed: bool
) -> None:
    before, after = end.join(old), end.join(new) + (end if closed else "")
    server: Any = SimpleNamespace(encoding=encoding, uri_of=convert.uri)
    for text, wanted in ((before, after), (after, before)):
        made = list(fix_actions._line_edits(server, "/m.py", text, wanted))
        assert applied(text, made, encoding) == wanted


def applied(text: str, edits: list[types.TextEdit], encoding: str) -> str:
    """`text` after edits whose columns count units of `encoding`."""
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    starts = [0, *(one.end() for one in re.finditer("\n", text))]

    def offset(at: types.Position) -> int:
        return starts[at.line] + len(
            text[starts[at.line] :].encode(codec)[: at.character * size].decode(codec)
        )

    for one in reversed(edits):
        text = text[: offset(one.range.start)] + one.new_text + text[offset(one.range.end) :]
    return text


@pytest.mark.asyncio
async def test_progress_is_shown_while_a_fix_is_verified_and_its_cancel_ends_it(world: World) -> None:
    sent: list[tuple[object, object]] = []
    created: list[object] = []

    async def create(params: types.WorkDoneProgressCreateParams) -> None:
        created.append(params.token)

    world.state.client.progress = True
    world.server.spawn = lambda work, _what: tasks.append(asyncio.ensure_future(work))
    world.server.progress = lambda params: sent.append((params.token, params.value))
    world.server.window_work_done_progress_create_async = create
    tasks: list[asyncio.Future[None]] = []
    shown = fix_actions.VerificationProgress(world.server)
    world.session.on_change = shown.update
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
    (running,) = world.session.active.values()
    assert shown.cancel(str(token))
    await asyncio.wait({running.task})
    await asyncio.sleep(0)
    assert running.task.cancelled()
    assert [type(value) for _, value in sent[1:]] == [types.WorkDoneProgressEnd]
    assert world.ui.status_changes == 2
    assert verifying(world.server, folder) == []


@pytest.mark.asyncio
async def test_a_chosen_fix_waits_for_no_automatic_verification(world: World) -> None:
    def two(*given: Any) -> tuple[Remedy, ...]:
        return tuple(
            remedy
            for new in ("where", "cond")
            for remedy in replaced(new, f"Use {new}", FixClass.EXACT)(*given)
        )

    world.offers(two)
    world.gate.clear()
    _, second = await world.actions(automatic=True)
    first = next(iter(world.session.active.values())).task
    choosing = asyncio.create_task(world.apply(second))
    await asyncio.wait({first})
    assert first.cancelled()
    world.gate.set()
    await choosing
    assert world.text_after(world.edits[0]) == TEXT.replace("branch", "cond", 1)


@pytest.mark.asyncio
async def test_what_is_known_of_fixes_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fix_session, "_MOST_OFFERS", 2)
    monkeypatch.setattr(fix_session, "_MOST_ATTEMPTS", 2)
    for number in range(6):
        text = f"{TEXT}# {number}\n"
        world.edit(text)
        world.ran(text)
        assert await world.verified() == [VERIFIED]
    session = world.session
    assert (len(session._offers), len(session._attempts), len(session._findings)) == (2, 2, 1)
    assert len(session._results) <= fix_session._MOST_RESULTS
    assert session._folder is not None
    kept = await asyncio.to_thread(os.listdir, session._folder)
    assert len(kept) == 1, "the results of older texts are deleted"
    await session.close()
    assert not await asyncio.to_thread(os.path.exists, session._folder)


@pytest.mark.asyncio
async def test_a_read_only_file_has_no_fix(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert await world.titles() == []


PROGRAM_TEXT = """\
import torch

@torch.compile
def f(x):
    return x

if __name__ == "__main__":
    f(torch.ones(4))
"""


class _OneAnswer:
    """A worker that gives one answer to every request."""

    hello = None

    def __init__(self, answer: Answer | Refused) -> None:
        self.answer = answer

    async def run(self, *_given: object) -> Answer | Refused:
        return self.answer

    async def close(self) -> None: ...


def analysis_of(text: str, answer: Answer | Refused, consent: str = "run") -> Analysis:
    state = State()
    state.folders["/w"] = Folder("/w", "file:///w", consent=consent)
    state.open(Document("file:///w/m.py", "/w/m.py", 1, SourceDocument("/w/m.py", text), runnable=True))
    return Analysis(
        state,
        TellingUi(),
        make_worker=lambda _lane, _settings, _log: _OneAnswer(answer),
        find_interpreter=lambda _folder: Interpreter("/python"),
    )


REFUSED = Refused(1, "cancelled")


@pytest.mark.asyncio
async def test_a_verification_needs_the_consent_that_a_run_needs() -> None:
    key = Key("/w/m.py", "f")
    for consent in ("run", "unknown", "later", "never"):
        session = analysis_of(TEXT, REFUSED, consent)
        assert (session._prepare_verification(key, True) is not None) is (consent == "run")  # noqa: FBT003 - a callback
        await session.close()
    session = analysis_of(TEXT, REFUSED)
    session._state.trusted = False
    assert session._prepare_verification(key, False) is None  # noqa: FBT003 - a callback
    await session.close()
    program = analysis_of(PROGRAM_TEXT, REFUSED)
    assert program._prepare_verification(key, False) is None, "its inputs come from the program"  # noqa: FBT003 - a callback
    program.consent._programs["/w/m.py"] = "command"
    assert program._prepare_verification(key, True) is None  # noqa: FBT003 - a callback
    assert program._prepare_verification(key, False) is not None  # noqa: FBT003 - a callback
    await program.close()


@pytest.mark.asyncio
async def test_only_a_failure_of_the_users_code_says_something_of_a_fix() -> None:
    failure = Failure(Culprit.USER, "timeout", "killed after 3 s", "use smaller inputs")
    made = report()
    for answer, found in (
        (Answer(1, made), ()),
        (Refused(1, "failed", failure), (failure,)),
        (REFUSED, None),
        (Refused(1, "failed", dataclasses.replace(failure, culprit=Culprit.ENVIRONMENT)), None),
    ):
        session = analysis_of(TEXT, answer)
        prepared = session._prepare_verification(Key("/w/m.py", "f"), True)  # noqa: FBT003 - a callback
        assert prepared is not None
        if found is None:
            with pytest.raises(InterruptedVerificationError):
                await prepared.execute(prepared.request, lambda _progress: None)
        else:
            assert (await prepared.execute(prepared.request, lambda _progress: None)).failures == found
        await session.close()
