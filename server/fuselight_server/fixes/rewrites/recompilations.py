"""Remedies for recompilations: what keeps the guard that failed from failing.

Invariant: a remedy is for the one function that was compiled again and the one value that its guard checked, both as
the report has them. A part after a graph break gets settings only: its values have no names in the source.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from fuselight.shared.report import GuardCause, GuardFailure, Recompile, Report, StaticSizes
from fuselight.shared.version import release
from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Finding, Span
from fuselight_server.explain.findings.advice.cures import is_of_plain_object
from fuselight_server.explain.findings.advice.expectations import CARRIED, fixed_by_torch, is_of_array
from fuselight_server.explain.findings.common.compiled_callers import is_called_in_compiled_code
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.resume_functions import (
    nearest,
    resumed_at,
    worded_recompilations,
)
from fuselight_server.explain.findings.recompilations.recompilation_groups import birthplace
from fuselight_server.explain.findings.recompilations.recompilations import subject_of
from fuselight_server.explain.findings.recompilations.size_remedies import branch_on_size
from fuselight_server.explain.findings.recompilations.specializations import fixing_line, made_dynamic
from fuselight_server.fixes.rewrites.buffers import buffer_remedies
from fuselight_server.fixes.rewrites.call_sites import call_argument
from fuselight_server.fixes.rewrites.compile_calls import CompiledFunction, with_argument
from fuselight_server.fixes.rewrites.configuration import switch
from fuselight_server.fixes.rewrites.lists import stack_remedies
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.file_chunks import insert_statements
from fuselight_server.fixes.syntax.parameter_uses import (
    adds_values,
    check_arithmetic,
    check_list_is_read,
    check_order_is_free,
    check_unwritten,
    definitions,
    rounding_caveat,
)
from fuselight_server.fixes.syntax.prologue import compiled_definition, marks, parameter_names, with_prologue
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import libcst as cst

_INTEGER = re.compile(r"-?\d+")
_VALUES = re.compile(r" was (\S+), now (\S+)$")
_SIZES = re.compile(r"\bsize=\[([^\]]*)\]")
_FLOATS = ("bfloat16", "float16", "float32", "float64")
_GLOBAL = re.compile(r"G\['(\w+)'\] == ")
_ORDER = re.compile(r"key \d+ of (\w+) was ")
_LIMIT = "FL102"
_EACH_SIDE = "each side of the branch"
_MODULE_INTEGERS = "allow_unspec_int_on_nn_module"


@dataclass(frozen=True)
class Conversion:
    """An argument as it is passed on to compiled code."""

    kind: str
    title: str
    fix_class: FixClass
    argument: str
    """The new argument, with the parameter's name."""
    check: Callable[[Site, cst.FunctionDef, str], None]
    """Raises RewriteRefusedError where the function does more with the argument than read it."""
    result: str = "{}"
    changes: str = ""
    changes_if_added: str = ""
    """What changes if the function adds the values of the argument."""
    caveat: str = ""

    def in_function(self, site: Site, function: cst.FunctionDef, name: str) -> Conversion:
        """The same, with the class that it has in a function."""
        if self.kind == "tensor_argument" and "float64" in self.argument:
            return dataclasses.replace(self, caveat=rounding_caveat(site, name))
        if not self.changes_if_added or not adds_values(site, function, name):
            return self
        return dataclasses.replace(self, fix_class=FixClass.CHANGES, changes=self.changes_if_added)

    def remedy(self, kind: str, title: str, texts: dict[str, str]) -> Remedy:
        """The remedy that makes it."""
        return Remedy(kind, title, self.fix_class, texts, self.changes, caveat=self.caveat)


def recompilation_remedies(
    finding: Finding, report: Report, read: Callable[[str], str | None]
) -> Iterator[Remedy | RefusedRewrite]:
    """Candidates for a recompilation, and for a function that reached the recompile limit."""
    context = Context.of(report, read_line=line_reader(read))
    recompilation = _recompile(finding, context)
    failure = _failure(finding, context, recompilation) if recompilation is not None else None
    if recompilation is None or failure is None:
        yield from _by_words(finding, report, read)
        return
    is_part = resumed_at(context, recompilation) is not None
    function = CompiledFunction(recompilation.function, recompilation.location.line)
    path, text = recompilation.location.path, read(recompilation.location.path)
    site = None
    if text is not None and context.is_user_file(path) and not is_part:
        there = dataclasses.replace(finding, span=Span(path, recompilation.location.line))
        site = Site.of(there, report, text)
    fixed = _why_fixed(context, recompilation, failure)
    yield from _for_sizes(failure, function, report, read, path, is_part=is_part, fixed=fixed)
    is_free = bool(made_dynamic(context, recompilation, [failure]))
    yield from _for_numbers(failure, function, report, read, path, is_free=is_free)
    of_value: list[Remedy | RefusedRewrite] = []
    if site is not None:
        of_value += _for_arguments(failure, recompilation, site, report, read, fixed=fixed)
        of_value += buffer_remedies(failure, recompilation, site, report, read)
    if recompilation.caller and not is_part and context.is_user_file(recompilation.caller[-1].path):
        of_value += _at_the_call(failure, finding, recompilation, report, read, fixed=fixed)
    sizes = tuple(f"{size.name}.size({size.dimension})" for size in failure.sizes)
    for item in of_value:
        values = sizes if item.kind.startswith("mark_") else (failure.expression or failure.source,)
        yield dataclasses.replace(item, values=values)
    is_number = failure.cause in {GuardCause.NUMBER, GuardCause.VALUE}
    is_own = failure.source.startswith("self.") and not is_of_plain_object(context, recompilation, failure)
    if is_own and is_number and _is_integer_change(failure):
        yield from switch(context.report, read, _MODULE_INTEGERS)


def line_reader(read: Callable[[str], str | None]) -> Callable[[str, int], str | None]:
    """What gives a line of a file by its number, as the findings read it: they name values by the lines."""
    known: dict[str, list[str]] = {}

    def read_line(path: str, line: int) -> str | None:
        if path not in known:
            known[path] = split_text(read(path) or "")
        return known[path][line - 1] if 0 < line <= len(known[path]) else None

    return read_line


def _recompile(finding: Finding, context: Context) -> Recompile | None:
    """The first recompilation of a finding."""
    span = finding.span
    for recompilation in worded_recompilations(context):
        if finding.code == _LIMIT:
            if recompilation.compile_id is None and (
                recompilation.location.path,
                recompilation.location.line,
            ) == (span.path, span.line):
                return recompilation
            continue
        if recompilation.compile_id is None:
            continue
        home, failure = birthplace(context, recompilation)
        place = (home.path, home.line, subject_of(failure) if failure is not None else "")
        if place == (span.path, span.line, finding.subject):
            return recompilation
    return None


def _failure(finding: Finding, context: Context, recompilation: Recompile) -> GuardFailure | None:
    if finding.code == _LIMIT:
        return next(iter(nearest(recompilation)), None)
    return birthplace(context, recompilation)[1]


def _by_words(finding: Finding, report: Report, read: Callable[[str], str | None]) -> Iterator[Remedy]:
    """Remedies that need the words of the finding only, for a report without the recompilation."""
    cause, _, source = finding.subject.partition(" ")
    values = _VALUES.search(finding.title)
    is_integer = values is not None and all(_INTEGER.fullmatch(group) for group in values.groups())
    if source.startswith("self."):
        if is_integer and cause in {"number", "value"}:
            yield from switch(report, read, _MODULE_INTEGERS)
    elif cause == "dimension" or (cause in {"number", "value"} and is_integer):
        function = CompiledFunction(report.target.name or "", report.target.line)
        yield from _dynamic(function, read, report.target.path)


def _is_integer_change(failure: GuardFailure) -> bool:
    return all(_INTEGER.fullmatch(text or "") for text in (failure.was, failure.now))


# An argument of torch.compile


def _dynamic(function: CompiledFunction, read: Callable[[str], str | None], *paths: str) -> Iterator[Remedy]:
    for path in dict.fromkeys(paths):
        text = read(path)
        new = with_argument(path, text, "dynamic=True", function) if text is not None else None
        if new is not None:
            title = "Compile with dynamic=True"
            yield Remedy("dynamic", title, FixClass.EXACT, {path: new}, is_setting=True)
            return


def _for_sizes(
    failure: GuardFailure,
    function: CompiledFunction,
    report: Report,
    read: Callable[[str], str | None],
    path: str,
    *,
    is_part: bool,
    fixed: str,
) -> Iterator[Remedy | RefusedRewrite]:
    if failure.static is StaticSizes.STATE:
        return  # the size of a parameter or a buffer, whatever is dynamic
    if failure.cause is not GuardCause.DIMENSION and not failure.code.startswith("2 <= "):
        return
    if not fixed_by_torch(failure) and not fixed.startswith(_EACH_SIDE):
        yield from _dynamic(function, read, path, report.target.path)
    # What a part after a break takes over is no parameter of the compiled function, by which a size is named.
    if not is_part:
        yield from _shapes(failure, function, report, read, path, fixed=fixed)


def _shapes(
    failure: GuardFailure,
    function: CompiledFunction,
    report: Report,
    read: Callable[[str], str | None],
    path: str,
    *,
    fixed: str,
) -> Iterator[Remedy | RefusedRewrite]:
    """The sizes that vary as variables in the call of torch.compile, where the torch of the run has that.

    Unlike `dynamic=True`, this names the dimension, so all other sizes stay static. The specification lists every
    dimension, and the rank is only known from the guard's text. Only the first file with the call is changed: it is
    either the file of the finding or that of the target.
    """
    keyword, sizes = _shapes_keyword(report), failure.sizes
    written = _SIZES.search(failure.code)
    if not keyword or not sizes or written is None or not sizes[0].name.isidentifier():
        return
    if any(size.name != sizes[0].name for size in sizes):
        return
    rank = written[1].count(",") + 1
    varying = {size.dimension: number for number, size in enumerate(sizes)}
    entries = [
        f'ShapeVar("{sizes[0].name}_{index}")' if index in varying else "None" for index in range(rank)
    ]
    argument = f'{keyword}=ParamsSpec({{"{sizes[0].name}": TensorSpec([{", ".join(entries)}])}})'
    for there in dict.fromkeys((path, report.target.path)):
        text = read(there)
        new = with_argument(there, text, argument, function) if text is not None else None
        if new is None or text is None:
            continue
        names = [
            name
            for name in ("ParamsSpec", "ShapeVar", "TensorSpec")
            if f"import {name}" not in text and f", {name}" not in text
        ]
        statement = f"from torch.fx.experimental.dynamic_spec import {', '.join(names)}"
        new = insert_statements(there, new, (statement,)) if names else new
        if new is not None:
            dimensions = " and ".join(str(size.dimension) for size in sizes)
            what = f"{sizes[0].name} in dimension{'s' if len(sizes) > 1 else ''} {dimensions}"
            title = f"Compile once for all sizes of {what}; its other sizes stay fixed"
            if fixed:
                yield RefusedRewrite(keyword, title, fixed)
                return
            yield Remedy(keyword, title, FixClass.EXACT, {there: new}, is_setting=True)
        return


def _why_fixed(context: Context, recompilation: Recompile, failure: GuardFailure) -> str:
    """Why a name or a mark for the sizes of one failed guard frees them not; empty if nothing speaks against it."""
    if is_of_array(failure):
        return f"`{failure.source}` is a NumPy array, and torch frees the sizes of tensors only"
    branch = branch_on_size(context, recompilation, failure)
    if branch is not None:
        return f"{_EACH_SIDE} on line {branch} needs its own compile"
    if not failure.sizes:
        return ""
    line = fixing_line(context, recompilation, failure)
    if line is not None:
        name = PurePath(line.path).name
        where = f"line {line.line}" if line.path == recompilation.location.path else f"{name}:{line.line}"
        return (
            f"{where} needs the exact value of `{failure.sizes[0].name}.size({failure.sizes[0].dimension})`"
        )
    other = _other_size(context, recompilation, failure)
    return f"`{other}` varies too, and this change would keep it fixed" if other else ""


def _other_size(context: Context, recompilation: Recompile, failure: GuardFailure) -> str:
    """A size of an argument that varied in the run as well; empty if there is none."""
    named = {(size.name, size.dimension) for size in failure.sizes}
    others = (
        f"{size.name}.size({size.dimension})"
        for again in context.report.recompiles
        if (again.function, again.location) == (recompilation.function, recompilation.location)
        for other in nearest(again)
        if other.cause is GuardCause.DIMENSION and other.static is None
        for size in other.sizes
        if (size.name, size.dimension) not in named
    )
    return next((name for name in others if not name.startswith(CARRIED)), "")


def _shapes_keyword(report: Report) -> str:
    """The argument of torch.compile that names dynamic sizes; empty for a torch without it."""
    installed = release(report.versions.torch or "")
    if installed < (2, 13):
        return ""
    return "shapes_spec" if installed == (2, 13) else "dynamic_shapes"


def _for_numbers(
    failure: GuardFailure,
    function: CompiledFunction,
    report: Report,
    read: Callable[[str], str | None],
    path: str,
    *,
    is_free: bool,
) -> Iterator[Remedy]:
    """`is_free`: torch made the number symbolic in the compile that followed, as it does for no integer of a module."""
    may_vary = failure.code.startswith("L[") and (is_free or not failure.source.startswith("self."))
    if failure.cause in {GuardCause.NUMBER, GuardCause.VALUE} and may_vary and _is_integer_change(failure):
        yield from _dynamic(function, read, path, report.target.path)


# A conversion before the compiled function


def _for_arguments(
    failure: GuardFailure,
    recompilation: Recompile,
    site: Site,
    report: Report,
    read: Callable[[str], str | None],
    *,
    fixed: str,
) -> Iterator[Remedy | RefusedRewrite]:
    function = compiled_definition(site, recompilation.function, recompilation.location.line)
    if function is None:
        return
    path = recompilation.location.path

    def taken(name: str) -> bool:
        return any(other != path and name in (read(other) or "") for other in report.files)

    order = _ORDER.match(failure.difference)
    root = order[1] if order is not None else failure.source
    if root in parameter_names(function):
        for conversion in _conversions(failure, root, site.torch):
            try:
                conversion.check(site, function, root)
            except RewriteRefusedError as error:
                yield RefusedRewrite(conversion.kind, conversion.title, str(error))
                continue
            text = with_prologue(
                *(site, function, {root: conversion.argument}), result=conversion.result, taken=taken
            )
            if text is not None:
                known = conversion.in_function(site, function, root)
                yield known.remedy(conversion.kind, conversion.title, {path: text})
        if not is_called_in_compiled_code(report, recompilation):
            yield from _marked(failure, site, function, taken, fixed)
        yield from stack_remedies(failure, site, function, taken)
    number = _GLOBAL.match(failure.code)
    if number is not None and number[1] == root:
        yield from _for_global(failure, site, function, root, taken)


def _for_global(
    failure: GuardFailure, site: Site, function: cst.FunctionDef, name: str, taken: Callable[[str], bool]
) -> Iterator[Remedy | RefusedRewrite]:
    """A global number as a further argument."""
    argument, title = _as_tensor(failure, name, site.torch), f"Pass `{name}` to the compiled code as a tensor"
    if not argument:
        return
    try:
        check_number(failure, site, function, name)
    except RewriteRefusedError as error:
        yield RefusedRewrite("tensor_argument", title, str(error))
        return
    text = with_prologue(site, function, {}, further=((name, argument),), taken=taken)
    if text is not None:
        caveat = rounding_caveat(site, name) if "float64" in argument else ""
        yield Remedy("tensor_argument", title, FixClass.EQUAL, {site.finding.span.path: text}, caveat=caveat)


def check_number(failure: GuardFailure, site: Site, function: cst.FunctionDef, name: str) -> None:
    """Raise RewriteRefusedError unless a number may be a tensor, whatever number it is."""
    check_arithmetic(site, function, name, is_integer=_is_integer_change(failure))


def _conversions(failure: GuardFailure, name: str, torch: str) -> Iterator[Conversion]:
    """What may be done to the argument itself, the best first."""
    cause, was, now = failure.cause, failure.was, failure.now
    argument = _as_tensor(failure, name, torch)
    if argument:
        title = f"Pass `{name}` as a tensor"
        yield Conversion("tensor_argument", title, FixClass.EQUAL, argument, partial(check_number, failure))
    if cause is GuardCause.STRIDE:
        yield Conversion(
            *("contiguous", f"Make `{name}` contiguous before the compiled code", FixClass.CHANGES),
            *(f"{name}.contiguous() if {torch}.is_tensor({name}) else {name}", check_unwritten),
            changes="the strides of results",
        )
    if cause is GuardCause.DTYPE and was in _FLOATS and now in _FLOATS:
        wider = max("float32", was, now, key=_FLOATS.index)
        yield Conversion(
            *("cast", f"Compute in {wider} for each dtype of `{name}`", FixClass.CHANGES),
            *(f"{name}.to({torch}.{wider})", check_unwritten, f"{{}}.to({name}.dtype)"),
            changes=f"precision: all is computed in {wider}, and each result gets the dtype of `{name}`, a tensor",
        )
    if cause is GuardCause.DISPATCH and "conjugated" in f"{was} {now}":
        title = f"Resolve lazy conjugation of `{name}`"
        argument = f"{name}.resolve_conj() if {torch}.is_tensor({name}) else {name}"
        yield Conversion("resolve_conj", title, FixClass.EXACT, argument, check_unwritten)
    if cause is GuardCause.TYPE and {was, now} <= {"list", "tuple"}:
        title = f"Pass `{name}` as a {was}"
        argument = f"{was}({name}) if type({name}) is {now} else {name}"
        yield Conversion(f"{was}_argument", title, FixClass.EXACT, argument, check_list_is_read)
    if cause is GuardCause.KEYS:
        yield Conversion(
            "sorted_keys",
            f"Sort the keys of `{name}` before the compiled code",
            FixClass.EQUAL,
            f"dict(sorted({name}.items(), key=lambda item: str(item[0]))) if type({name}) is dict else {name}",
            check_order_is_free,
            changes_if_added=_ADDITIONS,
        )


_ADDITIONS = "the order of additions: large values round, cancel and overflow differently"


def _as_tensor(failure: GuardFailure, name: str, torch: str) -> str:
    """A number as a tensor, whose value has no guard; empty for anything else.

    A float becomes float64, which keeps all its digits and, without dimensions, does not widen what it meets. Whatever
    else a caller passes, as a complex number or a tensor, stays as it is.
    """
    if failure.cause not in {GuardCause.NUMBER, GuardCause.VALUE}:
        return ""
    if _is_integer_change(failure):
        return f"{torch}.as_tensor({name}) if type({name}) is int else {name}"
    try:
        for text in (failure.was, failure.now):
            float(text or "")
    except ValueError:
        return ""
    return f"{torch}.as_tensor({name}, dtype={torch}.float64) if type({name}) is float else {name}"


def _marked(
    failure: GuardFailure, site: Site, function: cst.FunctionDef, taken: Callable[[str], bool], fixed: str
) -> Iterator[Remedy | RefusedRewrite]:
    """Mark sizes before the call, for a torch that has no argument of torch.compile for it."""
    if not failure.sizes or _shapes_keyword(site.report):
        return
    is_fixed = fixed_by_torch(failure)
    kind = "mark_unbacked" if is_fixed else "mark_dynamic"
    sizes = [(size.name, size.dimension) for size in failure.sizes]
    before = marks(site, f"decorators.{kind}" if is_fixed else kind, sizes)
    text = with_prologue(site, function, {}, before=before, taken=taken)
    if text is not None:
        title = "Mark the size as one that may be 0 or 1" if is_fixed else "Mark the size as dynamic"
        if fixed:
            yield RefusedRewrite(kind, title, fixed)
        else:
            yield Remedy(kind, title, FixClass.EXACT, {site.finding.span.path: text})


# The call that brought the new value


def _compiled_function(
    compiled: tuple[Site, cst.FunctionDef] | None, recompilation: Recompile
) -> tuple[Site, cst.FunctionDef]:
    """The function that was compiled again. Raises RewriteRefusedError where it is not in the workspace."""
    if compiled is None:
        raise RewriteRefusedError(f"`{recompilation.function}` is not in a file of the workspace")
    return compiled


def _compiled(
    finding: Finding, recompilation: Recompile, report: Report, read: Callable[[str], str | None]
) -> tuple[Site, cst.FunctionDef] | None:
    """The function that was compiled again, in its file."""
    text = read(recompilation.location.path)
    there = dataclasses.replace(finding, span=Span(recompilation.location.path, recompilation.location.line))
    site = Site.of(there, report, text) if text is not None else None
    function = (
        next(definitions(site, recompilation.function, recompilation.location.line), None)
        if site is not None
        else None
    )
    return (site, function) if site is not None and function is not None else None


def _at_the_call(
    failure: GuardFailure,
    finding: Finding,
    recompilation: Recompile,
    report: Report,
    read: Callable[[str], str | None],
    *,
    fixed: str,
) -> Iterator[Remedy | RefusedRewrite]:
    order = _ORDER.match(failure.difference)
    name = failure.sizes[0].name if failure.sizes else order[1] if order is not None else failure.source
    place = call_argument(finding, report, recompilation, name, read)
    if place is None:
        return
    path = place.site.finding.span.path
    compiled = _compiled(finding, recompilation, report, read)
    free = place.text if place.is_name else place.site.free_name(place.call, name.rpartition(".")[2])
    for conversion in _conversions(failure, free, place.site.torch):
        title = conversion.title.replace(f"`{free}`", f"`{place.text}`")
        title = f"{title} in the call on line {recompilation.caller[-1].line}"
        title, kind = title.replace(" before the compiled code", ""), f"{conversion.kind}_at_call"
        try:
            called = _compiled_function(compiled, recompilation)
            conversion.check(*called, name)
        except RewriteRefusedError as error:
            yield RefusedRewrite(kind, title, str(error))
            continue
        argument, condition, rest = conversion.argument.rpartition(" if ")
        if not place.is_name:  # an expression is written once: it may be long, or have effects
            rest = rest.replace(f"({free})", f"({free} := {place.site.code(place.value)})", 1)
        text = place.converted(f"{argument}{condition}{rest}", conversion.result)
        if text is not None:
            yield conversion.in_function(*called, name).remedy(kind, title, {path: text})
    if any(size.name != name for size in failure.sizes) or is_called_in_compiled_code(report, recompilation):
        return
    is_fixed = fixed_by_torch(failure)
    kind = "mark_unbacked" if is_fixed else "mark_dynamic"
    torch = f"{place.site.torch}._dynamo.{'decorators.' if is_fixed else ''}{kind}"
    calls = [f"{torch}({place.text}, {size.dimension})" for size in failure.sizes]
    text = place.marked(calls) if calls else None
    if text is not None:
        title = f"Mark the size before the call on line {recompilation.caller[-1].line}"
        if fixed:
            yield RefusedRewrite(kind, title, fixed)
        else:
            yield Remedy(kind, title, FixClass.EXACT, {path: text})
