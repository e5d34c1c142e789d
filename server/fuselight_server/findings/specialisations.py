"""FL301 and FL302: a size or a number that was to stay symbolic and was fixed to one value.

Invariant: one finding for each line, value and source; without a line it stands on the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.findings.causes import DIMENSION
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.text import compose, plain, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Compile, Symbol
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context


def specialisation_findings(context: Context) -> Iterator[Finding]:
    """The findings of symbols that were fixed."""
    groups: dict[tuple[object, ...], list[tuple[Compile, Symbol]]] = {}
    for compiled in context.report.compiles:
        for symbol in compiled.symbols:
            if symbol.specialized_to is None:
                continue
            home = context.innermost_ours(symbol.stack)
            where = (home.path, home.line) if home else (None, None)
            groups.setdefault((*where, symbol.source, symbol.specialized_to), []).append((compiled, symbol))
    for group in groups.values():
        yield _finding(context, group)


def _finding(context: Context, group: list[tuple[Compile, Symbol]]) -> Finding:
    compiled, symbol = next((item for item in group if item[1].marked), group[0])
    home = context.innermost_ours(symbol.stack, compiled.caller)
    dimension = (
        DIMENSION.match(symbol.source) is not None or ".size(" in symbol.source or ".shape[" in symbol.source
    )
    name = symbol.source or symbol.name
    wish = (
        f"`{name}` was asked to be dynamic (mark_dynamic or dynamic=True), but this line"
        if symbol.marked
        else f"`{name}` was to stay symbolic, but this line"
    )
    title = f"`{name}` is fixed to {symbol.specialized_to}" + (
        ", though it was asked to be dynamic" if symbol.marked else ""
    )
    cost = (
        f"each {'size' if dimension else 'value'} other than {symbol.specialized_to} is a compile of its own",
    )
    hints = (
        (
            f"Avoid code that needs the exact size of `{name}`, as comparing it, int(), or looping over it",
            "Where one size is all that is needed, do not ask for it to be dynamic",
        )
        if dimension
        else (f"Pass `{name}` as a tensor, or avoid Python code that needs its exact value",)
    )
    return context.finding(
        "FL301" if dimension else "FL302",
        title=title,
        message=compose(
            f"{wish} made the compiler fix it to {symbol.specialized_to}.",
            # torch's name for the kind of reasoning (range_refined_to_singleton) tells a user nothing
            sentence(plain(symbol.reason)) if symbol.reason and " " in symbol.reason else "",
            cost=cost,
            hints=hints,
        ),
        span=span_of(home) if home else context.target_span(),
        call=compiled.call,
        hints=hints,
        related=trail(symbol.stack, without=home, verb="specialised in"),
        count=len(group),
        cost=cost,
    )
