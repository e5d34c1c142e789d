"""Output in compiled code: print as part of the graph; print, loggers and warnings only where nothing is compiled.

Invariant: a print in the graph has the text that Python would print, or its verification refuses it. Under a test, the
call itself is not changed, only indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.syntax.purity import is_pure_call, only_reads_tensor
from fuselight_server.fixes.syntax.refusals import RefusedRewrite, RewriteRefusedError
from fuselight_server.fixes.syntax.site import Site
from fuselight_server.fixes.syntax.tensor_values import short_code, value_of
from fuselight_server.fixes.syntax.tree import descendants, dotted

LEVELS = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log"}
_LOGGERS = ("log", "logger", "logging", "_logger", "_log", "LOG", "LOGGER", "_LOGGER")


def output_call(site: Site) -> cst.Call | None:
    """The call of print, a logger or warnings.warn in the place of the finding."""
    call = next((call for call in site.nodes(cst.Call) if is_output(call)), None)
    is_other = call is not None and isinstance(call.func, cst.Name) and site.is_bound(call.func.value)
    return None if is_other else call


def is_output(call: cst.Call) -> bool:
    """Whether a call prints, logs or warns, by its name."""
    name = dotted(call.func)
    owner, _, method = name.rpartition(".")
    is_logged = method.removesuffix("_once") in LEVELS and owner.rpartition(".")[2] in _LOGGERS
    return name in {"print", "warnings.warn"} or is_logged


def print_remedies(site: Site) -> Iterator[Remedy]:
    """Print as `torch._higher_order_ops.print`, which compiled code calls where Python would.

    A value that breaks the graph, as a clock, would still do so: what is computed has to leave the code with its print.
    Without `sep=`, `end=` and `file=` only, as the operator has none of them; it prints when the graph runs, and the
    tensors without their `grad_fn`, which is why the class depends on what is shown.
    """
    call = output_call(site)
    if call is None or dotted(call.func) != "print" or _line(site, call) is None or site.breaks_inside(call):
        return
    parts = [
        _formatted(site, argument.value)
        for argument in call.args
        if argument.keyword is None and not argument.star
    ]
    remedies = [part for part in parts if part is not None]
    if not remedies or len(remedies) < len(call.args) or site.comments(*site.range_of(call)) != []:
        return
    template = " ".join(text for text, _ in remedies)
    values = "".join(f", {value}" for _, inside in remedies for value in inside)
    if any(_is_structured(node) for node in descendants(call)):
        return
    text = site.rewritten(
        (*site.range_of(call), f'{site.torch}._higher_order_ops.print("{template}"{values})')
    )
    if text is None:
        return
    shows = any(_shows_gradient(site, value) for argument in call.args for value in _shown(argument.value))
    fix_class, changes = (FixClass.CHANGES, _WITHOUT_GRAD_FN) if shows else (FixClass.EQUAL, "")
    texts = {site.finding.span.path: text}
    yield Remedy("graph_print", "Print in the graph", fix_class, texts, changes, caveat=_NO_KERNEL)


_NO_KERNEL = "it fails under torch.func and for nested or lazily conjugated tensors"
_WITHOUT_GRAD_FN = "compiled calls show tensors that require gradients without `grad_fn`"
_NO_TENSORS = frozenset({"dtype", "device", "ndim", "layout", "requires_grad", "is_leaf"})
"""Attributes of tensors that are none, and so show no gradient."""
_NUMBERS = frozenset({"item", "dim", "numel", "nelement", "detach"})
"""Methods of tensors whose results show no gradient."""


def _shown(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values of an argument of print that appear by their text: a number's format shows no gradient."""
    if not isinstance(value, cst.FormattedString):
        yield value
        return
    for part in value.parts:
        if isinstance(part, cst.FormattedStringExpression) and (part.conversion or not part.format_spec):
            yield part.expression


def _shows_gradient(site: Site, value: cst.BaseExpression) -> bool:
    """Whether the text of a value may have `grad_fn`: that of what is not known to be no such tensor."""
    if isinstance(value, (cst.BaseString, cst.BaseNumber)):
        return False
    if isinstance(value, cst.Attribute) and value.attr.value in _NO_TENSORS:
        return False
    if isinstance(value, cst.Call):
        method = value.func.attr.value if isinstance(value.func, cst.Attribute) else dotted(value.func)
        if method in _NUMBERS or (method in _SHOWING and not site.is_bound(method)):
            return False
    try:
        known = value_of(site, value)
    except RewriteRefusedError:
        return True
    return bool(known.flows) and not known.is_number


_STRUCTURED = (
    cst.Tuple,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.ListComp,
    cst.DictComp,
    cst.SetComp,
    cst.GeneratorExp,
)
_MAKE_STRUCTURES = {"tuple", "list", "dict", "set", "sorted", "torch.Size"}
_SIZES = {"shape", "size", "stride"}


def _is_structured(node: cst.CSTNode) -> bool:
    """Whether it is a tuple or the like: Dynamo captures its print, but Inductor compiles flat arguments alone."""
    if isinstance(node, cst.Call):
        return dotted(node.func) in _MAKE_STRUCTURES
    return isinstance(node, _STRUCTURED) or (isinstance(node, cst.Attribute) and node.attr.value in _SIZES)


_NOT_IN_TEMPLATE = re.compile(r"[{}\"'\\\n]")


def _formatted(site: Site, value: cst.BaseExpression) -> tuple[str, list[str]] | None:
    """An argument of print as a template of `str.format` and the values for it; None where there is no simple one.

    `torch._higher_order_ops.print` formats with `str.format` when the graph runs, not with the f-string's own rules: a
    brace, an escape or a raw prefix in the text, `{x=}` and a nested format spec would print something else.
    """
    if isinstance(value, cst.SimpleString):
        text = value.evaluated_value
        is_plain = isinstance(text, str) and text.isprintable() and not _NOT_IN_TEMPLATE.search(text)
        return (str(text), []) if is_plain else None
    if isinstance(value, cst.BaseString) and not isinstance(value, cst.FormattedString):
        return None
    if not isinstance(value, cst.FormattedString):
        return "{!s}", [site.code(value)]
    template, values = "", []
    for part in value.parts:
        if isinstance(part, cst.FormattedStringText):
            template += part.value
            is_plain = part.value.isprintable() and not _NOT_IN_TEMPLATE.search(part.value)
            if not is_plain or value.start.lower() not in {'f"', "f'"}:
                return None
        elif isinstance(part, cst.FormattedStringExpression):
            spec = [
                base_formatted_string_content
                for base_formatted_string_content in part.format_spec or ()
                if isinstance(base_formatted_string_content, cst.FormattedStringText)
            ]
            texts = "".join(formatted_string_text.value for formatted_string_text in spec)
            if part.equal or len(spec) < len(part.format_spec or ()) or _NOT_IN_TEMPLATE.search(texts):
                return None
            template += (
                "{"
                + (f"!{part.conversion}" if part.conversion else "")
                + (f":{texts}" if texts else "")
                + "}"
            )
            values.append(site.code(part.expression))
    return template, values


def _line(site: Site, call: cst.Call) -> cst.SimpleStatementLine | None:
    """The line that consists of a call alone."""
    line = site.line_of(call)
    only = line.body[0] if line is not None else None
    return line if isinstance(only, cst.Expr) and only.value is call else None


_SHOWING = frozenset(
    {"len", "float", "int", "str", "round", "repr", "type", "list", "tuple", "format", "min", "max"}
)
"""Functions of Python that show a value."""
_CLOCKS = frozenset(
    {"time", "perf_counter", "monotonic", "now", "strftime", "format", "join", "item", "tolist"}
)
"""Methods that only read."""


def effect_in(site: Site, values: Iterable[cst.BaseExpression]) -> cst.Call | None:
    """The first call among values that are shown that may do more than give a value."""
    for call in (
        descendant
        for value in values
        for descendant in descendants(value)
        if isinstance(descendant, cst.Call)
    ):
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        shows = dotted(call.func) in _SHOWING and not site.is_bound(dotted(call.func))
        is_value = is_pure_call(site, call) or only_reads_tensor(site, call)
        if not shows and name not in _CLOCKS and not is_value:
            return call
    return None


def output_remedies(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    """The call under `if not torch.compiler.is_compiling()`."""
    call = output_call(site)
    line = _line(site, call) if call is not None else None
    if call is None or line is None:
        return
    indent = site.indentation(line)
    if indent is None:
        return
    effect = effect_in(site, [argument.value for argument in call.args])
    if effect is not None:
        reason = f"`{short_code(site, effect)}` may have an effect, which compiled calls would lose"
        yield RefusedRewrite("is_compiling", f"Skip `{dotted(call.func)}` in compiled code", reason)
        return
    start, end = site.range_of(line)
    step = site.step(line)
    code = site.source[start:end]
    if not _has_long_text(site, call):
        code = code.replace("\n", f"\n{step}")
    head = f"if not {site.torch}.compiler.is_compiling():"
    text = site.rewritten((start, end, f"{head}{site.newline}{indent}{step}{code}"))
    if text is not None:
        yield Remedy(
            "is_compiling",
            f"Skip `{dotted(call.func)}` in compiled code",
            FixClass.CHANGES,
            {site.finding.span.path: text},
            f"compiled calls do not print, log or warn here{_errors(call)}",
        )


def _errors(call: cst.Call) -> str:
    """Which exceptions of the call compiled calls do not raise: of a warning, of `{n:03d}` for a float."""
    is_warning = dotted(call.func) == "warnings.warn"
    formats = any(
        isinstance(part, cst.FormattedStringExpression) and part.format_spec for part in descendants(call)
    )
    words = ", also where a filter makes an error of the warning" if is_warning else ""
    return f"{words}, nor raise exceptions of its formats" if formats else words


def _has_long_text(site: Site, call: cst.Call) -> bool:
    """Whether a string of the call extends over lines, so that its lines cannot be indented."""
    texts = (
        descendant
        for descendant in descendants(call)
        if isinstance(descendant, (cst.SimpleString, cst.FormattedString))
    )
    return any("\n" in site.code(text) for text in texts)
