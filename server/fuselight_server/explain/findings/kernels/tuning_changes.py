"""FL949: autotuned Triton kernels whose first result is wrong, because timed runs change what they read.

Invariant: both values were computed in the run, and an argument is advised only if a trial with it gave the right ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuselight.shared.report import TuningChange
from fuselight_server.base.finding import Finding, Related
from fuselight_server.explain.findings.common.context import Context, span_of


def tuning_change_findings(context: Context) -> Iterator[Finding]:
    """The kernels of the user's files, each on the line of its `@triton.autotune`; of a library's, on the launch."""
    for change in context.report.tuning_changes:
        launch = context.innermost_user_frame(change.launch)
        is_users = context.is_user_file(change.location.path)
        other = launch if is_users else change.location
        words = f"`{change.kernel}` is launched here" if is_users else f"`{change.kernel}`, of a library"
        runs = "the timed runs on this GPU" if change.is_of_gpu else "a single timed run"
        elements = f"{change.count:,} element{' differs' if change.count == 1 else 's differ'}"
        yield context.finding(
            "FL949",
            f"the first result of `{change.kernel}` is wrong: the runs that `@triton.autotune` times change "
            f"`{change.argument}`",
            f"Triton times {change.configurations} configurations on the tensors of the first launch, and "
            f"`{change.kernel}` reads `{change.argument}`, which it also writes.",
            f"After {runs}, the launch gives {change.value:.6g} for "
            f"`{change.argument}[{change.offset}]` in place of {change.expected:.6g}: {elements}.",
            at=change.location if is_users else launch or change.location,
            hints=tuple(_hints(change)),
            related=() if other is None else (Related(span_of(other), words),),
        )


def _hints(change: TuningChange) -> Iterator[str]:
    for at, cure in enumerate(change.cures):
        arguments = " and ".join(f"`{argument}`" for argument in cure)
        zeroes = any(argument.startswith("reset_to_zero") for argument in cure)
        when = ", if the tensor is zero before each launch, as here" if zeroes else ""
        write = "Or write" if at else "Write"
        yield f"{write} {arguments} in `@triton.autotune`{when} (tried: the first result is right)."
    if not change.cures and change.has_own_hook:
        yield (
            "Restore the tensor in the hook: next to a `pre_hook=` of the program, Triton ignores `reset_to_zero=` and "
            "`restore_value=`, and next to a `post_hook=`, it ignores `restore_value=`."
        )
