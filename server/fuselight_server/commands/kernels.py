"""The kernels of files, generated for a device that may be absent.

Invariant: nothing is launched; what a project's cache answers was generated from the same sources.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from fuselight.shared.protocol import AssembleRequest, GenerateRequest, OwnKernelsPlan
from fuselight.shared.report import Device, Problem, Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.formatting import format_target
from fuselight_server.base.store import Store
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.execution.runs.kernel_cache import KernelCache
from fuselight_server.explain.kernels.documents import OF_TRITON

_OWN_KERNELS_SECONDS = 120.0
"""For the compiles of the program's own Triton kernels."""


async def generate(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    device: Device | None,
    resources: bool = False,
    disassemble: bool = False,
    configurations: bool = False,
) -> CheckOutcome:
    """Generate the kernels of every target, one after the other in one worker.

    `device`: None for this machine's GPU, else the catalogue's FALLBACK. `resources`: whether to compile the Triton
    kernels; `disassemble`: whether to make their SASS; `configurations`: whether to compile all those of autotuners.
    """

    async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        plan = OwnKernelsPlan(
            device=device,
            seconds=_OWN_KERNELS_SECONDS,
            configurations=configurations,
            disassemble=disassemble,
            libraries=True,
            with_code=True,
        )
        compiling = target_run.request.of_kind(GenerateRequest, device=device, own_kernels=plan)
        request = compiling if resources else dataclasses.replace(compiling, own_kernels=None)
        generating = dataclasses.replace(target_run, request=request)
        report = await _cached_or_run(generating, outcome, compiling)
        if not resources:
            return report
        return await _with_resources(report, generating, disassemble=disassemble)

    return await report_each(options, show, token, report_of)


async def _cached_or_run(target_run: TargetRun, outcome: CheckOutcome, *serving: GenerateRequest) -> Report:
    """The report of the cache if nothing has changed, else that of a run, which the cache then keeps.

    `serving`: larger requests, whose kept report serves this one, as one with the program's own kernels compiled does.
    """
    request = target_run.request
    cache = KernelCache(Store.of(Path(request.target.path)))
    if target_run.worker.hello is not None:
        for asked in (request, *serving):
            lookup = cache.find(asked, target_run.worker.hello.versions)
            if lookup.report is not None:
                return lookup.report
    report = await target_run.run_report()
    problem = cache.keep_report(request, report)
    if problem is not None:
        outcome.problems.append(Problem("cache", format_target(request.target.name), problem))
    return report


async def _with_resources(report: Report, target_run: TargetRun, *, disassemble: bool) -> Report:
    """The report with each of its Triton kernels compiled for the device."""
    wanted = {
        kernel.text_key: report.texts[kernel.text_key]
        for graph in report.generated
        for kernel in graph.kernels
        if kernel.text_key and kernel.kind in OF_TRITON
    }
    if not wanted:
        return report
    asked = target_run.request.of_kind(
        AssembleRequest,
        device=report.target_device,
        sources=tuple(wanted.values()),
        disassemble=disassemble,
    )
    compiled = await target_run.run_report(asked)
    failures = (*report.failures, *compiled.failures)
    return dataclasses.replace(report, assembled=compiled.assembled, failures=failures)
