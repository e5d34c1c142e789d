"""The results of a program's compiled calls, compared with those of the same calls in eager mode."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.shared.report.measured import Accuracy
from fuselight.shared.report.place import Location, Stack
from fuselight.shared.report.verification import Difference


class Stage(str, enum.Enum):
    """The part of the compiler that first gives other results than eager mode."""

    CAPTURE = "capture"
    """TorchDynamo: what it traced, or a guard that it lacks. The captured graphs alone, in eager mode, differ."""
    FUNCTIONALIZATION = "functionalization"
    """AOTAutograd: views and changes in place. The graphs that it makes differ, in eager mode."""
    DECOMPOSITION = "decomposition"
    """AOTAutograd with Inductor's decompositions and partitioner: those graphs differ, in eager mode."""
    CODE = "code"
    """TorchInductor: its passes, lowerings, fusion and generated code."""
    CACHES = "caches"
    """A cache of compiled code: without it, the same call is as in eager mode."""


STAGE_BACKENDS = {
    Stage.CAPTURE: "eager",
    Stage.FUNCTIONALIZATION: "aot_eager",
    Stage.DECOMPOSITION: "aot_eager_decomp_partition",
}
"""The backend that ends after a stage, in the order of the stages; after the last it is the program's own."""
RAISES_NOTHING = "compiled code raises nothing"
"""How a difference begins where only eager mode raises."""


@dataclass(frozen=True)
class OperatorFault:
    """A custom operator that does not do what it is declared to do, which compiled code relies on."""

    name: str
    """As `mylib::scale`."""
    check: str
    """The check of `torch.library.opcheck` that it fails: `test_schema`, `test_faketensor`."""
    why: str
    """In torch's words."""
    stack: Stack = ()
    """Where the call makes it first, outermost frame first."""


class NonFiniteKind(str, enum.Enum):
    """What an element is that is no number."""

    NAN = "NaN"
    INFINITY = "infinity"


@dataclass(frozen=True)
class NonFiniteOrigin:
    """Where such elements first appear in eager mode."""

    stack: Stack
    """The line, outermost frame first; empty if an input of the call has them."""
    operator: str
    """The ATen operator whose arguments have none yet, as `div`."""
    operands: str
    """The arguments of the first such element: `0, 0`; empty if it has none of its own, as that of a sum."""
    inputs: tuple[str, ...]
    """The inputs, parameters and buffers of the call that it is computed from, bounded."""
    source: Location | None = None
    """The line that computed the last of the arguments, if it is another one."""


@dataclass(frozen=True)
class NonFinite:
    """NaN or infinities in a value of a call."""

    kind: NonFiniteKind
    what: str
    """The first value that has some: `output[0]`, `gradient of weight`."""
    eager: int
    """How many elements, at most of the sample that is compared."""
    compiled: int
    float64: int | None
    """None without a float64 result."""
    origin: NonFiniteOrigin | None = None
    """None if the program wrote them itself, or only compiled code has some."""


@dataclass(frozen=True)
class NextToEager:
    """Which of two configurations differ from eager mode, of a call in which they differ from each other."""

    own: bool | None
    """Whether the program's own configuration does; None: not decided."""
    other: bool | None


@dataclass(frozen=True)
class RandomDraws:
    """What calls with many seeds show of the random numbers of a call, in eager mode and compiled."""

    why: str = ""
    """Which result has another distribution, and by how much; empty if none has."""
    first: Stack = ()
    """The line that draws them, if it is the only one of the call, outermost frame first."""
    operator: str = ""
    """What draws them there, as `rand_like`."""
    compared: int = 0
    """How many results were compared, in which all that is not random is near; 0 if something was not."""


@dataclass(frozen=True)
class ComparedCall:
    """One call of what a program compiles, made compiled and in eager mode from the same state."""

    index: int
    """0 for the first call of compiled functions in the program."""
    name: str
    """What was compiled, as `Net` or `train.<locals>.step`."""
    location: Location | None
    """Its `def` or `class` line."""
    caller: Location | None
    """The user's line that makes the call."""
    accuracy: Accuracy
    """Tensors and numbers: outputs, gradients, and what the call changes in place."""
    others: tuple[Difference, ...] = ()
    """What else differs: attributes, text, exceptions, dtypes of containers."""
    is_random: bool = False
    """Whether eager mode draws random numbers in the call."""
    eager_seconds: float = 0.0
    compiled_seconds: float = 0.0
    """With the compile, if the call compiles."""
    operators: tuple[OperatorFault, ...] = ()
    """Of a wrong call: custom operators that it makes and that are declared wrong."""
    non_finite: tuple[NonFinite, ...] = ()
    """At most one of each kind."""
    next_to_eager: NextToEager | None = None
    """Of a wrong call, if it was compared with another configuration."""
    draws: RandomDraws | None = None
    """Of the first call of a function that compiled code draws other random numbers in."""

    @property
    def is_wrong(self) -> bool:
        """Whether anything differs by more than rounding explains."""
        return self.accuracy.passed is False or bool(self.others)

    @property
    def is_as_eager(self) -> bool:
        """Whether everything was compared, and is as in eager mode."""
        return self.accuracy.passed is True and not self.others


@dataclass(frozen=True)
class RegionEdit:
    """A line of the source with which a setting holds for one compiled function alone, as a run has shown."""

    path: str
    line: int
    old: str
    new: str
    """With `options={...}` in the call of torch.compile."""


@dataclass(frozen=True)
class TriedSetting:
    """A setting of torch with which the program ran again."""

    name: str
    """As `torch._inductor.config.pattern_matcher`."""
    value: str
    """As Python text: `False`. Empty for a part of the compiler that the program replaces: it is as torch has it."""
    cures: bool
    """Whether the call is then as in eager mode."""
    ratio: float | None = None
    """Seconds of the call, compiled before, with the setting to those without it."""
    region: RegionEdit | None = None
    """Of a setting that cures: the edit that changes it for the function alone, if torch.compile takes it."""


@dataclass(frozen=True)
class ResultCause:
    """What further runs of the program have shown of a wrong call."""

    call: int
    """Its index."""
    stage: Stage
    tried: tuple[TriedSetting, ...] = ()
    """In the order in which they were tried; the last may cure."""


@dataclass(frozen=True)
class ResultComparison:
    """The compared calls of one run of a program."""

    calls: tuple[ComparedCall, ...] = ()
    call_count: int = 0
    """Calls of compiled functions, compared or not."""
    why_not: str = ""
    """Why further calls were not compared; empty if a limit was not reached."""
    backend: str = ""
    """The backend that replaced the program's own; empty for its own."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of torch that the run changed, each value as Python text."""
    causes: tuple[ResultCause, ...] = ()
    """Of a program's own run: what further runs have shown."""
    against: str = ""
    """The configuration that calls were compared with; empty: eager mode."""
    replaced: tuple[str, ...] = ()
    """Parts of torch's compiler that the program sets: an option of torch.compile, a setting, a lowering, a
    decomposition, a printer of code. Looked for where a call is not as in eager mode."""
