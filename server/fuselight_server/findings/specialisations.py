"""FL301 and FL302: a size or a number that was to stay symbolic and was fixed to one value.

Invariant: one finding for each line and source, with all the values; without a line it stands on the target. A size
of 0 or 1 is torch's own rule: told with the recompilation where there is one, and never a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight_server.finding import Severity
from fuselight_server.findings.causes import DIMENSION
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.sizes import in_words
from fuselight_server.findings.text import compose, listed, plain, quoted, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Compile, Symbol
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context


def specialisation_findings(context: Context) -> Iterator[Finding]:
    """The findings of symbols that were fixed."""
    again = {one.compile_id for one in context.report.recompiles}
    groups: dict[tuple[object, ...], list[tuple[Compile, Symbol]]] = {}
    for compiled in context.report.compiles:
        for symbol in compiled.symbols:
            if symbol.specialized_to is None or (_is_torchs_rule(symbol) and compiled.id in again):
                continue
            home = context.innermost_ours(symbol.stack)
            where = (home.path, home.line) if home else (None, None)
            groups.setdefault(
                (*where, in_words(context, compiled, symbol), _is_torchs_rule(symbol)), []
            ).append((compiled, symbol))
    for group in groups.values():
        yield _finding(context, group)


def _finding(context: Context, group: list[tuple[Compile, Symbol]]) -> Finding:
    compiled, symbol = next((item for item in group if item[1].marked), group[0])
    home = context.innermost_ours(symbol.stack, compiled.caller)
    name = quoted(in_words(context, compiled, symbol) or symbol.name)
    kind = "size" if _is_size(symbol) else "value"
    values = listed(dict.fromkeys(item.specialized_to or "" for _, item in group))
    wish = (
        "was asked to be dynamic (mark_dynamic or dynamic=True)" if symbol.marked else "was to stay symbolic"
    )
    rule = _is_torchs_rule(symbol)
    fixed = f"torch fixed it to {values}" if rule else f"this line made the compiler fix it to {values}"
    hints = _hints(symbol, name)
    cost = (f"each {kind} that it is fixed to is a compile of its own",)
    return context.finding(
        "FL301" if _is_size(symbol) else "FL302",
        severity=Severity.INFORMATION if rule else None,
        title=f"{name} is fixed to {values}"
        + (", though it was asked to be dynamic" if symbol.marked else ""),
        message=compose(
            f"{name} {wish}, but {fixed}.",
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


def _hints(symbol: Symbol, name: str) -> tuple[str, ...]:
    if _is_torchs_rule(symbol):
        return (
            "Expect it: torch always compiles a size of 0 or 1 by itself, dynamic or not",
            "Or give an input of 2 or more here, to see what all other sizes get",
        )
    if not _is_size(symbol):
        return (f"Pass {name} as a tensor, or avoid Python code that needs its exact value",)
    return (
        f"Avoid code that needs the exact value of {name}, as comparing it, int(), or looping over it",
        "Where one size is all that is needed, do not ask for it to be dynamic",
    )


def _is_size(symbol: Symbol) -> bool:
    return (
        DIMENSION.match(symbol.source) is not None or ".size(" in symbol.source or ".shape[" in symbol.source
    )


def _is_torchs_rule(symbol: Symbol) -> bool:
    """Whether no line fixed it: torch makes no symbol of a size of 0 or 1."""
    return symbol.specialized_to in {"0", "1"} and not symbol.stack and _is_size(symbol)
