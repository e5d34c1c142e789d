"""Verified fixes as diffs of their own, for those who want some of them.

Invariant: a diff applies to the files as they are, with the fixes that it needs and without all others. What was
compared is each fix on top of all before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight_server.base.diff_text import unified_lines
from fuselight_server.base.unified_diff import DiffError, apply_diff
from fuselight_server.fixes.verification.attempts import Attempt

_MAX_SEPARATED = 40
"""Fixes for which fewer needs are looked for than all before them."""
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class SeparateFix:
    """The diff of one fix."""

    attempt: Attempt
    diff: str
    """Empty for a notebook, whose cells change together."""
    needs: tuple[int, ...] = ()
    """Indices of the fixes that have to be applied before it: its lines or its names are from them."""


@dataclass(frozen=True)
class _Step:
    """What a fix changes of the texts before it."""

    diff: str
    added: frozenset[str]
    """Names in the lines that it adds."""
    is_notebook: bool


def separate_fixes(
    attempts: Iterable[Attempt], before: Mapping[str, str], name: Callable[[str], str]
) -> tuple[SeparateFix, ...]:
    """Each fix that has passed, in the order in which they were found.

    `before`: the texts without any, by path; `name`: the name of a path in a diff.
    """
    passed = [attempt for attempt in attempts if attempt.has_passed]
    steps = list(_steps(passed, before))
    names = frozenset(_NAME.findall("\n".join(before.values())))
    fixes: list[SeparateFix] = []
    for number, attempt in enumerate(passed):
        direct = _needs(steps, number, before, names)
        needs = tuple(sorted({*direct, *(far for near in direct for far in fixes[near].needs)}))
        texts = _texts_with(steps, needs, before)
        after = _texts_with(steps, (*needs, number), before)
        is_known = texts is not None and after is not None and not steps[number].is_notebook
        diff = _unified(texts, after, name) if is_known and texts is not None and after is not None else ""
        fixes.append(SeparateFix(attempt, diff, needs))
    return tuple(fixes)


def _steps(passed: Sequence[Attempt], before: Mapping[str, str]) -> Iterator[_Step]:
    texts = dict(before)
    for attempt in passed:
        new = attempt.remedy.texts
        diff = _unified({path: texts.get(path, "") for path in new}, new, lambda path: path)
        added = "\n".join(line[1:] for line in diff.splitlines() if line[:1] == "+" and line[:4] != "+++ ")
        yield _Step(diff, frozenset(_NAME.findall(added)), any(path.endswith(SUFFIX) for path in new))
        texts.update(new)


def _needs(steps: Sequence[_Step], number: int, before: Mapping[str, str], names: frozenset[str]) -> set[int]:
    """The fixes that have to be applied before one: those that bring its names, and those that its lines stand on."""
    new_names = steps[number].added - names
    needs = {earlier for earlier in range(number) if steps[earlier].added & new_names}
    if _applies(steps, needs, number, before):
        return needs
    everything = set(range(number))
    for earlier in range(number) if number < _MAX_SEPARATED else ():
        if earlier not in needs and _applies(steps, everything - {earlier}, number, before):
            everything.discard(earlier)
    return everything


def _applies(steps: Sequence[_Step], needs: set[int], number: int, before: Mapping[str, str]) -> bool:
    return _texts_with(steps, (*sorted(needs), number), before) is not None


def _texts_with(
    steps: Sequence[_Step], chosen: Iterable[int], before: Mapping[str, str]
) -> dict[str, str] | None:
    """The texts with some of the fixes; None where their lines are not there."""
    texts = dict(before)
    for number in chosen:
        try:
            texts.update(apply_diff(steps[number].diff, texts.get))
        except DiffError:
            return None
    return texts


def _unified(before: Mapping[str, str], after: Mapping[str, str], name: Callable[[str], str]) -> str:
    """The unified diff of texts by path."""
    return "".join(
        line
        for path in sorted(after)
        for line in unified_lines(name(path), before.get(path, ""), after[path])
    )
