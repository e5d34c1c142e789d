"""Reduction of a program to the smallest that still shows its fault.

Invariant: each step is confirmed by a run, and the best program so far is always complete: what ends the search early
costs size, and nothing else.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fuselight.shared.report import RecordedNode, ScriptOutcome, ScriptState
from fuselight_server.repro.model import Fill, Observed, SmallProgram
from fuselight_server.repro.sizes import smaller_sizes
from fuselight_server.repro.text import script_of

_SMALL_VALUES = (1e-2, 0.0)
"""The tolerance with which tensors of small values are compared."""
_HALF = (5e-2, 1e-2)
_PIECES = (1, 3, 9)
"""Operators at the end that are tried alone before the search."""


_KIND = re.compile(r"[^\d'\"`\n]{0,80}")


class BudgetSpentError(Exception):
    """The time for the reduction is over."""


@dataclass
class Reduction:
    """One search."""

    trial: Callable[[str], Awaitable[ScriptOutcome]]
    """Runs the text of a program."""
    clock: Callable[[], float]
    seconds: float
    on_step: Callable[[str], None] = lambda _text: None
    with_values: bool = False
    tried: int = 0
    best: SmallProgram | None = None
    last: ScriptOutcome | None = None
    """Of the best program."""
    refusals: list[str] = field(default_factory=list)
    """What programs showed that were tried first and were not taken."""
    is_spent: bool = False
    """Whether the time ended the search."""
    failure: str = ""
    """How the words of the first failure begin: smaller programs have to fail in the same way."""
    _known: dict[str, ScriptOutcome] = field(default_factory=dict)
    _longest: float = 0.0

    def __post_init__(self) -> None:
        self._until = self.clock() + self.seconds

    async def shows(self, program: SmallProgram) -> bool:
        """Whether a program shows the fault; it is then the best. Raises BudgetSpentError."""
        if not program.is_closed or program.foreign:
            return False
        text = script_of(program)
        outcome = self._known.get(text)
        if outcome is None:
            if self.clock() + self._longest > self._until:
                raise BudgetSpentError
            self.tried += 1
            self.on_step(f"program {self.tried}, {len(program.nodes)} operators")
            start = self.clock()
            outcome = self._known[text] = await self.trial(text)
            self._longest = max(0.5 * self._longest, self.clock() - start)
        is_fault = outcome.state is ScriptState.FAULT and outcome.text.startswith(self.failure)
        if is_fault:
            if self.best is None and program.observed is Observed.FAILURE:
                self.failure = kind_of(outcome.text)
            self.best, self.last = program, outcome
        elif self.best is None:
            self.refusals.append(outcome.text or outcome.state.value)
        return is_fault

    async def reduce(self, programs: Iterator[SmallProgram]) -> SmallProgram | None:
        """The smallest program that shows the fault; None if none of `programs` does."""
        try:
            for program in programs:
                if await self.shows(program):
                    break
            else:
                return None
            for step in (self._outputs, self._nodes, self._outputs, self._sizes, self._inputs, self._rest):
                await step()
        except BudgetSpentError:
            self.is_spent = True
        return self.best

    async def _outputs(self) -> None:
        """Return only what differs."""
        best, outcome = self._now(), self.last
        if best.observed not in (Observed.OUTPUTS, Observed.GRADIENTS) or len(best.outputs) < 2:  # noqa: PLR2004
            return
        differing = outcome.differing if outcome is not None and best.observed is Observed.OUTPUTS else ()
        order = [*differing, *(index for index in range(len(best.outputs)) if index not in differing)]
        for index in order[:4]:
            if await self.shows(replace(best, outputs=(best.outputs[index],))):
                return

    async def _nodes(self) -> None:
        """Delta debugging over the lines: what a line used that is gone becomes an input."""
        await self._needed()
        await self._around_the_end()
        count = 2
        while len(self._now().nodes) > 1:
            nodes = self._now().nodes
            size = max(1, len(nodes) // count)
            for start in range(0, len(nodes), size):
                left = nodes[:start] + nodes[start + size :]
                if left and await self._keeps(left):
                    count = max(count - 1, 2)
                    break
            else:
                if size == 1:
                    return
                count = min(count * 2, len(nodes))

    async def _needed(self) -> None:
        """Leave out lines whose results nothing uses."""
        best = self._now()
        wanted = set(best.outputs)
        for node in reversed(best.nodes):
            if node.name in wanted or node.is_statement or _writes(node):
                wanted |= {node.name, *node.uses}
        await self._keeps(tuple(node for node in best.nodes if node.name in wanted))

    async def _around_the_end(self) -> None:
        """Short pieces that end with what differs are tried first: most faults are of a few operators."""
        best = self._now()
        for length in itertools.takewhile(lambda length: length * 2 <= len(best.nodes), _PIECES):
            if await self._keeps(best.nodes[-length:]):
                return

    async def _keeps(self, nodes: tuple[RecordedNode, ...]) -> bool:
        best = self._now()
        program = best.with_closure(nodes)
        if len(program.nodes) >= len(best.nodes):
            return False
        return await self.shows(program)

    async def _sizes(self) -> None:
        """Shrink dimensions, the largest first."""
        is_better = True
        while is_better:
            is_better = False
            for program in smaller_sizes(self._now()):
                if await self.shows(program):
                    is_better = True
                    break

    async def _inputs(self) -> None:
        """Plainer values, strides and settings, each alone."""
        for name in self._now().inputs:
            for fill in (Fill.ONES, Fill.NORMAL):
                best = self._now()
                if name not in best.inputs or best.fills.get(name) is fill or not _is_float(best, name):
                    continue
                if await self.shows(replace(best, fills={**best.fills, name: fill})):
                    break

    async def _rest(self) -> None:
        for setting in tuple(self._now().settings):
            best = self._now()
            left = {name: text for name, text in best.settings.items() if name != setting}
            await self.shows(replace(best, settings=left))
        if self._now().strided:
            await self.shows(replace(self._now(), strided=False))
        if self._now().dynamic:
            await self.shows(replace(self._now(), dynamic=False))
        if self._now().grad and self._now().observed is not Observed.GRADIENTS:
            await self.shows(replace(self._now(), grad=False))

    def _now(self) -> SmallProgram:
        if self.best is None:
            raise BudgetSpentError
        return self.best


def kind_of(words: str) -> str:
    """The beginning of the words of an exception, up to what depends on the program: a number, a name in quotes."""
    match = _KIND.match(words)
    return match[0] if match is not None else ""


def _writes(node: RecordedNode) -> bool:
    """Whether a line may change one of its inputs."""
    method = node.code.partition("(")[0].rpartition(".")[2]
    return method.endswith("_") or "out=" in node.code or method.startswith("_")


def _is_float(program: SmallProgram, name: str) -> bool:
    return program.traits[name].dtype.startswith(("float", "bfloat"))


def variants(
    program: SmallProgram, settings: Mapping[str, str], *, dynamic: bool, with_values: bool, may_train: bool
) -> Iterator[SmallProgram]:
    """The program with more and more of what the user's program had, until one shows the fault."""
    if any(traits.dtype in ("float16", "bfloat16") for traits in program.traits.values()):
        program = replace(program, tolerance=_HALF)
    yield program
    if program.observed is Observed.OUTPUTS:
        yield replace(program, tolerance=_SMALL_VALUES)
    bases = [program]
    if any(not _is_dense(program, name) for name in program.inputs):
        bases.append(replace(program, strided=True))
    if may_train and program.observed is not Observed.GRADIENTS:
        bases.append(replace(program, grad=True, strided=True))
    if dynamic:
        bases.append(replace(program, dynamic=True))
    yield from bases[1:]
    for fill in (Fill.LOGARITHMIC, Fill.GRID, *([Fill.VALUES] if with_values else [])):
        for base in (program, bases[-1]):
            yield replace(base, fills=dict.fromkeys(program.inputs, fill), tolerance=_SMALL_VALUES)
    if settings:
        yield replace(bases[-1], settings=dict(settings), strided=True)


def _is_dense(program: SmallProgram, name: str) -> bool:
    traits, expected = program.traits.get(name), 1
    for size, stride in zip(reversed(traits.shape), reversed(traits.stride), strict=True) if traits else ():
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
