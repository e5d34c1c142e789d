"""Effects that torch.compile does not trace, moved out of the compiled code: clocks, seeds, files, locks.

    def step(x):                          def step(x):
        start = time.time()                   start = time.time()
        y = x * 2                  ->         y = _compiled_step(x)
        print(time.time() - start)            print(time.time() - start)
        return y                              return y

                                          @torch.compile
                                          def _compiled_step(x):
                                              y = x * 2
                                              return y

Invariant: statements move as they are written. Only a function that torch.compile decorates is split, or the target
itself. Effects at the start and at the end keep their order; for any other, the remedy says that its time changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from fuselight_server.fixes.rewrites.output import is_output
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.prologue import can_be_called_from_outside, is_compiled, with_prologue
from fuselight_server.fixes.syntax.purity import is_pure
from fuselight_server.fixes.syntax.site import Replacement, Site
from fuselight_server.fixes.syntax.tree import calls_in, descendants, dotted

Statement = cst.BaseStatement

_CLOCKS = frozenset(
    f"{module}{name}{unit}"
    for module in ("time.", "")
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")
    for unit in ("", "_ns")
) | {"datetime.datetime.now", "datetime.now"}
_SEEDS = frozenset(
    """
    torch.manual_seed torch.seed torch.cuda.manual_seed torch.cuda.manual_seed_all random.seed np.random.seed
    numpy.random.seed
    """.split()  # noqa: SIM905 - a table of words
)
_READS = frozenset({"read", "readline", "readlines", "read_text"})
_FILES = frozenset(
    {"open", "write", "write_text", "write_bytes", "save", "savetxt", "dump", "touch", "unlink"}
)
_CONVERSIONS = frozenset({"float", "int", "str", "len", "json.loads", "Path", "pathlib.Path"})
_CONVERSION_METHODS = frozenset({"strip", "split", "splitlines"})
_MEASURING = frozenset({"float", "str", "round"})
"""Functions that show a measured time."""
_TITLES = {
    "clock": "Read the clock outside of the compiled code",
    "seed": "Set the seed before the compiled code",
    "file": "Read the file before the compiled code",
}
_MOVED = "when the effect happens: before the compiled code"
_LATER = "the measured time covers what `return` computes, too"
_COVERS = "the `with` block covers the whole compiled call"


def hoisting_remedies(site: Site) -> Iterator[Remedy]:
    """The effect in the place of the finding before, after or around the compiled code."""
    node = next(iter(site.nodes((cst.Call, cst.With))), None)
    function = site.function(node) if node is not None else None
    if node is None or function is None or not isinstance(function.body, cst.IndentedBlock):
        return
    if not _may_split(site, function):
        return
    chain = (node, *site.ancestors(node))
    statements = [*function.body.body]
    statement = next((node for node in chain if node in statements), None)
    if not isinstance(statement, Statement):
        return
    if function.get_docstring() is not None:
        statements = statements[1:]
    around = next((node for node in chain if isinstance(node, cst.With)), None)
    if effect_of(site, statement):
        yield from _before_and_after(site, function, statements, statement)
    elif around is statement and isinstance(statement, cst.With):
        yield from _around(site, function, statements, statement)


def _may_split(site: Site, function: cst.FunctionDef) -> bool:
    """Whether torch.compile decorates the function, or it is the target and nothing decorates it."""
    owner = next(
        (ancestor for ancestor in site.ancestors(function) if isinstance(ancestor, cst.ClassDef)), None
    )
    name, target = function.name.value, site.report.target
    names = {name} if owner is None else {f"{owner.name.value}.{name}"}
    if owner is not None and name in {"forward", "__call__"}:
        names.add(owner.name.value)
    is_target = target.name in names and target.path == site.finding.span.path and not function.decorators
    return (is_target or is_compiled(site, function)) and can_be_called_from_outside(site, function)


def effect_of(site: Site, statement: cst.CSTNode) -> str:
    """`clock`, `seed` or `file` for a statement that does nothing else; empty for any other."""
    if isinstance(statement, cst.With):
        calls = [with_item.item for with_item in statement.items if isinstance(with_item.item, cst.Call)]
        files = len(calls) == len(statement.items) and all(dotted(call.func) == "open" for call in calls)
        inside = statement.body.body if isinstance(statement.body, cst.IndentedBlock) else ()
        return "file" if files and inside and all(_reads_only(site, node) for node in inside) else ""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return ""
    kinds = {
        _kind(site, descendant) for descendant in descendants(statement) if isinstance(descendant, cst.Call)
    }
    effects = kinds - {"conversion"}
    return effects.pop() if len(effects) == 1 and _is_plain(statement.body[0]) else ""


def _kind(site: Site, call: cst.Call) -> str:
    name = dotted(call.func)
    if name in _CLOCKS:
        return "clock"
    if name in _SEEDS or name.replace(f"{site.torch}.", "torch.", 1) in _SEEDS:
        return "seed"
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if name in {"open", "json.load"} or method in _READS:
        return "file"
    return "conversion" if name in _CONVERSIONS or method in _CONVERSION_METHODS else ""


def _reads_only(site: Site, statement: cst.CSTNode) -> bool:
    return not isinstance(statement, cst.With) and effect_of(site, statement) == "file"


def _is_plain(statement: cst.BaseSmallStatement) -> bool:
    """Whether it is a call, or `name = value`."""
    if isinstance(statement, cst.Expr):
        return isinstance(statement.value, cst.Call)
    return (
        isinstance(statement, cst.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0].target, cst.Name)
    )


def _names_read(node: cst.CSTNode) -> set[str]:
    """All names of an expression or statement: too many, if anything."""
    return {descendant.value for descendant in descendants(node) if isinstance(descendant, cst.Name)}


# Before and after


@dataclass(frozen=True)
class SplitBody:
    """The statements of a function: effects, what is compiled, effects, and the last `return`."""

    head: Sequence[Statement]
    core: Sequence[Statement]
    tail: Sequence[Statement]
    last: cst.Return | None
    is_moved: bool
    """Whether the head comes from between the others."""


def _before_and_after(
    site: Site, function: cst.FunctionDef, statements: list[Statement], statement: Statement
) -> Iterator[Remedy]:
    split = _split(site, statements, statement)
    if split is None:
        return
    text = _with_effects_outside(site, function, split)
    if text is not None:
        kind = effect_of(site, statement)
        value = split.last.value if split.last is not None else None
        is_later = bool(split.tail) and value is not None and not _is_trivial(value)
        changes = _MOVED if split.is_moved else _LATER if is_later else ""
        fix_class = FixClass.CHANGES if changes else FixClass.EXACT
        yield Remedy("hoist", _TITLES[kind], fix_class, {site.finding.span.path: text}, changes)


def _split(site: Site, statements: list[Statement], statement: Statement) -> SplitBody | None:
    """The parts of a body; None where the effect cannot leave it.

    Independent names are not enough to move an effect: a file that is read first may be the one that a call above
    writes, and no name shows it.
    """
    first = next((i for i, node in enumerate(statements) if not effect_of(site, node)), len(statements))
    last = _last_return(statements)
    end = len(statements) - (last is not None)
    times = _times(site, statements)
    while end > first and _may_follow(site, statements[end - 1], statements[first : end - 1], times):
        end -= 1
    head, core, tail = statements[:first], statements[first:end], statements[end:]
    tail = tail[: len(tail) - (last is not None)]
    if any(_names_read(node) & site.names_bound(core) for node in tail):
        return None
    if statement in core:
        at = core.index(statement)
        before, after = core[:at], core[at + 1 :]
        names = site.names_bound([statement])
        reads = set[str]().union(*(_names_read(node) for node in before))
        if names & reads or _names_read(statement) & site.names_bound(core[:at]):
            return None
        if effect_of(site, statement) == "file" and any(
            _may_write(call) for node in before for call in calls_in(node)
        ):
            return None  # of the same file, perhaps
        return SplitBody([statement], [*before, *after], [], None, is_moved=True) if not head else None
    if not core and not (last is not None and last.value is not None and not _is_trivial(last.value)):
        return None
    return SplitBody(head, core, tail, last, is_moved=False)


def _may_write(call: cst.Call) -> bool:
    """Whether a call opens or writes a file."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    return name in _FILES


def _is_trivial(node: cst.BaseExpression) -> bool:
    return not any(
        isinstance(descendant, (cst.Call, cst.BinaryOperation, cst.Subscript))
        for descendant in descendants(node)
    )


def _last_return(statements: Sequence[Statement]) -> cst.Return | None:
    line = statements[-1] if statements else None
    only = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    return only if isinstance(only, cst.Return) else None


def _may_follow(site: Site, statement: Statement, before: Sequence[Statement], times: set[str]) -> bool:
    """Whether a statement can run after the compiled code: it shows or assigns times, and reads no name of it."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    node = statement.body[0]
    if not _measures(site, node) or _names_read(node) & site.names_bound(before) - times:
        return False
    computed = [node for node in descendants(node) if isinstance(node, (cst.BinaryOperation, cst.Comparison))]
    if isinstance(node, cst.Assign):
        return _operands(node.value) <= times and bool(_operands(node.value) or calls_in(node))
    return isinstance(node, cst.Expr) and all(_operands(node) <= times for node in computed)


def _operands(node: cst.CSTNode) -> set[str]:
    """The names of an expression, without those that say what it calls."""
    called = {id(part) for call in calls_in(node) for part in descendants(call.func)}
    return {
        descendant.value
        for descendant in descendants(node)
        if isinstance(descendant, cst.Name) and id(descendant) not in called
    }


def _times(site: Site, statements: Sequence[Statement]) -> set[str]:
    """The names of times: what a clock returned, and what is computed of that alone."""
    times: set[str] = set()
    for line in statements:
        statement = (
            line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        )
        if (
            not isinstance(statement, cst.Assign)
            or not _measures(site, statement)
            or not _operands(statement.value) <= times
        ):
            continue
        if _operands(statement.value) or any(_kind(site, call) == "clock" for call in calls_in(statement)):
            times |= site.names_bound([statement])
    return times


def _measures(site: Site, statement: cst.BaseSmallStatement) -> bool:
    """Whether a statement calls nothing but clocks, and print, a logger or a warning."""
    return all(
        is_output(call) or _kind(site, call) == "clock" or dotted(call.func) in _MEASURING
        for call in calls_in(statement)
    )


def _with_effects_outside(site: Site, function: cst.FunctionDef, split: SplitBody) -> str | None:
    """The text with the function split; None where a name would be lost."""
    clocks = site.names_bound(statement for statement in split.head if effect_of(site, statement) == "clock")
    compiled = [*split.core, *([split.last] if split.last is not None and not split.tail else [])]
    read = set[str]().union(*(_names_read(node) for node in compiled))
    needed = sorted(site.names_bound(split.head) & read)
    head, tail, changes = _rows(site, split.head), _rows(site, split.tail), _removed(site, split)
    ending = _ending(site, function, split)
    if clocks & set(needed) or head is None or tail is None or changes is None or ending is None:
        return None  # a number that differs in each call compiles again

    def body(call: str) -> list[str]:
        if not split.tail:
            return [*head, f"return {call}"]
        returns = [f"return {ending.returned}"] if ending.returned else []
        return [*head, f"{ending.kept} = {call}" if ending.kept else call, *tail, *returns]

    further = [(name, name) for name in needed]
    return with_prologue(site, function, {}, further=further, changes=[*changes, *ending.changes], body=body)


@dataclass(frozen=True)
class SplitReturn:
    """How a result passes the effects after the compiled code."""

    kept: str = ""
    """What the result of the compiled code is assigned to; empty if it has none."""
    returned: str = ""
    changes: tuple[Replacement, ...] = ()
    """In the compiled function."""


def _ending(site: Site, function: cst.FunctionDef, split: SplitBody) -> SplitReturn | None:
    last = split.last.value if split.last is not None else None
    if not split.tail:
        return SplitReturn()
    if any(isinstance(descendant, cst.Return) for node in split.core for descendant in descendants(node)):
        return None
    if last is None:
        return SplitReturn()
    names, outside = _names_of(last), site.names_bound([*split.head, *split.tail])
    if not _names_read(last) & outside:
        kept = names[0] if names is not None and len(names) == 1 else site.free_name(function, "result")
        return SplitReturn(kept, kept)
    inside = ", ".join(name for name in names or () if name not in outside)
    return SplitReturn(inside, site.code(last), ((*site.range_of(last), inside),)) if inside else None


def _names_of(node: cst.BaseExpression) -> list[str] | None:
    """The names of `a` or `a, b`; None for any other expression."""
    if isinstance(node, cst.Name):
        return [node.value]
    if isinstance(node, cst.Tuple) and all(isinstance(element.value, cst.Name) for element in node.elements):
        return [element.value.value for element in node.elements if isinstance(element.value, cst.Name)]
    return None


# Around


def _around(
    site: Site, function: cst.FunctionDef, statements: list[Statement], block: cst.With
) -> Iterator[Remedy]:
    """`with lock:` around the call of the compiled code, which has what was in it.

    The context must mean the same before the function's first line: an object that the block does not bind, or a flag
    of `torch.backends` with pure arguments. If statements before or after the block compute, the fix also covers them,
    so its class is no longer exact.
    """
    if block.asynchronous is not None or not isinstance(block.body, cst.IndentedBlock):
        return
    bound = site.names_bound(statements)
    for item in block.items:
        value = item.item
        is_object = isinstance(value, (cst.Name, cst.Attribute)) and dotted(value)
        is_flags = isinstance(value, cst.Call) and dotted(value.func).startswith(f"{site.torch}.backends.")
        if item.asname is not None or not (is_object or is_flags) or _names_read(value) & bound:
            return
        if isinstance(value, cst.Call) and not all(is_pure(site, argument.value) for argument in value.args):
            return
    start, end = site.range_of(block)
    items = site.source[start : site.range_of(block.items[-1])[1]]
    if "\n" in items or site.indentation(block) is None or site.comments(start, site.end_of_line(start)):
        return
    inner = _dedented(site, block)
    row = site.source.rfind("\n", 0, start) + 1
    rest = statements[statements.index(block) + 1 :]
    last = _last_return(rest)
    is_whole = statements[0] is block and (
        not rest or (len(rest) == 1 and last is not None and (last.value is None or _is_trivial(last.value)))
    )
    text = None
    if inner is not None:
        text = with_prologue(
            *(site, function, {}),
            changes=[(row, end, inner)],
            body=lambda call: [f"{items}:", f"{site.step(block)}return {call}"],
        )
    if text is not None:
        title = f"Put `{items}` around the compiled code"
        fix_class = FixClass.EXACT if is_whole else FixClass.CHANGES
        path = site.finding.span.path
        yield Remedy("hoist", title, fix_class, {path: text}, "" if is_whole else _COVERS)


def _dedented(site: Site, block: cst.With) -> str | None:
    """The lines in a block, one level out; None where a string extends over lines."""
    start, end = site.range_of(block)
    body = site.range_of(block.body.body[0])[0]
    head = site.source.index("\n", start) + 1
    if head > body or _has_long_text(site, block):
        return None
    outer, step = (
        site.indentation(block) or "",
        block.body.indent if isinstance(block.body, cst.IndentedBlock) else "",
    )
    inner = f"{outer}{step or site.module.default_indent}"
    rows = site.source[head:end].split("\n")
    if any(row.strip() and not row.startswith(inner) for row in rows):
        return None
    return "\n".join(f"{outer}{row[len(inner) :]}" if row.strip() else row for row in rows)


# Rows


def _has_long_text(site: Site, node: cst.CSTNode) -> bool:
    return any(
        isinstance(descendant, (cst.SimpleString, cst.FormattedString)) and "\n" in site.code(descendant)
        for descendant in descendants(node)
    )


def _first_row(site: Site, statement: Statement) -> int:
    """Offset of the first line of a statement, the comments above it included."""
    at = site.source.rfind("\n", 0, site.range_of(statement)[0]) + 1
    leading = getattr(statement, "leading_lines", ())
    rows = list(leading)
    while rows and rows[0].comment is None:
        del rows[0]
    for _ in rows:
        at = site.source.rfind("\n", 0, at - 1) + 1
    return at


def _end_row(site: Site, statement: Statement) -> int:
    """Offset after the line end of a statement."""
    end = site.source.find("\n", site.range_of(statement)[1])
    return len(site.source) if end < 0 else end + 1


def _rows(site: Site, statements: Sequence[Statement]) -> list[str] | None:
    """The lines of statements without the indentation of the function's body; None where a line has less."""
    if not statements:
        return []
    text = site.source[_first_row(site, statements[0]) : _end_row(site, statements[-1])]
    indent = site.indentation(statements[0])
    if indent is None or any(_has_long_text(site, statement) for statement in statements):
        return None
    rows = [row.rstrip("\r") for row in text.rstrip("\r\n").split("\n")]
    if any(not row.startswith(indent) for row in rows):
        return None
    return [row[len(indent) :] for row in rows]


def _removed(site: Site, split: SplitBody) -> list[Replacement] | None:
    """The lines that leave the compiled function, with the blank lines that they would leave at its start and end."""
    replacements: list[Replacement] = []
    rest = [*split.core, *_line_of_return(site, split)]
    if not rest:
        return None
    if split.head:
        start, end = _first_row(site, split.head[0]), _end_row(site, split.head[-1])
        if not split.is_moved:
            end = _first_row(site, rest[0])
        replacements.append((start, end, ""))
    if split.tail:
        start = _end_row(site, split.core[-1]) if split.core else _first_row(site, split.tail[0])
        replacements.append((start, _end_row(site, split.tail[-1]), ""))
    return replacements


def _line_of_return(site: Site, split: SplitBody) -> list[Statement]:
    line = site.line_of(split.last) if split.last is not None else None
    return [line] if line is not None else []


# Measurements


def measurement_remedies(site: Site) -> Iterator[Remedy]:
    """The statements that measure and show a time, under `if not torch.compiler.is_compiling()`."""
    call = next(iter(site.nodes(cst.Call)), None)
    if call is None or _kind(site, call) != "clock":
        return
    function, first = site.function(call), site.line_of(call)
    if function is None or first is None:
        return
    lines = _measurement(site, function, first)
    groups = _adjacent(site, lines) if lines is not None else []
    head = f"if not {site.torch}.compiler.is_compiling():"
    replaced: list[Replacement] = []
    for group in groups:
        if _is_under(site, group[0], head.removesuffix(":")):  # another fix has put it there
            continue
        indent, step = site.indentation(group[0]), site.step(group[0])
        if indent is None or any(_has_long_text(site, statement) for statement in group):
            return
        start, end = site.range_of(group[0])[0], site.range_of(group[-1])[1]
        code = site.source[start:end].replace("\n", f"\n{step}")
        replaced.append((start, end, f"{head}{site.newline}{indent}{step}{code}"))
    text = site.rewritten(*replaced) if replaced else None
    if text is not None:
        shows = any(
            is_output(descendant)
            for line in lines or ()
            for descendant in descendants(line)
            if isinstance(descendant, cst.Call)
        )
        changes = "compiled calls measure no time" + (
            ", and do not print, log or warn about it" if shows else ""
        )
        title = f"Skip `{dotted(call.func)}` in compiled code"
        yield Remedy("is_compiling", title, FixClass.CHANGES, {site.finding.span.path: text}, changes)


def _is_under(site: Site, statement: cst.CSTNode, head: str) -> bool:
    """Whether a statement runs under a condition only: `if not torch.compiler.is_compiling()`."""
    return any(
        isinstance(around, cst.If)
        and f"if {site.code(around.test)}" == head
        and site.contains(around.body, site.range_of(statement)[0])
        for around in site.ancestors(statement)
    )


def _measurement(
    site: Site, function: cst.FunctionDef, first: cst.SimpleStatementLine
) -> list[cst.SimpleStatementLine] | None:
    """The statement, and all that use what it assigns; None where such a use is more than a measurement."""
    measurement, waiting = dict[cst.SimpleStatementLine, None](), [first]
    while waiting:
        line = waiting.pop()
        if line in measurement:
            continue
        measurement[line] = None
        statement = line.body[0]
        if len(line.body) != 1 or not site.is_plain(statement) or not _measures(site, statement):
            return None
        if isinstance(statement, cst.Expr):
            continue
        target = (
            statement.targets[0].target
            if isinstance(statement, cst.Assign) and len(statement.targets) == 1
            else None
        )
        if not isinstance(target, cst.Name):
            return None
        for node in descendants(function):
            if isinstance(node, cst.Name) and node.value == target.value:
                use = site.line_of(node)
                if use is None:
                    return None
                waiting.append(use)
    return sorted(measurement, key=lambda line: site.range_of(line)[0])


def _adjacent(site: Site, lines: list[cst.SimpleStatementLine]) -> list[list[cst.SimpleStatementLine]]:
    """Statements of one block that follow each other without a line between them, together."""
    groups: list[list[cst.SimpleStatementLine]] = []
    for line in lines:
        last = groups[-1][-1] if groups else None
        is_next = last is not None and site.parents[last] is site.parents[line]
        if (
            last is not None
            and is_next
            and _end_row(site, last) == site.source.rfind("\n", 0, site.range_of(line)[0]) + 1
        ):
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups
