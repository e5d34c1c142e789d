"""Functions that ranks compile in other modes: autocast, gradients, precision, defaults, settings, train and eval.

Invariant: compiles are compared by function, whatever their order. A rank that compiles a function once more in another
mode, as for an evaluation, has a recompilation, and no difference here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Compile, EqualRanks, Location, Mode, innermost_user_frame

_NO_BACKWARD = "A call without gradients has no backward: the other ranks wait in the collectives of theirs."
_PRECISION = "The results of these ranks differ in dtype or precision."
_EFFECTS = {
    "grad mode": _NO_BACKWARD,
    "inference mode": _NO_BACKWARD,
    "autocast": _PRECISION,
    "float32 matmul precision": _PRECISION,
    "default dtype": _PRECISION,
    "modules in": "Dropout and normalization compute something else in eval() than in train() mode.",
}
_SETTING = "torch."
"""Start of the names of settings."""
_Values = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class ModeDifference:
    """A function that each of two groups of ranks compiles in modes that the other one does not have."""

    function: str
    names: tuple[str, ...]
    """The modes that differ."""
    compiled: tuple[Compile, Compile]
    """Of the first and of the second group."""

    def effects(self) -> Iterator[str]:
        """What the modes change, besides what is compiled."""
        effects = (_EFFECTS[name] for name in self.names if name in _EFFECTS)
        yield from dict.fromkeys(effects)

    def words(self, side: int) -> str:
        """`grad mode off and autocast on (cpu bfloat16)`, of one group."""
        values = [self._words(name, side) for name in self.names]
        return " and ".join((", ".join(values[:-1]), values[-1]) if len(values) > 1 else values)

    def _words(self, name: str, side: int) -> str:
        mode = _mode(self.compiled[side], name)
        either = mode or _mode(self.compiled[1 - side], name)
        value = mode.value if mode is not None else "" if either is None else either.default
        return f"`{name} = {value}`" if name.startswith(_SETTING) else f"{name} {value}"

    def lines(self, side: int, roots: Sequence[str]) -> Iterator[tuple[Location, str]]:
        """The lines that set the modes of one group, with what they set."""
        for name in self.names:
            mode = _mode(self.compiled[side], name)
            place = None if mode is None else innermost_user_frame(mode.stack, roots)
            if place is not None:
                yield place, self._words(name, side)


def _mode(compiled: Compile, name: str) -> Mode | None:
    return next((mode for mode in compiled.modes if mode.name == name), None)


def mode_differences(first: EqualRanks, second: EqualRanks) -> Iterator[ModeDifference]:
    """One for each set of modes in which functions differ."""
    seen: set[tuple[_Values, _Values]] = set()
    of_first, of_second = _by_function(first), _by_function(second)
    for function, compiles in of_first.items():
        others = of_second.get(function)
        if others is None:
            continue
        pair = _unmatched(compiles, others, first, second)
        if pair is None:
            continue
        values = _values(pair[0]), _values(pair[1])
        names = tuple(dict.fromkeys(mode.name for side in pair for mode in side.modes))
        differing = tuple(name for name in names if _value(pair[0], name) != _value(pair[1], name))
        known = (values[0] - values[1], values[1] - values[0])
        if differing and known not in seen:
            seen.add(known)
            yield ModeDifference(function[0], differing, pair)


def _unmatched(
    compiles: Sequence[Compile], others: Sequence[Compile], first: EqualRanks, second: EqualRanks
) -> tuple[Compile, Compile] | None:
    """The compiles of the two sides that are nearest, of those in modes that the other side does not have.

    A side that only has further compiles of its own, or one that failed and may lack some, has no such compile.
    """
    modes, other_modes = {_values(item) for item in compiles}, {_values(item) for item in others}
    ours = [item for item in compiles if _values(item) not in other_modes]
    theirs = [item for item in others if _values(item) not in modes]
    if not ours and not theirs:
        return None
    if not ours and (len(others) > len(compiles) or first.failures):
        return None
    if not theirs and (len(compiles) > len(others) or second.failures):
        return None
    pairs = ((left, right) for left in ours or compiles for right in theirs or others)
    return min(pairs, key=lambda pair: len(_values(pair[0]) ^ _values(pair[1])))


def _by_function(ranks: EqualRanks) -> dict[tuple[str, Location], list[Compile]]:
    compiles: defaultdict[tuple[str, Location], list[Compile]] = defaultdict(list)
    for compiled in ranks.compiles:
        if compiled.graph is not None:
            frame = ranks.frames[compiled.frame]
            compiles[frame.function, frame.location].append(compiled)
    return compiles


def _values(compiled: Compile) -> _Values:
    return frozenset((mode.name, mode.value) for mode in compiled.modes)


def _value(compiled: Compile, name: str) -> str | None:
    mode = _mode(compiled, name)
    return None if mode is None else mode.value


def mode_lines(
    ranks: EqualRanks, compile_id: str | None, roots: Sequence[str]
) -> Iterator[tuple[Location, str]]:
    """The lines that set the modes of a compile that earlier compiles of its function do not have."""
    compiled = next((item for item in ranks.compiles if item.id == compile_id), None)
    if compiled is None:
        return
    before = [item for item in ranks.compiles if item.frame == compiled.frame and item is not compiled]
    known = {pair for item in before for pair in _values(item)}
    for mode in compiled.modes:
        place = innermost_user_frame(mode.stack, roots)
        if place is not None and (mode.name, mode.value) not in known:
            yield place, f"{mode.name} {mode.value}"
