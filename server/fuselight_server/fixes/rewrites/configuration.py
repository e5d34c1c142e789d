"""Settings of torch._dynamo that remove a break or a recompilation: a statement after the imports.

Invariant: a setting is offered only if the run did not have it set. The statement goes into the target's file, which
every run of the target imports. `torch_names` lists the settings that an older torch lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import FactKind, Report
from fuselight_server.explain.findings.advice.break_cures import AUTOGRAD, INLINED, SCALARS, SETTINGS
from fuselight_server.fixes.rewrites.number_choices import caveat_of_choice, reason_of_choice
from fuselight_server.fixes.rewrites.output import output_call
from fuselight_server.fixes.rewrites.remedy import CAPTURES, FixClass, Remedy
from fuselight_server.fixes.syntax.file_chunks import imported_name, insert_statements
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.syntax.tree import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import libcst as cst

    from fuselight_server.base.finding import Finding
    from fuselight_server.fixes.syntax.site import Site


_CAVEATS = {"capture_dynamic_output_shape_ops": "one selected row is not broadcast in compiled calls"}
"""By setting. Compiled code takes a size that depends on values for neither 0 nor 1."""


def break_settings(
    finding: Finding,
    report: Report,
    read: Callable[[str], str | None],
    site: Site | None,
    others: Sequence[Report] = (),
) -> Iterator[Remedy | RefusedRewrite]:
    """Settings of torch._dynamo that trace the operation of a break.

    `site`: that of the finding, if it parses. `others`: the reports of other targets, for which a setting holds, too.
    """
    ids = (finding.code, *finding.gb_ids[:1])
    for name in dict.fromkeys(name for identity in ids for name in SETTINGS.get(identity, ())):
        if name == AUTOGRAD and "compiled_autograd" in report.environment.config:
            continue  # which captures the backward pass itself
        reason, caveat = "", _CAVEATS.get(name, "")
        if name == SCALARS and site is not None:
            reason = reason_of_choice(site, (report, *others), read)
            caveat = caveat_of_choice(site, (report, *others), read)
        if reason:
            yield RefusedRewrite(name, f"Set {name}", reason)
        else:
            yield from switch(report, read, name, caveat)


def output_settings(site: Site) -> Iterator[Remedy]:
    """print, logger calls and warnings.warn: dropped by the compiled code, or moved after the graph.

    Their arguments are still computed where they stand.
    """
    call, path = output_call(site), site.finding.span.path
    if call is None or site.breaks_inside(call):
        return
    name = dotted(call.func)
    owner = name.partition(".")[0]
    is_logger = name not in {"print", "warnings.warn"}
    setting = "ignore_logging_functions" if is_logger else "reorderable_logging_functions"
    changes = "compiled calls do not log here" if is_logger else "the order of what is printed"
    if name == "warnings.warn":
        changes += ", and a warning of which a filter makes an error comes after the graph"
    bound = "" if name == "print" or _is_imported(site, owner) else owner
    is_lost = INLINED in site.finding.data or not _can_reorder(site, call)
    if name.startswith("self.") or (not is_logger and is_lost):
        return
    statement = f"{site.torch}._dynamo.config.{setting}.add({name})"
    text = _with_statement(path, site.text, statement, after=bound)
    if text is not None and f"{setting}.add({name})" not in site.text:
        title = f"Ignore `{name}` in compiled code" if is_logger else f"Print after the graph: `{name}`"
        yield Remedy(
            *(setting, title, FixClass.CHANGES, {path: text}, changes),
            is_setting=True,
            values=(name.rpartition(".")[2],),
        )


def _can_reorder(site: Site, call: cst.Call) -> bool:
    """Whether torch can call it after the graph: it drops keyword arguments, and breaks for containers as x.shape."""
    return not any(
        argument.keyword is not None
        or argument.star
        or any(value.kind in {FactKind.CONTAINER, FactKind.MODULE} for value in site.values(argument.value))
        for argument in call.args
    )


def switch(
    report: Report, read: Callable[[str], str | None], name: str, caveat: str = ""
) -> Iterator[Remedy]:
    """The setting as true, in the file of the target."""
    path = report.target.path
    text = read(path)
    if text is None or name in report.environment.config or f"config.{name}" in text:
        return
    new = _with_statement(path, text, f"{_torch_name(path, text)}._dynamo.config.{name} = True")
    if new is not None:
        fix_class = FixClass.EQUAL if caveat else FixClass.EXACT
        yield Remedy(
            *(name, f"Set {name}", fix_class, {path: new}),
            is_setting=True,
            moves_break=name.startswith(CAPTURES),
            caveat=caveat,
        )


def _with_statement(path: str, text: str, statement: str, *, after: str = "") -> str | None:
    """The text with a setting, and with the import that it needs."""
    if imported_name(path, text, "torch") is None:
        imported = insert_statements(path, text, ("import torch",))
        if imported is None:
            return None
        text = imported
    return insert_statements(path, text, (statement,), after=after)


def _torch_name(path: str, text: str) -> str:
    return imported_name(path, text, "torch") or "torch"


def _is_imported(site: Site, name: str) -> bool:
    return any(
        imported.name == name
        for chunk in site.chunks
        for imported in chunk.facts.imports
        if imported.scope == ()
    )
