"""Graph breaks that Dynamo handles, and frames that run in eager mode, with the reason.

Invariant: one Break for each record that torch's own trace would write, with the cause first in `ids`; one NotCompiled
per frame and cause, which names the user's function, never a resume function.
"""

from __future__ import annotations

from dataclasses import replace
from types import CodeType
from typing import Any

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import errors, frames, targets
from fuselight.capture.dynamo import stacks
from fuselight.shared import torch_texts
from fuselight.shared.report import Break, Location, NotCompiled, NotCompiledKind, Stack
from fuselight.shared.report.failure import first_line, safe_text

_MESSAGE = 200_000
"""Characters of a message of Dynamo's that are read: it may quote the text of an exception of the user's."""
_LIMIT_TITLE = "Dynamo recompile limit exceeded"
_GENERATOR_TITLES = ("Attempt to trace generator", "generator")
"""Of a frame that is a generator; the second is that of torch 2.6."""
_EMPTY = "No ops traced for the FX graph"
_NO_RESUME = "Encountered graph break that we cannot resume from"


def read_break(
    translator: Any, reason: str, error: Any, *, compile_id: str, above: Stack, call: int | None
) -> Break:
    """The Break for the arguments of Dynamo's `log_graph_break`. `above` is the Python stack above the frame."""
    message = safe_text(getattr(error, "msg", None) or error or reason, _MESSAGE)
    chain = torch_texts.read_reasons(message)
    code = frames.root_code(translator)
    # as torch: an exception without a stack broke where the trace is now, one with an empty stack at the start
    carried = getattr(error, "real_stack", None)
    raised = error if isinstance(error, BaseException) else None
    stack = stacks.from_summaries(frames.user_stack() if carried is None else carried, raised, translator)
    cause = chain[0]
    if not stack:
        stack = stacks.of_failed_node(cause.explanation) or (stacks.def_location(code),)
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
        rest_from=frames.checkpoint_line(translator) if reason.startswith(_NO_RESUME) else None,
    )


def rest_skipped(graph_break: Break, code: CodeType, caller: Stack) -> NotCompiled:
    """What follows a graph break after which torch cannot resume the function."""
    refusal = refused(
        NotCompiledKind.SKIPPED,
        code,
        graph_break.reason,
        caller,
        graph_break.call,
        graph_break.stack,
        graph_break.ids[0],
    )
    return replace(refusal, rest_from=graph_break.rest_from)


def gb_id(link: torch_texts.Reason) -> str | None:
    """The GB id of a link: by its type in the registry, else the one that the message links to."""
    return errors.gb_ids().get(link.title.split("\n", 1)[0]) or link.gb_id


def refused(  # noqa: PLR0917 - as those of NotCompiled
    kind: NotCompiledKind,
    code: CodeType,
    reason: str,
    caller: Stack = (),
    call: int | None = None,
    stack: Stack = (),
    gb_id: str | None = None,
) -> NotCompiled:
    """A frame that runs in eager mode, located at its `def` line."""
    name, location = stacks.qualified_name(code), stacks.def_location(code)
    return NotCompiled(kind, name, location, reason, stack, gb_id, caller, call)


def is_graph_break(error: BaseException) -> bool:
    """Whether the exception means that Dynamo does not support something and falls back to eager mode."""
    return isinstance(error, (errors.exceptions.Unsupported, errors.exceptions.UserError))


def is_limit(error: BaseException) -> bool:
    """Whether the exception says that the recompile limit was reached."""
    return safe_text(error).startswith(_LIMIT_TITLE) or type(error).__name__ == "RecompileLimitExceeded"


def limit_reached(
    code: CodeType, limit: str, own_limit: int | None, *, caller: Stack, call: int | None
) -> NotCompiled:
    """The frame has been compiled as often as the setting `limit`, or the argument of its torch.compile, allows."""
    accumulated = limit.startswith("accumulated")
    kind = NotCompiledKind.ACCUMULATED_LIMIT if accumulated else NotCompiledKind.RECOMPILE_LIMIT
    is_own = own_limit is not None and not accumulated
    what = (
        f"recompile_limit={own_limit} of its torch.compile"
        if is_own
        else f"torch._dynamo.config.{limit} ({settings.setting(limit)})"
    )
    reason = f"{what} is reached: calls that no cache entry fits run in eager"
    return refused(kind, code, reason, caller, call, gb_id=errors.gb_ids().get(_LIMIT_TITLE))


def fell_back(error: BaseException, code: CodeType, *, caller: Stack, call: int | None) -> NotCompiled:
    """A frame that continues in eager mode because of an exception."""
    message = safe_text(getattr(error, "msg", None) or error, _MESSAGE)
    cause = torch_texts.read_reasons(message)[0]
    if not is_graph_break(error):
        kind = NotCompiledKind.COMPILER_ERROR
        inner = getattr(error, "inner_exception", None) or error
        reason = f"{type(inner).__name__}: {first_line(inner)}"
    elif cause.title in _GENERATOR_TITLES:
        kind, reason = NotCompiledKind.GENERATOR, cause.explanation or cause.title
    else:
        kind, reason = NotCompiledKind.SKIPPED, cause.title
    stack = stacks.from_summaries(frames.real_stack(error))
    return refused(kind, code, reason, caller, call, stack, gb_id(cause))


def skipped(reason: str, code: CodeType, *, caller: Stack, call: int | None) -> NotCompiled | None:
    """A frame that torch skipped. None if nobody asked to compile it."""
    if code.co_name in {"<module>", "__setattr__"}:
        return None
    if _EMPTY in reason:
        if stacks.resumes_at(code) is not None:
            return None  # the rest of a function after its last graph break is often only a `return`
        return refused(NotCompiledKind.NO_TENSORS, code, "its trace holds no tensor operation", caller, call)
    kind = NotCompiledKind.DISABLED if "disabled" in reason else NotCompiledKind.SKIPPED
    return refused(kind, code, reason, caller, call)


def disabled(target: object) -> NotCompiled | None:
    """A target that never reaches Dynamo, because `torch.compiler.disable` covers it or its `forward`."""
    reason = targets.disabled_reason(target)
    if reason is None:
        return None
    code = targets.code_of(target)
    words = "torch.compiler.disable is on it, so torch.compile does nothing"
    words = f"{words}: {reason}" if reason else words
    if code is None:
        return NotCompiled(NotCompiledKind.DISABLED, type(target).__name__, Location("", 0), words)
    return refused(NotCompiledKind.DISABLED, code, words)
