"""Messages between server and worker: frozen dataclasses, standard library only.

The pipes carry frames (shared/wire.py) of one JSON object each: `{"type": "CaptureRequest", ...fields}`. Invariant:
every request that has an `id` gets exactly one `Answer` or `Refused` with that id. The worker sends `Hello` first.
Unknown types and keys are skipped and counted, never fatal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar, get_args

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.measurement_plans import MeasurePlan, TunePlan
from fuselight.shared.report import (
    CallChange,
    CodeSearch,
    CureRun,
    Device,
    Failure,
    Location,
    Report,
    Tier,
    Versions,
    WorldPlan,
)

PROTOCOL = 2


@dataclass(frozen=True)
class Limits:
    """Limits of one run. 0 means no limit."""

    seconds: float = 120.0
    memory_mb: int = 8192
    """Resident memory of the run's process group."""
    output_kb: int = 64
    """Size of the tail kept of each of stdout and stderr."""


@dataclass(frozen=True)
class DirectiveLine:
    """One `# fuselight:` comment."""

    line: int
    """1-based."""
    column: int
    """0-based UTF-8 byte column where `text` starts."""
    text: str
    """Everything after `# fuselight:`, stripped."""


@dataclass(frozen=True)
class InputsPlan:
    """The rungs that static analysis found; the worker tries them from the top and skips empty ones."""

    directives: tuple[DirectiveLine, ...] = ()
    provider: str | None = None
    """Name of a provider function of the file, as `example_inputs`."""
    provider_line: int | None = None
    dummy_inputs: bool = True
    """Whether the model's own `dummy_inputs` may be used."""
    annotations: bool = True
    default_sizes: dict[str, int] = field(default_factory=dict)
    """Sizes for named dimensions of annotations: `{"batch": 4}`; `"*"` for all others."""
    recorded: tuple[str, ...] = ()
    """Calls in directive notation, recorded by the last `fuselight run`."""
    main_line: int | None = None
    """Line of the file's `if __name__ == "__main__":`; None if there is none, or it must not run."""
    main_path: str = ""
    """For a target of kind `call`: absolute path of the program whose calls are repeated."""
    is_script: bool = False
    """Whether `main_line` is that of a statement of the file itself, which has no `__main__` block: it runs whole."""
    program: str = ""
    """Another file whose first call of the target gives the inputs: a script, tests or a notebook, which run up to that
    call. Empty if the user has chosen none."""


@dataclass(frozen=True)
class Target:
    """What to compile."""

    path: str
    """Absolute path of the file."""
    name: str
    """Qualified name in the file: `Net`, `Outer.step`, `compiled` (a variable). Empty: the file's
    `__main__` block.
    """
    kind: str
    """`function`, `method`, `module` (an nn.Module subclass), `variable` (assigned from
    torch.compile(...)), `main`, `call` (what a program compiles, by its name or the line that compiles it).
    """
    line: int
    compiled: bool
    """Whether the source already compiles it (decorator, assignment, `.compile()`)."""


@dataclass(frozen=True)
class OwnKernelsPlan:
    """What to compile of the program's own Triton kernels once the run has launched them."""

    device: Device | None = None
    """None: this machine's GPU, else the catalog's `FALLBACK`."""
    seconds: float = 20.0
    """Time for all compiles of a run, beyond which kernels are listed without what they compile to."""
    configurations: bool = False
    """Whether to compile each configuration of autotuners, not only the one that was launched."""
    disassemble: bool = False
    """Whether to disassemble to SASS too, which takes most of a second per kernel."""
    libraries: bool = False
    """Whether to compile kernels of installed packages, which are listed anyway."""
    with_code: bool = False
    """Whether a run that generates kernels compiles them as well; a capture always does."""


@dataclass(frozen=True)
class RunRequest:
    """Run a job on `target` and answer with a Report. Each kind of job is a subclass."""

    tier: ClassVar[Tier] = Tier.CAPTURE
    """Tier of the Report."""

    id: int
    generation: int
    target: Target
    inputs: InputsPlan
    roots: tuple[str, ...]
    """Workspace folders: each run imports their modules again."""
    overlays: dict[str, str] = field(default_factory=dict)
    """Absolute path to text of every unsaved buffer."""
    limits: Limits = Limits()
    dynamo_config: dict[str, Any] = field(default_factory=dict)
    """torch._dynamo.config settings to apply, name to JSON value."""
    environment: dict[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    """Arguments for the `__main__` rung."""
    automatic: bool = False
    """Whether a save started this run, not the user: the program then writes no file of the workspace, and its
    `__main__` block ends once its calls compile nothing new."""
    changes: tuple[CallChange, ...] = ()
    """Further calls: the last one again with each change, of which it then has no forecast."""
    preload: bool = True
    """Whether the host may import third-party modules that the file imports, for later runs."""
    records_reads: bool = False
    """Whether the report says what the run read (`Report.reads`)."""
    world: WorldPlan | None = None
    """The ranks as which the target runs, without a network or a GPU (docs/ranks.md). A capture runs as several of
    them, any other run as the first."""

    own_kernels: OwnKernelsPlan | None = None
    """What a capture compiles of the program's own Triton kernels; None: nothing."""

    def of_kind(self, kind: type[R], **job: Any) -> R:
        """Return a request for another kind of job on the same target; `job` has the fields of that kind."""
        shared = {field.name: getattr(self, field.name) for field in fields(RunRequest)}
        return kind(**{**shared, **job})


R = TypeVar("R", bound=RunRequest)


@dataclass(frozen=True)
class CaptureRequest(RunRequest):
    """Record what TorchDynamo captures; generates no code."""

    trial: CureRun | None = None
    """Set to compare the run with another one; it then records no facts and no forecasts."""
    tries_forecasts: bool = False
    """Whether the calls of the forecasts are made, with further values: the program's code runs for each."""


@dataclass(frozen=True)
class GenerateRequest(RunRequest):
    """Generate kernels for `device` without launching them."""

    tier: ClassVar[Tier] = Tier.KERNELS
    device: Device | None = None
    """None: this machine's GPU, else the catalog's `FALLBACK`."""


@dataclass(frozen=True)
class DecomposeRequest(RunRequest):
    """Record what each operator decomposes into."""

    tier: ClassVar[Tier] = Tier.KERNELS
    operator_set: tuple[str, ...] = ()
    """Operators that a backend supports, for `OperatorPath.lacking`: names, or `core-aten`, `prims`, `inductor`."""


@dataclass(frozen=True)
class AssembleRequest(RunRequest):
    """Compile Triton kernels of the target for `device`; the target itself does not run."""

    tier: ClassVar[Tier] = Tier.KERNELS
    device: Device | None = None
    """As for `GenerateRequest`."""
    sources: tuple[str, ...] = ()
    """Triton sources. The Report has the results in `assembled`."""
    config: int | None = None
    """Index of the configuration to compile; None: the one that Inductor tries first."""
    disassemble: bool = False
    """Whether to disassemble to SASS too, which takes most of a second per kernel."""
    cache: str | None = None
    """Folder that keeps the results; None: they are discarded."""


@dataclass(frozen=True)
class LoggedStartRequest(RunRequest):
    """Make the calls with the backend and the options that the source asks for, and record torch's structured log.

    With an empty `cache` this is a first start of the program, with that of another run a second one.
    """

    log: str = ""
    """An existing folder for the log."""
    cache: str = ""
    """Folder of the compile caches."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of torch to try, as `torch._inductor.config.fx_graph_cache`; empty: as the program has them."""
    times_imports: bool = False
    """Whether to time the imports of the file first, in a process of their own, and record them in the log."""


@dataclass(frozen=True)
class MeasureRequest(RunRequest):
    """Benchmark the target in several configurations."""

    tier: ClassVar[Tier] = Tier.MEASURED
    plan: MeasurePlan = field(default_factory=MeasurePlan)


@dataclass(frozen=True)
class TuneRequest(RunRequest):
    """Search the fastest verified configuration of the target. The Report has it in `tuned`."""

    tier: ClassVar[Tier] = Tier.TUNED
    plan: TunePlan = field(default_factory=TunePlan)


@dataclass(frozen=True)
class NameInUse:
    """A name that changed code reads. If its value is plain, further calls try others."""

    name: str
    """Of a parameter, an attribute, a key or a global."""
    values: tuple[str, ...] = ()
    """Literals that the workspace shows for it."""
    is_changed: bool = False
    """Whether a changed line depends on it."""
    is_derived: bool = False
    """Whether the code computes it from other names, which are varied instead."""


@dataclass(frozen=True)
class VerifyRequest(RunRequest):
    """Call the target in eager mode and compiled, and compare what it does with the text before a change.

    The changed files are in `overlays`, and their lines in `target` and `inputs`. The old text runs first, in a process
    of its own with `records`; later requests with the same `folder` and inputs are compared with it.
    """

    folder: str = ""
    """An existing folder for the results of the old text."""
    records: bool = False
    """Whether this run is of the old text."""
    non_finite: bool = False
    """Whether to make further calls with NaN and infinity in each floating-point input."""
    inductor: bool = False
    """Whether compiled calls run the code that Inductor generates, instead of the captured graphs as they are."""
    cases: bool = False
    """Whether to make the further calls that the verification derives from the first one, instead of those of the
    inputs."""
    first: int = 0
    """Number of the further call that this round starts with: earlier rounds made those before it."""
    seconds: float = 10.0
    """Time for the further calls of this round; what is left then is for the next one."""
    names: tuple[NameInUse, ...] = ()
    """What the changed code reads, those that matter most first."""
    sizes: tuple[int, ...] = ()
    """Numbers in the changed code that may be sizes: further calls have inputs that are larger."""
    settings: bool = False
    """Whether the change is a setting, which eager calls do not show: more of the further calls are compiled."""
    most_compiled: int | None = None
    """Most of the further calls that are compiled, which takes far longer than eager mode; None for all of them."""


@dataclass(frozen=True)
class AccuracyRequest(RunRequest):
    """Run the program as it is, and make calls of what it compiles in eager mode and in float64, too. In `results`."""

    tier: ClassVar[Tier] = Tier.ACCURACY
    backend: str = ""
    """The backend that replaces the program's own; empty for its own."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of torch that the run changes, by name; each value as Python text."""
    calls: tuple[int, ...] = ()
    """Indices of the calls that are compared; empty: the first ones, and of later ones fewer and fewer."""
    locate_seconds: float = 0.0
    """Seconds in which the first line that differs is searched, of the first wrong call; 0 for no search."""
    training: bool | None = None
    """Whether targets with inputs of their own are trained; None: as the directive says."""
    device: str = ""
    """Where targets with inputs of their own run: `cpu`, `cuda`, `cuda:1`; empty: where their source puts them."""
    against: str = ""
    """The configuration of torch.compile, in the notation of benchmarks, that calls are compared with; empty: eager
    mode."""
    kernels: bool = False
    """Whether kernels of calls that are right are replayed on their own inputs, too; no cache may have their code."""


@dataclass(frozen=True)
class GraphsRequest(RunRequest):
    """Run the program up to one call of what it compiles, and record the graphs of that call. In `reproduction`."""

    call: int | None = None
    """Index of the call, as in `AccuracyRequest`; None: the first graph that the backend cannot compile."""
    with_values: bool = False
    """Whether the values of small tensors are recorded."""
    code: CodeSearch | None = None
    """Set to record, in place of graphs, a call that Dynamo traces, as Python."""


@dataclass(frozen=True)
class ScriptRequest(RunRequest):
    """Run a generated program, which has none of the user's files: the target only names it. In `reproduction`."""

    script: str = ""
    arguments: tuple[str, ...] = ()
    fresh: bool = False
    """Whether it runs in a new process of Python, as a user runs it; else in a fork that has torch."""


@dataclass(frozen=True)
class MemoryRequest(RunRequest):
    """Estimate what each call allocates, on fake tensors. The Report has it in `memory`."""

    tier: ClassVar[Tier] = Tier.MEMORY
    device: Device | None = None
    """As for `GenerateRequest`."""
    training: bool | None = None
    """Whether the backward runs; None: as the directive says."""
    optimizer: str = "adamw"
    """`adam`, `adamw`, `sgd` (with momentum) or `none`."""
    batches: tuple[int, ...] = ()
    """First sizes of the inputs of the first call, in place of its own; empty: every call as it is."""
    savings: bool = False
    """Whether changes are tried that would need less, of training steps."""
    savings_seconds: float = 60.0
    """After this time no further change is tried; the one that is being tried ends."""
    exact: bool = False
    """Whether all of many equal blocks are compiled, in place of few of them."""
    measures: bool = False
    """Whether the steps run on the device of the target's tensors, and are measured there instead of estimated."""


@dataclass(frozen=True)
class OutputsRequest(RunRequest):
    """Call the target in eager mode, compiled and in float64, and compare the results with those of an earlier torch.

    The worker of the earlier release runs first, with `records`; that of the later one with the same `folder`.
    """

    folder: str = ""
    """An existing folder for the results of the earlier release."""
    records: bool = False
    """Whether this is the earlier release."""
    cache: str = ""
    """A folder for Inductor's caches, which later requests of the same release use again: a run that is killed can
    leave half a file, which the user's own cache must not have."""


@dataclass(frozen=True)
class LiveRequest(RunRequest):
    """Import the file, make the calls once to record the arguments of the traced functions, then wait for `Retrace`s.

    `overlays` has the texts that the last run had. `LiveReady` says when it waits; it is answered when it ends.
    """

    tier: ClassVar[Tier] = Tier.PREDICTED
    idle_seconds: float = 900.0
    """Seconds without a `Retrace` after which it ends by itself."""


@dataclass(frozen=True)
class Retrace:
    """Trace functions of a file again with its edited text, on the arguments that a live run has recorded.

    The answer is a Report of tier predicted, with the positions of `text`, or `Refused` with one of `RETRACE_REASONS`.
    A function that cannot be traced alone is a Problem of stage `retrace` in the Report: `what` is its name, `why`
    begins with the reason and a colon.
    """

    id: int
    live: int
    """Id of the `LiveRequest`."""
    path: str
    text: str
    """The whole text of the file."""
    functions: tuple[str, ...]
    """Qualified names, as `Net.forward` and `outer.<locals>.inner`."""
    seconds: float = 5.0
    """Time limit."""
    early: bool = False
    """Whether to send a `Partial` as soon as the compile of a frame with a graph break has ended."""


RETRACE_REASONS = {
    "no_live": "the run that it refers to has ended, or is not ready",
    "syntax": "the text does not parse",
    "not_traced": "the run has not traced the function, or has no arguments of it",
    "missing": "the text has no function of this name, or another number of them",
    "signature": "the parameters of the function changed",
    "defaults": "a default of a parameter changed",
    "decorators": "the decorators of the function changed",
    "closure": "the function uses a variable of the function around it that it did not use before",
    "module": "the function uses a name that the changed file defines outside of it",
    "kind": "the function became, or is no longer, a generator or a coroutine",
    "timeout": "the trace took longer than its time limit",
    "crashed": "the process of the trace ended",
    "cancelled": "it was cancelled, or a newer one has replaced it",
    "failed": "Fuselight failed",
}
"""Reasons of `Refused` for a `Retrace`, with their meaning; those from `not_traced` to `kind` concern one function."""


@dataclass(frozen=True)
class Cancel:
    """End the run or the retrace with this id; its one answer is then `Refused(reason="cancelled")`."""

    id: int


@dataclass(frozen=True)
class Locate:
    """Ask where this run is, if py-spy is not permitted. The run answers with a Progress if it can."""

    id: int


@dataclass(frozen=True)
class Shutdown:
    """End every run and exit."""


@dataclass(frozen=True)
class Hello:
    """First message of a worker."""

    protocol: int
    versions: Versions
    pid: int
    forks: bool
    """Whether runs are forked children of this host; if not, this process serves one run and ends."""
    problem: Failure | None = None
    """Set if no run can work here: torch is missing or too old. The worker then exits."""
    packages: tuple[str, ...] = ()
    """Folders of installed packages. When one changes, the modules that this host has imported may be out of date."""


@dataclass(frozen=True)
class Started:
    """A run has a process, or its time limit starts again. `pid` is the process to sample; kill its group."""

    id: int
    pid: int
    seconds: float | None = None
    """Seconds from now after which the worker ends the run; None: no limit."""


_RUNNING = "running"
_DOING = {
    "import": "importing",
    "build": "building",
    "program": "running",
    "trace": "tracing",
    "kernels": "generating kernels in",
    "report": "reporting",
    "measure": "measuring",
}


@dataclass(frozen=True)
class Progress:
    """Current position of a run. At most ten a second."""

    id: int
    phase: str
    """`import`, `build`, `call`, `trace`, `report`."""
    detail: str = ""
    """In plain words, as `frame 17, model.py:88`."""
    path: str | None = None
    line: int | None = None
    count: int | None = None
    """Frames traced so far."""

    def at(self, place: Location) -> Progress:
        """Return the same phase at the place that a sample found."""
        where = f"{place.function}, " if place.function else ""
        detail = f"{_DOING.get(self.phase, _RUNNING)} {where}{os.path.basename(place.path)}:{place.line}"
        return replace(self, detail=detail, path=place.path, line=place.line)

    @property
    def sampled(self) -> bool:
        """Whether `detail` describes the activity, as `at` does; otherwise the phase does."""
        return self.detail.startswith(f"{_DOING.get(self.phase, _RUNNING)} ")


@dataclass(frozen=True)
class Answer:
    """The run's report. A failure of user code is inside it, so that everything recorded before still counts."""

    id: int
    report: Report


@dataclass(frozen=True)
class Partial:
    """What a run has recorded so far, with more to come: the forward's kernels, before the backward's.

    For a `Retrace`: the graph breaks of the frames that are compiled by then. What it lacks may still come.
    """

    id: int
    report: Report


@dataclass(frozen=True)
class LiveFunction:
    """A function of a workspace file that a live run has seen."""

    path: str
    name: str
    """Qualified name, as `Net.forward` and `outer.<locals>.inner`."""
    calls: int = 0
    """Calls of which the arguments were kept."""
    reason: str = ""
    """Why there are none, in words; empty if there are."""


@dataclass(frozen=True)
class LiveReady:
    """A live run waits for `Retrace`s."""

    id: int
    functions: tuple[LiveFunction, ...]


@dataclass(frozen=True)
class Refused:
    """The run produced no report."""

    id: int
    reason: str
    """`cancelled`, `superseded`, `failed`, `bad_request`; for a `Retrace` one of `RETRACE_REASONS`."""
    failure: Failure | None = None


@dataclass(frozen=True)
class Log:
    """A line for the server's log."""

    level: str
    text: str


ToWorker = RunRequest | Retrace | Cancel | Locate | Shutdown
ToServer = Hello | Started | Progress | Partial | LiveReady | Answer | Refused | Log
Message = ToWorker | ToServer

_TYPES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (*RunRequest.__subclasses__(), *get_args(Message))
    if kind is not RunRequest  # each kind of job is a subclass
}


def to_json(message: Message) -> dict[str, Any]:
    """The message as JSON values."""
    return {"type": type(message).__name__, **encode(message)}


def from_json(data: Any) -> Message | None:
    """The message, or None for a type that this version does not know. Raises DecodeError."""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise DecodeError("a message is an object with a `type`")
    kind = _TYPES.get(data["type"])
    if kind is None:
        return None
    message: Message = decode(kind, data)
    return message
