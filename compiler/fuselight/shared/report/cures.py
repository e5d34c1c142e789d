"""Advice as an experiment: a change of the calls or of the compile, and what came of making it.

Invariant: a cure says what changes, never that it helps; only a `CureTrial` says that, with the compiles of both runs.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report.place import LineNumber


class CureKind(str, enum.Enum):
    """What a cure changes."""

    TENSOR = "tensor"
    """A number or a bool that compiled code reads is a tensor without dimensions."""
    MARK = "mark"
    """Dimensions of tensors are marked as dynamic."""
    UNBACKED = "mark_unbacked"
    """Dimensions of tensors are marked as ones that may be 0 or 1, too."""
    DYNAMIC = "dynamic"
    """The argument `dynamic` of torch.compile."""
    LIMIT = "recompile_limit"
    """The argument `recompile_limit` of each torch.compile that has one."""
    ISOLATE = "isolate_recompiles"
    """The argument `isolate_recompiles` of each torch.compile, from torch 2.13 on."""
    FIRST_CALL = "first_call"
    """A call in eager mode, with the arguments of the first compiled one, comes before it."""
    SETTING = "setting"
    """Settings of `torch._dynamo.config`, or of another module of torch by their full names."""
    DTYPE = "dtype"
    """A tensor is converted before the call."""
    CONTIGUOUS = "contiguous"
    """A tensor is passed with contiguous memory."""
    STACK = "stack"
    """A list of tensors, or of numbers, is one tensor."""
    INFERENCE = "inference"
    """A normal tensor that is passed in inference mode was created in it."""
    NUMBER = "number"
    """A number of NumPy, which compiled code has as a tensor, is passed as one of Python."""
    OUTSIDE = "outside"
    """A function that compiled code calls is left out of it."""
    INSIDE = "inside"
    """A function is compiled although torch.compiler.disable marks it."""
    FULLGRAPH = "fullgraph"
    """Each torch.compile is made without fullgraph=True, so that all graph breaks are found."""
    EAGER = "eager"
    """Each call is made without torch.compile, which shows whether it fails there, too."""


class CureGoal(str, enum.Enum):
    """What a cure is to lower."""

    COMPILES = "compiles"
    """Compiles of the function whose `def` line is named."""
    ALL_COMPILES = "compiles of the program"
    """All compiles of the run."""
    LIMITED = "compiles, and then no call in eager mode"
    """No call of the function that the recompile limit leaves in eager mode: it is compiled more often."""
    BREAKS = "graph breaks"
    """Graph breaks on the line that is named."""


@dataclass(frozen=True)
class CallCure:
    """One change of all calls of a compiled function, or of how it is compiled."""

    kind: CureKind
    path: str
    """File of the compiled function that was compiled again, or of the line that broke."""
    line: LineNumber
    """Its `def` line, or the line that broke."""
    subjects: tuple[str, ...] = ()
    """What changes, in torch's terms or in those of the source: `L['self'].limit`, `x`. For a mark one entry for each
    dimension, as `x.size(0)`; empty for an argument of torch.compile, a setting and a first call."""
    value: str = ""
    """`True` or `None` for `dynamic`; the number for `recompile_limit`; settings and their values, as JSON; the dtype,
    as `f32`; of a function that is left out, its file, its `def` line and its last line, as `net.py:12:20`."""
    goal: CureGoal = CureGoal.COMPILES
    outer_path: str = ""
    """File of the function whose calls change, where that is another one, which leads to the one that was compiled
    again; empty if it is the same."""
    outer_line: int = 0
    """The `def` line of that function."""
    also: tuple[CallCure, ...] = ()
    """Further changes that are made with it, where each alone is not enough."""
    text: str = field(default="", compare=False)
    """What to do, in words: a sentence without a full stop."""
    cost: str = field(default="", compare=False)
    """What it costs besides the edit, in words."""

    @property
    def changes(self) -> tuple[CallCure, ...]:
        """Each of them as a cure of its own."""
        return (replace(self, also=()), *self.also) if self.also else (self,)

    @property
    def left_out(self) -> tuple[str, int, int]:
        """File, first and last line of the function that it leaves out of compiled code; lines 0 if it leaves none."""
        path, _, first = self.value.rpartition(":")[0].rpartition(":")
        last = self.value.rpartition(":")[2]
        is_place = self.kind is CureKind.OUTSIDE and first.isdecimal() and last.isdecimal()
        return (path, int(first), int(last)) if is_place else ("", 0, 0)

    @property
    def settings(self) -> dict[str, object]:
        """The settings that it changes: those of `torch._dynamo.config` by name, others by their full names."""
        if self.also:
            joined: dict[str, object] = {}
            for name, value in (item for part in self.changes for item in part.settings.items()):
                known = joined.get(name)
                joined[name] = (
                    [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
                )
            return joined
        if self.kind is not CureKind.SETTING:
            return {}
        try:
            settings = parse_json(self.value)
        except ValueError:  # of a damaged report
            return {}
        return settings if isinstance(settings, dict) else {}


@dataclass(frozen=True)
class CureRun:
    """What a capture does in addition, to be compared with another one."""

    cure: CallCure | None = None
    """None: it makes the calls as they are, for comparison."""
    calls: int | None = None
    """Calls of compiled functions after which the program ends; None: where it ends by itself."""


REPLACED = "the change"
"""What a trial says of the state of an argument that the cure replaced."""


@dataclass(frozen=True)
class TrialCounts:
    """What a trial counted."""

    calls: int = 0
    """Calls of what the program gave to torch.compile."""
    graph_runs: dict[str, int] = field(default_factory=dict)
    """How often the graph of a compile ran, by compile id."""
    changed: int = 0
    """Calls that the cure changed."""
    refused: str = ""
    """Why the cure could not be applied; empty if it could."""
    results: tuple[tuple[float, ...], ...] = ()
    """Of the first calls, for each tensor that was returned: its sizes, the bytes of an element, and the sums of its
    values, of their absolute values, and of values weighted by their place."""
    state: dict[str, str] = field(default_factory=dict)
    """What the values that the first calls can reach held after them, in words by name."""
    kept: tuple[float, ...] = ()
    """As `results`, of the tensors that the last compared call could reach after it."""
    keys: int = 0
    """How often the user's code hashed a tensor without dimensions, as one that is a key."""
    texts: int = 0
    """How often a tensor without dimensions became text."""
    is_unfit: bool = False
    """Whether `refused` holds for each program with such values, as a list of numbers that would be stacked."""


@dataclass(frozen=True)
class NextBreak:
    """A graph break that torch.compile reaches only after a change."""

    gb_id: str
    """Empty where torch gives it none."""
    path: str
    line: LineNumber


@dataclass(frozen=True)
class CureTrial:
    """A cure that was tried on the calls of a report."""

    cure: CallCure
    before: int
    """Compiles of the function, or graph breaks of the run, as the program is."""
    after: int
    """The same with the cure, without the breaks of `next`."""
    refused: str = ""
    """What is worse with it, or why it could not be tried; empty if it cures."""

    is_made: bool = True
    """Whether the change was made in a call; if not, it was not tried."""
    stays: tuple[str, ...] = ()
    """The guards that fail as often with it, by function, cause and guarded value: it cures none of their findings."""
    gone: tuple[str, ...] = ()
    """Guards that no longer fail with it; empty if others fail more often: it may have moved the recompilations."""
    frees_limit: bool = False
    """Whether the recompile limit leaves calls of the function in eager mode without it, and none with it."""
    recompiled_before: int = 0
    """All recompilations of the run without it."""
    recompiled: int = 0
    """All recompilations of the run with it."""
    next: tuple[NextBreak, ...] = ()
    """Graph breaks that it uncovers, in code that ran in eager mode without it."""
    breaks: int = 0
    """All graph breaks of the run with it."""
    compiles: int = 0
    """All compiles of the run with it."""
    operators: int = 0
    """Operators in graphs that ran with it, one for each run of a graph."""

    @property
    def cures(self) -> bool:
        """Whether the function is compiled less often, and nothing that was compiled is lost."""
        return not self.refused

    @property
    def leaves_one(self) -> bool:
        """Whether it cures, and leaves no more than the first compile, or no graph break."""
        return self.cures and self.after <= (0 if self.cure.goal is CureGoal.BREAKS else 1)

    def saves_as_much_as(self, other: CureTrial) -> bool:
        """Whether it cures, and leaves no more breaks, compiles and code outside of graphs than another one."""
        is_as_compiled = self.cure.goal is not CureGoal.BREAKS or self.operators >= other.operators
        pairs = ((self.breaks, other.breaks), (self.after, other.after), (self.compiles, other.compiles))
        return self.cures and is_as_compiled and all(mine <= theirs for mine, theirs in pairs)
