"""Reduction of a program that is Python source to the smallest that still fails in the same way.

Invariant: as in `reduction`: each step is confirmed by a run, and the best program so far is always complete.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from fuselight.shared.report import ScriptOutcome, ScriptState
from fuselight_server.repro import source_edits
from fuselight_server.repro.reduction import BudgetSpentError
from fuselight_server.repro.source_names import neutral_names, neutral_texts, renamed
from fuselight_server.repro.source_program import SourceProgram

_NAMES_SHARE = 0.15
"""Of the time: what is left for neutral names when the rest of it is over."""


@dataclass
class SourceReduction:
    """One search."""

    trial: Callable[[SourceProgram], Awaitable[ScriptOutcome]]
    clock: Callable[[], float]
    seconds: float
    on_step: Callable[[str], None] = lambda _text: None
    tried: int = 0
    best: SourceProgram | None = None
    last: ScriptOutcome | None = None
    refusals: list[str] = field(default_factory=list)
    """What the programs showed that were tried first."""
    is_spent: bool = False
    _known: dict[str, bool] = field(default_factory=dict)
    _signature: str = ""

    def __post_init__(self) -> None:
        self._end = self.clock() + self.seconds
        self._until = self._end - _NAMES_SHARE * self.seconds

    async def shows(self, program: SourceProgram) -> bool:
        """Whether a program has the fault; it is then the best. Raises BudgetSpentError."""
        try:
            text = program.script
        except (TypeError, ValueError, SyntaxError, RecursionError):
            return False  # an edit has left out what Python needs
        if text in self._known:
            return self._known[text]
        if self.clock() > self._until:
            raise BudgetSpentError
        self.tried += 1
        self.on_step(f"program {self.tried}, {text.count(chr(10))} lines")
        outcome = await self.trial(program)
        signature = program.signature(outcome)
        is_same = (
            outcome.text.startswith(program.expected) if self.best is None else signature == self._signature
        )
        is_fault = outcome.state is ScriptState.FAULT and is_same
        self._known[text] = is_fault
        if is_fault:
            self.best, self.last, self._signature = program, outcome, signature
        elif self.best is None:
            self.refusals.append(outcome.text or outcome.state.value)
        return is_fault

    async def reduce(self, programs: Iterable[SourceProgram]) -> SourceProgram | None:
        """The smallest program that has the fault; None if none of `programs` has it."""
        try:
            for program in programs:
                if await self.shows(program):
                    break
            else:
                return None
            await self._shrink()
        except BudgetSpentError:
            self.is_spent = True
        if self.best is not None:
            try:
                await self._neutral()
            except BudgetSpentError:
                self.is_spent = True
        return self.best

    async def _shrink(self) -> None:
        size = -1
        await self._unused()
        while size != len(self._now().text):
            size = len(self._now().text)
            await self._statements()
            await self._unused()
            await self._keeps(source_edits.inlined(self._now().tree))
            await self._each(source_edits.unwrapped)
            await self._each(source_edits.without_parameters)
            await self._each(source_edits.simpler_expressions)
            await self._unused()
        for option in self._now().options:
            left_options = tuple(each for each in self._now().options if each != option)
            await self.shows(replace(self._now(), options=left_options))
        for name in tuple(self._now().settings):
            left = {key: text for key, text in self._now().settings.items() if key != name}
            await self.shows(replace(self._now(), settings=left))
        if self._now().reason:
            await self._whole()

    async def _whole(self) -> None:
        """Have the break end the program, as developers know it; the words of its error are then others."""
        best = self._now()
        program = replace(best, reason="")
        outcome = await self.trial(program)
        if outcome.state is ScriptState.FAULT and best.reason in outcome.text.partition("\n")[0]:
            self.best, self.last, self._signature = program, outcome, program.signature(outcome)

    async def _statements(self) -> None:
        """Delta debugging of each list of statements, the outer ones first."""
        number = 0
        while number < len(lists := source_edits.statement_lists(self._now().tree)):
            index, field_name, count = lists[number]
            size, before = count, self._now().text
            while size:
                stop = count
                while stop > 0:
                    start = max(0, stop - size)
                    tree = source_edits.without_statements(self._now().tree, index, field_name, start, stop)
                    if await self._keeps(tree):
                        count -= stop - start
                    stop = start
                size = min(size // 2, count)
            if self._now().text != before:
                await self._unused()
            number += 1

    async def _unused(self) -> None:
        await self._keeps(source_edits.without_unused(self._now().tree))

    async def _each(self, edits: Callable[[ast.Module], Iterator[source_edits.Edit]]) -> None:
        """Make edits of a kind as long as one of them keeps the fault; after one, the search goes on at its place."""
        skip = 0
        while True:
            for number, edit in enumerate(edits(self._now().tree)):
                if number >= skip and await self._keeps(edit()):
                    skip = number
                    break
            else:
                return

    async def _keeps(self, tree: ast.Module) -> bool:
        best = self._now()
        try:
            text = ast.unparse(ast.fix_missing_locations(tree))
            compile(text, "repro.py", "exec")
        except (ValueError, SyntaxError, AttributeError, RecursionError, TypeError):
            return False
        return text != best.text and await self.shows(replace(best, text=text))

    async def _neutral(self) -> None:
        """Neutral names and texts: all at once, also when the time is over, else each that can have one."""
        tree = self._now().tree
        names, texts = neutral_names(tree), neutral_texts(tree)
        self._until = math.inf
        if await self._keeps(renamed(tree, names, texts)) or await self._keeps(renamed(tree, names, {})):
            names = {}
        self._until = self._end
        for old, new in names.items():
            await self._keeps(renamed(self._now().tree, {old: new}, {}))
        for old, new in neutral_texts(self._now().tree).items():
            await self._keeps(renamed(self._now().tree, {}, {old: new}))

    def neutral_programs(self) -> Iterator[SourceProgram]:
        """The best program with neutral names and texts, then with neutral names: not tried, for a canceled search."""
        best = self._now()
        names = neutral_names(best.tree)
        for texts in (neutral_texts(best.tree), {}):
            yield replace(best, text=ast.unparse(renamed(best.tree, names, texts)))

    def _now(self) -> SourceProgram:
        if self.best is None:
            raise BudgetSpentError
        return self.best
