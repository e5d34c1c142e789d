"""Why a frame was compiled again: every failing guard of every cache entry, the nearest entry first.

Invariant: only guards that failed are reported. They are found by running torch's own guards on the new call.
Relational guards keep state between nodes, so only the root guard runs them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

from fuselight import torch_texts
from fuselight.dynamo import guard_differences, stacks
from fuselight.dynamo.guards import Births
from fuselight.report import GuardCause, GuardFailure, Location, Mismatch, Stack
from fuselight.torch_api import artifacts

_COMMENT = re.compile(r"\s+#\s(.*)$", re.DOTALL)
_BORN_COMMENT = re.compile(r"#\s(?P<path>[^#\n:]+?):(?P<line>\d+) in (?P<function>\w+)")
_MISSING = "MISSING"
_SETTINGS = ("GLOBAL_STATE", "GRAD_MODE", "DETERMINISTIC", "TORCH_FUNCTION", "DEFAULT_DEVICE")
"""How the kinds of guards begin that check a setting of torch; one may have the name of a tensor's property."""
_VALUES = frozenset({GuardCause.NUMBER, GuardCause.VALUE})
_FAILURES = 50
"""Maximum number of failing guards kept per cache entry: a different model in the same code fails hundreds."""


def read_mismatches(
    entries: Sequence[Any], frame: Any, backend: object, births: Mapping[Any, Births]
) -> tuple[Mismatch, ...]:
    """Compare each cache entry with the new call: fewest differences first, then the newest entry."""
    found = [Mismatch(str(entry.compile_id), _read_entry(entry, frame, backend, births)) for entry in entries]
    order = sorted(range(len(found)), key=lambda i: (_weight(found[i]), -_age(found[i].compile_id)))
    return tuple(found[i] for i in order)


def _weight(mismatch: Mismatch) -> tuple[int, int]:
    """Failing guards, then differences: one guard checks dtype, device, sizes and strides of a tensor."""
    failures = mismatch.failures
    return (len(failures) or _FAILURES + 1, sum(one.count for one in failures))


def _age(compile_id: str) -> int:
    number = compile_id.rpartition("/")[2].rstrip("]")
    return int(number) if number.isdigit() else 0


def _read_entry(
    entry: Any, frame: Any, backend: object, births: Mapping[Any, Births]
) -> tuple[GuardFailure, ...]:
    manager = entry.guard_manager
    deleted = artifacts.is_deleted(manager)
    if deleted is not None:
        why = f"the compiled code was dropped: {deleted}"
        return (GuardFailure("DELETED", "", "", why, cause=GuardCause.DELETED),)
    table = births.get(manager) or Births({}, {}, {}, set())
    failures = list(_failures(manager, frame.f_locals, table))
    # what cannot be read any more mostly lies under something whose own guard failed, which says it better
    failures = [failure for failure in failures if failure.kind != _MISSING] or failures
    if failures:
        return tuple(failures[:_FAILURES])
    verdict = manager.check_verbose(frame.f_locals)
    if not verdict.result:
        text = "; ".join(map(str, verdict.verbose_code_parts))
        return (_root_failure(manager, frame.f_locals, text, table),)
    if getattr(manager.cache_entry, "backend", backend) is not backend:
        why = "compiled before with another backend, mode or options of torch.compile"
        return (GuardFailure("BACKEND_MATCH", "", "", why, cause=GuardCause.BACKEND),)
    return ()


def _failures(manager: Any, f_locals: Mapping[str, object], table: Births) -> Iterator[GuardFailure]:
    reader = _GuardReader(manager, f_locals)
    for node in artifacts.managers(manager):
        leaves = [leaf for leaf in node.get_leaf_guards() if not artifacts.is_relational(leaf)]
        if not leaves:
            continue
        source = node.get_source()
        try:
            value = reader.read(source) if source and source != "L" else f_locals
        except Exception as error:  # noqa: BLE001 - any property of the user's can raise anything
            yield _missing(source, error, table)
            continue
        for leaf in leaves:
            try:
                passed = leaf(value)
            except Exception:  # noqa: BLE001, S112 - a guard that cannot be run alone is left to the root's verdict
                continue
            if not passed:
                yield from _leaf_failures(leaf, source, value, reader, table)
    for leaf in manager.root.get_epilogue_lambda_guards():
        try:
            passed = leaf(f_locals)
        except Exception:  # noqa: BLE001, S112 - as above
            continue
        if not passed:
            yield from _leaf_failures(leaf, "", f_locals, reader, table)


class _GuardReader:
    """Expressions of guards, read against one new call."""

    def __init__(self, manager: Any, f_locals: Mapping[str, object]) -> None:
        self.scope, self.names = artifacts.guard_scope(manager, f_locals)

    def read(self, expression: str) -> object:
        # torch wrote the expression, and evaluates it in the same way for its own log
        return eval(_compiled(expression), self.scope, self.names)  # noqa: S307

    def is_false(self, expression: str) -> bool:
        try:
            return not self.read(expression)
        except Exception:  # noqa: BLE001 - what cannot be read is not known to be false
            return False


@functools.lru_cache(maxsize=16384)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<guard>", "eval")


def _leaf_failures(
    leaf: Any, source: str, value: object, reader: _GuardReader, table: Births
) -> Iterator[GuardFailure]:
    """The false expressions of one leaf guard, which may hold many (all symbolic shapes)."""
    texts = [str(part) for part in leaf.verbose_code_parts()]
    parts = [(_COMMENT.sub("", text).strip(), text) for text in texts]
    if len(parts) > 1:
        parts = [(part, text) for part, text in parts if reader.is_false(part)] or parts
    for part, text in parts:
        kind = type(leaf).__name__
        found = guard_differences.explain(part, value=value, evaluate=reader.read, objects=table.objects)
        yield replace(
            found,
            kind=kind,
            source="" if torch_texts.is_global_state(source) else torch_texts.in_user_words(source),
            code=part[:2000],
            difference=_with_cause(found.difference, text),
            # a source's own stack goes down from the user's line; the comment has its innermost place alone
            born=table.by_code.get(part)
            or table.by_source.get(source.removesuffix(".__code__"))
            or born_in_comment(text, table.paths),
            cause=_cause(kind, found.cause),
        )


def failing_text(manager: Any, f_locals: Mapping[str, object], texts: Sequence[str]) -> str:
    """The first false text of a guard that failed, which may hold many (all symbolic shapes), with its comment."""
    if len(texts) < 2:  # noqa: PLR2004 - nothing to choose from
        return "".join(texts)
    reader = _GuardReader(manager, f_locals)
    false = (text for text in texts if reader.is_false(_COMMENT.sub("", text).strip()))
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


def born_in_comment(text: str, paths: set[str]) -> Stack:
    """Guards on symbolic shapes carry their line in a comment only: `# if n > 4:  # dels/net.py:12 in forward`.

    torch cuts the path at its start, so the file is the only one known that ends like it, or none.
    """
    found = _BORN_COMMENT.search(text)
    if found is None or "(unknown source" in text:
        return ()
    end = found["path"].strip()
    known = [path for path in paths if path.endswith(end)]
    if len(known) != 1:
        return ()
    return (Location(known[0], int(found["line"]), function=stacks.user_function(found["function"])),)


def _missing(source: str, error: Exception, table: Births) -> GuardFailure:
    words = torch_texts.in_user_words(source)
    return GuardFailure(
        kind=_MISSING,
        source=words,
        code=source,
        difference=f"{words} was there, now it cannot be read ({type(error).__name__})",
        born=table.by_source.get(source, ()),
    )


def _root_failure(manager: Any, f_locals: Mapping[str, object], text: str, table: Births) -> GuardFailure:
    """The failures that only the root guard finds: aliasing, or a guard that cannot run alone."""
    if "Duplicate tensor" in text:
        why = _explain_aliasing(manager, f_locals)
        return GuardFailure("NO_TENSOR_ALIASING", "", text, why, cause=GuardCause.ALIASING)
    part = _COMMENT.sub("", text).strip()
    reader = _GuardReader(manager, f_locals)
    found = guard_differences.explain(part, value=None, evaluate=reader.read, objects=table.objects)
    return replace(found, kind="ROOT", code=text[:2000], born=table.by_code.get(part, ()))


def _explain_aliasing(manager: Any, f_locals: Mapping[str, object]) -> str:
    reader = _GuardReader(manager, f_locals)
    by_object: dict[int, list[str]] = {}
    for source in getattr(manager, "no_tensor_aliasing_sources", None) or ():
        try:
            by_object.setdefault(id(reader.read(source)), []).append(torch_texts.in_user_words(source))
        except Exception:  # noqa: BLE001, S112 - a source that is gone aliases nothing
            continue
    same = [" and ".join(sorted(names)) for names in by_object.values() if len(names) > 1]
    if not same:
        return "two inputs are the same tensor now"
    return f"{'; '.join(same)} are the same tensor now, which they were not"
