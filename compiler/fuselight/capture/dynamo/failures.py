"""Describes the exception that ended a run as a Failure: culprit, location, and what to do next.

Invariant: the type of the exception and where it was raised decide the culprit. The message decides in one case only,
where torch has neither a type nor a location: the result of a CUDA graph was overwritten. Messages are bounded, and an
exception whose `__str__` fails has a Failure like any other.
"""

from __future__ import annotations

import collections
import errno
import re
import traceback
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

from fuselight.adapters.torch_api.dynamo import aot_graphs, errors, frames, targets
from fuselight.capture.dynamo import eager_frames, handlers, stacks
from fuselight.shared import torch_texts
from fuselight.shared.failure_verdicts import VERDICTS, FailureVerdict
from fuselight.shared.report import Culprit, Failure, Stack
from fuselight.shared.report.failure import first_line, is_out_of_memory, safe_text, traceback_text
from fuselight.shared.torch_texts import in_user_words

_DYNAMO_TEXT = 200_000
"""Characters of a message of Dynamo's that are read: its reasons stand one after the other."""


def failure_of(
    exc: BaseException,
    *,
    roots: tuple[str, ...],
    call: int | None = None,
    phase: str | None = None,
    nodes: stacks.NodeStacks | None = None,
) -> Failure:
    """The Failure for an exception that ended a call, an import or the building of the target.

    `nodes`: the graphs that were captured, if Inductor may have compiled them.
    """
    try:
        return replace(_described(exc, roots, nodes), call=call, phase=phase)
    except Exception:  # noqa: BLE001 - attributes of the exception are the user's code, which may raise anything
        name = type(exc).__name__
        return Failure(
            Culprit.USER,
            "exception",
            f"{name}: {first_line(exc)}",
            f"The code raised this exception, which cannot be read in full. Give {name} attributes of the usual types.",
            exception=name,
            stack=stacks.from_traceback(exc),
            traceback=traceback_text(exc),
            call=call,
            phase=phase,
        )


def _described(exc: BaseException, roots: tuple[str, ...], nodes: stacks.NodeStacks | None) -> Failure:
    verdict = _classify(exc, roots)
    handler = None
    if verdict.culprit is Culprit.USER and verdict.kind == "exception" and verdict not in _NOT_IN_EAGER:
        compiled = _traced(exc) or stacks.in_graphs(exc, nodes)
        handler = handlers.handler_of(exc, stacks.from_traceback(exc, nodes), compiled)
    cause = None
    if isinstance(exc, errors.exceptions.TorchDynamoException):
        cause = torch_texts.read_reasons(_dynamo_text(exc))[0]
    return Failure(
        culprit=verdict.culprit,
        kind=verdict.kind,
        message=_message(exc, cause),
        next_step=verdict.next_step,
        exception=type(exc).__name__,
        stack=_stack(exc, nodes),
        traceback=traceback_text(exc),
        handler=handler,
        explanation=cause.explanation if cause is not None else "",
        hints=cause.hints if cause is not None else (),
        context=cause.context if cause is not None else "",
        gb_id=eager_frames.gb_id(cause) if cause is not None else _limit_id(exc),
    )


_OF_INFERENCE = "Cannot set version_counter for inference tensor"
_NOT_IN_EAGER = (VERDICTS["only_compiled"], VERDICTS["checked"])
"""Of exceptions that eager mode does not raise: a handler there has nothing to catch."""
_BY_TYPE: tuple[tuple[type[BaseException], FailureVerdict], ...] = (
    (errors.exceptions.Unsupported, VERDICTS["fullgraph"]),
    (errors.exceptions.UncapturedHigherOrderOpError, VERDICTS["higher_order"]),
    (errors.exceptions.UserError, VERDICTS["refused"]),
    (errors.exceptions.BackendCompilerFailed, VERDICTS["backend"]),
    (errors.exceptions.TorchRuntimeError, VERDICTS["operator"]),
    (errors.exceptions.RecompileError, VERDICTS["recompile"]),
    (errors.exceptions.InvalidBackend, VERDICTS["backend_name"]),
    (errors.exceptions.ResetRequired, VERDICTS["backend_name"]),
    (errors.ConstraintViolation, VERDICTS["constraint"]),
    (errors.RecompileLimitHit, VERDICTS["limit"]),
    (errors.exceptions.TorchDynamoException, VERDICTS["compiler"]),
    (errors.GuardOnData, VERDICTS["compiler"]),
)
"""First match wins: the base class of Dynamo's exceptions comes after them."""
_FILE_LIMITS = frozenset({errno.EMFILE, errno.EFBIG})
_RECURSION = 3
"""Frames of one line from which on a function is taken to call itself."""
_CLEAR_BY_TYPE = (
    SystemExit,
    KeyboardInterrupt,
    ImportError,
    SyntaxError,
)
"""Types that decide the culprit wherever they are raised."""


def _classify(exc: BaseException, roots: tuple[str, ...]) -> FailureVerdict:
    if isinstance(exc, targets.UnknownArgumentError):
        return FailureVerdict(Culprit.USER, "exception", exc.next_step)
    if is_out_of_memory(exc):
        return VERDICTS["memory"]
    limit = _limit_of_python(exc, roots)
    if limit is not None:
        return limit
    known = _classify_by_type(exc)
    if known is not None:
        return known
    if not isinstance(exc, (*_CLEAR_BY_TYPE, errors.AcceleratorError)) and not _raised_by_us(exc):
        place = _in_inductor(exc)
        if place is not None:
            return VERDICTS["cuda_graphs"] if errors.is_of_cuda_graphs(place) else VERDICTS["compiler"]
    return FailureVerdict(*_classify_by_place(exc, roots))


def _classify_by_type(exc: BaseException) -> FailureVerdict | None:
    """The verdict on what torch raises with a type or from a place of its own."""
    for kind, verdict in _BY_TYPE:
        if isinstance(exc, kind):
            is_inference = verdict is VERDICTS["backend"] and _OF_INFERENCE in safe_text(exc)
            return VERDICTS["inference"] if is_inference else _of_export(exc) or verdict
    if isinstance(exc, IndexError) and stacks.of_failed_node(safe_text(exc)):
        return VERDICTS["operator"]  # torch raises this one as it is, wherever it comes from
    if errors.is_only_compiled(exc):
        return VERDICTS["graph"]
    if errors.is_overwritten(exc):
        return VERDICTS["overwritten"]
    if aot_graphs.is_refused_by_check(exc):
        return VERDICTS["checked"]
    return VERDICTS["only_compiled"] if aot_graphs.is_raised_by_aot_autograd(exc) else None


def _limit_of_python(exc: BaseException, roots: tuple[str, ...]) -> FailureVerdict | None:
    """What the code did if it came to the end of the memory or of the stack while torch traced it."""
    causes = list(_chain(exc))
    if isinstance(exc, errors.exceptions.TorchDynamoException) or _raised_by_us(exc):
        if any(is_out_of_memory(cause) for cause in causes):
            return VERDICTS["memory"]
        if any(isinstance(cause, OSError) and cause.errno in _FILE_LIMITS for cause in causes):
            return VERDICTS["file_limit"]
    if not any(isinstance(cause, RecursionError) for cause in causes):
        return None
    places = [place for place in _stack(exc) if stacks.is_user_code(place.path, roots)]
    calls = collections.Counter((place.path, place.function, place.line) for place in places)
    (_, function, line), count = max(calls.items(), key=lambda item: item[1], default=((None, None, 0), 0))
    if count < _RECURSION:
        return None
    return FailureVerdict(
        Culprit.USER,
        "exception",
        f"`{function}` calls itself on line {line} until Python's recursion limit, to which tracing comes earlier than "
        "a plain call. End the recursion, or put torch.compiler.disable on it.",
    )


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """An exception and what it was raised from or during."""
    known: set[int] = set()
    waiting: list[BaseException | None] = [exc]
    while waiting:
        error = waiting.pop()
        if error is not None and id(error) not in known:
            known.add(id(error))
            yield error
            waiting += [error.__cause__, error.__context__]


def _in_inductor(exc: BaseException) -> str | None:
    """The innermost file of Inductor's in which an exception was raised; None where code that it runs raised it.

    That is the user's, a library's, or what Inductor has written, which raises for an index that is out of bounds.
    """
    cause = None
    for path in _files(exc):
        if errors.is_of_inductor(path):
            cause = path
        elif stacks.is_shown(path) or stacks.is_graph(path):
            cause = None
    return cause


def _files(exc: BaseException) -> Iterator[str]:
    """The file of each frame of a traceback, outermost first."""
    return (frame.f_code.co_filename for frame, _ in traceback.walk_tb(exc.__traceback__))


def _classify_by_place(exc: BaseException, roots: tuple[str, ...]) -> tuple[Culprit, str, str]:
    if isinstance(exc, SystemExit):
        return Culprit.USER, "exit", "The code called exit. Guard that with `if __name__ == '__main__':`."
    # Of metadata that is missing, `name` may be a sentence, and the message has the rest.
    if isinstance(exc, ModuleNotFoundError) and not isinstance(exc, PackageNotFoundError):
        return Culprit.ENVIRONMENT, "import", (
            f"Install {(exc.name or 'the module').partition('.')[0]} into this interpreter, or select another one."
        )  # fmt: skip
    if isinstance(exc, SyntaxError):
        return Culprit.USER, "import", "Correct the syntax; the run begins again when the file is saved."
    if isinstance(exc, ImportError):
        return Culprit.USER, "import", "The import fails in plain Python too: run the file to see it."
    if _raised_by_us(exc):
        return (
            Culprit.FUSELIGHT,
            "internal",
            "This is a defect of Fuselight. Please report it with the traceback.",
        )
    return Culprit.USER, "exception", _step_for_code(exc, roots)


def _step_for_code(exc: BaseException, roots: tuple[str, ...]) -> str:
    """The next step for an exception of the code that runs: traced, in a graph, between graphs or outside of them."""
    in_user_code = any(stacks.is_user_code(place.path, roots) for place in stacks.from_traceback(exc))
    if _traced(exc):
        where = "This was raised while torch.compile traced the line"
    elif stacks.in_graphs(exc):
        where = "An operator of the captured graph raised this, in eager mode"
    elif in_user_code and errors.is_in_compiled_call(_files(exc)):
        return _BETWEEN_GRAPHS
    elif in_user_code:
        where = "The code raised this, not the compiler"
    else:
        where = "A library raised this on the inputs given"
    return f"{where}: check the inputs first, then the line."


_BETWEEN_GRAPHS = (
    "Run it without torch.compile (TORCH_COMPILE_DISABLE=1). If it fails there too, check the inputs first, then the "
    "line; if not, compiled code passes the line another value than eager mode does."
)


def _raised_by_us(exc: BaseException) -> bool:
    """Whether the innermost frame is ours, the standard library's aside: our hooks stand in tracebacks of torch too."""
    innermost = [path for path in _files(exc) if not stacks.is_standard_library(path)][-1:]
    return any(map(stacks.is_ours, innermost))


def _dynamo_text(exc: BaseException) -> str:
    """The text of an exception of Dynamo's, less the preamble by which a higher-order operator hands on a break."""
    text = safe_text(getattr(exc, "msg", None) or exc, _DYNAMO_TEXT)
    if not isinstance(exc, errors.exceptions.UncapturedHigherOrderOpError):
        return text
    _, marker, handed_on = text.partition("Got graph break/error:")
    return handed_on.lstrip() if marker else text


def _stack(exc: BaseException, nodes: stacks.NodeStacks | None = None) -> Stack:
    """Down to the line: the Python frames above the compile, then the frames that Dynamo had traced."""
    above = stacks.from_traceback(exc, nodes)
    fixed = (
        _CONSTANT.search(safe_text(exc))
        if nodes is not None and _of_export(exc) is VERDICTS["exported"]
        else None
    )
    if nodes is not None and fixed is not None:
        return nodes.fixing_stack(fixed[1]) or above
    if isinstance(exc, SyntaxError) and exc.filename and exc.lineno:
        return (*above, stacks.at(exc.filename, exc.lineno, exc.offset, exc.text))
    return above + _traced(exc)


_CONSTANT = re.compile(r"to be a constant \((\d+)\)")


def _traced(exc: BaseException) -> Stack:
    """The frames that Dynamo had traced, up to the operator on which a backend failed."""
    inner = getattr(exc, "inner_exception", None) or exc
    traced = stacks.of_failed_node(safe_text(inner, _DYNAMO_TEXT)) or stacks.from_summaries(
        frames.real_stack(exc), exc
    )
    if not traced and isinstance(exc, errors.ConstraintViolation):
        traced = stacks.from_text(safe_text(exc))
    while traced and stacks.is_polyfill(
        traced[-1].path
    ):  # Dynamo's stand-in for a call that the line above makes
        traced = traced[:-1]
    return traced


def _message(exc: BaseException, cause: torch_texts.Reason | None) -> str:
    name = type(exc).__name__
    if isinstance(exc, SyntaxError):
        return f"SyntaxError: {safe_text(exc.msg, 1000)}"
    of_export = _of_export(exc)
    if isinstance(exc, errors.ConstraintViolation) or of_export is not None:
        return _UNDECIDED if of_export is VERDICTS["exported_data"] else _constraint(safe_text(exc))
    handed_on = isinstance(exc, errors.exceptions.UncapturedHigherOrderOpError)
    if cause is not None and (handed_on or eager_frames.is_graph_break(exc)):
        return cause.title.split("\n", 1)[0].strip()
    if isinstance(exc, errors.exceptions.BackendCompilerFailed):
        inner = first_line(exc.inner_exception)
        # torch names an object by its `repr`, with addresses: no name in the source.
        named = f"backend {exc.backend_name!r}" if _NAME.fullmatch(exc.backend_name) else "the backend"
        return f"{named}: {type(exc.inner_exception).__name__}: {inner}"
    if isinstance(exc, errors.exceptions.TorchRuntimeError) and cause is not None:
        _, marker, inner = cause.explanation.rpartition(": got ")
        return f"{cause.title}: {inner}" if marker else cause.title
    first = _IN_KERNEL.sub("", first_line(exc))
    return f"{name}: {first}" if first else name


_NAME = re.compile(r"[\w.<>-]*\w[\w.<>-]*")
_IN_KERNEL = re.compile(r"^kernel, \S+:\d+, ")
"""How a generated kernel starts what it raises: the line of its source."""


_UNDECIDED = "torch.export cannot decide a condition that depends on the data of a tensor"


def _of_export(exc: BaseException) -> FailureVerdict | None:
    """The verdict on what torch.export alone raises; None for all other exceptions.

    It gives a dimension that was asked for as dynamic one size, with no mark in the error, or it comes to a condition
    on data while it runs the code, which Dynamo reports as a graph break.
    """
    if isinstance(exc, errors.exceptions.UserError) and safe_text(exc).startswith("Constraints violated"):
        return VERDICTS["exported"]
    if isinstance(exc, errors.GuardOnData) and any(map(errors.is_of_export, _files(exc))):
        return VERDICTS["exported_data"]
    return None


def _constraint(text: str) -> str:
    """The first violated constraint: they are a list below a line that says only that there are some."""
    first = next((line.strip() for line in text.splitlines() if line.strip().startswith("- ")), None)
    words = in_user_words(first.removeprefix("- ")) if first is not None else text.partition("\n")[0]
    return words.partition(". If you're using")[0]  # what to do is in our words


def _limit_id(exc: BaseException) -> str | None:
    inner = exc.__cause__
    if not isinstance(exc, errors.RecompileLimitHit) or inner is None:
        return None
    return eager_frames.gb_id(
        torch_texts.read_reasons(safe_text(getattr(inner, "msg", inner), _DYNAMO_TEXT))[0]
    )
