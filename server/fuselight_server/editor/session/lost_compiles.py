"""What open jobs compiled again, on the lines of the texts of now, and the rewrites that may let a cache hit.

Invariant: a finding whose line was edited since its job was opened has none. Nothing is verified here, nothing runs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight_server.commands.cache_fixes import CODE, cache_rewrites, lost_in_job
from fuselight_server.editor.session.verified_results import current_text
from fuselight_server.fixes.rewrites.families import RefusedRewrite, Rewrites
from fuselight_server.source.line_map import LineMap

if TYPE_CHECKING:
    from fuselight.shared.report import Location
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.cache_fixes import LostCompile
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.results.jobs import JobResult
    from fuselight_server.editor.session.state import State
    from fuselight_server.fixes.verification.fixer import Fixer


def is_on(finding: Finding, path: str, first: int, last: int) -> bool:
    """Whether a finding is on one of the lines `first` to `last` of a file."""
    span = finding.span
    return span.path == path and span.line <= last and first <= (span.end_line or span.line)


def lost_in_jobs(state: State, path: str, first: int, last: int) -> list[LostCompile]:
    """What open jobs compiled again for a cause on some lines of a file."""
    lost: list[LostCompile] = []
    for job in state.jobs.values():
        of_code = (item.tracked for item in job.on(path) if item.tracked.finding.code == CODE)
        now = (tracked.now() for tracked in of_code if not tracked.edited)
        here = [finding for finding in now if is_on(finding, path, first, last)]
        if here:
            lost += lost_in_job(job.opened, here, _JobLines(state, job).now)
    return lost


def rewrites_of(lost: LostCompile, result: CaptureResult, fixer: Fixer) -> Rewrites:
    """The rewrites for a lost compile that the target of a result has, too."""
    candidates = tuple(cache_rewrites(lost, result.key.path, result.report, fixer.texts.text))
    return Rewrites(
        tuple(candidate for candidate in candidates if not isinstance(candidate, RefusedRewrite)),
        tuple(candidate for candidate in candidates if isinstance(candidate, RefusedRewrite)),
    )


@dataclass
class _JobLines:
    """Where the lines of a job are in the texts of now."""

    state: State
    job: JobResult
    maps: dict[str, LineMap] = field(default_factory=dict)
    """By local path."""

    def now(self, logged: Location) -> Location:
        """A location of the job: in the local file, if it is here."""
        location = self.job.opened.files.location(logged)
        if location.path not in self.maps:
            before = "\n".join(self.job.lines_as_read(location.path))
            after = current_text(self.state, location.path)
            self.maps[location.path] = LineMap.between(before, before if after is None else after)
        return dataclasses.replace(location, line=self.maps[location.path].places(location.line)[0])
