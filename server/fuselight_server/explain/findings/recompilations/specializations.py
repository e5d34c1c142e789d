"""FL301 and FL302: a size or a number that was to stay symbolic and was fixed to one value.

Invariant: one finding for each line and source, with all the values; without a line it stands on the target. A size
of 0 or 1 is torch's own rule: reported with the recompilation where there is one, and never a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

from fuselight.shared.report import (
    Compile,
    Guard,
    GuardCause,
    GuardFailure,
    Location,
    Recompile,
    StaticSizes,
    Symbol,
)
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.base.finding import Finding, Related, Severity
from fuselight_server.base.formatting import cut_list, format_list
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advice
from fuselight_server.explain.findings.advice.advice import TriedAdvice, tried_remedies, worded
from fuselight_server.explain.findings.advice.duck_sizes import (
    about_equal_sizes,
    taken_for_one,
    without_duck_sizing,
)
from fuselight_server.explain.findings.advice.expectations import CARRIED, ZERO_OR_ONE, fixed_by_torch
from fuselight_server.explain.findings.common.carried_values import carried_in_words, resumption
from fuselight_server.explain.findings.common.context import Context, span_of
from fuselight_server.explain.findings.common.resume_functions import resumption_of
from fuselight_server.explain.findings.common.text import plain, quoted, sentence
from fuselight_server.explain.findings.recompilations.broken_sizes import (
    break_before,
    failures_of,
    is_changed,
    is_size,
    with_break,
)
from fuselight_server.explain.findings.recompilations.equal_sizes import equal_argument, equal_size
from fuselight_server.explain.findings.recompilations.size_remedies import keeps_sizes_fixed
from fuselight_server.explain.findings.recompilations.weight_sizes import weight_of_size

_ROOT = re.compile(r"[^\W\d]\w*")
_MAX_NAMED = 3
_STEADY = {
    GuardCause.RANK: "Expect it: only the number of dimensions changed, after which torch makes all sizes dynamic",
    GuardCause.TYPE: "Expect it: calls passed something else than a tensor, after which torch makes all sizes dynamic",
}
"""What to expect of a size that torch made symbolic although it has one value, by what changed instead."""
_NOBODYS = re.compile(r"\.(?:stride\(\d+\)|item\(\))$")
"""Numbers that torch itself makes symbolic: a stride that changed, the value of a tensor that is an index."""


def specialization_findings(context: Context) -> Iterator[Finding]:
    """The findings of symbols that were fixed."""
    again = {recompilation.compile_id: recompilation for recompilation in context.report.recompiles}
    groups: dict[tuple[object, ...], list[tuple[Compile, Symbol]]] = {}
    for compiled in context.report.compiles:
        for symbol in compiled.symbols:
            if symbol.specialized_to is None or _is_of_recompilation(context, compiled, symbol, again):
                continue
            if not symbol.marked and (
                _NOBODYS.search(symbol.source) or _became_dynamic(context, compiled, symbol)
            ):
                continue  # a recompilation or a break says so
            if _is_of_comparison(context, compiled, symbol, again) or _is_told_with_equals(
                context, compiled, symbol
            ):
                continue
            home = context.innermost_user_frame(symbol.stack)
            where = (home.path, home.line) if home else (None, None)
            groups.setdefault(
                (*where, in_words(context, compiled, symbol), _is_torchs_rule(symbol)), []
            ).append((compiled, symbol))
    lines: dict[tuple[object, ...], list[list[tuple[Compile, Symbol]]]] = {}
    for key, group in groups.items():
        if not _is_expected(context, group):
            lines.setdefault(_place_key(context, key, *group[0]), []).append(group)
    for of_line_groups in lines.values():
        yield _finding(context, *of_line_groups)


def _place_key(
    context: Context, key: tuple[object, ...], compiled: Compile, symbol: Symbol
) -> tuple[object, ...]:
    """What sizes or numbers share that are one finding: the line that fixes them, or torch's rule for one function.

    A mask of attention has 24 sizes of 1, each of which was a finding under `dynamic=True`.
    """
    if key[1] is not None:
        return (*key[:2], is_size(symbol), key[-1])
    if _is_torchs_rule(symbol) and not _is_error(context, compiled, symbol):
        return (compiled.frame, symbol.marked)
    return key


def _is_expected(context: Context, group: list[tuple[Compile, Symbol]]) -> bool:
    """Whether `dynamic=True` fixed what never varies: a size of a weight, a number of a layer of torch's, a default."""
    if all(symbol.is_default for _, symbol in group):
        return len({symbol.specialized_to for _, symbol in group}) == 1
    return all(
        not _is_error(context, compiled, symbol)
        and (
            bool(_weight(context, compiled, symbol))
            if is_size(symbol)
            else _is_of_layer(context, compiled, symbol)
        )
        for compiled, symbol in group
    )


def _weight(context: Context, compiled: Compile, symbol: Symbol) -> str:
    """What has the size to which a symbol was fixed, if no other size can come.

    Of sizes that torch took for one, a weight fixes those of features: the last dimension, or the channels.
    """
    weight = weight_of_size(context, symbol, context.innermost_user_frame(symbol.stack, compiled.caller))
    match = _SIZE_OF.search(symbol.source)
    if not weight or match is None or not taken_for_one(compiled, symbol):
        return weight
    owner, dimension = symbol.source[: match.start()], int(match[1])
    others = (other.source.removeprefix(f"{owner}.size(").removesuffix(")") for other in compiled.symbols)
    last = max((int(other) for other in others if other.isdecimal()), default=dimension)
    is_linear = bool(symbol.stack) and PurePath(symbol.stack[-1].path).stem == "linear"
    return weight if dimension == last or (dimension == 1 and not is_linear) else ""


def _is_of_layer(context: Context, compiled: Compile, symbol: Symbol) -> bool:
    """Whether it is a number of an object that only the library's code reads, as `self.norm.eps`."""
    is_read_by_user = bool(symbol.stack) and context.is_user_file(symbol.stack[-1].path)
    return not _is_argument(context, compiled, symbol) and not is_read_by_user


def _is_argument(context: Context, compiled: Compile, symbol: Symbol) -> bool:
    """Whether a call gives it a value: another call may give another one."""
    frame = context.frame_of(compiled)
    root = _ROOT.match(symbol.source)
    is_attribute = root is not None and "." in symbol.source and not is_size(symbol)
    known = frame.parameters if frame is not None else ()
    return (
        root is None
        or root[0].startswith(CARRIED)
        or not is_attribute
        or (root[0] in known and root[0] != "self")
    )


def _is_error(context: Context, compiled: Compile, symbol: Symbol) -> bool:
    return symbol.marked and any(
        failure.exception == "ConstraintViolationError" and failure.call == compiled.call
        for failure in context.report.failures
    )


def _is_of_recompilation(
    context: Context, compiled: Compile, symbol: Symbol, again: Mapping[str | None, Recompile]
) -> bool:
    """Whether the recompilation's own finding has it: torch made what changed symbolic by itself, and code fixed it."""
    recompilation, frame = again.get(compiled.id), context.frame_of(compiled)
    if not is_size(symbol) and frame is not None:
        # The version before fixed it as well, to the value that is not the new one.
        return any(
            is_changed(symbol, failure) for failure in failures_of(context, frame.function, frame.location)
        )
    if recompilation is None or symbol.marked:
        return recompilation is not None and _is_torchs_rule(symbol)
    if _is_torchs_rule(symbol):
        return True
    failures = failures_of(context, recompilation.function, recompilation.location)
    return any(is_changed(symbol, failure) for failure in failures)


def _is_told_with_equals(context: Context, compiled: Compile, symbol: Symbol) -> bool:
    """Whether a recompilation's finding says that torch took the size for one with others, and names the line."""
    frame = context.frame_of(compiled)
    equal = taken_for_one(compiled, symbol)
    return frame is not None and any(
        f"{size.name}.size({size.dimension})" in equal
        for failure in failures_of(context, frame.function, frame.location)
        for size in failure.sizes
    )


def _became_dynamic(context: Context, compiled: Compile, symbol: Symbol) -> bool:
    """Whether a later version of the same code keeps the size or the number symbolic.

    As the first version of the part after a break, where another size that has to be equal was still a constant.
    """
    later = context.report.compiles[context.report.compiles.index(compiled) + 1 :]
    return any(_is_free(other, compiled, symbol) for other in later)


def _is_free(other: Compile, compiled: Compile, symbol: Symbol) -> bool:
    """Whether another version of the same code keeps the size or the number symbolic."""
    return other.frame == compiled.frame and any(
        free.source == symbol.source and free.specialized_to is None for free in other.symbols
    )


def _is_of_comparison(
    context: Context, compiled: Compile, symbol: Symbol, again: Mapping[str | None, Recompile]
) -> bool:
    """Whether a comparison that holds for one value alone made this version, and another one serves other values."""
    recompilation, fixing = again.get(compiled.id), context.innermost_user_frame(symbol.stack)
    if recompilation is None or fixing is None:
        return False
    lines = (
        context.innermost_user_frame(failure.born)
        for entry in recompilation.entries
        for failure in entry.failures
        if failure.cause is GuardCause.RELATION
    )
    is_same = any(line is not None and (line.path, line.line) == (fixing.path, fixing.line) for line in lines)
    return is_same and any(_is_free(other, compiled, symbol) for other in context.report.compiles)


def fixing_line(context: Context, recompilation: Recompile, failure: GuardFailure) -> Location | None:
    """The line that fixes the size or the number that changed; None where nothing does."""
    fixed = _fixed_symbol(context, recompilation, failure)
    return None if fixed is None else context.innermost_user_frame(fixed.stack)


def waits_for(context: Context, recompilation: Recompile, failure: GuardFailure) -> str:
    """What to expect of a size that has to equal that of another argument, which had one size so far; else empty."""
    symbol = _fixed_symbol(context, recompilation, failure) if failure.sizes else None
    line = context.innermost_user_frame(symbol.stack) if symbol is not None else None
    name = equal_argument(context, symbol, line) if symbol is not None and line is not None else ""
    if symbol is None or line is None or not name:
        return ""
    return (
        f"Expect one more compile when {quoted(name)} has another size, too: on line {line.line} "
        f"{quoted(symbol.source)} has to equal its size {symbol.specialized_to}, which torch keeps fixed until it "
        "has seen another one"
    )


def _finding(
    context: Context, group: list[tuple[Compile, Symbol]], *others: list[tuple[Compile, Symbol]]
) -> Finding:
    """The finding of a line for what it fixes: the first by its title, the `others` in the text."""
    compiled, symbol = next((item for item in group if item[1].marked), group[0])
    home = context.innermost_user_frame(symbol.stack, compiled.caller)
    name = quoted(in_words(context, compiled, symbol) or symbol.name)
    kind = "size" if is_size(symbol) else "value"
    values = format_list(dict.fromkeys(item.specialized_to or "" for _, item in group))
    is_marked = symbol.marked and is_size(symbol)
    wish = "was marked dynamic (mark_dynamic or dynamic=True)" if is_marked else "was dynamic"
    rule = _is_torchs_rule(symbol)
    is_error = _is_error(context, compiled, symbol)
    instead = _changed_instead(context, compiled, symbol)
    broke = None if is_error else break_before(context, group)
    steady = _STEADY[instead] if instead is not None else with_break(compiled, broke) if broke else ""
    equal = () if rule else taken_for_one(compiled, symbol)
    cures = _cures(context, compiled) if equal else ()
    fixed = f"torch fixed it to {values}" if rule else f"this line made the compiler fix it to {values}"
    return context.finding(
        "FL301" if is_size(symbol) else "FL302",
        f"{name} is fixed to {values}" + (" although it was marked dynamic" if is_marked else ""),
        f"{name} {wish}, but {fixed}.{' The call raises ConstraintViolationError.' if is_error else ''}",
        # Torch's reason may be a single word, as range_refined_to_singleton, which explains nothing to a user.
        sentence(plain(symbol.reason)) if symbol.reason and " " in symbol.reason else "",
        about_equal_sizes(compiled, symbol) if equal else "",
        _also_fixed(
            context,
            [other for other in others if other[0][1].source not in equal],
            by="torch" if rule else "The same line",
        ),
        at=home,
        severity=Severity.INFORMATION if broke else _severity(context, group, is_error=is_error),
        cost=() if is_error or steady else (_cost(symbol, kind),),
        hints=(steady,) if steady else _remedies(context, compiled, symbol, name, cures),
        call=compiled.call,
        related=(
            *context.trail(symbol.stack, without=home, verb="fixed in"),
            *(_marks(context, compiled, symbol) if is_error else ()),
        ),
        subject=symbol.source,
        follows=Related(span_of(broke), f"it follows from the graph break on line {broke.line}")
        if broke
        else None,
        count=len(group),
        cures=worded(cures),
    )


def _cures(context: Context, compiled: Compile) -> tuple[TriedAdvice, ...]:
    """The change to try for sizes that torch took for one; none where the function was not compiled again."""
    frame = context.frame_of(compiled)
    again = (
        item for item in context.report.recompiles if frame is not None and item.location == frame.location
    )
    return tuple(without_duck_sizing(item.location) for item in again)[:1]


def _remedies(
    context: Context, compiled: Compile, symbol: Symbol, name: str, cures: tuple[TriedAdvice, ...]
) -> tuple[FindingRemedy, ...]:
    """What to do about a size or a number: of sizes that torch took for one, what keeps them apart."""
    if not taken_for_one(compiled, symbol):
        return advice(_hints(context, compiled, symbol, name))
    tried = tried_remedies(cures, context.trials)
    is_cured = any(remedy.state is RemedyState.TRIED for remedy in tried)
    return tried if is_cured else (*advice((_OTHER_SIZES,)), *tried)


_OTHER_SIZES = (
    "If these sizes are not always equal, make the first call with sizes that differ: torch then keeps them apart. "
    "Another first call cannot be tried here"
)


def _severity(context: Context, group: list[tuple[Compile, Symbol]], *, is_error: bool) -> Severity | None:
    """Information where nothing of the calls varies it, as a number of an object: it has one value in the run.

    No user can mark a number: `dynamic=True`, which asks for sizes, makes every number symbolic that it meets.
    """
    compiled, symbol = group[0]
    if is_error:
        return Severity.ERROR
    has_one_value = len({item.specialized_to for _, item in group}) == 1
    is_constant = has_one_value and (
        bool(_static_in_library(context, symbol))
        or not is_size(symbol)
        or bool(_changed_instead(context, compiled, symbol))
    )
    return Severity.INFORMATION if is_constant or _is_torchs_rule(symbol) else None


def _changed_instead(context: Context, compiled: Compile, symbol: Symbol) -> GuardCause | None:
    """What changed where a size did not: the rank of tensors, as those of an optimizer, or the type of the argument."""
    frame = context.frame_of(compiled)
    if symbol.marked or frame is None or not is_size(symbol):
        return None
    failures = failures_of(context, frame.function, frame.location)
    if any(is_changed(symbol, failure) for failure in failures):
        return None
    owner = _SIZE_OF.sub("", symbol.source)
    of_type = any(failure.cause is GuardCause.TYPE and failure.source == owner for failure in failures)
    of_rank = any(failure.cause is GuardCause.RANK for failure in failures)
    return GuardCause.TYPE if of_type else GuardCause.RANK if of_rank else None


def _also_fixed(context: Context, groups: list[list[tuple[Compile, Symbol]]], *, by: str) -> str:
    names = [
        f"{quoted(in_words(context, *group[0]) or group[0][1].name)} to {group[0][1].specialized_to}"
        for group in groups
    ]
    too = ", too" if by == "torch" else ""
    return f"{by} fixes {format_list(cut_list(names, _MAX_NAMED))}{too}." if names else ""


def _static_in_library(context: Context, symbol: Symbol) -> str:
    """The function of a library that marks a size static, as `flex_attention` does; empty for all other lines."""
    at = symbol.stack[-1] if symbol.stack else None
    if at is None or context.is_user_file(at.path):
        return ""
    is_mark = "mark_static(" in (context.read_line(at.path, at.line) or "")
    return plain(at.function or "a library") if is_mark else ""


def _hints(context: Context, compiled: Compile, symbol: Symbol, name: str) -> tuple[str, ...]:
    home = context.innermost_user_frame(symbol.stack, compiled.caller)
    if _is_torchs_rule(symbol):
        return (
            f"Expect it: {ZERO_OR_ONE}",
            "Or use an input of size 2 or more here, to see the general case",
        )
    if owner := _static_in_library(context, symbol):
        return (f"Expect one compile for each value of {name}: {quoted(owner)} marks it static",)
    if not is_size(symbol):
        why = f": {_NEEDED}" if symbol.stack and home is not None else ""
        return (f"Expect one compile for each value of {name}{why}",)
    weight = _weight(context, compiled, symbol)
    if weight:
        where = " on this line takes only" if weight == "the layer" else " has"
        first = "Do not mark this dimension" if symbol.marked else "Expect it"
        return (f"{first}: {weight}{where} size {symbol.specialized_to}, so no other size can come",)
    culprit = equal_size(context, symbol, home) if home is not None else ""
    if not symbol.marked:
        culprit = "" if "mark its size" in culprit else culprit
        return (culprit or f"Expect one compile for each value of {name}: {_NEEDED}",)
    avoid = (
        culprit or f"Avoid what needs the exact value of {name}, such as a loop over it or `==` with a number"
    )
    return (avoid, "Or do not mark it dynamic, if you need only one size")


_NEEDED = "this line needs the number itself, or that it equals one that is fixed"


def _marks(context: Context, compiled: Compile, symbol: Symbol) -> Iterator[Related]:
    """The line that marks the size, if the files of the call have only one for its dimension."""
    dimension = _SIZE_OF.search(symbol.source)
    if dimension is None or not symbol.marked:
        return
    paths = dict.fromkeys(
        place.path
        for place in (*compiled.caller, *symbol.stack, context.target_location())
        if context.is_user_file(place.path)
    )
    wanted = re.compile(rf"\bmark_(?:dynamic|unbacked)\([^()]*,\s*(?:index\s*=\s*)?{dimension[1]}\s*[,)]")
    locations = []
    for path in paths:
        for line, text in enumerate(context.lines_of(path), 1):
            if wanted.search(text) and not text.lstrip().startswith("#"):
                locations.append(Location(path, line))
    if len(locations) == 1:
        yield Related(span_of(locations[0]), "marked dynamic here")


_SIZE_OF = re.compile(r"\.size\((\d+)\)$")


def _cost(symbol: Symbol, kind: str) -> str:
    if _is_torchs_rule(symbol) and is_size(symbol):
        return "sizes of 0 and 1 need a compile of their own"
    return f"each {kind} needs its own compile"


def _is_torchs_rule(symbol: Symbol) -> bool:
    """Whether no line fixed it: torch makes no symbol of a size of 0 or 1."""
    return symbol.specialized_to in {"0", "1"} and not symbol.stack and is_size(symbol)


def in_words(context: Context, compiled: Compile, symbol: Symbol) -> str:
    """The symbol's source as findings name it."""
    return _in_part(context, compiled, symbol.source)


def _in_part(context: Context, compiled: Compile | None, text: str) -> str:
    """The text with what a break carried over to a version by the expression that made it, as in findings."""
    after = resumption(context, compiled.id) if compiled is not None and CARRIED in text else None
    return text if after is None else carried_in_words(context, after, text)


def _symbols_of(context: Context, recompilation: Recompile, failure: GuardFailure) -> list[Symbol]:
    """The symbols for the size or the number of a failed guard, in the compile that followed, else in all of them."""
    size = failure.sizes[0] if failure.sizes else None
    source = failure.source
    if failure.cause is GuardCause.DIMENSION:
        source = f"{size.name}.size({size.dimension})" if size is not None else ""
        after = resumption_of(context, recompilation)
        source = source if after is None else carried_in_words(context, after, source)
    symbols = {
        compiled.id: [symbol for symbol in compiled.symbols if in_words(context, compiled, symbol) == source]
        for compiled in context.compiles_of(recompilation.function, recompilation.location)
    }
    # Another version may fix what the compile that followed keeps symbolic, as on the other side of a flag.
    next_symbols = symbols.get(recompilation.compile_id or "")
    return next_symbols or [symbol for of_compile in symbols.values() for symbol in of_compile]


def _fixed_symbol(context: Context, recompilation: Recompile, failure: GuardFailure) -> Symbol | None:
    symbols = _symbols_of(context, recompilation, failure)
    return next((symbol for symbol in symbols if symbol.specialized_to is not None), None)


def is_held(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether something keeps a size or number fixed that changed: a line of code, a mark, a setting."""
    cause = failure.cause
    if cause not in {GuardCause.DIMENSION, GuardCause.NUMBER} or fixed_by_torch(failure):
        return False
    if failure.static is not None:
        return failure.static is StaticSizes.MARKED
    symbols = _symbols_of(context, recompilation, failure)
    if any(symbol.specialized_to is not None for symbol in symbols):
        return True
    size = failure.sizes[0] if failure.sizes else None
    is_plain = size is not None and size.name.isidentifier() and not size.name.startswith(CARRIED)
    # Torch makes a size that varied dynamic by itself, unless the program forbids it.
    return not symbols and is_plain and keeps_sizes_fixed(context, recompilation)


def made_dynamic(
    context: Context, recompilation: Recompile, failures: Iterable[GuardFailure]
) -> tuple[str, ...]:
    """The sizes and numbers that torch made symbolic in the compile that followed.

    The symbols of that compile decide, and not the rule of torch, which marks, settings and the program's own checks
    change. A guard such as `1.0 + clip == 1.18` fixes a float afterwards that was symbolic in it: it is left out.
    """
    compiled = context.compile_of(recompilation.compile_id)
    # A float that stays symbolic is an input of the graph, as a tensor; AOTAutograd fixes all others.
    inputs = compiled.graph.inputs if compiled is not None and compiled.graph is not None else ()
    has_tensors = any(item.endswith(": f64[]") for item in inputs)
    fixed = _fixed_by_results(context, recompilation)
    guards = compiled.guards if compiled is not None else ()
    results = [
        _in_part(context, compiled, plain(in_user_words(part)))
        for guard in guards
        if compiled is not None and guard.kind == "SHAPE_ENV"
        for part in guard.code
    ]
    free = {
        source: words if symbol.source.startswith(CARRIED) else source
        for symbol in (compiled.symbols if compiled else ())
        if symbol.specialized_to is None
        for words in (_in_part(context, compiled, symbol.source),)
        for source in (symbol.source, words)
    }
    names = [
        name
        for failure in failures
        if failure.source not in fixed
        and (
            "." not in f"{failure.was}{failure.now}"
            or (
                (has_tensors or _has_no_value(context, compiled, failure))
                and not any(_fixes(part, failure.source) for part in results)
            )
        )
        for name in ([f"{size.name}.size({size.dimension})" for size in failure.sizes] or [failure.source])
    ]
    return tuple(dict.fromkeys(free[name] for name in names if name in free))


def _fixes(guard: str, source: str) -> bool:
    """Whether a guard fixes the float `source` by a result, as `0.9*rate == 1.62`."""
    result, equal, _ = guard.partition(" == ")
    return (
        bool(equal and source)
        and re.search(rf"(?<![\w.]){re.escape(source)}(?![\w.\[(])", result) is not None
    )


def is_unguarded(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether the compile that followed has no guard on a value that the compiled version before has one on.

    As where the code assigns the value before it reads it, so that only the first version fixed it.
    """
    if failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE} or not failure.source:
        return False
    before = context.compile_of(recompilation.entries[0].compile_id) if recompilation.entries else None
    after = context.compile_of(recompilation.compile_id)
    if before is None or after is None or after.guard_count not in {None, len(after.guards)}:
        return False
    later = _guards_on(context, after, failure)
    is_symbolic = any(_in_part(context, after, symbol.source) == failure.source for symbol in after.symbols)
    return bool(_guards_on(context, before, failure)) and not later and not is_symbolic


def _guards_on(context: Context, compiled: Compile, failure: GuardFailure) -> list[Guard]:
    return [guard for guard in compiled.guards if _in_part(context, compiled, guard.source) == failure.source]


def stays_fixed(context: Context, recompilation: Recompile, failure: GuardFailure) -> bool:
    """Whether another value compiles again: the compile that followed neither has it symbolic nor without a guard."""
    is_dynamic = bool(made_dynamic(context, recompilation, [failure]))
    return not is_dynamic and not is_unguarded(context, recompilation, failure)


def _has_no_value(context: Context, compiled: Compile | None, failure: GuardFailure) -> bool:
    """Whether a compile has guards on a number's type alone: its graph does not compute with the number."""
    if compiled is None or compiled.guard_count not in {None, len(compiled.guards)}:
        return False
    kinds = {guard.kind for guard in _guards_on(context, compiled, failure)}
    return bool(kinds) and kinds <= {"TYPE_MATCH"}


def _fixed_by_results(context: Context, recompilation: Recompile) -> frozenset[str]:
    """Floats that torch kept symbolic, and fixed by a result: a guard such as `1.0 + scale == 1.5` failed later."""
    return frozenset(
        _in_part(context, context.compile_of(other.compile_id), failure.source)
        for other in context.report.recompiles
        if (other.function, other.location) == (recompilation.function, recompilation.location)
        for entry in other.entries
        for failure in entry.failures
        if failure.cause is GuardCause.NUMBER
        and failure.source
        and not failure.difference.startswith(f"{failure.source} was ")
        and "." in (failure.was or "")
    )
