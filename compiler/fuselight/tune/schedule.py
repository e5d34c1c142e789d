"""What a search tries next, and whether there is time for it. Standard library only, and no clock of its own.

Invariant: no set of knobs is tried twice, none has knobs that exclude each other, or lacks what one of them requires.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuselight.tune.knobs import (
    BY_NAME,
    CPU,
    GPU,
    KNOBS,
    KnobSetting,
    are_exclusive,
    are_rivals,
    configuration_of,
)

Knobs = frozenset[str]
"""Names of the knobs that a candidate changes from `default`; empty for `default` itself."""

CORES_PER_COMPILE = 2
"""A compile has one busy process; others compile kernels for a part of its time."""
BYTES_PER_COMPILE = 3 << 30
"""Host memory of a compile: torch, the model, Inductor, and the processes that compile kernels."""
_FINISH_PART = 0.25
_LEAST_FINISH = 10.0
"""Seconds after the budget in which what was measured is confirmed and described."""
MAX_COMPILES = 8
MAX_AUTOTUNES = {GPU: 2, CPU: 1}
"""Compiles that time kernels at the same time, by device. On a CPU they take the cores from each other. A GPU runs the
kernels of several processes in turn, and choices made next to 18 other compiles gained 1 to 8% on an H100
(docs/results/tuning-history.md)."""


def compiles_side_by_side(cores: float, available_bytes: int | None) -> int:
    """How many compiles run at the same time on a machine with this many cores and this much free memory."""
    fit = MAX_COMPILES if available_bytes is None else available_bytes // BYTES_PER_COMPILE
    return int(max(1, min(MAX_COMPILES, max(2.0, cores / CORES_PER_COMPILE), fit)))


@dataclass
class Budget:
    """The time of a search, in seconds of `clock`."""

    clock: Callable[[], float]
    began: float
    seconds: float
    excluded: float = 0.0
    """Seconds in which the search was paused for another search on this machine."""
    is_used: bool = False
    """Whether the search is over: what follows was asked for in addition to it."""

    @property
    def elapsed(self) -> float:
        """Seconds since the search began, without those in which it was paused."""
        return self.clock() - self.began - self.excluded

    def left(self, reserve: float = 0.0) -> float:
        """Seconds until the budget ends, less `reserve`; below 0 once they are used up."""
        return self.seconds - reserve - self.elapsed

    def finish_left(self) -> float:
        """Seconds until the search ends whatever it knows: a quarter of the budget after that."""
        if self.is_used:
            return math.inf
        return self.left(-max(_LEAST_FINISH, _FINISH_PART * self.seconds))


@dataclass(frozen=True)
class CompileTime:
    """The duration of `default`'s compile, from which those of others are predicted, in seconds."""

    start: float
    """Until the first call: the imports and the build."""
    compile: float

    def of(self, knobs: Sequence[KnobSetting]) -> float:
        """Predict the time from the start of a candidate's process until it can be timed."""
        return self.start + self.compile * (1 + sum(max(0.0, knob.compile_factor - 1) for knob in knobs))


def named_knobs(configuration: str) -> Knobs:
    """The knobs that a configuration is made of; empty if it has something that no knob changes."""
    parts = set(configuration.split("+"))
    settings = [knob for knob in KNOBS if parts.issuperset(knob.parts)]
    largest = [knob for knob in settings if not any(set(knob.parts) < set(other.parts) for other in settings)]
    is_whole = set(configuration_of(largest).split("+")) == parts
    return Knobs(knob.name for knob in largest) if is_whole else Knobs()


class Planner:
    """Chooses the next set of knobs: the best one so far with one more knob.

    The search is greedy. Knobs that were faster in an earlier trial are combined with the best set first. Then each
    knob that has not been tried is added to the best set, in the given order.
    """

    def __init__(self, settings: Sequence[KnobSetting], noise: float) -> None:
        """`settings`: the knobs to try, most promising first. `noise`: a smaller relative gain counts as none."""
        self._settings = {setting.name: setting for setting in settings}
        self._noise = noise

    def settings_of(self, knobs: Collection[str]) -> tuple[KnobSetting, ...]:
        """The catalog's entries of these knobs."""
        return tuple(setting for name, setting in self._settings.items() if name in knobs)

    def next(
        self,
        best: Knobs,
        known: Mapping[Knobs, float],
        pending: Collection[Knobs],
        may_start: Callable[[Knobs], bool] = lambda _: True,
    ) -> Knobs | None:
        """The next set to try; None if there is nothing left that `may_start` now.

        `known`: the speed-up over `default` of each set that was tried, 0 for one that failed; `pending`: sets that are
        being compiled, or for which there is no time.
        """
        seen = {*known, *pending, Knobs()}
        proposals = (
            *self._combined(best, known),
            *self._added(best, known, pending),
            *self._reduced(best, known),
        )
        return next(
            (proposal for proposal in proposals if proposal not in seen and may_start(proposal)), None
        )

    def untried(self, known: Mapping[Knobs, float], pending: Collection[Knobs]) -> tuple[KnobSetting, ...]:
        """Knobs of which nothing is known."""
        tried = self._tried(known, pending)
        return tuple(setting for name, setting in self._settings.items() if name not in tried)

    def _combined(self, best: Knobs, known: Mapping[Knobs, float]) -> Iterator[Knobs]:
        """`best` with each knob that made another set faster, the largest gain first.

        A knob does not replace one that it excludes and that gained more.
        """
        gains: dict[str, float] = {}
        for knobs, gain in known.items():
            for name in knobs - best:
                before = known.get(knobs - {name}, 1.0)
                if before > 0 and gain > before * (1 + self._noise):
                    gains[name] = max(gains.get(name, 0.0), gain / before)
        for name in sorted(gains, key=lambda gain: -gains[gain]):
            rivals = [_gain_of(text, known) for text in best if _are_exclusive(name, text)]
            combined = self._with(best, name)
            if combined is not None and gains[name] > max(rivals, default=1.0):
                yield combined

    def _added(
        self, best: Knobs, known: Mapping[Knobs, float], pending: Collection[Knobs]
    ) -> Iterator[Knobs]:
        """`best` with each knob that has not been tried, and that has no rival in it."""
        for setting in self.untried(known, pending):
            if has_rival(setting.name, best):
                continue
            if (added := self._with(best, setting.name)) is not None:
                yield added

    @staticmethod
    def _reduced(best: Knobs, known: Mapping[Knobs, float]) -> Iterator[Knobs]:
        """`best` without a knob that made `default` slower by itself, and that none of the others requires."""
        for name in sorted(best):
            is_required = any(name in BY_NAME[other].requires for other in best)
            if len(best) > 1 and not is_required and 0 < known.get(Knobs({name}), 1.0) < 1:
                yield best - {name}

    def _with(self, best: Knobs, name: str) -> Knobs | None:
        """`best` with one more knob and what it requires; None if that is not possible.

        A knob replaces those that it excludes.
        """
        setting = self._settings.get(name)
        if setting is None or any(needed not in self._settings for needed in setting.requires):
            return None
        kept = {text for text in best if not _are_exclusive(name, text)}
        return Knobs({*kept, name, *setting.requires})

    def _tried(self, known: Mapping[Knobs, float], pending: Collection[Knobs]) -> set[str]:
        """Knobs that were measured, are being compiled, or are the reason why a set failed."""
        tried = {name for knobs in pending for name in knobs}
        for knobs, gain in known.items():
            others_work = (known.get(knobs - {name}, 1.0) > 0 for name in knobs)
            tried |= {name for name, blamed in zip(knobs, others_work, strict=True) if gain > 0 or blamed}
        return tried


def has_rival(name: str, knobs: Knobs) -> bool:
    """Whether a set has a knob that this one cannot be combined with, and is no alternative to."""
    return any(are_rivals(BY_NAME[name], BY_NAME[other]) for other in knobs if other != name)


def _are_exclusive(name: str, other: str) -> bool:
    return name != other and are_exclusive(BY_NAME[name], BY_NAME[other])


def _gain_of(name: str, known: Mapping[Knobs, float]) -> float:
    """The largest speed-up of a set with this knob over the same set without it; 1 if none was measured."""
    pairs = (
        (gain, known.get(key - {name}, 1.0 if len(key) == 1 else 0.0))
        for key, gain in known.items()
        if name in key
    )
    return max((gain / before for gain, before in pairs if before > 0), default=1.0)
