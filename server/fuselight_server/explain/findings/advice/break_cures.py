"""The settings of torch that may remove a graph break, by its id: each is tried before it is advised.

Invariant: one table of ids for the advice and for the quick fixes. A hint of torch on a setting that was tried is
replaced by what came of the trial.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator

from fuselight.shared.report import CallCure, CureGoal, CureKind, Frame, Location
from fuselight_server.base.formatting import format_list
from fuselight_server.base.remedies import FindingRemedy, advice
from fuselight_server.explain.findings.advice.advice import TriedAdvice, tried_remedies
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import quoted

SCALARS = "capture_scalar_outputs"
SHAPES = "capture_dynamic_output_shape_ops"
AUTOGRAD = "trace_autograd_ops"
SETTINGS = {
    "GB0014": ("allow_rnn",),
    "GB0033": (SCALARS,),
    "GB0036": (SHAPES,),
    "GB0109": (SCALARS,),
    "GB0123": (AUTOGRAD,),
    "GB0124": (SCALARS,),
    "GB0246": (SHAPES,),
    "GB9186": (AUTOGRAD,),
}
"""The settings that make torch.compile trace what broke, by the id of the break."""


BACKEND_SHAPE = "the backend needs a shape from the data of a tensor"
"""The title of a break where a backend met what breaks a graph while it is traced: the positions of a mask."""
REORDERED = "reorderable_logging_functions"
IGNORED = "ignore_logging_functions"
LOGGING_COSTS = {
    REORDERED: "The messages then come after the graph, in another order",
    IGNORED: "Compiled calls then do not show its messages",
}
LOGGING_SETTINGS = frozenset(LOGGING_COSTS)
"""Settings that let torch go on after a call: what breaks after it is another break."""
OF_VALUES = frozenset({*SETTINGS, "GB0034", "GB0170", "GB0219", "GB0264"})
"""Breaks that a setting may move from the line that reads a value to a line that needs it."""
_LOGGING = {
    "GB0007": (re.compile(r"`_?(warnings\.warn)`"), "", (REORDERED, IGNORED)),
    "GB0059": (re.compile(r"`(print)`"), "builtins.", (REORDERED,)),
    "GB0291": (
        re.compile(r">\.(debug|info|warning|warn|error|exception|critical|fatal|log), args"),
        "logging.Logger.",
        (IGNORED,),
    ),
}
"""By the id of the break: how its texts name a logging function, the function's module, the settings for it."""


INLINED = ("frame", "inlined")
"""In a finding's data: the line is in a function that was traced into. torch loses what is to be shown after the graph
there: it passes on the messages of the compiled function itself."""


def break_cures(
    ids: Iterable[str], at: Location | None, texts: str = "", *, is_inlined: bool = False
) -> tuple[TriedAdvice, ...]:
    """The settings to try against a break on the line `at`; a result of unknown shape may have its values read, too.

    `texts`: the title of the break, and torch's context for developers.
    """
    if at is None:
        return ()
    ids = tuple(ids)
    names = tuple(dict.fromkeys(name for identity in ids for name in SETTINGS.get(identity, ())))
    if "GB0219" in ids and BACKEND_SHAPE in texts:
        names = (*names, SHAPES)
    groups = [(name,) for name in dict.fromkeys(names)] + ([(SHAPES, SCALARS)] if names == (SHAPES,) else [])
    logging = (
        item for item in _to_log(ids, texts, at) if not (is_inlined and REORDERED in item.cure.settings)
    )
    marked = (_to_trace(match[1], at) for match in _MARKED.finditer(texts) if "GB0098" in ids)
    return (*(_to_set(group, at) for group in groups), *logging, *marked)


_MARKED = re.compile(r"calls `([\w.]+)`, which is marked")


def _to_trace(name: str, at: Location) -> TriedAdvice:
    cure = CallCure(CureKind.INSIDE, at.path, at.line, value=name, goal=CureGoal.BREAKS)
    return TriedAdvice(f"Remove torch.compiler.disable from `{name}`", cure, needs_trial=True)


def number_cures(
    context: Context, ids: Iterable[str], at: Location | None, compile_ids: Iterable[str | None]
) -> tuple[TriedAdvice, ...]:
    """The numbers of NumPy to pass as numbers of Python, against a break on the line `at` that needs their values.

    `compile_ids`: the compiles that broke there. The first function that is called with such a number is meant, with
    all of its numbers: the others would break the graph next.
    """
    if at is None or not _NEED_VALUES.intersection(ids):
        return ()
    for compiled in filter(None, map(context.compile_of, compile_ids)):
        frame = context.frame_of(compiled)
        numbers = _numbers_of(context, frame) if frame is not None else ()
        if frame is None or not numbers:
            continue
        cure = CallCure(
            CureKind.NUMBER,
            at.path,
            at.line,
            numbers,
            goal=CureGoal.BREAKS,
            outer_path=frame.location.path,
            outer_line=frame.location.line,
        )
        shown = format_list([quoted(name) for name in numbers])
        what = "a number of Python" if len(numbers) == 1 else "numbers of Python"
        text = f"Pass {shown} to {quoted(frame.function)} as {what}: compiled code has a number of NumPy as a tensor"
        return (TriedAdvice(text, cure, _OUTCOMES),)
    return ()


def _numbers_of(context: Context, frame: Frame) -> tuple[str, ...]:
    """The parameters of a function for which its calls pass numbers of NumPy."""
    of_function = (
        compiled
        for compiled in context.report.compiles
        if (other := context.frame_of(compiled)) is not None and other.location == frame.location
    )
    guards = (guard for compiled in of_function for guard in compiled.guards if guard.is_numpy_number)
    return tuple(dict.fromkeys(guard.source for guard in guards if guard.source in frame.parameters))


_NEED_VALUES = frozenset({"GB0033", "GB0109", "GB0124", "GB0170"})
"""Breaks for which the value of a tensor is needed."""
_OUTCOMES = "Each outcome of a branch on the number needs its own compile"


def _to_log(ids: tuple[str, ...], texts: str, at: Location) -> Iterator[TriedAdvice]:
    """The settings that let torch go on after a call that only shows a message."""
    for pattern, module, settings in (_LOGGING[identity] for identity in ids if identity in _LOGGING):
        for match, setting in itertools.product(pattern.finditer(texts), settings):
            value = json.dumps({setting: [f"{module}{match[1]}"]})
            cure = CallCure(CureKind.SETTING, at.path, at.line, value=value, goal=CureGoal.BREAKS)
            name = f"{module.removeprefix('builtins.')}{match[1]}"
            text = f"Add {name} to torch._dynamo.config.{setting} before the first call"
            yield TriedAdvice(text, cure, LOGGING_COSTS[setting])


def _to_set(names: tuple[str, ...], at: Location) -> TriedAdvice:
    text = " and ".join(f"torch._dynamo.config.{name} = True" for name in names)
    value = json.dumps(dict.fromkeys(names, True))
    cure = CallCure(CureKind.SETTING, at.path, at.line, value=value, goal=CureGoal.BREAKS)
    return TriedAdvice(f"Set {text} before the first call", cure)


def with_trials(
    context: Context,
    hints: tuple[str, ...],
    candidates: tuple[TriedAdvice, ...],
    *,
    is_inlined: bool = False,
) -> tuple[FindingRemedy, ...]:
    """The hints of a break with what came of its settings."""
    names = {name for item in candidates for name in item.cure.settings}
    if is_inlined:
        names.add(REORDERED)
    kept = (hint for hint in hints if not any(name in hint for name in names))
    return (*advice(kept), *tried_remedies(candidates, context.trials))
