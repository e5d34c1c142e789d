"""The settings of torch that may remove a graph break, by its id: each is tried before it is advised.

Invariant: one table of ids for the advice and for the quick fixes. A hint of torch on a setting that was tried is
replaced by what came of the trial.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fuselight.shared.report import CallCure, CureGoal, CureKind
from fuselight_server.base.remedies import FindingRemedy, advice
from fuselight_server.explain.findings.advice.advice import TriedAdvice, tried_remedies

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.shared.report import Location
    from fuselight_server.explain.findings.common.context import Context

SCALARS = "capture_scalar_outputs"
SHAPES = "capture_dynamic_output_shape_ops"
AUTOGRAD = "trace_autograd_ops"
SETTINGS = {
    "GB0033": (SCALARS,),
    "GB0036": (SHAPES,),
    "GB0037": (SHAPES,),
    "GB0038": (SCALARS,),
    "GB0109": (SCALARS,),
    "GB0123": (AUTOGRAD,),
    "GB0124": (SCALARS,),
    "GB0246": (SHAPES,),
    "GB9186": (AUTOGRAD,),
}
"""The settings that make torch.compile trace what broke, by the id of the break."""


def break_cures(ids: Iterable[str], at: Location | None) -> tuple[TriedAdvice, ...]:
    """The settings to try against a break on the line `at`; a result of unknown shape may have its values read, too."""
    if at is None:
        return ()
    names = tuple(dict.fromkeys(name for identity in ids for name in SETTINGS.get(identity, ())))
    groups = [(name,) for name in names] + ([(SHAPES, SCALARS)] if names == (SHAPES,) else [])
    return tuple(_to_set(group, at) for group in groups)


def _to_set(names: tuple[str, ...], at: Location) -> TriedAdvice:
    text = " and ".join(f"torch._dynamo.config.{name} = True" for name in names)
    value = json.dumps(dict.fromkeys(names, True))
    cure = CallCure(CureKind.SETTING, at.path, at.line, value=value, goal=CureGoal.BREAKS)
    return TriedAdvice(f"Set {text} before the first call", cure)


def with_trials(
    context: Context, hints: tuple[str, ...], torch_hints: int, candidates: tuple[TriedAdvice, ...]
) -> tuple[FindingRemedy, ...]:
    """The hints of a break with what came of its settings. The last `torch_hints` of them are torch's own."""
    names = {name for item in candidates for name in item.cure.settings}
    kept = [
        hint for hint in advice(hints, torchs=torch_hints) if not any(name in hint.text for name in names)
    ]
    ours = [hint for hint in kept if not hint.is_torchs]
    return (*ours, *tried_remedies(candidates, context.trials), *(hint for hint in kept if hint.is_torchs))
