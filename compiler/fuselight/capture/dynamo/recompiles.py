"""Why a frame was compiled again: every failing guard of every cache entry, the nearest entry first.

Invariant: only guards that failed are reported. They are found by running torch's own guards on the new call.
Relational guards keep state between nodes, so only the root guard runs them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor import artifacts
from fuselight.capture.dynamo import guard_differences, stacks, value_words
from fuselight.capture.dynamo.guards import Births
from fuselight.capture.dynamo.variable_names import with_variable_names
from fuselight.shared import torch_texts
from fuselight.shared.report import GuardCause, GuardFailure, Location, Mismatch, Stack, is_installed

_BORN_COMMENT = re.compile(r"#\s(?P<path>[^#\n:]+?):(?P<line>\d+) in (?P<function>\w+)")
_RANGE = re.compile(r"-?\d+ <= (?P<value>.+) <= (?P<high>-?\d+)$")
_MISSING = "MISSING"
_COUNT = "DICT_LENGTH"
_SETTINGS = ("GLOBAL_STATE", "GRAD_MODE", "DETERMINISTIC", "TORCH_FUNCTION", "DEFAULT_DEVICE")
"""How the kinds of guards begin that check a setting of torch; one may have the name of a tensor's property."""
_VALUES = frozenset({GuardCause.NUMBER, GuardCause.VALUE})
_SMALL = frozenset(
    {*_VALUES, GuardCause.DIMENSION, GuardCause.STRIDE, GuardCause.RELATION, GuardCause.LENGTH}
)
"""Differences in a value. All others are of another kind of call, as a tensor in the place of None."""
_FREED = re.compile(r"because (?P<source>.+) got deallocated")
_TYPE_OF = re.compile(r"type\((?P<source>.+)\)$")
_GUARDED_TYPE = re.compile(r"___check_type_id\((?P<source>.*), \d+\), type=<class '(?P<kind>[^']+)'>")
_FAILURES = 50
"""Maximum number of failing guards kept per cache entry: a different model in the same code fails hundreds."""


def read_mismatches(
    entries: Sequence[Any],
    frame: Any,
    backend: object,
    births: Mapping[Any, Births],
    called: tuple[str, Location] | None = None,
) -> tuple[Mismatch, ...]:
    """Compare each cache entry with the new call: the smallest difference first, then the newest entry.

    `called`: the name and `def` line of the function that the frame calls, if it is a wrapper's. An entry for another
    function comes last, and nothing else of it is compared: its arguments are other things under the same names.
    """
    mismatches = []
    for entry in entries:
        table = births.get(entry.guard_manager) or _NOTHING_KNOWN
        before = table.inner_function
        if called is not None and before is not None and called[1] != before[1]:
            mismatches.append(Mismatch(str(entry.compile_id), (_other_function(before[0], called[0]),)))
            continue
        is_other = table.owner is not None and table.owner.is_other(frame.f_locals)
        mismatches.append(
            Mismatch(str(entry.compile_id), _read_entry(entry, frame, backend, table), is_other)
        )
    order = sorted(
        range(len(mismatches)), key=lambda i: (_weight(mismatches[i]), -_age(mismatches[i].compile_id))
    )
    return tuple(mismatches[i] for i in order)


def _weight(mismatch: Mismatch) -> tuple[int, int, int]:
    """How far the call is from the entry: differences in kind, then in value (equal ones count once), then in all."""
    failures = mismatch.failures
    if not failures or failures[0].cause is GuardCause.WRAPPED:
        return (_FAILURES + 1, 0, 0)
    values = {(failure.cause, failure.was, failure.now) for failure in failures if failure.cause in _SMALL}
    kinds = sum(failure.cause not in _SMALL for failure in failures)
    return (kinds, len(values), sum(failure.count for failure in failures))


def _other_function(before: str, now: str) -> GuardFailure:
    text = f"called for {now}, compiled for {before}"
    return GuardFailure("WRAPPED", "", "", text, was=before, now=now, cause=GuardCause.WRAPPED)


def _age(compile_id: str) -> int:
    number = compile_id.rpartition("/")[2].rstrip("]")
    return int(number) if number.isdigit() else 0


_NOTHING_KNOWN = Births({}, {}, {}, set())


def _read_entry(entry: Any, frame: Any, backend: object, table: Births) -> tuple[GuardFailure, ...]:
    manager = entry.guard_manager
    deleted = artifacts.is_deleted(manager)
    if deleted is not None:
        return (_dropped(deleted, frame, table), *_changed_values(frame, table))[:_FAILURES]
    reader = _GuardReader(manager, frame.f_locals)
    failures = [_with_new_state(failure, reader) for failure in _failures(manager, reader, table)]
    # what cannot be read any more mostly lies under something whose own guard failed, which says it better
    leaves = [failure for failure in failures if failure.kind != _COUNT]
    leaves = [failure for failure in leaves if failure.kind != _MISSING] or leaves
    failures = [failure for failure in failures if failure in leaves or not _names_a_key(leaves, failure)]
    named = [failure for failure in failures if not failure.difference.endswith(_MORE_KEYS)]
    failures = named or failures  # the key itself says it better
    failures = _each_once(_modes_once(failures))
    if failures:
        failures.sort(key=_reading_order)
        return tuple(failures[:_FAILURES])
    verdict = manager.check_verbose(frame.f_locals)
    if not verdict.result:
        text = "; ".join(map(str, verdict.verbose_code_parts))
        return (_root_failure(manager, reader, text, table),)
    if getattr(manager.cache_entry, "backend", backend) is not backend:
        why = "compiled before with another backend, mode or options of torch.compile"
        return (GuardFailure("BACKEND_MATCH", "", "", why, cause=GuardCause.BACKEND),)
    return ()


def _failures(manager: Any, reader: _GuardReader, table: Births) -> Iterator[GuardFailure]:
    f_locals = reader.names["L"]
    for node in artifacts.managers(manager):
        leaves = [leaf for leaf in node.get_leaf_guards() if not artifacts.is_relational(leaf)]
        source = node.get_source()
        if not leaves and source not in table.lengths:
            continue
        try:
            value = reader.read(source) if source and source != "L" else f_locals
        except Exception as error:  # noqa: BLE001 - any property of the user's can raise anything
            yield _missing(source, error, reader, table)
            continue
        yield from _other_length(source, value, reader, table)
        for leaf in leaves:
            try:
                passed = leaf(value)
            except Exception:  # noqa: BLE001, S112 - a guard that cannot be run alone is left to the root's verdict
                continue
            if not passed:
                yield from _leaf_failures(leaf, source, value, reader, table)
    for leaf in manager.root.get_epilogue_lambda_guards():
        try:
            passed = leaf(f_locals) or _is_of_lost_objects(leaf, reader)
        except Exception:  # noqa: BLE001, S112 - as above
            continue
        if not passed:
            yield from _leaf_failures(leaf, "", f_locals, reader, table)


def _other_length(source: str, value: object, reader: _GuardReader, table: Births) -> Iterator[GuardFailure]:
    """The failure of a dict that has another number of keys: its node checks that itself, without a leaf guard."""
    was = table.lengths.get(source)
    if was is None or not isinstance(value, dict) or len(value) == was:
        return
    part = f"len({source}) == {was}" if was else f"not {source}"
    failure = guard_differences.explain(reader.named(part), value=value, evaluate=reader.read, objects={})
    yield replace(
        failure,
        kind=_COUNT,
        source=reader.words(source),
        expression=source,
        code=part,
        difference=reader.words(failure.difference),
        born=table.by_code.get(part) or table.by_source.get(source, ()),
    )


_OF_OPTIMIZER = re.compile(r"(?P<owner>[LG]\[[^()]*?)\.state\b")


def _with_new_state(failure: GuardFailure, reader: _GuardReader) -> GuardFailure:
    """The failure; one on what the first step of an optimizer created is of the whole state, each part of which fails.

    Where only some of the parameters have state by now, later calls create more: that is growth, and not the first
    step.
    """
    match = _OF_OPTIMIZER.search(failure.code)
    words = failure.difference
    if match is None or not (failure.was in _ABSENT or " was empty" in words or " was not in " in words):
        return failure
    try:
        optimizer = reader.read(match["owner"])
    except Exception:  # noqa: BLE001 - any property of the user's can raise anything
        return failure
    if not isinstance(optimizer, torch.optim.Optimizer):
        return failure
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    stepped = [each for each in parameters if each.grad is not None] or parameters
    if not all(each in optimizer.state for each in stepped):
        return failure
    state = f"{reader.words(match['owner'])}.state"
    return replace(
        failure, source=state, difference=f"{state} was not created yet, now it is", is_new_state=True
    )


_ABSENT = frozenset({"0", "None", "{}"})
"""What a part of a state was before it was created."""


def _is_of_lost_objects(leaf: Any, reader: _GuardReader) -> bool:
    """Whether a guard that two objects are the same fails only because the call has not the objects, which others say.

    A hook that was removed is missing: it did not become another object.
    """
    parts = [torch_texts.split_guard(text)[0] for text in map(str, leaf.verbose_code_parts())]
    is_identity = bool(parts) and all(" is " in part for part in parts)
    return is_identity and not any(map(reader.is_false, parts))


def _names_a_key(failures: Sequence[GuardFailure], other: GuardFailure) -> bool:
    """Whether another failure than that of the number of keys of a dict names a key of it."""
    if other.kind != _COUNT:
        return True
    return any(failure.cause is GuardCause.KEYS and other.expression in failure.code for failure in failures)


def _modes_once(failures: Sequence[GuardFailure]) -> list[GuardFailure]:
    """The failures, with a mode of torch that each tensor shows once, or not at all if torch's own guard shows it."""
    settings = [failure for failure in failures if failure.cause is GuardCause.GLOBAL_STATE]
    of_tensors = [setting for setting in settings if guard_differences.is_tensor_check(setting.code)]
    has_own = len(of_tensors) < len(settings)
    first = {} if has_own else {tensor.difference: tensor for tensor in reversed(of_tensors)}
    return [
        failure
        for failure in failures
        if failure not in of_tensors or first.get(failure.difference) is failure
    ]


def _each_once(failures: Sequence[GuardFailure]) -> list[GuardFailure]:
    """The failures, each difference once: torch guards a number by several results, and 2.11 twice without a source."""
    texts = {failure.difference for failure in failures if failure.source}
    named = [failure for failure in failures if failure.source or failure.difference not in texts]
    kinds = [failure.source for failure in named if failure.cause is GuardCause.TYPE]
    if len(kinds) > len(
        set(kinds)
    ):  # the class and, of a tensor, what it checks: the first has the full name
        first = {failure.source: failure for failure in reversed(named) if failure.cause is GuardCause.TYPE}
        named = [
            failure
            for failure in named
            if failure.cause is not GuardCause.TYPE or failure is first[failure.source]
        ]
    return list({(failure.source, failure.difference): failure for failure in reversed(named)}.values())[::-1]


def _dropped(reason: str, frame: Any, table: Births) -> GuardFailure:
    """The failure of an entry that torch dropped, because an object that it was compiled for was freed."""
    match = _FREED.search(reason)
    if match is None:
        return GuardFailure(
            "DELETED", "", "", f"compiled code was dropped: {reason}", cause=GuardCause.DELETED
        )
    source = match["source"]
    names: dict[str, Any] = {"L": frame.f_locals, "G": frame.f_globals}
    kind = _TYPE_OF.match(source)
    if kind is not None and (again := _class_again(kind["source"], names, table)) is not None:
        return again
    words = _words(_with_local_name(source, names), names)
    return GuardFailure(
        "DELETED",
        words,
        source,
        f"{words} was freed",
        born=table.by_source.get(source, ()),
        cause=GuardCause.DELETED,
        dropped=table.dropped,
    )


def _class_again(source: str, names: dict[str, Any], table: Births) -> GuardFailure | None:
    """The failure of an entry whose class was freed and exists again under the same name."""
    recorded = (match for code in table.by_code if (match := _GUARDED_TYPE.match(code)) is not None)
    before = next((match["kind"] for match in recorded if match["source"] == source), None)
    try:
        value = eval(source, {}, names)  # noqa: S307 - torch wrote it, and evaluates it in the same way
    except Exception:  # noqa: BLE001 - what cannot be read is not known to exist again
        return None
    if before != value_words.full_kind(value):
        return None
    words = _words(source, names)
    again = guard_differences.created_again(words, value)
    return replace(again, kind="DELETED", source=words, code=source, born=table.by_source.get(source, ()))


def _changed_values(frame: Any, table: Births) -> Iterator[GuardFailure]:
    """The values that differ from those that a dropped entry was compiled for: torch checks no guard of it."""
    names: dict[str, Any] = {"L": frame.f_locals, "G": frame.f_globals}

    def read(expression: str) -> object:
        return eval(_compiled(expression), {}, names)  # noqa: S307 - as above

    for part, born in table.by_code.items():
        if not _VALUE_CHECK.match(part):
            continue
        try:
            if read(part):
                continue
        except Exception:  # noqa: BLE001, S112 - what cannot be read is not known to differ
            continue
        named = _with_local_name(part, names)
        failure = guard_differences.explain(named, value=None, evaluate=read, objects=table.objects)
        guarded = named.rpartition(" == ")[0] or named.removeprefix("not ")
        words, source = (_words(text, names) for text in (failure.difference, _LENGTH_OF.sub(r"\1", guarded)))
        yield replace(
            failure, kind="EQUALS_MATCH", source=source, code=part[:2000], difference=words, born=born
        )


_LENGTH_OF = re.compile(r"^len\((.*)\)$")
_VALUE_CHECK = re.compile(
    r"not (?:[LG]\[[^()=]+(?:list\(dict\.keys\([^()=]+\)\)[^()=]+)*)$"
    r"|(?:len\()?[LG]\[.+ == (?:-?[\d.]+(?:e[-+]?\d+)?|True|False|None|'[^']*'|\"[^\"]*\")$"
)
"""A guard on a number, a flag, a string, a length, or on a collection that was empty."""


def _with_local_name(source: str, names: Mapping[str, Any], changed: Collection[str] = ()) -> str:
    """`list(dict.keys(L['self'].state))[0].grad` as `L['p'].grad`, where `p` is that very object in the new call.

    What has a string as its key is named by it, unless the key is one of those that `changed`: it was another value's.
    """

    def local_name(match: re.Match[str]) -> str:
        try:
            value = eval(match[0], {"list": list, "dict": dict}, dict(names))  # noqa: S307 - as above
        except Exception:  # noqa: BLE001 - the dict was replaced
            return match[0]
        is_key = source[: match.start()].endswith(("[", ", ")) and source[match.end() :].startswith(
            ("]", ")")
        )
        if is_key and isinstance(value, str) and match[0] not in changed:
            return repr(str(value))
        name = next((name for name, local in names["L"].items() if local is value), None)
        return match[0] if name is None else f"L[{name!r}]"

    return _THROUGH_KEYS.sub(local_name, source)


_THROUGH_KEYS = re.compile(r"list\(dict\.keys\((?:(?!list\().)+?\)\)\[\d+\]")


def _reading_order(failure: GuardFailure) -> tuple[bool, int, int]:
    """By the line of the compiled function whose read created the guard; those without one come last."""
    first = failure.born[0] if failure.born else None
    return (True, 0, 0) if first is None else (False, first.line, first.column or 0)


class _GuardReader:
    """Expressions of guards, read against one new call."""

    def __init__(self, manager: Any, f_locals: Mapping[str, object]) -> None:
        self.scope, self.names = artifacts.guard_scope(manager, f_locals)
        self.changed_keys: set[str] = set()

    def read(self, expression: str) -> object:
        # torch wrote the expression, and evaluates it in the same way for its own log
        return eval(_compiled(expression), self.scope, self.names)  # noqa: S307

    def named(self, source: str) -> str:
        """A source with the keys of dicts by what they are."""
        is_of_key = "list(dict.keys(" in source
        return _with_local_name(source, self.names, self.changed_keys) if is_of_key else source

    def words(self, source: str) -> str:
        """A source, or a text with sources in words, as the user would write it."""
        return _words(self.named(source), self.names)

    def is_above(self, expression: str) -> bool:
        """Whether the value of a range, as `2 <= L['x'].size()[0] <= 8`, is above its upper end."""
        match = _RANGE.match(expression)
        try:
            return match is not None and bool(self.read(match["value"]) > int(match["high"]))  # type: ignore[operator]
        except Exception:  # noqa: BLE001 - what cannot be read is not known to be above
            return False

    def is_false(self, expression: str, *, if_unread: bool = False) -> bool:
        try:
            return not self.read(expression)
        except Exception:  # noqa: BLE001 - what cannot be read is not known to be either
            return if_unread


def _words(text: str, names: Mapping[str, Any]) -> str:
    """A source of torch's, or a text with sources in words, in the words of the user."""
    return with_variable_names(torch_texts.in_user_words(text), names["G"], names["L"])


@functools.lru_cache(maxsize=16384)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<guard>", "eval")


def _leaf_failures(
    leaf: Any, source: str, value: object, reader: _GuardReader, table: Births
) -> Iterator[GuardFailure]:
    """The false expressions of one leaf guard, which may hold many (all symbolic shapes).

    torch writes the guard of a number that it first kept symbolic twice, and without a source. Read as a relation, it
    made the first version look nearer to the call than the newest one; `specialized` makes it a guard on that number
    again.
    """
    if _THROUGH_KEYS.fullmatch(source):
        reader.changed_keys.add(source)
    parts: dict[str, str] = {}
    for text in map(str, leaf.verbose_code_parts()):  # torch writes some expressions twice
        parts.setdefault(torch_texts.split_guard(text)[0], text)
    if len(parts) > 1:
        false = {part: text for part, text in parts.items() if reader.is_false(part)}
        parts = (
            false
            or {part: text for part, text in parts.items() if reader.is_false(part, if_unread=True)}
            or parts
        )
    for part, text in parts.items():
        kind = type(leaf).__name__
        # a source's own stack goes down from the user's line; the comment has its innermost place alone
        born = table.by_code.get(part) or table.by_source.get(source.removesuffix(".__code__")) or ()
        if all(is_installed(place.path) for place in born):  # none, or a wrapper alone, such as torch.no_grad
            born = (*born, *born_in_comment(text, table.paths, is_above=reader.is_above(part)))
        specialized = guard_differences.new_attribute(part)
        if not source:
            specialized = guard_differences.specialized_number(part) or guard_differences.strided_tensor(part)
        guarded = source if specialized is None else specialized
        born = born or table.by_source.get(guarded, ())
        for difference in _differences(part, source, value, reader, table):
            # a mode of torch that a tensor's keys show belongs to no line
            is_mode = difference.cause is GuardCause.GLOBAL_STATE and guard_differences.is_tensor_check(part)
            expression = "" if is_mode or torch_texts.is_global_state(guarded) else guarded
            yield replace(
                difference,
                kind=kind,
                source=reader.words(expression) if expression else "",
                expression=expression,
                code=part[:2000],
                difference=torch_texts.without_internal_names(
                    _with_cause(reader.words(difference.difference), text), reader.words(expression)
                ),
                born=() if is_mode else born,
                cause=(
                    difference.cause
                    if specialized is not None or guard_differences.is_iterator(part)
                    else _cause(kind, difference.cause)
                ),
            )


def _differences(
    part: str, source: str, value: object, reader: _GuardReader, table: Births
) -> tuple[GuardFailure, ...]:
    """What differs by one expression of a guard, torch's first reason first."""
    if part.startswith("___check_metadata_"):
        return (guard_differences.metadata_changed(source, table.metadata.get(source), value),)
    if guard_differences.is_tensor_check(part):
        was_inference = source in table.inference
        return guard_differences.explain_tensor(part, value, was_inference=was_inference)
    named = reader.named(part)
    return (guard_differences.explain(named, value=value, evaluate=reader.read, objects=table.objects),)


def failing_text(manager: Any, f_locals: Mapping[str, object], texts: Sequence[str]) -> str:
    """The first false text of a guard that failed, which may hold many (all symbolic shapes), with its comment."""
    if len(texts) < 2:  # noqa: PLR2004 - nothing to choose from
        return "".join(texts)
    reader = _GuardReader(manager, f_locals)
    false = (text for text in texts if reader.is_false(torch_texts.split_guard(text)[0]))
    return next(false, "; ".join(texts))


def _cause(kind: str, cause: GuardCause) -> GuardCause:
    """The cause of a difference, where the kind of the guard does not decide it."""
    if kind.startswith(_SETTINGS):
        return GuardCause.GLOBAL_STATE
    is_symbolic = kind in {"SHAPE_ENV", "LAMBDA_GUARD"}
    return GuardCause.RELATION if is_symbolic and cause in _VALUES else cause


def _with_cause(difference: str, text: str) -> str:
    if "duck sizing added this equality" in text:
        return f"{difference} (they had the same size when it was compiled, so torch took them for equal)"
    return difference


def born_in_comment(text: str, paths: set[str], *, is_above: bool = False) -> Stack:
    """Guards on symbolic shapes carry their line in a comment only: `# if n > 4:  # dels/net.py:12 in forward`.

    That of a range has a line for each end; `is_above`: the value is above its upper end. torch cuts the path at its
    start, so the file is the only one known that ends like it, or none.
    """
    comment = torch_texts.split_guard(text)[1]
    places = list(_BORN_COMMENT.finditer(comment))
    match = places[-1 if is_above else 0] if places else None
    if match is None or "(unknown source" in comment:
        return ()
    end = match["path"].strip()
    known = [path for path in paths if path.endswith(end)]
    if len(known) != 1:
        return ()
    return (Location(known[0], int(match["line"]), function=stacks.user_function(match["function"])),)


_MORE_KEYS = " had more keys than now"
_LAST_KEY = re.compile(r"\[(?P<key>'[^']*'|\"[^\"]*\"|-?\d+)\]$")
_LAST_OF_KEYS = re.compile(r"^list\((?P<owner>[^()]+)\)\[\d+\]$")


_HOOK = re.compile(r"(?P<owner>[^()]+)\._(?P<way>forward|backward)(?P<pre>_pre)?_hooks\b")


def _missing(source: str, error: Exception, reader: _GuardReader, table: Births) -> GuardFailure:
    words = reader.words(source)
    hook = _HOOK.search(words)
    born = table.by_source.get(source, ())
    if isinstance(error, (KeyError, IndexError)) and hook is not None:
        words = hook["owner"]
        raw = _HOOK.search(source)
        hooks = raw[0] if raw is not None else source
        born = born or next((at for key, at in table.by_source.items() if at and hooks in key), ())
        what = f"{hook['way']} {'pre-' if hook['pre'] else ''}hook"
        text, kind, cause = f"a {what} of {words} was removed", "HOOK", GuardCause.KEYS
    elif isinstance(error, KeyError) and "environ[" in words:
        text, kind, cause = f"{words} was set, now it is not", "DICT_GET", GuardCause.MISSING
    elif isinstance(error, KeyError) and (key := _LAST_KEY.search(words)) is not None:
        owner = words[: key.start()]
        text, kind, cause = f"{owner} had the key {key['key']}, now it has not", _MISSING, GuardCause.KEYS
    elif isinstance(error, IndexError) and (key := _LAST_OF_KEYS.search(words)) is not None:
        text, kind, cause = f"{key['owner']}{_MORE_KEYS}", _MISSING, GuardCause.KEYS
    else:
        text, kind = f"{words} was there, now it cannot be read ({type(error).__name__})", _MISSING
        cause = GuardCause.OTHER
    return GuardFailure(
        kind=kind,
        source=words,
        code=source,
        difference=text,
        cause=cause,
        born=born,
    )


def _root_failure(manager: Any, reader: _GuardReader, text: str, table: Births) -> GuardFailure:
    """The failures that only the root guard finds: aliasing, or a guard that cannot run alone."""
    if "Duplicate tensor" in text:
        why = _explain_aliasing(manager, reader)
        return GuardFailure("NO_TENSOR_ALIASING", "", text, why, cause=GuardCause.ALIASING)
    part = torch_texts.split_guard(text)[0]
    failure = guard_differences.explain(part, value=None, evaluate=reader.read, objects=table.objects)
    reads = (table.by_source.get(source, ()) for source in guard_differences.sources_of(part))
    born = table.by_code.get(part) or next(filter(None, reads), ())
    words = torch_texts.without_internal_names(reader.words(failure.difference))
    return replace(failure, kind="ROOT", code=text[:2000], born=born, difference=words)


def _explain_aliasing(manager: Any, reader: _GuardReader) -> str:
    by_object: dict[int, list[str]] = {}
    for tensor_source in getattr(manager, "no_tensor_aliasing_sources", None) or ():
        source = getattr(tensor_source, "name", tensor_source)  # text before torch 2.15
        try:
            by_object.setdefault(id(reader.read(source)), []).append(reader.words(source))
        except Exception:  # noqa: BLE001, S112 - a source that is gone aliases nothing
            continue
    same = [" and ".join(sorted(names)) for names in by_object.values() if len(names) > 1]
    if not same:
        return "two inputs are the same tensor now"
    return f"{'; '.join(same)} are the same tensor now, which they were not"
