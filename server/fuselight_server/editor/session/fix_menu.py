"""What a menu shows of the fixes of some lines, and what becomes of a chosen one; it knows no LSP types.

Invariant: a fix is applied only if it passed for just the texts that the client has. One that was refused cannot be
chosen, and has the reason. A title claims nothing that was not verified.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace

from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import RemedyState
from fuselight_server.editor.session.fix_offers import FixOffer, LineFixes, VerifiedFixes
from fuselight_server.editor.session.fix_session import FixSession
from fuselight_server.editor.session.state import State
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.fixes.rewrites.families import FixClass, has_remedies
from fuselight_server.fixes.verification.attempts import Attempt
from fuselight_server.fixes.verification.remedy_list import of_attempt

_MAX_NOT_OFFERED = 3
"""Fixes in a menu that are not offered before any run."""
ON_CHOICE = "not verified yet: the program runs only when you ask"
CHANGED = "The file has changed since the fix was offered. Open the menu again."


@dataclass(frozen=True)
class MenuEntry:
    """A fix in a menu."""

    finding: Finding
    title: str
    offer: FixOffer | None = None
    """None for one that cannot be chosen."""
    reason: str = ""
    """Why it cannot be chosen."""
    is_resolved: bool = False
    """Whether the client gets an edit, if the fix passes in time; else a command verifies it."""
    is_preferred: bool = False


@dataclass(frozen=True)
class FixMenu:
    """The fixes of a session as a client shows and chooses them."""

    state: State
    fixes: FixSession
    runs_on_request: Callable[[Key], bool]
    """Whether a target runs only when the user asks, so that nothing verifies its fixes before a choice."""

    async def entries(self, path: str, first: int, last: int, *, is_menu: bool) -> list[MenuEntry]:
        """List the fixes of some lines: the best first of those that passed, then those that were tried.

        Starts to verify the rest.
        """
        fixes, client, settings = self.fixes, self.state.client, self.state.folder_of(path).settings
        line_fixes = await fixes.offers.on_lines(path, first, last)
        offers = line_fixes.changes
        # A client asks with the same words for a menu and for a hover, so that only a choice asks for runs.
        when = settings.fixes.verify if settings.run == "save" else "choice"
        if offers and (when == "cursor" or (when == "menu" and is_menu)):
            # Two starts compile everything twice: only a choice asks for that.
            fixes.verify_in_background(offer for offer in offers if not offer.starts)
        passed: list[tuple[Attempt, MenuEntry]] = []
        unknown: list[tuple[tuple[int, ...], MenuEntry]] = []
        refused: list[MenuEntry] = []
        for offer in offers:
            finding, title = offer.finding, offer.remedy.title
            attempt, listed = fixes.attempts.known(offer), fixes.attempts.listed(offer, line_fixes)
            if attempt is None and listed is not None and listed.state is RemedyState.REFUSED:
                refused.append(MenuEntry(finding, title, reason=listed.reason))
            elif attempt is None:
                tried = f" (tried: {listed.counts})" if listed is not None and listed.counts else ""
                changes = " (changes behavior)" if offer.remedy.fix_class is FixClass.CHANGES else ""
                waits = f" ({ON_CHOICE})" if self.runs_on_request(offer.key) else ""
                title = f"{self.verify_title(offer)}: {title}{tried}{changes}{waits}"
                is_resolved = client.resolves_actions and when != "choice" and not offer.starts
                place = (0, *listed.left) if listed is not None and listed.left else (1,)
                unknown.append((place, MenuEntry(finding, title, offer, is_resolved=is_resolved)))
            elif attempt.has_passed:
                entry = MenuEntry(finding, title_of(attempt), offer, "", client.resolves_actions)
                passed.append((attempt, entry))
            else:
                refused.append(MenuEntry(finding, title, reason=of_attempt(attempt).reason))
        disabled = [*refused, *_not_offered(line_fixes)] if client.disabled_actions else []
        waiting = [entry for _, entry in sorted(unknown, key=lambda item: item[0])]
        return [*_best_first(passed), *waiting, *disabled]

    def outdated(
        self, path: str, shown: Iterable[Finding], active: Container[Key]
    ) -> list[tuple[str, Key, tuple[Finding, ...]]]:
        """Name the targets of findings that may have fixes, none known as the target has changed since its last run.

        A menu offers a run of them: of entries that cannot be chosen, it would list none.
        """
        stale = {(key.path, key.name or MAIN): key for key in self.fixes.offers.outdated(path)}
        of_targets: dict[Key, list[Finding]] = {}
        for finding in shown:
            key = stale.get((finding.target_path, finding.target))
            if has_remedies(finding.code) and key is not None:
                of_targets.setdefault(key, []).append(finding)
        return [
            (key.name or MAIN, key, tuple(findings))
            for key, findings in of_targets.items()
            if self.state.trusted and key not in active
        ]

    async def may_fix_all(self, path: str, lines: int) -> bool:
        """Whether an exact fix of a file has passed, or may."""
        offers = (await self.fixes.offers.on_lines(path, 1, lines)).changes
        known = [
            self.fixes.attempts.known(offer) for offer in offers if offer.remedy.fix_class is FixClass.EXACT
        ]
        return any(
            attempt is None or (attempt.has_passed and attempt.fix_class is FixClass.EXACT)
            for attempt in known
        )

    async def passed_within(self, offer: FixOffer, seconds: float) -> Attempt | None:
        """Return the attempt of a fix if it passes in this time, and no preview comes before its edit.

        An editor asks as soon as an entry has the focus, so that this is no choice of the user.
        """
        attempt = self.fixes.attempts.known(offer)
        if (attempt is None or attempt.is_checking) and self.fixes.may_verify(offer, automatic=True):
            attempt = await self.fixes.verify(offer, seconds, automatic=True)
        if attempt is None or attempt.is_checking or self.refusal(offer, attempt):
            return None
        return None if self.asks_for_preview(offer) else attempt

    def refusal(self, offer: FixOffer, attempt: Attempt | None) -> str:
        """Say why a fix is not applied after its verification; empty if it is."""
        if attempt is None:
            return f"`{offer.remedy.title}` was not applied: its verification was canceled."
        if not attempt.has_passed:
            return f"`{offer.remedy.title}` was not applied: {attempt.why}."
        return CHANGED if self.fixes.offers.current(offer.id) is None else ""

    def refusal_of_all(self, verified: VerifiedFixes | None) -> str:
        """Say why no fix of a file is applied after their verification; empty if some are."""
        if verified is None:
            return "No fix was applied: the verification was canceled."
        if not verified.attempts:
            return "No exact fix passed verification."
        return "" if self.fixes.is_current(verified.before) else CHANGED

    def verify_title(self, offer: FixOffer) -> str:
        """`Verify and preview` where a fix that passes is shown before it is applied."""
        client = self.state.client
        is_shown = client.previews_fixes or client.change_annotations
        return "Verify and preview" if is_shown and self.needs_preview(offer) else "Verify and apply"

    def needs_preview(self, offer: FixOffer) -> bool:
        """Whether the settings ask for a preview of a fix."""
        preview = self.state.folder_of(offer.key.path).settings.fixes.preview
        if preview == "behavior":
            return offer.remedy.fix_class is FixClass.CHANGES
        return preview == "always"

    def asks_for_preview(self, offer: FixOffer) -> bool:
        """Whether the client shows the preview of a fix: an edit that asks for one starts with nothing selected."""
        return self.state.client.previews_fixes and self.needs_preview(offer)


def _best_first(passed: Iterable[tuple[Attempt, MenuEntry]]) -> Iterator[MenuEntry]:
    """Those that passed; the first one is preferred if it keeps all results."""
    ordered = sorted(passed, key=lambda item: item[0].left)
    for number, (attempt, entry) in enumerate(ordered):
        keeps_all = attempt.fix_class is not FixClass.CHANGES and not attempt.excepted
        yield replace(entry, is_preferred=number == 0 and keeps_all)


def _not_offered(fixes: LineFixes) -> list[MenuEntry]:
    """The fixes that no run was needed for to refuse them; none of a kind that another finding of the lines offers."""
    kinds = {offer.remedy.kind for offer in fixes.offers}
    refused = {
        (fix.entry.text, fix.entry.reason): MenuEntry(fix.finding, fix.entry.text, reason=fix.entry.reason)
        for fix in reversed(fixes.refused)
        if fix.entry.kind not in kinds
    }
    return list(reversed(refused.values()))[:_MAX_NOT_OFFERED]


def title_of(attempt: Attempt) -> str:
    """`Use torch.where: 3 → 1 graphs, same results`."""
    sides = "one side not tried" if attempt.is_one_sided else ""
    checking = "still comparing" if attempt.is_checking else ""
    parts = (attempt.effect, attempt.why, sides, checking, attempt.next_words)
    return f"{attempt.remedy.title}: {', '.join(part for part in parts if part)}"
