"""torch's texts of why a cache entry did not fit → guard failures of a Report.

Invariant: a value that the text does not contain is None. torch gives the first guard that failed of each entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from fuselight.shared.codec import read_table
from fuselight.shared.report import GuardCause, GuardFailure, Location, Mismatch, SizeChange, Stack
from fuselight.shared.torch_texts import in_user_words, membership, split_guard, without_internal_names
from fuselight_server.base.formatting import format_list
from fuselight_server.jobs.trace_log.facts import function_and_resumption, read_printed_stack
from fuselight_server.jobs.trace_log.model import LoggedSymbol

_ENTRY = re.compile(r"(?P<compile_id>\[?!?[\w/]+\]?): (?P<text>.*)$", re.DOTALL)
_TENSOR = re.compile(r"tensor '(?P<source>.+?)' (?P<rest>.+)", re.DOTALL)
_TYPE = re.compile(
    r"expected type of '(?P<source>.+)' to be a tensor type, '? ?but found (?:<class ')?(?P<kind>[\w.]+)"
)
_KEYS = re.compile(r"\b(?!DispatchKeySet\b)[A-Z]\w+")
_DUCK_SIZING = "they had the same size when it was compiled, so torch took them for equal"
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
_BORN_COMMENT = re.compile(r"#\s(?P<path>[^#\n:]+?):(?P<line>\d{1,9}) in (?P<function>[\w<>]+)")
_EQUALS = re.compile(r"(?P<source>[^=<>!]+) == (?P<value>[^=].*)$", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?$")
_SIZE = re.compile(r"\.(?:size|stride|storage_offset)\(|\.shape\[")
_GLOBAL_STATE = re.compile(r"GLOBAL_STATE changed: (?P<what>.+)", re.DOTALL)
_STATE_WORDS = {
    "num_threads": "the number of threads",
    "deterministic_algorithms": "the setting for deterministic algorithms",
    "default_dtype": "the default dtype",
}
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


@dataclass(frozen=True)
class _GuardTexts:
    forms: tuple[tuple[str, str, GuardCause], ...]
    """Guards in the user's words, what their failure means, and the cause; the first pattern that matches counts."""
    dtypes: dict[str, str]


_KNOWN = read_table(_GuardTexts, __file__)


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
    code, comment = split_guard(text.partition("\nUser stack trace:")[0])
    born = origins.shown(frame.location for frame in read_printed_stack(text)) or _born_in_comment(
        comment, origins
    )
    failure = _of_type(code) or _of_tensor(code) or _of_condition(code)
    if "duck sizing added this equality" in comment:
        failure = replace(failure, difference=f"{failure.difference} ({_DUCK_SIZING})")
    if not born and failure.source:
        born = _born_of_symbol(failure, origins)
    words = without_internal_names(failure.difference, failure.source)
    return replace(failure, code=code[:2000], born=born, difference=words)


def _of_type(code: str) -> GuardFailure | None:
    """`expected type of 'x' to be a tensor type, ' but found int`."""
    other = _TYPE.match(code)
    if other is None:
        return None
    source, kind = in_user_words(other["source"]), other["kind"]
    if kind == "NoneType":
        return GuardFailure(
            "TENSOR_MATCH",
            source,
            "",
            f"{source} was a tensor, now None",
            "a tensor",
            "None",
            cause=GuardCause.NONE,
        )
    name = kind.rpartition(".")[2]
    text = f"the type of {source} changed, now {kind.removeprefix('__main__.')}"
    return GuardFailure("TENSOR_MATCH", source, "", text, None, name, cause=GuardCause.TYPE)


def _of_tensor(code: str) -> GuardFailure | None:
    """`tensor 'x' size mismatch at index 0. expected 4, actual 7`."""
    tensor = _TENSOR.match(code)
    if tensor is None:
        return None
    source = in_user_words(tensor["source"])
    rest = tensor["rest"].partition(". Guard failed on a parameter")[0].rstrip()
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
    if name == "dispatch key set":
        return _dispatch(source, changed)
    words, cause = _PROPERTIES[name]
    was, now = changed["was"].strip(), (changed["now"] or changed["later"] or "").strip() or None
    if name == "requires_grad":
        was = {"1": "True", "0": "False"}.get(was, was)
        now = {"True": "False", "False": "True"}.get(was) if now is None else now
    if name == "dtype":
        was, now = _KNOWN.dtypes.get(was, was), None if now is None else _KNOWN.dtypes.get(now, now)
    what = f"{words} of {source}" if words else f"{source}.{'dim()' if name == 'rank' else name}"
    text = f"{what} was {was}" if now is None else f"{what} was {was}, now {now}"
    return GuardFailure("TENSOR_MATCH", source, "", text, was, now, cause=cause)


def _dispatch(source: str, changed: re.Match[str]) -> GuardFailure:
    """The dispatch keys that a tensor has gained or lost."""
    was, now = (_KEYS.findall(changed[name] or "") for name in ("was", "now"))
    parts = [f"with {key}" for key in now if key not in was] + [
        f"without {key}" for key in was if key not in now
    ]
    text = f"the dispatch keys of {source} changed" + (f", now {format_list(parts)}" if parts else "")
    return GuardFailure("TENSOR_MATCH", source, "", text, cause=GuardCause.DISPATCH)


def _of_condition(code: str) -> GuardFailure:
    """`L['self'].scale == 1.0`: the value of the new call is not in the log."""
    words = in_user_words(code)
    state = _GLOBAL_STATE.match(words)
    if state is not None:
        return GuardFailure(
            "GLOBAL_STATE", "", "", _changed_state(state["what"]), cause=GuardCause.GLOBAL_STATE
        )
    member = membership(code)
    if member is not None:
        key, source, is_absent = member
        was, now = ("not ", "") if is_absent else ("", " not")
        text = f"{key} was {was}in {source}, now it is{now}"
        return GuardFailure("", source, "", text, cause=GuardCause.KEYS)
    return _of_form(words) or _of_comparison(words)


def _changed_state(names: str) -> str:
    """`grad mode changed` of `grad_mode `."""
    return (
        f"{format_list([_STATE_WORDS.get(name, name.replace('_', ' ')) for name in names.split()])} changed"
    )


def _of_form(words: str) -> GuardFailure | None:
    for pattern, text, cause in _KNOWN.forms:
        form = re.match(pattern, words, re.DOTALL)
        if form is not None:
            parts = form.groupdict()
            is_training = parts.get("source", "").endswith(".training")
            return GuardFailure(
                "",
                parts.get("source", ""),
                "",
                text.format(**parts),
                parts.get("was"),
                cause=GuardCause.TRAINING if is_training else cause,
            )
    return None


def _of_comparison(words: str) -> GuardFailure:
    equals = _EQUALS.match(words)
    if equals is None or _SIZE.search(words):
        cause = GuardCause.RELATION if _SIZE.search(words) else GuardCause.OTHER
        return GuardFailure("", "", "", f"{words} no longer holds", cause=cause)
    source, was = equals["source"].strip(), equals["value"].strip()
    cause = GuardCause.NUMBER if _NUMBER.match(was) else GuardCause.VALUE
    if source.endswith(".training"):
        cause = GuardCause.TRAINING
    elif was == "None":
        cause = GuardCause.NONE
    return GuardFailure("", source, "", f"{source} is no longer {was}", was, cause=cause)


def _born_in_comment(comment: str, origins: GuardOrigins) -> Stack:
    """`# return x * self.scale  # dels/net.py:12 in forward`: of the only file of the job whose path ends like it."""
    place = _BORN_COMMENT.search(comment)
    if place is None:
        return ()
    end = place["path"].strip()
    known = [path for path in origins.paths if path.endswith(end)]
    if len(known) != 1:
        return ()
    function, _ = function_and_resumption(place["function"])
    return origins.shown((Location(known[0], int(place["line"]), function=function),))


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
