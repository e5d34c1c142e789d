"""The user's own Triton kernels that a run launched, compiled for a device after the run.

Invariant: what was compiled so far is in the report whatever ends the rest; each compile is a child with a time limit,
and all of them together have the time of the plan. A kernel that no time was left for is listed without its forms.
"""

from __future__ import annotations

import ast
import os
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fuselight.capture.calls.present_device import present_device
from fuselight.shared import kernel_forms
from fuselight.shared.devices import FALLBACK, find
from fuselight.shared.kernel_options import CompileTrial, wanted_trials
from fuselight.shared.protocol import CaptureRequest, GenerateRequest, OwnKernelsPlan, RunRequest
from fuselight.shared.report import (
    Assembled,
    CompiledOption,
    Device,
    KernelConfiguration,
    Listing,
    Location,
    OwnKernel,
    Problem,
    TunedSizes,
    is_user_file,
)
from fuselight.worker.child.launch_times import NotEstimatedError, launch_cost

if TYPE_CHECKING:
    from fuselight.adapters.triton_api.launches.absent_kernel import CompileArguments
    from fuselight.adapters.triton_api.launches.specializations import (
        LaunchedConfiguration,
        LaunchedSpecialization,
        LaunchRecord,
    )
    from fuselight.worker.child.progress import ProgressPipe

MAX_COMPILE_SECONDS = 15.0
"""Of one compile: the others need time, too."""
_COUNTED = ("tt.dot", "scf.for", "scf.while", "tt.atomic")
"""Operations of TTIR that an estimated time needs a count of."""
_LONGEST_TEXT = 2_000_000
"""Characters of a listing that is kept."""
_perf_counter = time.perf_counter  # bound before any user code runs


def plan_of(request: RunRequest) -> OwnKernelsPlan | None:
    """What a request says of the program's own kernels; None where nothing is compiled."""
    plan = request.own_kernels
    if plan is None or request.world is not None:
        return None
    if isinstance(request, CaptureRequest):
        return plan if request.trial is None else None
    return plan if isinstance(request, GenerateRequest) and plan.with_code else None


def device_of(plan: OwnKernelsPlan) -> Device:
    """The device that a plan compiles for: one that Triton compiles for."""
    device = plan.device or present_device() or find(FALLBACK)
    return device if device.backend in ("cuda", "hip") else find(FALLBACK)


@dataclass
class OwnKernels:
    """The own kernels of a report, and the compiles that fill them."""

    kernels: list[OwnKernel] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    device: Device | None = None

    def compile(
        self,
        record: LaunchRecord,
        plan: OwnKernelsPlan,
        *,
        directory: str,
        roots: Sequence[str],
        progress: ProgressPipe,
    ) -> None:
        """Compile what was launched, those of the innermost need first: the launched ones, then what is tried.

        `directory`: the run's, beside which compiled kernels are kept.
        """
        device = self.device = device_of(plan)
        compiles = _Compiles(device, plan, os.path.join(os.path.dirname(directory), "own-kernels"))
        present = present_device()
        gpu = present.name if present is not None else ""
        known = [
            (specialization, _listed(specialization, gpu, roots))
            for specialization in record.specializations.values()
        ]
        for specialization, _ in known:
            specialization.work = record.work_of(specialization.request)
        known.sort(key=lambda pair: bool(pair[1].library))
        self.kernels = [kernel for _, kernel in known]
        steps = [self._launched]
        steps += [self._configurations] if plan.configurations else []
        steps += [self._trials]
        for step in steps:
            for index, (specialization, kernel) in enumerate(known):
                if kernel.library and (step == self._trials or not plan.libraries):
                    continue  # nobody changes it
                progress.tell("assemble", kernel.name, kernel.location.path, kernel.location.line)
                step(index, specialization, compiles)
        self.kernels.sort(key=lambda kernel: (kernel.location.path, kernel.location.line))
        self._say_what_is_missing(record, compiles)

    def _launched(self, index: int, specialization: LaunchedSpecialization, compiles: _Compiles) -> None:
        assembled = compiles.of(specialization.request, disassemble=compiles.plan.disassemble)
        if assembled is not None:
            text = assembled.listings["ttir"].text if "ttir" in assembled.listings else ""
            if any(operator in text for operator in _COUNTED) and compiles.deadline > _perf_counter():
                from fuselight.adapters.triton_api.launches.counted_work import count_work  # noqa: PLC0415 - as above

                count_work(specialization)
            self.kernels[index] = _with_forms(self.kernels[index], specialization, assembled, compiles.device)

    def _trials(self, index: int, specialization: LaunchedSpecialization, compiles: _Compiles) -> None:
        kernel = self.kernels[index]
        options = []
        for trial in wanted_trials(kernel, compiles.device):
            assembled = compiles.of(specialization.request, trial=trial)
            if assembled is not None:
                options.append(_tried(trial.option, trial.value, assembled))
        self.kernels[index] = replace(
            kernel, options=tuple(options), without_float64=_without_float64(kernel, specialization, compiles)
        )

    def _configurations(
        self, index: int, specialization: LaunchedSpecialization, compiles: _Compiles
    ) -> None:
        kernel = self.kernels[index]
        if not specialization.tunings:
            return
        tuning = specialization.tunings[0]
        compiled = [
            _compiled_configuration(configuration, shown, compiles)
            for configuration, shown in zip(tuning.configurations, kernel.configurations, strict=True)
        ]
        self.kernels[index] = replace(kernel, configurations=tuple(compiled))

    def _say_what_is_missing(self, record: LaunchRecord, compiles: _Compiles) -> None:
        if compiles.left_out:
            self.problems.append(
                Problem(
                    "own_kernels",
                    f"the compiled forms of {compiles.left_out} of the program's Triton kernels",
                    f"the compiles of a run have {compiles.plan.seconds:g} seconds",
                )
            )
        if record.dropped:
            self.problems.append(
                Problem(
                    "own_kernels",
                    f"{record.dropped} specializations of the program's Triton kernels",
                    f"a report has at most {len(record.specializations)} of them",
                )
            )


@dataclass
class _Compiles:
    """Compiles for one report, within its time."""

    device: Device
    plan: OwnKernelsPlan
    cache: str
    deadline: float = 0.0
    left_out: int = 0

    def __post_init__(self) -> None:
        self.deadline = _perf_counter() + self.plan.seconds

    def of(
        self,
        request: CompileArguments,
        *,
        disassemble: bool = False,
        trial: CompileTrial | None = None,
        without_float64: bool = False,
    ) -> Assembled | None:
        """Compile one request; None where no time is left."""
        from fuselight.adapters.triton_api.launched_forms import compile_launched  # noqa: PLC0415 - few runs launch one

        seconds = min(MAX_COMPILE_SECONDS, self.deadline - _perf_counter())
        if seconds <= 0:
            self.left_out += trial is None and not without_float64
            return None
        return compile_launched(
            request,
            self.device,
            seconds=seconds,
            lasting_after=MAX_COMPILE_SECONDS / 2,
            cache=self.cache,
            disassemble=disassemble,
            options=trial.options if trial is not None else None,
            divisible=trial.divisible if trial is not None else None,
            without_float64=without_float64,
        )


def _listed(specialization: LaunchedSpecialization, gpu: str, roots: Sequence[str]) -> OwnKernel:
    """A specialization without its forms; `gpu` is the name of the machine's."""
    from fuselight.adapters.triton_api import names  # noqa: PLC0415 - as above
    from fuselight.adapters.triton_api.launched_forms import is_divisible  # noqa: PLC0415 - as above
    from fuselight.adapters.triton_api.launches.specializations import autotune_line  # noqa: PLC0415 - as above

    request, tunings = specialization.request, specialization.tunings
    tuning = tunings[0] if tunings else None
    function = request.function
    path, first = str(function.fn.__code__.co_filename), names.first_line(function)
    options = vars(request.options)
    is_timed = any(known.measured_us is not None for tuned in tunings for known in tuned.configurations)
    return OwnKernel(
        name=str(function.__name__),
        location=Location(path, first),
        last_line=_last_line(function, first),
        types={name: str(kind) for name, kind in request.signature.items()},
        divisible=tuple(name for name in request.signature if is_divisible(request, name)),
        values=specialization.values,
        unused=tuple(_unused(function)),
        num_warps=options.get("num_warps"),
        num_stages=options.get("num_stages"),
        grid=specialization.grid,
        launches=specialization.launches,
        launched_at=specialization.launched_at,
        key=tuning.key if tuning is not None else (),
        key_values=tuning.values if tuning is not None else (),
        further_key_values=tuple(further.values for further in tunings[1:]),
        configurations=tuple(
            KernelConfiguration(
                configuration.config,
                configuration.text,
                configuration.grid,
                measured_us=configuration.measured_us,
            )
            for configuration in (tuning.configurations if tuning is not None else ())
        ),
        chosen=tuning.chosen if tuning is not None else None,
        tuned_on=gpu if is_timed else "",
        tuned=tuple(
            TunedSizes(tuning.values, tuple(known.measured_us for known in tuning.configurations))
            for tuning in tunings
            if any(known.measured_us is not None for known in tuning.configurations)
        ),
        decorator=autotune_line(function) if tuning is not None else None,
        library="" if is_user_file(path, roots) else str(function.__module__).partition(".")[0],
    )


def _last_line(function: Any, first: int) -> int:
    """The last line of a kernel, whose text begins at its decorators."""
    code = function.fn.__code__
    lines: list[int] = [line for _, _, line in code.co_lines() if line]
    return max([first, *lines])


def _unused(function: Any) -> Iterator[str]:
    """Parameters that a kernel never reads, and that Triton specializes it on."""
    try:
        (definition,) = ast.parse(textwrap.dedent(function.src)).body
    except (SyntaxError, ValueError):
        return
    read = {
        node.id
        for statement in getattr(definition, "body", ())
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
    }
    for parameter in function.params:
        plain = parameter.is_constexpr or not parameter.do_not_specialize
        is_number = "float" not in str(getattr(parameter, "annotation_type", "") or "")
        if parameter.name not in read and plain and is_number:
            yield str(parameter.name)


def _with_forms(
    kernel: OwnKernel, specialization: LaunchedSpecialization, assembled: Assembled, device: Device
) -> OwnKernel:
    """Add the compiled forms, and what they say of the memory that a launch reads and writes."""
    listings = {
        stage: listing for stage, listing in assembled.listings.items() if len(listing.text) <= _LONGEST_TEXT
    }
    problems = assembled.problems
    if len(listings) < len(assembled.listings):
        listings |= {stage: Listing("") for stage in assembled.listings if stage not in listings}
        problems += (f"texts of more than {_LONGEST_TEXT:,} characters are left out",)
    kernel = replace(kernel, assembled=replace(assembled, listings=listings, problems=problems))
    moved = _traffic(kernel, specialization, assembled)
    if moved is None:
        return kernel
    cost, reason = None, ""
    try:
        cost = launch_cost(sum(moved), specialization, assembled, device)
    except NotEstimatedError as why:
        reason = str(why)
    return replace(
        kernel,
        bytes_read=moved[0],
        bytes_written=moved[1],
        not_estimated=reason,
        estimate_us=cost[0] if cost is not None else None,
        bound=cost[1] if cost is not None else None,
    )


def _traffic(
    kernel: OwnKernel, specialization: LaunchedSpecialization, assembled: Assembled
) -> tuple[int, int] | None:
    """Bytes of the tensors that a launch reads and writes, each memory once."""
    listing = assembled.listings.get("ttir")
    accessed = kernel_forms.accessed(listing.text) if listing is not None else None
    if accessed is None or not specialization.tensors:
        return None
    arguments = [name for name, kind in kernel.types.items() if kind != "constexpr"]
    if any("tensordesc" in kind or "(" in kind for kind in kernel.types.values()):
        return None  # such an argument is several of the compiled function
    moved = []
    for positions in (accessed.read, accessed.written):
        memory: dict[int, int] = {}
        for at in positions:
            if at >= len(arguments) or arguments[at] not in specialization.tensors:
                return None
            size, address = specialization.tensors[arguments[at]]
            memory[address] = max(size, memory.get(address, 0))
        moved.append(sum(memory.values()))
    return moved[0], moved[1]


def _without_float64(
    kernel: OwnKernel, specialization: LaunchedSpecialization, compiles: _Compiles
) -> CompiledOption | None:
    """Compile a kernel that need not compute in float64 with float32; None where it does not help."""
    if kernel.assembled is None or kernel_forms.float64_use(kernel.assembled) is None:
        return None
    assembled = compiles.of(specialization.request, without_float64=True)
    if assembled is None or assembled.failure is not None or kernel_forms.float64_use(assembled) is not None:
        return None
    return _tried("float64", 32, assembled)


def _tried(option: str, value: int, assembled: Assembled) -> CompiledOption:
    return CompiledOption(
        option,
        value,
        registers=assembled.registers,
        spills=assembled.spills,
        shared=assembled.shared,
        occupancy=assembled.occupancy,
        widths={
            f"{'store' if access.is_store else 'load'} {access.line}": access.width
            for access in kernel_forms.memory_accesses(assembled)
        },
        failure=assembled.failure,
    )


def _compiled_configuration(
    configuration: LaunchedConfiguration, shown: KernelConfiguration, compiles: _Compiles
) -> KernelConfiguration:
    if configuration.request is None:
        return replace(shown, failure="the launch has no arguments for it")
    assembled = compiles.of(configuration.request)
    if assembled is None:
        return shown
    return replace(
        shown,
        registers=assembled.registers,
        spills=assembled.spills,
        shared=assembled.shared,
        occupancy=assembled.occupancy,
        failure=assembled.failure,
        is_compiled=True,
    )
