"""Which targets of a file to run, and the requests that do it.

By default: what the source compiles, and what has a directive. Invariant: a file's `__main__` block runs at
most once, for all compiled targets together that nothing better gives inputs to: neither inputs of their own nor
directives of what they wrap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.shared.inputs.grammar import world_of_directives
from fuselight.shared.protocol import CaptureRequest, InputsPlan, Limits, OwnKernelsPlan, RunRequest, Target
from fuselight.shared.report import Report, Rung, WorldPlan
from fuselight_server.source.reading import Reading, StaticTarget

MAIN = "__main__"
"""How the user names a file's `__main__` block where a target's name is asked for."""


@dataclass(frozen=True)
class RunOptions:
    """What is the same for every run of one command or folder."""

    roots: tuple[str, ...]
    limits: Limits = field(default_factory=Limits)
    default_sizes: dict[str, int] = field(default_factory=dict)
    dynamo_config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    overlays: dict[str, str] = field(default_factory=dict)
    recorded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Target name to the calls that the last `fuselight run` recorded for it in this file."""
    programs: dict[str, str] = field(default_factory=dict)
    """Target name to the other file whose first call of it gives the inputs, where the user has chosen one."""
    argv: tuple[str, ...] = ()
    world: WorldPlan | None = None
    """The ranks as which every target runs; None: those of its directive, if it has any."""
    own_kernels: OwnKernelsPlan | None = field(default_factory=OwnKernelsPlan)
    """What captures compile of the program's own Triton kernels."""


@dataclass(frozen=True)
class PlannedRun:
    """One run: the target as the worker names it, and the rungs to try."""

    target: Target
    inputs: InputsPlan

    @property
    def program(self) -> str | None:
        """The file whose program gives the inputs, as far as the source shows; None where none needs to run."""
        if self.inputs.directives or self.inputs.provider or self.inputs.recorded:
            return None
        if self.inputs.program:
            return self.inputs.program
        return self.target.path if self.inputs.main_line is not None else None

    def start_message(self, identity: int, generation: int, options: RunOptions) -> CaptureRequest:
        """The message that starts the run."""
        return CaptureRequest(
            id=identity,
            generation=generation,
            target=self.target,
            inputs=self.inputs,
            roots=options.roots,
            overlays=options.overlays,
            limits=options.limits,
            dynamo_config=options.dynamo_config,
            environment=options.environment,
            argv=options.argv,
            world=options.world or self.world,
            own_kernels=options.own_kernels,
        )

    @property
    def world(self) -> WorldPlan | None:
        """The ranks that a directive of the target asks for."""
        return world_of_directives(directive.text for directive in self.inputs.directives)


def default_runs(reading: Reading, options: RunOptions) -> tuple[PlannedRun, ...]:
    """What to run when the user has pointed at nothing in particular."""
    runs = []
    left_to_main = False
    for target in _callable_targets(reading, options):
        if not target.directives and target.maker is not None:
            left_to_main |= reading.main_line is not None  # no input of ours gets at it
            continue
        own = bool(target.directives) or reading.provider is not None or target.name in options.recorded
        if own or reading.main_line is None:
            runs.append(_run(reading, target, options))
        else:
            left_to_main = True
    if left_to_main:
        runs.append(main_run(reading))
    if not runs and reading.provider is not None:
        # A provider in a file that compiles nothing is for its last module, built from the others.
        modules = [
            static_target
            for static_target in reading.targets
            if static_target.kind == "module" and "." not in static_target.name
        ]
        runs.extend(_run(reading, target, options) for target in modules[-1:])
    return tuple(runs)


def _callable_targets(reading: Reading, options: RunOptions) -> tuple[StaticTarget, ...]:
    """What is compiled or has directives, each once; for what only an object of a class has, that class.

    A name may be defined twice, in the branches of an `if`: the file has one of the two once it is imported, so that a
    definition without directives adds nothing to another of its name.
    """
    wanted = [
        _called_for(reading, target, options)
        for target in reading.targets
        if target.compiled or target.directives
    ]
    directed = {target.name for target in wanted if target.directives}
    first = {target.name: target for target in reversed(wanted)}
    return tuple(
        dict.fromkeys(
            target
            for target in wanted
            if target.directives or (target.name not in directed and target is first[target.name])
        )
    )


def _called_for(reading: Reading, target: StaticTarget, options: RunOptions) -> StaticTarget:
    """Whom to call for `target`: what makes it and calls it, where that is known, or what it compiles.

    For `self.fast = torch.compile(...)` that is the module that has it, for what a function makes that function, where
    it has directives, and for `x = torch.compile(Net())` the class, where that has directives and `x` has nothing. A
    call of a module calls its `forward`, so that the directives of the class serve a compiled `forward`, too.
    """
    if target.directives:
        return target
    if target.maker is not None:
        makers = (
            static_target
            for static_target in reading.targets
            if static_target.name == target.maker and static_target.directives
        )
        return next(makers, None) or _served(reading, target, options) or target
    return _owner(reading, target, options) or _served(reading, target, options) or target


def _owner(reading: Reading, target: StaticTarget, options: RunOptions) -> StaticTarget | None:
    """The module whose call reaches `target`; for its `forward`, where the module alone has inputs."""
    modules = {module.name: module for module in reading.targets if module.kind == "module"}
    if target.attribute_of is not None:
        return modules.get(target.attribute_of)
    name, _, method = target.name.rpartition(".")
    module = modules.get(name) if target.kind == "method" and method == "forward" else None
    has_inputs = reading.provider is not None or target.name in options.recorded
    return module if module is not None and module.directives and not has_inputs else None


def _served(reading: Reading, target: StaticTarget, options: RunOptions) -> StaticTarget | None:
    return reading.serving(target) if target.name not in options.recorded else None


def named_runs(reading: Reading, names: Iterable[str], options: RunOptions) -> tuple[PlannedRun, ...]:
    """The runs for the targets that the user named; a name that the file does not have gives none."""
    wanted = set(names)
    called = dict.fromkeys(
        _called_for(reading, target, options) for target in reading.targets if target.name in wanted
    )
    runs = [_run(reading, target, options) for target in called]
    if MAIN in wanted and reading.main_line is not None:
        runs.append(main_run(reading))
    return tuple(runs)


def main_run(reading: Reading) -> PlannedRun:
    """The run of the file's own `__main__` block."""
    line = reading.main_line or 1
    return PlannedRun(
        Target(path=reading.path, name="", kind="main", line=line, compiled=True),
        InputsPlan(main_line=line, dummy_inputs=False, annotations=False),
    )


def script_run(reading: Reading, line: int) -> PlannedRun:
    """The run of a file whose own statements, from `line` on, are the program: it has no `__main__` block."""
    return PlannedRun(
        Target(path=reading.path, name="", kind="main", line=line, compiled=True),
        InputsPlan(main_line=line, is_script=True, dummy_inputs=False, annotations=False),
    )


def call_run(reading: Reading, name: str) -> PlannedRun:
    """The run that repeats the calls which the program of a file makes of something that it compiles, by its name."""
    line = reading.main_line or 1
    return PlannedRun(
        Target(path=reading.path, name=name, kind="call", line=line, compiled=True),
        InputsPlan(main_line=line, dummy_inputs=False, annotations=False),
    )


def call_runs(request: RunRequest, report: Report, names: Iterable[str] = ()) -> tuple[RunRequest, ...]:
    """Runs that repeat the calls which a program made of what it compiles; `report` is that of the program's run.

    `names`: those of the functions, methods and modules, or `path:line` of what compiles them; empty for all.
    """
    plan, wanted = request.inputs, set(names)
    requests: dict[tuple[str, str], RunRequest] = {}
    for recorded_call in report.recorded:
        at = recorded_call.compiled_at
        if at is None or (wanted and not wanted & {recorded_call.target, f"{at.path}:{at.line}"}):
            continue
        target = Target(
            path=recorded_call.path,
            name=recorded_call.target,
            kind="call",
            line=recorded_call.line,
            compiled=True,
        )
        inputs = InputsPlan(
            dummy_inputs=False,
            annotations=False,
            main_line=plan.main_line if plan.main_line is not None else request.target.line,
            main_path=plan.main_path or request.target.path,
            is_script=report.inputs is not None and report.inputs.rung is Rung.SCRIPT,
        )
        requests.setdefault(
            (recorded_call.path, recorded_call.target), replace(request, target=target, inputs=inputs)
        )
    return tuple(requests.values())


def program_calls(request: RunRequest, report: Report) -> tuple[RunRequest, ...]:
    """The runs that repeat the calls which a program made of a target; of all that it compiles if that is the program.

    None if no program gave the inputs. `report` is that of the request.
    """
    if report.inputs is None or report.inputs.rung not in {Rung.MAIN, Rung.SCRIPT}:
        return ()
    target = request.target
    names = () if target.kind == "main" else (target.name, f"{target.path}:{target.line}")
    return call_runs(request, report, names)


def with_texts(request: RunRequest, texts: Mapping[str, str]) -> RunRequest:
    """The same run of changed files, with the lines and directives of its target as `texts` have them."""
    from fuselight_server.source.document import read_source  # noqa: PLC0415 - the terminal needs it after its worker

    path, target, inputs = request.target.path, request.target, request.inputs
    changed = replace(request, overlays={**request.overlays, **texts})
    if path not in texts or target.kind == "call":
        return changed
    options = RunOptions(
        roots=request.roots,
        default_sizes=inputs.default_sizes,
        recorded={target.name: inputs.recorded} if inputs.recorded else {},
        programs={target.name: inputs.program} if inputs.program else {},
    )
    planned = named_runs(read_source(path, texts[path]), [target.name or MAIN], options)
    same = next((planned_run for planned_run in planned if planned_run.target.name == target.name), None)
    if same is None:  # the run then says that the file has no such target
        return changed
    # The user has allowed the `__main__` block, or not.
    main_line = same.inputs.main_line if inputs.main_line is not None else None
    return replace(changed, target=same.target, inputs=replace(same.inputs, main_line=main_line))


def _run(reading: Reading, target: StaticTarget, options: RunOptions) -> PlannedRun:
    recorded = options.recorded.get(target.name, ())
    plan = reading.plan(target, recorded=recorded, default_sizes=dict(options.default_sizes))
    plan = replace(plan, program=options.programs.get(target.name, ""))
    # Where the file compiles an object of a class, the class is compiled as a whole, whatever else it compiles of it.
    # A function that compiles something itself is called as it is: to compile that function is not what it asks for.
    by_source = target.compiled or any(
        static_target.compiled and target.name in {static_target.holds, static_target.maker}
        for static_target in reading.targets
    )
    return PlannedRun(replace(reading.target_ref(target), compiled=by_source), plan)


def sizes(pairs: Mapping[str, object]) -> dict[str, int]:
    """Default sizes that are usable: positive whole numbers."""
    return {name: size for name, size in pairs.items() if isinstance(size, int) and size > 0}
