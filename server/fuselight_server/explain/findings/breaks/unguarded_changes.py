"""FL202 and FL205: changes that compiled code does not follow, or that it does not make, on the line of the change.

Invariant: the report says what torch has no guard on, and for which change it generates no code; nothing here is
concluded from the source, except on which line of a file a method is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.codec import read_table
from fuselight.shared.report import Location, UnseenChange, UnseenKind
from fuselight_server.base.finding import Finding, Related
from fuselight_server.base.formatting import format_list
from fuselight_server.explain.findings.common.context import Context, span_of

_EAGER_CALLS = (
    "Or make the calls that need the hook in eager mode, as in `with torch.compiler.set_stance('force_eager'):`: the "
    "hook is removed again, so that other calls run without it"
)


@dataclass(frozen=True)
class _ChangeTexts:
    """Of changes, by their kind."""

    hints: dict[str, tuple[str, ...]]
    lost: dict[str, tuple[str, str, tuple[str, ...]]]
    """What compiled code does, what eager mode does, and what to do."""


_TEXTS = read_table(_ChangeTexts, __file__)
_COMPILED_FOR = {
    UnseenKind.KEY: "compiled for the first one",
    UnseenKind.IDENTITY: "compiled for two objects",
}


def unseen_findings(context: Context) -> Iterator[Finding]:
    """The findings of changes that compiled code does not follow."""
    groups: dict[tuple[object, ...], list[UnseenChange]] = {}
    for change in context.report.unseen:
        home = _home(context, change)
        if home is not None:
            groups.setdefault((change.kind, home.path, home.line), []).append(change)
    for group in groups.values():
        yield _finding(context, group)


def _finding(context: Context, group: list[UnseenChange]) -> Finding:
    change, home = group[0], _home(context, group[0])
    if change.kind in _TEXTS.lost:
        return _lost(context, group, home)
    functions = format_list(dict.fromkeys(f"`{item.function}`" for item in group))
    title, text = _words(
        change, functions, format_list(dict.fromkeys(f"`{item.what}`" for item in group if item.what))
    )
    places = dict.fromkeys(item.location for item in group)
    words = _COMPILED_FOR.get(change.kind, "compiled without it")
    related = tuple(Related(span_of(place), words) for place in places)
    return context.finding(
        "FL202",
        title,
        text,
        "A guard is a condition that torch checks before a call of compiled code: if it fails, torch compiles again.",
        at=home,
        hints=_hints(group),
        related=related,
        subject=f"{change.kind.value} {change.what}",
        count=len(group),
    )


def _hints(group: list[UnseenChange]) -> tuple[str, ...]:
    """What to do; a hook that only some calls need cannot be there from the first call on."""
    hints = _TEXTS.hints[group[0].kind]
    if any(change.is_removed for change in group):
        return (*hints[:-1], _EAGER_CALLS if hints[1:] else _EAGER_CALLS.replace("Or make", "Make"))
    return hints


def _lost(context: Context, group: list[UnseenChange], home: Location | None) -> Finding:
    """The finding of a line that changes a container or a generator in eager mode alone."""
    change, functions = group[0], format_list(dict.fromkeys(f"`{item.function}`" for item in group))
    what = format_list(dict.fromkeys(f"`{item.what}`" for item in group))
    compiled, text, hints = _TEXTS.lost[change.kind]
    return context.finding(
        "FL205",
        f"compiled code of {functions} {compiled} {what}",
        text.format(what=what),
        at=home,
        hints=tuple(hint.format(what=what) for hint in hints),
        related=tuple(
            Related(span_of(place), "the compiled function")
            for place in dict.fromkeys(item.location for item in group)
        ),
        subject=f"{change.kind.value} {change.what}",
        count=len(group),
    )


def _words(change: UnseenChange, functions: str, owners: str) -> tuple[str, str]:
    """The title and the explanation. `owners`: the classes whose objects got the hook."""
    if change.kind is UnseenKind.METHOD:
        return (
            f"compiled code of {functions} still calls the former `{change.what}`",
            "The method was replaced in its class after the compile, and torch has no guard on the methods of a class.",
        )
    if change.kind is UnseenKind.VARIABLE:
        return (
            f"compiled code of {functions} keeps the former value of `{change.what}`",
            (
                "torch read this environment variable once, while it compiled, and has no guard on it. It had another "
                "value at a later call, which ran with the former one."
            ),
        )
    if change.kind is UnseenKind.KEY:
        return (
            f"compiled code of {functions} keeps what the first {owners} selected",
            (
                "torch has no guard on an object that is looked up in a dict or a set. A later call had another one, "
                "for which this line finds something else, and ran with what the first one selected."
            ),
        )
    if change.kind is UnseenKind.IDENTITY:
        return (
            f"compiled code of {functions} keeps the outcome of {owners}",
            (
                "These were two objects at the compile, and torch has no guard that they are: it only has one where "
                "they are the same. In a later call they were one object, and the code for two ran."
            ),
        )
    on = f" on {owners}" if owners else ""
    return (
        f"compiled code of {functions} does not run this hook",
        (
            f"`{change.registration}`{on} came after the compile, and torch has no guard on the hooks of modules. "
            "Calls that match the compiled code run without the hook."
        ),
    )


def _home(context: Context, change: UnseenChange) -> Location | None:
    home = context.innermost_user_frame(change.stack)
    if change.kind is not UnseenKind.METHOD or home is None:
        return home
    owner, _, name = change.what.rpartition(".")
    return _assignment(context, home.path, owner, name) or home


def _assignment(context: Context, path: str, owner: str, name: str) -> Location | None:
    """The only line of a file that assigns the method; None if there are none or several."""
    owner, name = re.escape(owner), re.escape(name)
    wanted = re.compile(
        rf"\s*(?:[\w.]+\.)?{owner}\.{name}\s*=(?!=)|.*\bsetattr\((?:[\w.]+\.)?{owner}, *['\"]{name}['\"]"
    )
    lines = [line for line, text in enumerate(context.lines_of(path), 1) if wanted.match(text)]
    return Location(path, lines[0]) if len(lines) == 1 else None
