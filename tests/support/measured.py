"""Hand-made benchmarks: eager and compiled, with kernels on lines of `FILE`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fuselight.shared.report import (
    Accuracy,
    Clock,
    Device,
    FusedOperator,
    Gap,
    GapKind,
    GeneratedGraph,
    Kernel,
    KernelKind,
    LaunchKind,
    Machine,
    Measured,
    MeasuredConfiguration,
    MeasuredLaunch,
    Phase,
    Profile,
    Report,
    TensorError,
    Tier,
    Timing,
    Work,
)
from tests.support.reports import at, report

GPU = Device("h200", "NVIDIA H200", "cuda", "9.0", 132, bandwidth_gbs=4800, tflops={"f32": 67, "bf16": 989})
MACHINE = Machine(device="NVIDIA H200", index=0, threads=4)


def timing(us: float, spread: float = 0.01, clock: Clock = Clock.WALL, *, unsteady: bool = False) -> Timing:
    """A time with quartiles at ± `spread` and rounds at twice that distance."""
    return Timing(
        clock, us, us * (1 - spread), us * (1 + spread), 100,
        rounds_us=(us * (1 - 2 * spread), us, us * (1 + 2 * spread)), unsteady=unsteady,
    )  # fmt: skip


def kernel(*lines: int, launch: int = 0, name: str = "", **changes: Any) -> Kernel:
    """A kernel with one operator on each of `lines`."""
    operators = tuple(FusedOperator("aten.add.Tensor", stack=(at(line),)) for line in lines)
    facts: dict[str, Any] = {"kind": KernelKind.TRITON, "bytes_read": 4_000_000, "bytes_written": 800_000}
    return Kernel(
        name or f"triton_{launch}",
        launch=launch,
        operators=operators,
        **{**facts, "estimate_us": 1.0, **changes},
    )


def graph(*kernels: Kernel) -> GeneratedGraph:
    """One inference graph."""
    return GeneratedGraph("0/0", Phase.INFERENCE, kernels=kernels)


def ran(
    launch: int | None, us: float, spread: float = 0.01, *, line: int = 0, **changes: Any
) -> MeasuredLaunch:
    """A launch of kernel `launch` of graph 0; None: of an eager operator on `line`, where 0 is unknown."""
    compiled = launch is not None
    facts: dict[str, Any] = {"kind": LaunchKind.KERNEL if compiled else LaunchKind.EAGER, "count": 1.0}
    return MeasuredLaunch(
        name=f"triton_{launch}" if compiled else f"eager_{line}",
        us=us, low_us=us * (1 - spread), high_us=us * (1 + spread),
        graph=0 if compiled else None, launch=launch, stack=(at(line),) if line else (),
        **{**facts, **changes},
    )  # fmt: skip


def gap(kind: GapKind, us: float, line: int = 0, what: str = "") -> Gap:
    """A gap, with an optional line."""
    return Gap(kind, us, 1.0, what=what, stack=(at(line),) if line else ())


def profile(
    launches: Iterable[MeasuredLaunch], gaps: Iterable[Gap] = (), *, wall: float | None = None
) -> Profile:
    """A profile of one stream with these kernels and gaps."""
    launches, gaps = tuple(launches), tuple(gaps)
    device = sum(launch.us for launch in launches)
    return Profile(
        source="CUPTI", calls=5, wall_us=device + sum(gap.us for gap in gaps) if wall is None else wall,
        kernel_us=device, device_us=device, joined_us=device, launches=launches, gaps=gaps,
    )  # fmt: skip


def row(name: str, us: float | None = 100.0, spread: float = 0.01, **changes: Any) -> MeasuredConfiguration:
    """One configuration, timed by the host's clock; None means no time."""
    wall = timing(us, spread) if us is not None else None
    return MeasuredConfiguration(name, **{"wall": wall, "first_us": 2e6, "second_us": us, **changes})


def measured(*rows: MeasuredConfiguration, **changes: Any) -> Measured:
    """A finished measurement."""
    facts: dict[str, Any] = {
        "work": Work.INFERENCE, "machine": MACHINE, "configurations": rows, "rounds": 10, "finished": True,
        "started": "2026-01-31T12:00:00Z", "order": tuple(configuration.name for configuration in rows),
    }  # fmt: skip
    return Measured(**{**facts, **changes})


def benchmark(*rows: MeasuredConfiguration, of: dict[str, Any] | None = None, **parts: Any) -> Report:
    """A report of a benchmark; `of` overrides fields of `Measured`."""
    facts: dict[str, Any] = {
        "tier": Tier.MEASURED,
        "target_device": GPU,
        "measured": measured(*rows, **(of or {})),
    }
    return report(**{**facts, **parts})


def wrong(what: str = "output", **changes: Any) -> Accuracy:
    """Results that differ from eager's."""
    tensor = TensorError(what, cosine=0.5, absolute=1.0, relative=2.0, passed=False)
    return Accuracy(
        **{
            "passed": False,
            "tolerance": 1e-4,
            "against": "float64",
            "tensors": (tensor,),
            "compared": 1,
            **changes,
        }
    )
