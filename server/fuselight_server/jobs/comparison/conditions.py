"""The conditions under which two jobs ran that differ: versions, variables, settings, numbers of ranks.

Invariant: what one of the logs did not record is no difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fuselight_server.jobs.caches.model import CacheSummary, CauseKind, Factor
from fuselight_server.jobs.comparison.model import ConditionChange, ConditionKind
from fuselight_server.jobs.comparison.sides import ComparedSide, LoggedReport

_OF_JOB = frozenset(
    (
        Factor.SETTING,
        Factor.MATMUL,
        Factor.DETERMINISM,
        Factor.DEFAULT_DTYPE,
        Factor.DEFAULT_DEVICE,
        Factor.THREADS,
        Factor.CUSTOM_PASS,
        Factor.TAG,
        Factor.SYSTEM,
    )
)
"""Factors of a cache key that are those of the whole job, and that no other record has."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_FOLDER_OF_LOGS = "TORCH_TRACE"
"""A variable that differs for every two jobs, and of which nothing in a job depends."""
_RECORD = "fuselight_environment"
"""Record of all variables that matter; other records have those that torch prints itself."""


def compare_conditions(
    after: Sequence[LoggedReport], before: Sequence[LoggedReport], summary: CacheSummary
) -> Iterator[ConditionChange]:
    """Versions, then variables, then settings. `summary` compares the later job with the earlier one."""
    versions = _versions(after), _versions(before)
    yield from _changes(ConditionKind.VERSION, *versions)
    if _has_environment(after) == _has_environment(before):
        variables = tuple(
            {name: value for name, value in _variables(side).items() if name != _FOLDER_OF_LOGS}
            for side in (after, before)
        )
        if all(variables) or _has_environment(after):
            yield from _changes(ConditionKind.VARIABLE, *variables, is_absence_known=True)
    yield from _settings(summary, is_same_torch=torch_versions(after) == torch_versions(before))


def compare_ranks(after: ComparedSide, before: ComparedSide) -> Iterator[ConditionChange]:
    """The number of ranks, where it differs."""
    ours, theirs = len(after.ranks), len(before.ranks)
    if ours != theirs:
        yield ConditionChange(ConditionKind.RANKS, "ranks", _number(theirs), _number(ours))


def _number(ranks: int) -> str | None:
    return f"{ranks:,}" if ranks else None


def torch_versions(processes: Iterable[LoggedReport]) -> tuple[str, ...]:
    """The releases of torch, mostly one."""
    return tuple(sorted({item.log.torch_version for item in processes if item.log.torch_version}))


def _versions(processes: Sequence[LoggedReport]) -> dict[str, str]:
    names = {"torch": ", ".join(torch_versions(processes))}
    for name in ("python", "triton"):
        known = {getattr(item.report.versions, name) for item in processes} - {None, "unknown"}
        names[name] = ", ".join(sorted(known))
    return {name: text for name, text in names.items() if text}


def _has_environment(processes: Iterable[LoggedReport]) -> bool:
    return any(_RECORD in kind for item in processes for kind in item.log.kinds)


def _variables(processes: Sequence[LoggedReport]) -> dict[str, str]:
    """The variables of the first process that recorded any."""
    return dict(next((item.log.environment for item in processes if item.log.environment), {}))


def _changes(
    kind: ConditionKind,
    after: Mapping[str, str],
    before: Mapping[str, str],
    *,
    is_absence_known: bool = False,
) -> Iterator[ConditionChange]:
    for name in sorted({*after, *before}, key=lambda name: (name != "torch", name)):
        ours, theirs = after.get(name), before.get(name)
        if ours != theirs and (is_absence_known or (ours is not None and theirs is not None)):
            yield ConditionChange(kind, name, theirs, ours)


def _settings(summary: CacheSummary, *, is_same_torch: bool) -> Iterator[ConditionChange]:
    """The factors of the cache keys that do not depend on what is compiled, each once.

    Another release of torch has other factors and writes them in another way: then only settings with both values.
    """
    changes = {
        change.subject: change
        for result in reversed(summary.results)
        for cause in result.causes
        if cause.kind is CauseKind.KEY_CHANGED
        for change in cause.changes
        if change.factor in _OF_JOB and (is_same_torch or change.factor is Factor.SETTING)
    }
    for subject, change in sorted(changes.items()):
        before, after = (value and _ADDRESS.sub("", value) for value in (change.before, change.after))
        is_hash_known = is_same_torch and before is None and after is None
        if is_hash_known or (before != after and before is not None and after is not None):
            yield ConditionChange(ConditionKind.SETTING, subject, before, after)
