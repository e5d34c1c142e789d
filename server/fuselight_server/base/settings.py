"""The user's settings, parsed once into frozen dataclasses; every field has a default.

Invariant: parsing never fails. A value that does not fit is replaced by its default and named in a warning.
`package.json` documents the same names and defaults; tests/test_manifest.py holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from fuselight.shared.devices import AUTO, UnfitDevice, from_settings
from fuselight.shared.report import Device

T = TypeVar("T")


@dataclass(frozen=True)
class LimitSettings:
    """Bounds of one run; 0 means none."""

    seconds: float = 120.0
    memory_mb: int = 8192


@dataclass(frozen=True)
class GuardSettings:
    """From where on guards are worth a warning, for each frame."""

    warn_count: int = 5000
    warn_microseconds: float = 0.0


@dataclass(frozen=True)
class HintSettings:
    """Which hints are shown."""

    no_inputs: bool = True


@dataclass(frozen=True)
class FixSettings:
    """When fixes are verified, and which are shown before they are applied."""

    verify: Literal["cursor", "menu", "choice"] = "cursor"
    """As soon as the cursor is on the line of a finding, when the menu opens, or when a fix is chosen."""
    preview: Literal["behavior", "always", "never"] = "behavior"
    """`behavior`: a preview of fixes that change behavior."""


@dataclass(frozen=True)
class InputSettings:
    """How inputs are made from annotations: the size of each named dimension, `*` for any other."""

    default_sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DynamoSettings:
    """`torch._dynamo.config` values to apply in a run."""

    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelSettings:
    """When kernels are generated, and how they are shown on their lines."""

    when: Literal["onDemand", "onSave"] = "onDemand"
    lens: Literal["line", "function", "off"] = "line"
    heat: Literal["gutter", "ruler", "off"] = "gutter"
    """The client reads this setting itself, and draws the marks."""
    advise_from_percent: float = 5.0
    """Copies and graph breaks are reported from this percentage of the estimated time of a target's kernels."""
    advise_repeats: int = 6
    """From this many equal instances of a module, a finding advises to compile only one."""


@dataclass(frozen=True)
class BenchSettings:
    """How benchmarks are made."""

    configurations: list[str] = field(default_factory=list)
    """None named: eager, and the target as the source compiles it, else `default`."""
    work: Literal["auto", "inference", "forward_backward", "training_step"] = "auto"
    seconds: float = 2.0
    rounds: int = 10
    time_limit: float = 600.0
    """Seconds for one configuration; 0 means none."""
    cold_cache: bool = False
    device: str = ""
    """Empty: the GPU that is there, else the CPU."""


@dataclass(frozen=True)
class TuneSettings:
    """How the fastest configuration is searched."""

    budget: float = 120.0
    """Seconds of the whole search, compiles included."""
    numerics: Literal["exact", "tf32", "reduced"] = "exact"
    fixed_modules: bool = False
    """Whether candidates may skip the guards on modules."""
    candidates: list[str] = field(default_factory=list)
    """Further configurations to try."""
    work: Literal["auto", "inference", "forward_backward", "training_step"] = "auto"
    modes: bool = False
    """Whether torch's other modes are measured, too."""
    fixes: bool = True
    """Whether the source with its verified fixes is tried."""
    time_limit: float = 600.0
    """Seconds for one configuration; 0 means none."""
    device: str = ""
    """Empty: the GPU that is there, else the CPU."""
    artifacts: bool = False
    """Whether the winner's compiled code is saved beside the tuned file."""


@dataclass(frozen=True)
class TraceSettings:
    """How much of the protocol the extension logs."""

    server: Literal["off", "messages", "verbose"] = "off"


@dataclass(frozen=True)
class Interpreter:
    """How to start the user's Python, and in words why that one."""

    executable: str
    args: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Settings:
    """The `fuselight` section for one folder."""

    interpreter: str = ""
    """Path of the Python that has torch; empty: the client's choice."""
    server_interpreter: str = ""
    """Path of the Python that runs this server; read by the client alone."""
    run: Literal["save", "manual"] = "save"
    run_scope: Literal["workspace", "openFiles", "file"] = "workspace"
    """Whose targets a save runs again: every one whose last run used the file, those of open files, the file's."""
    limits: LimitSettings = LimitSettings()
    idle_minutes: float = 10.0
    """After so many minutes without a run a worker is stopped."""
    sample_after_seconds: float = 5.0
    """After so many seconds without progress a run is sampled for the line that it is in."""
    guards: GuardSettings = GuardSettings()
    code_lens: Literal["all", "compilable", "compiled", "off"] = "compilable"
    """`compiled`: lenses only on targets that are compiled or have inputs; `compilable`: also on modules and functions
    that compute with tensors."""
    hints: HintSettings = HintSettings()
    fixes: FixSettings = FixSettings()
    inlay_hints: Literal["off", "assignments", "all"] = "assignments"
    """Where the shapes of the last run stand in the text; `all`: after calls, too."""
    fade_untraced: bool = False
    """Whether lines that no trace reached are faded."""
    live: Literal["on", "off"] = "on"
    """Whether edits are traced before they are saved."""
    live_delay: int = 400
    """Milliseconds without a further edit after which the edited functions are traced."""
    inputs: InputSettings = field(default_factory=InputSettings)
    dynamo: DynamoSettings = field(default_factory=DynamoSettings)
    environment: dict[str, str] = field(default_factory=dict)
    """Variables to set in the worker."""
    device: str = AUTO
    """What kernels are generated for: `auto` or a name; `target_device.choose` says which device that is."""
    devices: dict[str, Device] = field(default_factory=dict)
    """The user's own devices, by key, in addition to those of the catalog."""
    kernels: KernelSettings = KernelSettings()
    bench: BenchSettings = field(default_factory=BenchSettings)
    tune: TuneSettings = field(default_factory=TuneSettings)
    accuracy: Literal["off", "onDemand", "afterSave"] = "onDemand"
    """When results are compared with eager mode; `off`: there is no lens for it. `afterSave`: also after a save, while
    nothing else runs."""
    memory: Literal["off", "onDemand", "afterSave"] = "onDemand"
    """When the memory of targets is estimated; the same values."""
    agents: bool = True
    """Whether coding agents can attach; read of the window, not of a folder."""
    trace: TraceSettings = TraceSettings()
    resolved_interpreter: Interpreter | None = None
    """Put in by the client; not a setting of the user's."""


def parse_settings(data: Any) -> tuple[Settings, tuple[str, ...]]:
    """Read the JSON value of the `fuselight` section.

    Returns the settings and one warning for each value that was replaced by its default. Unknown names are ignored,
    because a newer client may have more of them.
    """
    warnings: list[str] = []
    return _parse(Settings, data, "fuselight", warnings), tuple(warnings)


def key_of(field_name: str) -> str:
    """Name a field as JSON does: `warn_count` is `warnCount`."""
    head, *tail = field_name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _parse(kind: type[T], data: Any, where: str, warnings: list[str]) -> T:
    if data is None:
        return kind()
    if not isinstance(data, Mapping):
        warnings.append(f"{where} should be an object; its defaults are used")
        return kind()
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]  # only called with the dataclasses above
        key = key_of(item.name)
        if key not in data or data[key] is None:
            continue
        name = f"{where}.{key}"
        hint = hints[item.name]
        if is_dataclass(hint):
            values[item.name] = _parse(hint, data[key], name, warnings)  # type: ignore[arg-type]  # mypy sees an instance
        elif item.name == "resolved_interpreter":
            values[item.name] = _interpreter(data[key], name, warnings)
        elif item.name == "devices":
            values[item.name] = _devices(data[key], name, warnings)
        else:
            try:
                values[item.name] = _value(hint, data[key])
            except ValueError as wanted:
                warnings.append(f"{name} should be {wanted}, not {_short(data[key])}; its default is used")
    return kind(**values)


def _interpreter(data: Any, name: str, warnings: list[str]) -> Interpreter | None:
    if isinstance(data, Mapping) and isinstance(data.get("executable"), str) and data["executable"]:
        args = data.get("args")
        why = data.get("why")
        return Interpreter(
            executable=data["executable"],
            args=tuple(str(arg) for arg in args) if isinstance(args, (list, tuple)) else (),
            why=why if isinstance(why, str) else "",
        )
    warnings.append(f"{name} should be an interpreter, not {_short(data)}; it is ignored")
    return None


def _devices(data: Any, name: str, warnings: list[str]) -> dict[str, Device]:
    """Those that fit; of the others, what is wrong with them."""
    if not isinstance(data, Mapping):
        warnings.append(f"{name} should be an object, not {_short(data)}; its default is used")
        return {}
    devices: dict[str, Device] = {}
    for key, value in data.items():
        try:
            devices[str(key)] = from_settings(str(key), value)
        except UnfitDevice as unfit:
            warnings.append(f"{name}.{str(unfit).rstrip('.')}; the device is ignored")
    return devices


def _value(hint: Any, value: Any) -> Any:
    """`value` as a `hint`. Raises ValueError with what was wanted."""
    origin = get_origin(hint)
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise ValueError(f"one of {', '.join(map(repr, get_args(hint)))}")
    if origin is list:
        return _strings(value)
    if origin is dict:
        return _dictionary(get_args(hint)[1], value)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if value >= 0:  # NaN fails too
            return float(value)
        raise ValueError("a number of 0 or more")
    if hint is int and isinstance(value, (int, float)) and not isinstance(value, bool):
        if value >= 0 and value % 1 == 0:  # infinity fails too: its remainder is NaN
            return int(value)
        raise ValueError("a whole number of 0 or more")
    if hint in (str, bool) and type(value) is hint:
        return value
    raise ValueError({str: "a string", bool: "true or false"}.get(hint, "a number"))


def _dictionary(hint: Any, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("an object")  # noqa: TRY004 - one kind of error, caught above
    if hint is Any:
        return {str(key): item for key, item in value.items()}
    return {str(key): _value(hint, item) for key, item in value.items()}


def _strings(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return list(value)
    raise ValueError("a list of strings")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a line of a message
