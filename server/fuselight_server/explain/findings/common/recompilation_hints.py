"""What helps where only some ranks compile again, by what changed.

Invariant: a hint fits the guard that failed: sizes are never recommended to be padded where a mode changed.
"""

from __future__ import annotations

from fuselight.shared.report import GuardCause

GUARD_COLLECTIVES = (
    "`torch.compiler.set_enable_guard_collectives(True)` makes all ranks compile again together if one has to"
)
_SIZES = (
    "Pad or drop the last batch, so that all ranks have the same sizes",
    "Mark what varies before the first call: `torch._dynamo.mark_dynamic(x, dimension)`",
)
_MODES = ("Call it in the same modes (gradients, autocast, training) on all ranks before training starts",)
_VALUES = (
    "Pass the same values and kinds of arguments on all ranks; a number that only one rank changes can be a tensor",
)
_HINTS = {
    **dict.fromkeys((GuardCause.DIMENSION, GuardCause.RANK, GuardCause.LENGTH, GuardCause.RELATION), _SIZES),
    **dict.fromkeys((GuardCause.GLOBAL_STATE, GuardCause.TRAINING), _MODES),
}


def recompilation_hints(cause: GuardCause | None) -> tuple[str, ...]:
    """The hints for what changed; None: it is not known."""
    return (*(_HINTS.get(cause, _VALUES) if cause is not None else _SIZES), GUARD_COLLECTIVES)
