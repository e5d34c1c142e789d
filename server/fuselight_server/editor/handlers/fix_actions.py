"""Verified fixes as code actions: offered with what came of their verification, resolved to an edit, or applied later.

Invariant: an edit leaves this module only for a fix that passed for just the texts that the client has; each file of it
carries its version. A fix that was refused is listed as disabled, with the reason. A title claims nothing that was not
verified.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fuselight.shared.report.visible import visible
from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Span
from fuselight_server.base.remedies import RemedyState
from fuselight_server.editor.handlers.protocol import PREVIEW_FIX
from fuselight_server.editor.handlers.work_progress import ShownWork, WorkProgress
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.target_lens import RUN
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.fixes.rewrites.families import FixClass, has_remedies
from fuselight_server.fixes.verification.remedy_list import of_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from fuselight_server.base.finding import Finding
    from fuselight_server.base.settings import FixSettings
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.messages.answers import FixPreview, PreviewedFile
    from fuselight_server.editor.results.snapshot import Document
    from fuselight_server.editor.session.fix_offers import FixOffer, LineFixes
    from fuselight_server.fixes.rewrites.remedy import Remedy
    from fuselight_server.fixes.verification.attempts import Attempt

FindingDiagnostic: TypeAlias = "tuple[Finding, types.Diagnostic]"
APPLY = "fuselight.server.applyFix"
APPLY_ALL = "fuselight.server.applyAllFixes"
FIX_ALL = "source.fixAll.fuselight"
"""Kind of the action that applies all exact fixes of a file."""

_MOST_NOT_OFFERED = 3
"""Fixes in a menu that are not offered before any run."""

_RESOLVE_SECONDS = 5.0
"""How long a chosen fix may take before its verification goes on as a command."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_CHANGED = "The file has changed since the fix was offered. Open the menu again."


async def fix_actions(
    server: Server, document: Document, params: types.CodeActionParams, shown: Sequence[FindingDiagnostic]
) -> list[types.CodeAction]:
    """Offer the fixes of the lines, those that passed with their results first. Starts the verification of the rest."""
    fixes, settings = server.analysis.fixes, server.state.folder_of(document.path).settings
    line_fixes = await fixes.offers.on_lines(
        document.path, params.range.start.line + 1, params.range.end.line + 1
    )
    offers = line_fixes.changes
    not_offered = _not_offered(server, line_fixes, shown)
    if not offers:
        return not_offered
    is_menu = params.context.trigger_kind is not types.CodeActionTriggerKind.Automatic
    # A client asks with the same words for a menu and for a hover, so that only a choice counts as a request to run.
    when = settings.fixes.verify if settings.run == "save" else "choice"
    if when == "cursor" or (when == "menu" and is_menu):
        # Two starts compile everything twice: only a choice asks for that.
        fixes.verify_in_background(offer for offer in offers if not offer.starts)
    resolves = server.state.client.resolves_actions
    passed, unknown, refused = [], [], []
    for offer in offers:
        attempt, listed = fixes.attempts.known(offer), fixes.attempts.listed(offer, line_fixes)
        if attempt is None and listed is not None and listed.state is RemedyState.REFUSED:
            refused.append((offer.finding, offer.remedy.title, listed.reason))
        elif attempt is None:
            tried = f" (tried: {listed.counts})" if listed is not None and listed.counts else ""
            changes = " (changes behavior)" if offer.remedy.fix_class is FixClass.CHANGES else ""
            title = f"{_verify_title(server, offer)}: {offer.remedy.title}{tried}{changes}"
            is_resolved = resolves and when != "choice" and not offer.starts
            unknown.append(_action(server, offer, title, shown, resolves=is_resolved))
        elif attempt.has_passed:
            passed.append(_action(server, offer, title_of(attempt), shown, resolves=resolves))
            is_first = len(passed) == 1 and attempt.fix_class is not FixClass.CHANGES and not attempt.excepted
            passed[-1].is_preferred = is_first or None
        else:
            refused.append((offer.finding, offer.remedy.title, of_attempt(attempt).reason))
    disabled = [_disabled_action(finding, title, reason, shown) for finding, title, reason in refused]
    return [*passed, *unknown, *(disabled if server.state.client.disabled_actions else ()), *not_offered]


def _not_offered(
    server: Server, fixes: LineFixes, shown: Sequence[FindingDiagnostic]
) -> list[types.CodeAction]:
    """The fixes that no run was needed for to refuse them; none of a kind that another finding of the lines offers."""
    if not server.state.client.disabled_actions:
        return []
    kinds = {offer.remedy.kind for offer in fixes.offers}
    refused = {
        (fix.entry.text, fix.entry.reason): fix
        for fix in reversed(fixes.refused)
        if fix.entry.kind not in kinds
    }
    return [
        _disabled_action(fix.finding, fix.entry.text, fix.entry.reason, shown)
        for fix in list(reversed(refused.values()))[:_MOST_NOT_OFFERED]
    ]


def run_actions(
    server: Server, document: Document, shown: Sequence[FindingDiagnostic]
) -> list[types.CodeAction]:
    """Offer a run where a finding may have fixes, but none are known as its target has changed since the last run.

    A disabled action would say so, too, but a menu of quick fixes does not list it.
    """
    stale = {key.name or MAIN: key for key in server.analysis.fixes.offers.outdated(document.path)}
    actions = []
    for name in dict.fromkeys(
        finding.target for finding, _ in shown if has_remedies(finding.code) and finding.target in stale
    ):
        key, runs = stale[name], server.analysis.runs
        if not server.state.trusted or key in runs.in_flight or key in runs.queue.waiting:
            continue
        title = f"Run {name} to look for fixes: its code has changed since the last run"
        given = {"uri": server.uri_of(key.path), "target": name}
        mine = [
            diagnostic
            for finding, diagnostic in shown
            if finding.target == name and has_remedies(finding.code)
        ]
        actions.append(
            types.CodeAction(
                title=title,
                kind=types.CodeActionKind.QuickFix,
                diagnostics=mine,
                command=types.Command(title=f"Run {name}", command=RUN, arguments=[given]),
            )
        )
    return actions


def title_of(attempt: Attempt) -> str:
    """`Use torch.where: 3 → 1 graphs, same results`."""
    sides = "one side not tried" if attempt.is_one_sided else ""
    checking = "still comparing" if attempt.is_checking else ""
    parts = (attempt.effect, attempt.why, sides, checking, attempt.next_words)
    return f"{attempt.remedy.title}: {', '.join(part for part in parts if part)}"


def _action(
    server: Server, offer: FixOffer, title: str, shown: Sequence[FindingDiagnostic], *, resolves: bool
) -> types.CodeAction:
    """An action that is resolved to an edit, or else a command that verifies and applies."""
    same = _of_finding(offer.finding, shown)
    action = types.CodeAction(title=visible(title), kind=types.CodeActionKind.QuickFix, diagnostics=same)
    if resolves:
        action.data = {"uri": server.uri_of(offer.key.path), "fix": offer.id}
    else:
        action.command = _command(server, offer)
    return action


def _disabled_action(
    finding: Finding, title: str, reason: str, shown: Sequence[FindingDiagnostic]
) -> types.CodeAction:
    """An action that cannot be chosen, with the reason."""
    return types.CodeAction(
        title=visible(title),
        kind=types.CodeActionKind.QuickFix,
        diagnostics=_of_finding(finding, shown),
        disabled=types.CodeActionDisabled(reason=visible(reason)),
    )


def _of_finding(finding: Finding, shown: Sequence[FindingDiagnostic]) -> list[types.Diagnostic] | None:
    """The diagnostics of a finding, of all targets that have it."""
    return [diagnostic for known, diagnostic in shown if known.place == finding.place] or None


def _command(server: Server, offer: FixOffer) -> types.Command:
    given = {"uri": server.uri_of(offer.key.path), "fix": offer.id}
    return types.Command(title=_verify_title(server, offer), command=APPLY, arguments=[given])


def _verify_title(server: Server, offer: FixOffer) -> str:
    """`Verify and preview` where a fix that passes is shown before it is applied."""
    settings, client = server.state.folder_of(offer.key.path).settings.fixes, server.state.client
    is_shown = client.previews_fixes or client.change_annotations
    return "Verify and preview" if is_shown and _needs_preview(settings, offer.remedy) else "Verify and apply"


async def resolve(server: Server, action: types.CodeAction) -> types.CodeAction:
    """Answer `codeAction/resolve`: the edit of a fix that passes within the budget, else a command that goes on."""
    data = action.data if isinstance(action.data, dict) else {}
    if data.get("all") is not None:
        return await _resolve_all(server, action, data)
    if (
        data.get("fix") is None
    ):  # an editor asks about each entry without an edit, also about one of a command
        return action
    fixes = server.analysis.fixes
    offer = fixes.offers.current(str(data["fix"]))
    if offer is None:
        action.command = types.Command(title="Verify and apply", command=APPLY, arguments=[data])
        return action
    attempt = fixes.attempts.known(offer)
    # An editor asks as soon as an entry has the focus, so that this is no choice of the user.
    if (attempt is None or attempt.is_checking) and fixes.may_verify(offer, automatic=True):
        attempt = await fixes.verify(offer, _RESOLVE_SECONDS, automatic=True)
    is_verified = attempt is not None and not attempt.is_checking and attempt.has_passed
    is_offered = is_verified and fixes.offers.current(offer.id) is not None
    if attempt is not None and is_offered and not _asks_for_preview(server, offer, attempt):
        action.edit = _edit_of(server, offer, attempt)
    else:
        action.command = _command(server, offer)
    return action


async def apply_fix(server: Server, options: dict[str, Any]) -> None:
    """Verify a fix, for as long as that takes, and apply it if it passes. Says why it is not applied."""
    fixes = server.analysis.fixes
    offer = fixes.offers.current(str(options.get("fix")))
    if offer is None:
        server.ui.say(_CHANGED, error=False)
        return
    attempt = fixes.attempts.known(offer)
    if attempt is None or attempt.is_checking:
        if not fixes.may_verify(offer, automatic=False):
            if server.analysis.verification_runs.agrees(offer.key, _again(server, apply_fix, options)):
                server.ui.say(_CHANGED, error=False)  # its target is gone
            return
        attempt = await fixes.verify(offer)
    if attempt is None:
        server.ui.say(f"`{offer.remedy.title}` was not applied: its verification was canceled.", error=False)
    elif not attempt.has_passed:
        server.ui.say(f"`{offer.remedy.title}` was not applied: {attempt.why}.", error=False)
    elif fixes.offers.current(offer.id) is None:
        server.ui.say(_CHANGED, error=False)
    elif _asks_for_preview(server, offer, attempt):
        await _preview(server, offer, attempt)
    else:
        await apply_workspace_edit(server, title_of(attempt), _edit_of(server, offer, attempt))


def _again(
    server: Server,
    command: Callable[[Server, dict[str, Any]], Coroutine[Any, Any, None]],
    options: dict[str, Any],
) -> Callable[[], None]:
    """Go on with a command once the user has agreed to runs."""
    return lambda: server.spawn(command(server, options), "applying a fix")


def _asks_for_preview(server: Server, offer: FixOffer, attempt: Attempt) -> bool:
    """Whether the client shows the preview of a fix: an edit that asks for one starts with nothing selected."""
    settings = server.state.folder_of(offer.key.path).settings.fixes
    return server.state.client.previews_fixes and _needs_preview(settings, attempt.remedy)


async def _preview(server: Server, offer: FixOffer, attempt: Attempt) -> None:
    """Let the client show a fix and apply it; says why it was not applied, unless the user has discarded it."""
    documents: list[PreviewedFile] = [
        {
            "uri": server.uri_of(path),
            "version": document.version if (document := server.state.at(path)) is not None else None,
            "edits": [
                {
                    "range": {
                        "start": {"line": edit.range.start.line, "character": edit.range.start.character},
                        "end": {"line": edit.range.end.line, "character": edit.range.end.character},
                    },
                    "newText": edit.new_text,
                }
                for edit in _line_edits(server, path, offer.before[path], new)
            ],
        }
        for path, new in offer.remedy.texts.items()
    ]
    label = title_of(attempt)
    preview: FixPreview = {"label": label, "documents": documents}
    answer = await server.protocol.send_request_async(PREVIEW_FIX, preview)
    problem = answer.get("problem") if isinstance(answer, dict) else getattr(answer, "problem", None)
    if problem:
        server.ui.say(f"`{label}` was not applied: {problem}.", error=False)


async def apply_workspace_edit(server: Server, label: str, edit: types.WorkspaceEdit) -> None:
    """Have the client apply an edit; says why it was not applied."""
    if not server.state.client.applies_edits:
        server.ui.say(f"`{label}` was not applied: this editor applies no edits of a server.", error=False)
        return
    params = types.ApplyWorkspaceEditParams(edit=edit, label=label)
    try:
        answer = await server.workspace_apply_edit_async(params)
    except JsonRpcException as error:  # as Emacs answers where the user says no
        server.ui.say(f"`{label}` was not applied: {error.message}.", error=False)
        return
    if not answer.applied:
        server.ui.say(
            f"`{label}` was not applied: {answer.failure_reason or 'the file has changed'}.", error=False
        )


# All fixes of a file


async def fix_all_action(
    server: Server, document: Document, params: types.CodeActionParams
) -> list[types.CodeAction]:
    """Offer to apply all exact fixes of a file, where there may be one."""
    fixes = server.analysis.fixes
    offers = (await fixes.offers.on_lines(document.path, 1, document.source.line_count)).changes
    known = [fixes.attempts.known(offer) for offer in offers if offer.remedy.fix_class is FixClass.EXACT]
    if all(
        attempt is not None and not (attempt.has_passed and attempt.fix_class is FixClass.EXACT)
        for attempt in known
    ):
        return []
    action = types.CodeAction(title="Apply all exact fixes that pass verification", kind=FIX_ALL)
    is_automatic = params.context.trigger_kind is types.CodeActionTriggerKind.Automatic
    data = {"uri": document.uri, "all": "on save" if is_automatic else "asked"}
    if server.state.client.resolves_actions:
        action.data = data
    else:
        action.command = types.Command(title=action.title, command=APPLY_ALL, arguments=[data])
    return [action]


async def _resolve_all(server: Server, action: types.CodeAction, data: dict[str, Any]) -> types.CodeAction:
    """Fill in the edit. A save that has waited for the whole budget gets none: the next one may."""
    document = server.state.documents.get(str(data.get("uri")))
    is_automatic = data["all"] == "on save"
    fixes = server.analysis.fixes
    verified_fixes = (
        await fixes.verify_all(document.path, _RESOLVE_SECONDS, automatic=is_automatic)
        if document is not None
        else None
    )
    if verified_fixes is not None and verified_fixes.attempts and fixes.is_current(verified_fixes.before):
        action.edit = workspace_edit(server, verified_fixes.before, verified_fixes.after)
    elif not is_automatic:
        action.command = types.Command(title=action.title, command=APPLY_ALL, arguments=[data])
    return action


async def apply_all(server: Server, options: dict[str, Any]) -> None:
    """Verify all exact fixes of a file, one on top of the other, and apply those that pass as one edit."""
    document = server.state.documents.get(str(options.get("uri")))
    if document is None:
        return
    blocked = server.analysis.fixes.not_allowed(document.path)
    if blocked is not None:
        server.analysis.verification_runs.agrees(blocked, _again(server, apply_all, options))
        return
    fixes = await server.analysis.fixes.verify_all(document.path)
    if fixes is None:
        server.ui.say("No fix was applied: the verification was canceled.", error=False)
    elif not fixes.attempts:
        server.ui.say("No exact fix passed verification.", error=False)
    elif not server.analysis.fixes.is_current(fixes.before):
        server.ui.say(_CHANGED, error=False)
    else:
        titles = ", ".join(dict.fromkeys(attempt.remedy.title for attempt in fixes.attempts))
        await apply_workspace_edit(server, titles, workspace_edit(server, fixes.before, fixes.after))


# Edits


def _edit_of(server: Server, offer: FixOffer, attempt: Attempt) -> types.WorkspaceEdit:
    settings = server.state.folder_of(offer.key.path).settings.fixes
    confirms = _needs_preview(settings, attempt.remedy)
    return workspace_edit(
        server, offer.before, offer.remedy.texts, label=title_of(attempt), confirms=confirms
    )


def _needs_preview(settings: FixSettings, remedy: Remedy) -> bool:
    if settings.preview == "behavior":
        return remedy.fix_class is FixClass.CHANGES
    return settings.preview == "always"


def workspace_edit(
    server: Server,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    label: str = "",
    confirms: bool = False,
) -> types.WorkspaceEdit:
    """Make the edit from the texts `before` to the texts `after`, by path: the lines that differ and no others.

    With `confirms`, a client that can shows the changes and waits for the user.
    """
    client = server.state.client
    changes = {path: list(_line_edits(server, path, before[path], after[path])) for path in sorted(after)}
    if not client.document_changes:
        return types.WorkspaceEdit(changes={server.uri_of(path): edits for path, edits in changes.items()})
    annotates = bool(label) and client.change_annotations
    documents = []
    for path, edits in changes.items():
        document = server.state.at(path)
        identity = types.OptionalVersionedTextDocumentIdentifier(
            uri=server.uri_of(path), version=document.version if document is not None else None
        )
        annotated = [
            types.AnnotatedTextEdit(annotation_id="fix", range=edit.range, new_text=edit.new_text)
            for edit in edits
        ]
        documents.append(
            types.TextDocumentEdit(text_document=identity, edits=annotated if annotates else edits)
        )
    annotation = types.ChangeAnnotation(label=label, needs_confirmation=confirms)
    return types.WorkspaceEdit(
        document_changes=documents, change_annotations={"fix": annotation} if annotates else None
    )


def _line_edits(server: Server, path: str, old: str, new: str) -> Iterator[types.TextEdit]:
    """The edits from `old` to `new`, as whole lines."""
    before, after = _LINE.findall(old), _LINE.findall(new)
    rows = split_text(old)

    def read_line(_path: str, line: int) -> str | None:
        return rows[line - 1] if 0 < line <= len(rows) else None

    view = convert.Client(server.encoding, read_line, server.uri_of)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            first, last = _start_of(start, rows), _start_of(end, rows)
            place = convert.range_(Span(path, *first, *last), view)
            yield types.TextEdit(range=place, new_text="".join(after[new_start:new_end]))


def _start_of(index: int, rows: list[str]) -> tuple[int, int]:
    """Where the line `index` (0-based) starts, 1-based: the end of the text for the line after the last one."""
    if index < len(rows):
        return index + 1, 0
    return len(rows), len(rows[-1].encode("utf-8", "surrogatepass"))


class VerificationProgress:
    """Shows the verifications in progress, and cancels the one that the user cancels."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._progress: WorkProgress[str] = WorkProgress(server)
        """By the id of the offer."""
        self._active: tuple[str, ...] = ()

    def update(self) -> None:
        """Begin, move on and end what the client shows."""
        server, active = self._server, self._server.analysis.fixes.tasks.active
        if self._active != tuple(active):  # not at each step: a status counts findings
            self._active = tuple(active)
            server.ui.status_changed()
        self._progress.show(
            {
                identity: ShownWork(f"verifying {task.title}{f': {task.words}' if task.words else ''}")
                for identity, task in active.items()
            }
        )

    def cancel(self, token: str | int) -> bool:
        """Cancel the verification that a token belongs to; False where it is none."""
        identity = self._progress.work_of(token)
        if identity is not None:
            self._server.analysis.fixes.cancel(identity)
        return identity is not None


COMMANDS: dict[str, Callable[[Server, dict[str, Any]], Any]] = {APPLY: apply_fix, APPLY_ALL: apply_all}
