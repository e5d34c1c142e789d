"""What server and worker say to each other: frozen dataclasses, standard library only.

The pipes carry frames (worker/wire.py) of one JSON object each: `{"type": "Analyse", ...fields}`.
Invariant: every request that has an `id` gets exactly one `Answer` or `Refused` with that id.
The worker speaks first, with `Hello`. Unknown types and keys are skipped and counted, never fatal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.codec import DecodeError, decode, encode
from fuselight.report import Device, Failure, Location, Report, Tier, Versions, Work

PROTOCOL = 1


@dataclass(frozen=True)
class Limits:
    """Bounds of one run. 0 means none."""

    seconds: float = 120.0
    memory_mb: int = 8192
    """Resident memory of the run's process group."""
    output_kb: int = 64
    """Tail kept of each of stdout and stderr."""


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
    """The rungs that static reading found, for the worker to try from the top; empty ones are passed over."""

    directives: tuple[DirectiveLine, ...] = ()
    provider: str | None = None
    """Name of a provider function of the file, as `example_inputs`."""
    provider_line: int | None = None
    dummy_inputs: bool = True
    """Whether the model's own `dummy_inputs` may be asked."""
    annotations: bool = True
    default_sizes: dict[str, int] = field(default_factory=dict)
    """Sizes for named dimensions of annotations: `{"batch": 4}`; `"*"` for any other."""
    recorded: tuple[str, ...] = ()
    """Calls in directive notation, recorded by the last `fuselight run`."""
    main_line: int | None = None
    """Line of the file's `if __name__ == "__main__":`, None without one."""


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
    torch.compile(...)), `main`.
    """
    line: int
    compiled: bool
    """Whether the source already compiles it (decorator, assignment, `.compile()`)."""


@dataclass(frozen=True)
class MeasurePlan:
    """What to measure of a target, and how (docs/measuring.md)."""

    configurations: tuple[str, ...] = ()
    """In the notation of `fuselight.configurations`; eager is measured in any case, as all others are compared with
    it. None: the target as the source compiles it, else as `torch.compile` does by default."""
    work: Work | None = None
    """None: inference, or forward and backward where the target's inputs say `train=True`."""
    call: int = 0
    """Which of the calls that the inputs give."""
    rounds: int = 10
    """How often the configurations take turns; fewer where a call takes long."""
    seconds: float = 2.0
    """Timed calls of one configuration take about so long, in all rounds together."""
    limit_seconds: float = 600.0
    """What one configuration may take, with its compile; 0 means no limit."""
    cold_cache: bool = False
    """Whether to clear the device's L2 before each timed call."""
    accuracy: bool = True
    bisect: bool = True
    """Whether to look for the first line that differs where accuracy fails."""
    profile: bool = True
    isolated: bool = False
    """Whether to run each generated kernel alone as well."""
    device: str = ""
    """`cpu`, `cuda`, `cuda:1`; empty: the GPU that is there, else the CPU."""
    keep_caches: str = ""
    """An empty folder in which the caches of the configurations stay, `NAME/inductor` and `NAME/triton`: for others to
    run the same compiled code. Empty: they go with the run."""


@dataclass(frozen=True)
class Analyse:
    """Run `target` under the recorder and answer with a Report, of the tier that is asked for."""

    id: int
    generation: int
    target: Target
    inputs: InputsPlan
    roots: tuple[str, ...]
    """Workspace folders: their modules are imported afresh in each run."""
    overlays: dict[str, str] = field(default_factory=dict)
    """Absolute path to text of every unsaved buffer."""
    limits: Limits = Limits()
    dynamo_config: dict[str, Any] = field(default_factory=dict)
    """torch._dynamo.config settings to apply, name to JSON value."""
    environment: dict[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    """Arguments for the `__main__` rung."""
    tier: Tier = Tier.CAPTURE
    """`kernels` also generates kernels for `device`, and launches none."""
    device: Device | None = None
    """What kernels are generated for; None: the GPU that is there, else the catalogue's `FALLBACK`."""
    operators: bool = False
    """Tier kernels: tell what each operator decomposes into, instead of generating kernels."""
    operator_set: tuple[str, ...] = ()
    """Operators that a backend has, for `OperatorPath.lacking`: names, or `core-aten`, `prims`, `inductor`."""
    assemble: tuple[str, ...] = ()
    """Sources of Triton kernels of the target to compile for `device`, instead of running anything: the Report then
    has them in `assembled`."""
    config: int | None = None
    """Which configuration of those kernels; None: the one that Inductor starts with."""
    disassemble: bool = False
    """Whether those kernels' SASS is wanted as well: it takes most of a second each."""
    measure: MeasurePlan | None = None
    """Tier measured: what to measure."""
    cache: str | None = None
    """Folder for what was assembled; None: it is not kept."""
    preload: bool = True
    """Whether third-party modules that the file imports may be imported in the host for later runs."""


@dataclass(frozen=True)
class Cancel:
    """End the run with this id; its one answer is then `Refused(reason="cancelled")`."""

    id: int


@dataclass(frozen=True)
class Locate:
    """Ask where the run with this id is, for when py-spy may not look. A Progress tells, if the run can."""

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
    """Set when no run can work here: torch missing or too old. The worker then exits."""


@dataclass(frozen=True)
class Started:
    """A run has a process now, or its time begins anew. `pid` is what to sample and its group is what to kill."""

    id: int
    pid: int
    seconds: float | None = None
    """From now on, what the worker gives it before it ends it itself; None: no limit."""


_RUNNING = "running"
_DOING = {
    "import": "importing",
    "build": "building",
    "trace": "tracing",
    "kernels": "generating kernels in",
    "report": "reporting",
    "measure": "measuring",
}


@dataclass(frozen=True)
class Progress:
    """Where a run is. Bounded rate: at most ten a second."""

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
        """Return the same phase, at the place where a sample has found it."""
        where = f"{place.function}, " if place.function else ""
        detail = f"{_DOING.get(self.phase, _RUNNING)} {where}{os.path.basename(place.path)}:{place.line}"
        return replace(self, detail=detail, path=place.path, line=place.line)

    @property
    def sampled(self) -> bool:
        """Whether `detail` says what is done there, as `at` does; else the phase says that."""
        return self.detail.startswith(f"{_DOING.get(self.phase, _RUNNING)} ")


@dataclass(frozen=True)
class Answer:
    """The run's report. A failure of the user's code is inside it: what was learnt before still counts."""

    id: int
    report: Report


@dataclass(frozen=True)
class Partial:
    """What a run has learnt so far, of which there is more to come: the forward's kernels, before the backward's."""

    id: int
    report: Report


@dataclass(frozen=True)
class Refused:
    """The run gave no report."""

    id: int
    reason: str
    """`cancelled`, `superseded`, `failed`, `bad_request`."""
    failure: Failure | None = None


@dataclass(frozen=True)
class Log:
    """A line for the server's log."""

    level: str
    text: str


ToWorker = Analyse | Cancel | Locate | Shutdown
ToServer = Hello | Started | Progress | Partial | Answer | Refused | Log
Message = ToWorker | ToServer

_TYPES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (Analyse, Cancel, Locate, Shutdown, Hello, Started, Progress, Partial, Answer, Refused, Log)
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
