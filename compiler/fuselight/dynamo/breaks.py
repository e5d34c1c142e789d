"""Converts a handled graph break, as Dynamo's exception carries it, to a Break.

Invariant: one Break for each record that torch's own trace would write; the cause comes first in `ids`.
"""

from __future__ import annotations

from typing import Any

from fuselight.dynamo import stacks
from fuselight.report import Break, Stack
from fuselight.torch_api import errors, frames
from fuselight.trace import reasons


def read_break(
    translator: Any, reason: str, error: Any, *, compile_id: str, above: Stack, call: int | None
) -> Break:
    """The Break for the arguments of Dynamo's `log_graph_break`. `above` is the Python stack above the frame."""
    message = str(getattr(error, "msg", None) or error or reason)
    chain = reasons.read_reasons(message)
    code = frames.root_code(translator)
    # as torch: an exception without a stack broke where the trace is now, one with an empty stack at the start
    carried = getattr(error, "real_stack", None)
    raised = error if isinstance(error, BaseException) else None
    stack = stacks.from_summaries(frames.user_stack() if carried is None else carried, raised, translator)
    if not stack:
        stack = (stacks.def_location(code),)
    cause = chain[0]
    return Break(
        compile_id=compile_id,
        ids=tuple(gb_id(link) for link in chain),
        types=tuple(link.title for link in chain),
        stack=stack,
        above=above,
        reason=cause.title,
        explanation=cause.explanation,
        hints=cause.hints,
        context=cause.context,
        frame_function=stacks.qualified_name(code),
        frame_line=frames.original_code(code).co_firstlineno,
        call=call,
    )


def gb_id(link: reasons.Reason) -> str | None:
    """The GB id of a link: by its type in the registry, else the one that the message links to."""
    return errors.gb_ids().get(link.title.split("\n", 1)[0]) or link.gb_id
