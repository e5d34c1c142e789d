"""torch's texts of why a cache entry did not fit → guard failures of a Report.

Invariant: a value that the text does not contain is None. torch gives the first guard that failed of each entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight.shared.report import GuardCause, GuardFailure, Location, Mismatch, SizeChange
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.base.formatting import format_list
from fuselight_server.jobs.trace_log.facts import function_and_resumption, read_printed_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from fuselight.shared.report import Stack
    from fuselight_server.jobs.trace_log.model import LoggedSymbol

_ENTRY = re.compile(r"(?P<compile_id>\[?!?[\w/]+\]?): (?P<text>.*)$", re.DOTALL)
_TENSOR = re.compile(r"tensor '(?P<source>.+?)' (?P<rest>.+)", re.DOTALL)
_INDEXED = re.compile(
    r"(?P<what>size|stride) mismatch at index (?P<index>\d+)\. expected (?P<was>[^,]+), actual (?P<now>\S+)"
)
_PROPERTY = re.compile(
    r"(?P<what>rank|dtype|device index|Tensor device index|requires_grad|dispatch key set) mismatch\. "
    r"expected (?:requires_grad=)?(?P<was>.+?)(?:, actual (?P<now>.+?)|\. Actual (?P<later>.+?))?$",
    re.DOTALL | re.IGNORECASE,
)
_PROPERTIES: dict[str, tuple[str, GuardCause]] = {
    "rank": ("", GuardCause.RANK),
    "dtype": ("", GuardCause.DTYPE),
    "device index": ("the device index", GuardCause.DEVICE),
    "requires_grad": ("", GuardCause.REQUIRES_GRAD),
    "dispatch key set": ("the dispatch keys", GuardCause.DISPATCH),
}
_BORN_COMMENT = re.compile(
    r"#\s(?P<path>[^#\n:]+?):(?P<line>\d{1,9}) in (?P<function>[\w<>]+)\s*$", re.MULTILINE
)
_EQUALS = re.compile(r"(?P<source>[^=<>!]+) == (?P<value>[^=].*)$", re.DOTALL)
_GLOBAL_STATE = re.compile(r"GLOBAL_STATE changed: (?P<what>[\w ]+?)\s*$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?$")
_SIZE = re.compile(r"\.(?:size|stride|storage_offset)\(|\.shape\[")
_CAUSES: tuple[tuple[re.Pattern[str], GuardCause], ...] = (
    (re.compile(r"duplicate tensor|same tensor|is not L\[|aliasing", re.IGNORECASE), GuardCause.ALIASING),
    (re.compile(r"GLOBAL_STATE|grad_mode|is_grad_enabled|torch_function|autocast"), GuardCause.GLOBAL_STATE),
    (re.compile(r"backend|___compiled_function"), GuardCause.BACKEND),
    (re.compile(r"\.training\b"), GuardCause.TRAINING),
    (re.compile(r"___check_type_id|type\(.*\) (?:is|==)"), GuardCause.TYPE),
    (re.compile(r"___check_obj_id|___check_current_device| is (?:not )?L\["), GuardCause.OBJECT),
    (re.compile(r"\blen\("), GuardCause.LENGTH),
    (re.compile(r"dict_contains|__contains__|dict\.keys|hasattr"), GuardCause.KEYS),
    (re.compile(r" is (?:not )?None$|== None$"), GuardCause.NONE),
    (re.compile(r"deallocated|was freed|invalidated"), GuardCause.DELETED),
)
_SMALL = frozenset(
    {GuardCause.NUMBER, GuardCause.VALUE, GuardCause.DIMENSION, GuardCause.STRIDE, GuardCause.RELATION}
    | {GuardCause.LENGTH}
)
_TENSOR_CHECKS = (
    GuardCause.DISPATCH,
    GuardCause.DTYPE,
    GuardCause.DEVICE,
    GuardCause.REQUIRES_GRAD,
    GuardCause.RANK,
    GuardCause.DIMENSION,
    GuardCause.STRIDE,
)
"""In the order in which torch makes them."""
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}


@dataclass(frozen=True)
class GuardOrigins:
    """Where the guards of a frame were created, as far as its logs say."""

    symbols: tuple[LoggedSymbol, ...]
    """Of the compile that followed: a size that became dynamic names its line."""
    paths: Collection[str]
    """All paths of the job: torch cuts the path in a guard's comment at its start."""
    shown: Callable[[Iterable[Location]], Stack]


def read_mismatches(reasons: Iterable[str], origins: GuardOrigins) -> tuple[Mismatch, ...]:
    """The cache entries that did not fit, the nearest one first: differences in a value before those in kind."""
    entries = [_mismatch(reason, origins) for reason in reasons]
    return tuple(sorted(entries, key=_distance))


def _distance(mismatch: Mismatch) -> tuple[bool, int, int]:
    """Differences in a value first, then those that torch checks last, as earlier checks passed; then by age."""
    cause = mismatch.failures[0].cause
    number = mismatch.compile_id.rpartition("/")[2].rstrip("]")
    checked = _TENSOR_CHECKS.index(cause) if cause in _TENSOR_CHECKS else 0
    return cause not in _SMALL, -checked, -int(number) if number.isdecimal() else 0


def _mismatch(reason: str, origins: GuardOrigins) -> Mismatch:
    entry = _ENTRY.match(reason)
    text = entry["text"] if entry is not None else reason
    failure = _failure(text, origins)
    return Mismatch(entry["compile_id"] if entry is not None else "?", (failure,))


def _failure(text: str, origins: GuardOrigins) -> GuardFailure:
    condition = text.partition("\nUser stack trace:")[0]
    born = origins.shown(frame.location for frame in read_printed_stack(text)) or _born_in_comment(
        condition, origins
    )
    code = condition.partition("  #")[0].strip()
    tensor = _TENSOR.match(code)
    failure = _of_tensor(tensor["source"], tensor["rest"]) if tensor is not None else _of_condition(code)
    if not born and failure.source:
        born = _born_of_symbol(failure, origins)
    return replace(failure, code=code[:2000], born=born)


def _of_tensor(logged: str, rest: str) -> GuardFailure:
    """`tensor 'x' size mismatch at index 0. expected 4, actual 7`."""
    source = in_user_words(logged)
    indexed = _INDEXED.match(rest)
    if indexed is not None:
        index, was, now = int(indexed["index"]), indexed["was"].strip(), indexed["now"].rstrip(".")
        is_size = indexed["what"] == "size"
        is_known = is_size and was.isdecimal() and now.isdecimal()
        return GuardFailure(
            "TENSOR_MATCH",
            source,
            "",
            f"{source}.{indexed['what']}({index}) was {was}, now {now}",
            was,
            now,
            cause=GuardCause.DIMENSION if is_size else GuardCause.STRIDE,
            sizes=(SizeChange(source, index, int(was), int(now)),) if is_known else (),
        )
    changed = _PROPERTY.match(rest)
    if changed is not None:
        return _property(source, changed)
    return GuardFailure("TENSOR_MATCH", source, "", f"{source}: {rest.strip()}")


def _property(source: str, changed: re.Match[str]) -> GuardFailure:
    name = changed["what"].lower().removeprefix("tensor ")
    words, cause = _PROPERTIES[name]
    was, now = changed["was"].strip(), (changed["now"] or changed["later"] or "").strip() or None
    if name == "requires_grad":
        was = {"1": "True", "0": "False"}.get(was, was)
        now = {"True": "False", "False": "True"}.get(was) if now is None else now
    if name == "dtype":
        was, now = _DTYPES.get(was, was), None if now is None else _DTYPES.get(now, now)
    what = f"{words} of {source}" if words else f"{source}.{'dim()' if name == 'rank' else name}"
    text = f"{what} was {was}" if now is None else f"{what} was {was}, now {now}"
    return GuardFailure("TENSOR_MATCH", source, "", text, was, now, cause=cause)


def _of_condition(code: str) -> GuardFailure:
    """`L['self'].scale == 1.0`: the value of the new call is not in the log."""
    words = in_user_words(code)
    equals = _EQUALS.match(words)
    cause = next((cause for pattern, cause in _CAUSES if pattern.search(code)), None)
    source, was = "", None
    if equals is not None:
        source, was = equals["source"].strip(), equals["value"].strip()
        if cause is None:
            is_number = _NUMBER.match(was) is not None
            cause = GuardCause.NUMBER if is_number else GuardCause.VALUE
            if _SIZE.search(words):
                cause = GuardCause.RELATION
    elif cause is None and _SIZE.search(words):
        cause = GuardCause.RELATION
    if cause in {GuardCause.GLOBAL_STATE, GuardCause.ALIASING, GuardCause.BACKEND}:
        source, was = "", None
    return GuardFailure(
        "", source, "", _difference(words, source, was, cause), was, cause=cause or GuardCause.OTHER
    )


def _difference(words: str, source: str, was: str | None, cause: GuardCause | None) -> str:
    """What changed, as far as it is known."""
    state = _GLOBAL_STATE.match(words)
    if state is not None:
        return f"{format_list([part.replace('_', ' ') for part in state['what'].split()])} changed"
    if was is not None and cause is not GuardCause.RELATION:
        return f"{source} is no longer {was}"
    return f"{words} no longer holds" if cause is GuardCause.RELATION else words


def _born_in_comment(text: str, origins: GuardOrigins) -> Stack:
    """`# return x * self.scale  # dels/net.py:12 in forward`: of the only file of the job whose path ends like it."""
    comment = _BORN_COMMENT.search(text)
    if comment is None:
        return ()
    end = comment["path"].strip()
    known = [path for path in origins.paths if path.endswith(end)]
    if len(known) != 1:
        return ()
    function, _ = function_and_resumption(comment["function"])
    return origins.shown((Location(known[0], int(comment["line"]), function=function),))


def _born_of_symbol(failure: GuardFailure, origins: GuardOrigins) -> Stack:
    """The line that read a tensor whose size then became dynamic."""
    for symbol in origins.symbols:
        source = in_user_words(symbol.source or "")
        if source == failure.source or source.startswith(
            (f"{failure.source}.size(", f"{failure.source}.stride(")
        ):
            stack = origins.shown(frame.location for frame in symbol.stack)
            if stack:
                return stack
    return ()
