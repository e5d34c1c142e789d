"""Whether changed texts do what the texts before them do, and what they compile to: `fuselight verify`.

Invariant: nothing is written. A target is verified on its own calls; one that nothing can be compared for is not the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.report import Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.fixes.verification.patches import AllowedChange, PatchVerdict, patch_of, verify_patch
from fuselight_server.fixes.verification.verdict import VerdictKind

__all__ = ["AllowedChange", "PatchVerdict", "VerdictKind", "VerifyOutcome", "verify"]

_MAX_CHARACTERS = 500_000
"""Of all changed texts: they are parsed several times."""
_WORST_FIRST = (VerdictKind.FAILS, VerdictKind.DIFFERS, VerdictKind.UNVERIFIED, VerdictKind.SAME)


@dataclass(frozen=True)
class VerifyOutcome:
    """The verdict for each target."""

    checked: CheckOutcome
    verdicts: tuple[PatchVerdict, ...]
    new_sources: SourceFiles = field(default_factory=SourceFiles)
    """The lines of the files after the change."""

    @property
    def kind(self) -> VerdictKind:
        """The worst of all targets; unverified where none runs what has changed."""
        kinds = {verdict.kind for verdict in self.verdicts}
        return next((kind for kind in _WORST_FIRST if kind in kinds), VerdictKind.UNVERIFIED)

    @property
    def has_compared_nothing(self) -> bool:
        """Whether no target that has inputs runs what has changed."""
        return all(
            verdict.kind is VerdictKind.UNCONCERNED or verdict.before.inputs is None
            for verdict in self.verdicts
        )

    @property
    def why_unverified(self) -> str:
        """Why nothing was compared, where no target says so."""
        if any(verdict.kind is not VerdictKind.UNCONCERNED for verdict in self.verdicts):
            return ""
        if self.verdicts:
            return "no target runs what the change touches: name a file or a target that runs it"
        return "nothing ran: name a target with inputs, or a file that runs the changed text"

    @property
    def exit_code(self) -> int:
        """0 the same results, 1 other results or a failure, 2 nothing could be compared."""
        if self.kind is VerdictKind.SAME:
            return 2 if self.checked.problems else 0
        return 2 if self.kind is VerdictKind.UNVERIFIED else 1


async def verify(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    texts: Mapping[str, str],
    allowed: frozenset[AllowedChange] = frozenset(),
    case_seconds: float | None = None,
    inductor: bool = False,
) -> VerifyOutcome:
    """Compile and compare each target of the paths with changed texts, by absolute path. Raises CommandError.

    `case_seconds`: time for further calls of each text, 0 for the calls of the inputs alone, None for all calls;
    `inductor`: as in `Fixer`.
    """
    _check_size(texts)
    from fuselight_server.commands.fix_parts import parts_of  # noqa: PLC0415 - with LibCST
    from fuselight_server.fixes.verification.fixer import CASE_SECONDS, MAX_ROUNDS, Fixer  # noqa: PLC0415 - the same

    verdicts: list[PatchVerdict] = []
    sources = SourceFiles(given=options.texts)
    old = {path: sources.text_or_none(path) or "" for path in texts}
    changed = {path: text for path, text in texts.items() if text != old[path]}
    if not changed:
        raise CommandError(f"{_names(texts)}: the new text is the text on disk, so nothing was verified")
    patch = patch_of(changed, old, allowed)
    with owned_folder("verify") as folder:

        async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
            fixer = Fixer(
                read=outcome.sources.text_or_none,
                obstacle=lambda _remedy: "",
                readings=outcome.readings,
                folder=folder,
                inductor=inductor,
                case_seconds=CASE_SECONDS if case_seconds is None else case_seconds,
                most_rounds=MAX_ROUNDS if case_seconds is None else 1,
            )
            first = await target_run.run_report()
            for part, report in await parts_of(target_run, token, first, target_run.of_call):
                work = verify_patch(fixer, part, report, patch, has_further_calls=case_seconds != 0)
                verdicts.append(await token.run(work))
            fixer.runs.forget_results()
            return first

        checked = await report_each(options, show, token, report_of)
    new_sources = SourceFiles(given={**checked.sources.given, **texts})
    return VerifyOutcome(checked, _run_by_none(verdicts), new_sources)


def _run_by_none(verdicts: Sequence[PatchVerdict]) -> tuple[PatchVerdict, ...]:
    """The verdicts without the unrun lines that the calls of another target ran."""
    same = [verdict for verdict in verdicts if verdict.kind is VerdictKind.SAME]
    unrun = set.intersection(*(set(verdict.not_run) for verdict in same)) if same else set()
    old_unrun = set.intersection(*(set(verdict.old_not_run) for verdict in same)) if same else set()
    return tuple(
        replace(
            verdict,
            not_run=tuple(line for line in verdict.not_run if line in unrun),
            old_not_run=tuple(line for line in verdict.old_not_run if line in old_unrun),
        )
        for verdict in verdicts
    )


def _check_size(texts: Mapping[str, str]) -> None:
    """Raises CommandError for texts that would take too long to read."""
    size = sum(map(len, texts.values()))
    if size > _MAX_CHARACTERS:
        raise CommandError(
            f"{_names(texts)}: the changed texts have {size:,} characters, and up to {_MAX_CHARACTERS:,} are "
            "verified. Verify a part of the change, or move data out of the code."
        )


def _names(texts: Mapping[str, str]) -> str:
    return ", ".join(f"`{shown_path(path)}`" for path in sorted(texts))
