"""Sizes that torch took for one, because they were equal in the call that it compiled for: duck sizing.

Invariant: only sizes that got one symbol when they were created are named; what code requires to be equal is not.
"""

from __future__ import annotations

import json

from fuselight.shared.report import CallCure, Compile, CureKind, GuardFailure, Location, Recompile, Symbol
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.explain.findings.advice.advice import TriedAdvice
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import quoted

TAKEN_FOR_EQUAL = "torch took them for equal"
"""In a difference of a guard that only duck sizing made."""
_SETTING = "torch.fx.experimental._config.use_duck_shape"
_MAX_NAMED = 4


def taken_for_one(compiled: Compile | None, symbol: Symbol) -> tuple[str, ...]:
    """The sizes that share a symbol with this one in a compile, itself among them; empty if it has its own."""
    sources = tuple(
        dict.fromkeys(
            other.source
            for other in (compiled.symbols if compiled is not None else ())
            if other.name == symbol.name and ".size(" in other.source
        )
    )
    is_symbol = (
        symbol.name != symbol.specialized_to
    )  # a size that was never symbolic has its number as its name
    return sources if is_symbol and len(sources) > 1 and symbol.source in sources else ()


def fixed_as_one(context: Context, recompilation: Recompile, failure: GuardFailure) -> Symbol | None:
    """The symbol of a size that the version before took for one with others, and fixed."""
    before = context.compile_of(recompilation.entries[0].compile_id) if recompilation.entries else None
    changed = {f"{size.name}.size({size.dimension})" for size in failure.sizes}
    for symbol in before.symbols if before is not None else ():
        is_fixed = symbol.source in changed and symbol.specialized_to is not None
        if is_fixed and taken_for_one(before, symbol):
            return symbol
    return None


def is_of_duck_sizing(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether a guard failed that would not be there, or for which a size was fixed, without duck sizing."""
    return TAKEN_FOR_EQUAL in failure.difference or fixed_as_one(context, recompilation, failure) is not None


def without_duck_sizing(place: Location) -> TriedAdvice:
    """The change that keeps equal sizes apart, for a function by the place of its `def` line."""
    text = f"Set {_SETTING} = False before the first call: equal sizes then stay two sizes"
    cure = CallCure(CureKind.SETTING, place.path, place.line, value=json.dumps({_SETTING: False}))
    return TriedAdvice(text, cure)


def about_equal_sizes(compiled: Compile | None, symbol: Symbol | None) -> str:
    """Say why sizes were one; empty for none."""
    names = taken_for_one(compiled, symbol) if symbol is not None else ()
    if symbol is None or not names:
        return ""
    shown = format_list(cut_list(map(quoted, names), _MAX_NAMED))
    both = "both" if len(names) == 2 else "all"  # noqa: PLR2004 - two
    return (
        f"In the call that torch compiled for, {shown} were {both} {symbol.specialized_to}, so torch took them for "
        "one size: code that fixes one of them fixes the others, too."
    )
