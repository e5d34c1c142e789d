"""One configuration's profile for the page: lines, kernels, where the time goes, the roofline, the compile's steps.

Invariant: a kernel that could not be joined to the report is listed as such; shares of lines and kernels are of what
runs on the device, shares of `where` are of the call's wall time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuselight.report import LaunchKind
from fuselight_server.kernels.shares import SourceLine
from fuselight_server.measured.lines import kernel_of, main_place, times_by_line, whole_us
from fuselight_server.measured.rates import rates
from fuselight_server.measured.time_split import parts
from fuselight_server.measured.timing_stats import is_foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import (
        CompileStep,
        Device,
        Kernel,
        MeasuredConfiguration,
        MeasuredLaunch,
        Profile,
        Report,
    )
    from fuselight_server.measured.view import Shows

Json = dict[str, Any]

NO_LINES = "only Inductor records the source line of a kernel: the kernels of this backend have none"


def details(one: MeasuredConfiguration, report: Report, view: Shows) -> Json:
    """Return what is known of where a configuration's time goes."""
    profile = one.profile
    launches = profile.launches if profile is not None else ()
    whole = whole_us(profile) if profile is not None else 0.0
    longest = sorted(launches, key=lambda one: -one.us)
    return {
        "source": profile.source if profile is not None else "",
        "wall_us": profile.wall_us if profile is not None else 0.0,
        "kernel_us": profile.kernel_us if profile is not None else 0.0,
        "joined": _part(profile.joined_us, profile.device_us) if profile is not None else 0.0,
        "lines": list(_lines(one, report, view)),
        "no_lines": NO_LINES if profile is not None and is_foreign(one) else "",
        "where": list(_where(one, profile, report, view)) if profile is not None else [],
        "kernels": [_kernel(one, launch, whole, report, view) for launch in longest],
        "roofline": _roofline(one, report, view),
        "steps": [_step(step, view) for step in one.compile_steps],
    }


def _part(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _lines(one: MeasuredConfiguration, report: Report, view: Shows) -> Iterator[Json]:
    lines = times_by_line(one, report.roots)
    whole = float(sum(line.us for line in lines))
    for line in lines:
        place = view.place(line.place)
        if place is not None:
            names = dict.fromkeys(launch.name for launch, _ in line.launches)
            yield {
                "place": place,
                "us": float(line.us),
                "share": _part(float(line.us), whole),
                "kernels": list(names),
            }


def _where(one: MeasuredConfiguration, profile: Profile, report: Report, view: Shows) -> Iterator[Json]:
    for part in parts(profile, report.roots, foreign=is_foreign(one)):
        yield {
            "kind": part.kind,
            "label": part.label,
            "us": part.us,
            "share": _part(part.us, profile.wall_us),
            "place": view.place(part.place),
            "what": part.what,
        }


def _kernel(
    one: MeasuredConfiguration, launch: MeasuredLaunch, whole: float, report: Report, view: Shows
) -> Json:
    kernel = kernel_of(one, launch)
    achieved = rates(launch, kernel, report.target_device)
    graph = one.generated[launch.graph] if kernel is not None and launch.graph is not None else None
    return {
        "name": launch.name,
        "kind": kernel.kind.value if kernel is not None else launch.kind.value,
        "us": launch.us,
        "low_us": launch.low_us,
        "high_us": launch.high_us,
        "share": _part(launch.us, whole),
        "count": launch.count,
        "estimate_us": kernel.estimate_us if kernel is not None else None,
        "isolated_us": launch.isolated_us,
        "bandwidth_gbs": achieved.bandwidth_gbs,
        "tflops": achieved.tflops,
        "of_limit": achieved.of_limit,
        "joined": kernel is not None or launch.kind is LaunchKind.INPUTS or bool(launch.stack),
        "place": view.place(main_place(launch, kernel, report.roots)),
        "phase": graph.phase.value if graph is not None else "",
    }


def _roofline(one: MeasuredConfiguration, report: Report, view: Shows) -> Json | None:
    device = report.target_device
    if one.profile is None or device is None or device.bandwidth_gbs <= 0 or not device.tflops:
        return None
    points, dtypes = [], []
    for launch in one.profile.launches:
        kernel = kernel_of(one, launch)
        achieved = rates(launch, kernel, device)
        if achieved.intensity is not None and achieved.tflops is not None:
            points.append({
                "name": launch.name,
                "intensity": achieved.intensity,
                "tflops": achieved.tflops,
                "us": launch.us,
                "place": view.place(main_place(launch, kernel, report.roots)),
            })  # fmt: skip
            dtypes.append(_dtype(kernel))
    return {"points": points, "bandwidth_gbs": device.bandwidth_gbs, "peaks": _peaks(device, dtypes)}


def _dtype(kernel: Kernel | None) -> str | None:
    return kernel.dtype if kernel is not None else None


def _peaks(device: Device, dtypes: list[str | None]) -> list[Json]:
    """Return the rates of the dtypes that its kernels compute in; all, where that is not known of any."""
    used = {name: rate for name, rate in device.tflops.items() if name in dtypes} or device.tflops
    return [{"dtype": name, "tflops": rate} for name, rate in used.items()]


def _step(step: CompileStep, view: Shows) -> Json:
    at = step.location
    return {
        "name": step.name,
        "start_us": step.start_us,
        "us": step.us,
        "depth": step.depth,
        "place": view.place(SourceLine(at.path, at.line)) if at is not None else None,
        "compile_id": step.compile_id,
        "sampled": step.sampled,
    }
