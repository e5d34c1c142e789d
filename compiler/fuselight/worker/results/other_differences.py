"""What a compiled call does otherwise than eager mode, besides tensors: exceptions, objects, state, memory, text.

Invariant: numbers within texts may differ by what rounding does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fuselight.measure.accuracy.results import CHANGED
from fuselight.shared.report import RAISES_NOTHING, Aspect, Difference
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.live.call_traits import MEMORY
from fuselight.worker.live.record_comparison import change_words

_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE)
_NEAR, _TINY = 1e-3, 1e-5
_SHOWN = 80
_OF_OPERATORS = frozenset({"RuntimeError", "TorchRuntimeError"})
"""What operators raise, and what TorchDynamo makes of it: a RuntimeError as well."""


def other_differences(compiled: CallRecord, eager: CallRecord) -> tuple[Difference, ...]:
    """List what differs, the first of each aspect."""
    raised = {compiled.raised, eager.raised}
    is_same = len(raised) == 1 or raised == _OF_OPERATORS
    differences = _effects(compiled, eager) if is_same else _exceptions(compiled, eager)
    first: dict[Aspect, Difference] = {}
    for difference in differences:
        first.setdefault(difference.aspect, difference)
    return tuple(first.values())


def _exceptions(compiled: CallRecord, eager: CallRecord) -> Iterator[Difference]:
    ours, theirs = (
        f"raises {call.raised}: {call.message}" if call.raised else "raises nothing"
        for call in (compiled, eager)
    )
    ours = f"compiled code {ours}" if compiled.raised else RAISES_NOTHING
    yield Difference(Aspect.EXCEPTION, f"{ours}, eager mode {theirs}")


def _effects(compiled: CallRecord, eager: CallRecord) -> Iterator[Difference]:
    for name, now, was in _unlike(compiled.described, eager.described):
        yield Difference(Aspect.OUTPUT, f"{name} is {now or 'a number'}, eager's is {was or 'a number'}")
    for words in (
        (compiled.numbers, eager.numbers),
        (_without_tensors(compiled.reached), _without_tensors(eager.reached)),
    ):
        for name, now, was in _unlike(*words):
            yield Difference(
                Aspect.STATE, f"{name} {change_words(now)}, in eager mode it {change_words(was)}"
            )
    for name, now, was in _unlike(_of_memory(compiled.traits), _of_memory(eager.traits)):
        output = name.removesuffix(MEMORY)
        yield Difference(Aspect.MEMORY, f"{output} shares memory with {now}, eager's with {was}")
    if not _is_near(compiled.stdout, eager.stdout):
        yield Difference(Aspect.PRINTED, _printed(compiled.stdout, eager.stdout))


def _unlike(compiled: Mapping[str, str], eager: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The names whose texts differ, with both texts."""
    for name in {**eager, **compiled}:
        now, was = compiled.get(name, ""), eager.get(name, "")
        if not _is_near(now, was):
            yield name, now[:_SHOWN], was[:_SHOWN]


def _without_tensors(reached: Mapping[str, str]) -> dict[str, str]:
    """The words without the tensors, which are among the results."""
    return {name: text for name, text in reached.items() if not name.endswith(CHANGED)}


def _of_memory(traits: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in traits.items() if name.endswith(MEMORY)}


def _printed(compiled: str, eager: str) -> str:
    ours, theirs = compiled.splitlines(), eager.splitlines()
    for number in range(max(len(ours), len(theirs))):
        now, was = (lines[number] if number < len(lines) else None for lines in (ours, theirs))
        if now is None:
            return f"compiled code does not print `{(was or '')[:_SHOWN]}`"
        if was is None:
            return f"compiled code also prints `{now[:_SHOWN]}`"
        if not _is_near(now, was):
            return f"compiled code prints `{now[:_SHOWN]}`, eager mode `{was[:_SHOWN]}`"
    return "compiled code prints other line ends"


def _is_near(text: str, other: str) -> bool:
    """Whether two texts are equal but for numbers that differ by what rounding may do."""
    if text == other:
        return True
    if _NUMBER.sub("#", text) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(text), _NUMBER.findall(other), strict=True)
    return all(
        ours == theirs
        or ("." in ours + theirs and abs(float(ours) - float(theirs)) <= _TINY + _NEAR * abs(float(theirs)))
        for ours, theirs in pairs
    )
