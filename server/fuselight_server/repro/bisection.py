"""The release of torch in which a fault begins or ends, by runs of a small program in releases.

Invariant: a release is named only if its run and that of the release before it show different things; a release that
cannot run the program is left out, and listed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fuselight.shared.report import ScriptOutcome, ScriptState

_RANGE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?\.\.(\d+)\.(\d+)(?:\.(\d+))?")
_WORDS = 160
"""Characters of what a release ended with."""
_DECIDED = (ScriptState.FAULT, ScriptState.RIGHT)


@dataclass(frozen=True)
class ReleaseChange:
    """What the releases show."""

    before: str = ""
    """The last release before the change; empty if no change was seen."""
    after: str = ""
    """The first release after it."""
    has_fault: bool = True
    """Whether the releases after the change have the fault; without a change, whether all have."""
    outcomes: dict[str, ScriptOutcome] = field(default_factory=dict)
    """What each release that ran showed."""

    @property
    def words(self) -> str:
        """`torch 2.12 is right, and 2.13 is wrong`."""
        if self.after:
            states = ("is right", "is wrong") if self.has_fault else ("is wrong", "is right")
            between = self._undecided_between()
            passed = (
                f" ({', '.join(between)} between them cannot run it{self._why(between)})" if between else ""
            )
            return f"torch {self.before} {states[0]}, and {self.after} {states[1]}{passed}"
        decided = [name for name, outcome in self.outcomes.items() if outcome.state in _DECIDED]
        if not decided:
            return f"no release could run the program{self._why(list(self.outcomes))}"
        shown = sorted(decided, key=_number)
        which = "the" if self.has_fault else "no"
        others = sorted(self.outcomes.keys() - {*decided}, key=_number)
        why = self._why(others)
        failed = f" ({', '.join(others)} cannot run it{why})" if why else ""
        return f"torch {' and '.join(shown)} {'have' if len(shown) > 1 else 'has'} {which} fault{failed}"

    @property
    def rows(self) -> tuple[str, ...]:
        """What each release that ran showed: `2.14.0: no answer: it took longer than 900 s`."""
        names = {ScriptState.FAULT: "wrong", ScriptState.RIGHT: "right"}
        return tuple(
            f"{name}: {names[outcome.state]}"
            if outcome.state in names
            else f"{name}: no answer{self._why([name]) or ': it gave no reason'}"
            for name, outcome in sorted(self.outcomes.items(), key=lambda item: _number(item[0]))
        )

    def _why(self, names: list[str]) -> str:
        """What the first of these releases ended with, after a colon; empty if it is not known."""
        lines = [self.outcomes[name].text.strip().rpartition("\n")[2][:_WORDS] for name in names]
        return next((f": {line}" for line in lines if line), "")

    def _undecided_between(self) -> list[str]:
        names = sorted(self.outcomes, key=_number)
        inside = names[names.index(self.before) + 1 : names.index(self.after)]
        return [name for name in inside if self.outcomes[name].state not in _DECIDED]


def releases_between(text: str) -> tuple[str, ...]:
    """The releases that `2.11..2.15` names, both ends included; of `2.13.0..2.14.1` 2.13.0, 2.14.0 and 2.14.1.

    With three numbers, the first patch release of each version is one, and of the last version all up to the end.
    Raises ValueError.
    """
    match = _RANGE.fullmatch(text)
    major, minor, patch, last_major, last_minor, last_patch = (
        (int(part) if part is not None else None for part in match.groups())
        if match is not None
        else (0,) * 6
    )
    has_patches = patch is not None
    if has_patches != (last_patch is not None) or major != last_major:
        raise ValueError(_not_a_range(text))
    first, last = (minor or 0, patch or 0), (last_minor or 0, last_patch or 0)
    if first >= last:
        raise ValueError(_not_a_range(text))
    minors = range(first[0], last[0] + 1)
    if not has_patches:
        return tuple(f"{major}.{each}" for each in minors)
    inside = {(each, 0) for each in minors} | {(last[0], each) for each in range(last[1] + 1)} | {first}
    return tuple(f"{major}.{each[0]}.{each[1]}" for each in sorted(inside) if first <= each <= last)


def _not_a_range(text: str) -> str:
    return f"`{text}` is not a range of releases such as 2.11..2.15 or 2.13.0..2.14.1"


async def find_change(
    releases: tuple[str, ...], run: Callable[[str], Awaitable[ScriptOutcome]]
) -> ReleaseChange:
    """Bisect: both ends first, then the middle. `run` gives what the program shows in a release."""
    outcomes: dict[str, ScriptOutcome] = {}

    async def state_of(index: int) -> ScriptState:
        name = releases[index]
        if name not in outcomes:
            outcomes[name] = await run(name)
        return outcomes[name].state

    first, last = 0, len(releases) - 1
    while first < last and await state_of(first) not in _DECIDED:
        first += 1
    while last > first and await state_of(last) not in _DECIDED:
        last -= 1
    start, end = await state_of(first), await state_of(last)
    if start is end or start not in _DECIDED:
        return ReleaseChange(has_fault=start is ScriptState.FAULT, outcomes=outcomes)
    while True:
        inside = sorted(range(first + 1, last), key=lambda index: abs(index - (first + last) / 2))
        middle = next((index for index in inside if _may_narrow(outcomes, releases[index])), None)
        if middle is None:
            break
        state = await state_of(middle)
        if state is start:
            first = middle
        elif state is end:
            last = middle
    return ReleaseChange(releases[first], releases[last], end is ScriptState.FAULT, outcomes)


def _may_narrow(outcomes: dict[str, ScriptOutcome], name: str) -> bool:
    """Whether a release is still to run, or has an answer that narrows the range."""
    return name not in outcomes or outcomes[name].state in _DECIDED


def _number(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")))
