"""An open file with findings that fixes remove, and the session of these fixes; its worker answers from the text.

Each `branch` in a text is a graph break. A remedy replaces the name on the line of its finding.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from fuselight.shared.protocol import Progress, RunRequest, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    CallComparison,
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
from fuselight_server.base.finding import Finding
from fuselight_server.base.settings import FixSettings, Settings
from fuselight_server.editor.handlers import fix_commands
from fuselight_server.editor.handlers.code_action import code_action
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.captures import capture_result_of
from fuselight_server.editor.results.snapshot import Document
from fuselight_server.editor.session.deliveries import ChangeNotices
from fuselight_server.editor.session.fix_session import FixSession
from fuselight_server.editor.session.state import Folder, State
from fuselight_server.editor.session.verifications import PreparedRun
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import RunOptions, named_runs
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite, Remedy, Rewrites
from fuselight_server.fixes.verification import fixer
from fuselight_server.source.document import SourceDocument
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
ONE_FIXED = TEXT.replace("branch", "where", 1)
ALL_FIXED = TEXT.replace("branch", "where")
UNVERIFIED = "Verify and apply: Use where"
VERIFIED = "Use where: 2 → 1 breaks, same results"
FIRST = 4
"""0-based line of the first finding."""
EXACT = Verification(tuple(CallComparison(0, "recorded inputs", compiled) for compiled in (False, True)))
"""Every call is compared, and none differs."""


def differing(aspect: Aspect, *, rounding: bool = False, compiled: bool = False) -> Verification:
    """A verification in which one more comparison differs."""
    comparison = CallComparison(0, "recorded inputs", compiled, (Difference(aspect, "it differs", rounding),))
    return Verification((comparison, *EXACT.comparisons))


def patch_remedies(
    monkeypatch: pytest.MonkeyPatch, remedies: Callable[..., Any], refused: tuple[RefusedRewrite, ...] = ()
) -> None:
    """Let every finding have these remedies, and rewrites that are not offered."""
    monkeypatch.setattr(fixer, "rewrites", lambda *given: Rewrites(tuple(remedies(*given[:3])), refused))


def replaced(
    new: str, title: str, fix_class: FixClass, changes: str = "", *, is_setting: bool = False
) -> Callable[..., tuple[Remedy, ...]]:
    """Remedies that replace the name on the finding's line."""

    def find_remedies(finding: Finding, _report: Report, read: Callable[[str], str]) -> tuple[Remedy, ...]:
        path = finding.span.path
        lines = read(path).split("\n")
        lines[finding.span.line - 1] = lines[finding.span.line - 1].replace("branch", new)
        return (Remedy(new, title, fix_class, {path: "\n".join(lines)}, changes, is_setting),)

    return find_remedies


def report_of_text(
    path: str,
    text: str,
    *,
    name: str = "f",
    key: str = "",
    verification: Verification | None = None,
    failures: tuple[Failure, ...] = (),
) -> Report:
    """What a run of a text finds; `key`: that of the text."""
    breaks = (
        broken(Location(path, number), compile_id=f"{number}/0")
        for number, line in enumerate(text.split("\n"), 1)
        if "branch" in line
    )
    return report(
        target=TargetRef(path, name, 4, "function"),
        inputs=Inputs(Rung.DIRECTIVE, path, 2),
        roots=(str(Path(path).parent),),
        files={path: key},
        breaks=tuple(breaks),
        failures=failures,
        verification=verification,
    )


class FixUi(RecordedUi):
    """Keeps the messages to the user, and counts the changes of the status."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.status_changes = 0

    def status_changed(self) -> None:
        self.status_changes += 1

    def say(self, text: str, *, error: bool) -> None:
        assert not error
        self.messages.append(text)


class FixWorld:
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
        self.ui = FixUi()
        self.requests: list[RunRequest] = []
        self.verification = EXACT
        self.others: dict[str, Verification] = {}
        """What the verification for a target finds instead."""
        self.gate = asyncio.Event()
        """Closed while verifications are to wait."""
        self.gate.set()
        self.asked_to_run = asyncio.Event()
        self.allowed = True
        ChangeNotices(self.state, self.ui)
        self.session = FixSession(self.state, prepare=self._prepare)
        self.edits: list[types.WorkspaceEdit] = []
        self.runs = SimpleNamespace(in_flight={}, queue=SimpleNamespace(waiting={}))
        self.asked: list[Key] = []
        self.go_on: Callable[[], None] = lambda: None
        """What is to follow the user's consent."""
        self.spawned: list[asyncio.Future[Any]] = []
        self.server: Any = SimpleNamespace(
            state=self.state,
            ui=self.ui,
            view=convert.Client("utf-8", self.state.documents.read_line, convert.uri),
            encoding="utf-8",
            uri_of=convert.uri,
            analysis=SimpleNamespace(
                permissions=SimpleNamespace(runs_on_request=lambda _key: False),
                fixes=self.session,
                verification_runs=SimpleNamespace(agrees=self._ask),
                runs=self.runs,
            ),
            spawn=lambda work, _what: self.spawned.append(asyncio.ensure_future(work)),
            workspace_apply_edit_async=self._apply,
        )
        self._patch = monkeypatch
        self.offers(replaced("where", "Use where", FixClass.EXACT))
        self.ran(TEXT)

    def offers(self, remedies: Callable[..., Any], *refused: RefusedRewrite) -> None:
        patch_remedies(self._patch, remedies, refused)

    def settings(self, fixes: FixSettings, **others: Any) -> None:
        folder = str(Path(self.path).parent)
        self.state.folders[folder] = Folder(
            folder, "file:///w", Settings(fixes=fixes, **others), consent="run"
        )

    @property
    def document(self) -> Document:
        document = self.state.documents.at(self.path)
        assert document is not None
        return document

    def report_of(self, text: str, verification: Verification | None = None, name: str = "f") -> Report:
        key = data_key(text.encode())
        return report_of_text(self.path, text, name=name, key=key, verification=verification)

    def ran(self, text: str, name: str = "f", files: dict[str, str] | None = None) -> None:
        """Take in a run of the text; `files`: further files that it imported, with the keys of their texts."""
        report = self.report_of(text, name=name)
        report = dataclasses.replace(report, files={**report.files, **(files or {})})
        self.state.accept_result(capture_result_of(Key(self.path, name), 1, report, findings(report)))

    def _prepare(self, key: Key, _automatic: bool) -> PreparedRun | None:  # noqa: FBT001 - a callback
        options = RunOptions(roots=(str(Path(self.path).parent),))
        (planned,) = named_runs(self.document.reading(), [key.name], options)
        return (
            PreparedRun(planned.start_message(1, 1, options), self._execute, "python")
            if self.allowed
            else None
        )

    def _ask(self, key: Key, go_on: Callable[[], None]) -> bool:
        self.asked.append(key)
        self.go_on = go_on
        return False

    async def _execute(self, request: RunRequest, _show: Callable[[Progress], None]) -> Report:
        self.requests.append(request)
        self.asked_to_run.set()
        await self.gate.wait()
        is_new = isinstance(request, VerifyRequest) and not request.records
        text = request.overlays.get(self.path, TEXT)
        name = request.target.name
        verification = self.others.get(name, self.verification)
        return self.report_of(text, verification if is_new else Verification(), name)

    async def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.edits.append(params.edit)
        return types.ApplyWorkspaceEditResult(applied=True)

    def edit(self, text: str) -> None:
        """What a client does that sends the whole text."""
        document, source = self.document, self.document.source
        for change in source.become(text):
            self.state.edit(self.path, change)
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
        actions = await code_action(self.server, params) or []
        return [
            action
            for action in actions
            if isinstance(action, types.CodeAction) and not action.title.startswith(("Ignore", "Open"))
        ]

    async def titles(self, *, automatic: bool = False) -> list[str]:
        return [action.title for action in await self.actions(automatic=automatic)]

    async def verified(self) -> list[str]:
        """The titles when every verification has ended."""
        await self.actions()
        await asyncio.gather(
            *(task.task for task in self.session.tasks.active.values()), return_exceptions=True
        )
        return await self.titles()

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        return await fix_commands.resolve(self.server, action)

    async def apply(self, action: types.CodeAction) -> None:
        """What a client does with a chosen action that has a command."""
        given = (action.command.arguments or ())[0] if action.command is not None else action.data
        assert isinstance(given, dict)
        await fix_commands.apply_fix(self.server, given)

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
            for text_edit in reversed(document.edits):
                assert isinstance(text_edit, (types.TextEdit, types.AnnotatedTextEdit))
                lines[text_edit.range.start.line : text_edit.range.end.line] = [text_edit.new_text]
        return "".join(lines)
