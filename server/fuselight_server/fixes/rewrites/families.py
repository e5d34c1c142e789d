"""Rewrites that may remove the cause of a finding, as whole new texts of files.

Invariant: `rewrites` is a function of the finding, the report and the texts that it may read, and of the workspace's
other files where an import would go. Each text that it
gives parses and differs from the old one in the edited statement only, plus lines that a remedy inserts. Where a
statement does not fit a rewrite for certain, there is no remedy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Location, Report
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings.breaks.branch_advice import handler_of_branch
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.fixable import BREAKS, TUNED, FixClass, has_remedies
from fuselight_server.explain.findings.priority import RECOMPILED
from fuselight_server.fixes.rewrites.autograd_calls import gradient_flag_remedies, repeated_argument_remedies
from fuselight_server.fixes.rewrites.bounds import bound_remedies
from fuselight_server.fixes.rewrites.branches import branch_remedies
from fuselight_server.fixes.rewrites.callers import for_all_callers
from fuselight_server.fixes.rewrites.configuration import break_settings, output_settings
from fuselight_server.fixes.rewrites.counts import count_remedies
from fuselight_server.fixes.rewrites.helpers import helper_remedies
from fuselight_server.fixes.rewrites.hoisting import hoisting_remedies, measurement_remedies
from fuselight_server.fixes.rewrites.masks import mask_remedies
from fuselight_server.fixes.rewrites.numbers import number_remedies, parameter_remedies, random_remedies
from fuselight_server.fixes.rewrites.opaque_helpers import opaque_helper_remedies
from fuselight_server.fixes.rewrites.output import output_remedies, print_remedies
from fuselight_server.fixes.rewrites.overrides import replaced_method
from fuselight_server.fixes.rewrites.recompilations import line_reader, recompilation_remedies
from fuselight_server.fixes.rewrites.remedy import Remedy
from fuselight_server.fixes.rewrites.torch_names import supported
from fuselight_server.fixes.rewrites.tuning_arguments import tuning_remedies
from fuselight_server.fixes.syntax.imports import without_unused_imports
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.syntax.selections import numbers_of_sides
from fuselight_server.fixes.syntax.site import Site

__all__ = [
    "FixClass",
    "RefusedRewrite",
    "Remedy",
    "Rewrites",
    "has_remedies",
    "rewrites",
]

_DATA = frozenset({"GB0033", "GB0036", "GB0037", "GB0124"})
_FAMILIES: tuple[tuple[Callable[[Site], Iterator[Remedy | RefusedRewrite]], frozenset[str]], ...] = (
    (branch_remedies, _DATA | {"GB0034", "GB0170"}),
    (mask_remedies, _DATA),
    (number_remedies, _DATA),
    (count_remedies, frozenset({"GB0036", "GB0037"})),
    (opaque_helper_remedies, frozenset()),
    (random_remedies, frozenset()),
    (parameter_remedies, frozenset({"GB0264"})),
    (helper_remedies, frozenset({"GB0098", "GB0099"})),
    (repeated_argument_remedies, frozenset({"GB6297"})),
    (gradient_flag_remedies, frozenset({"GB0125", "GB0206", "GB8985"})),
    (hoisting_remedies, frozenset()),
    (measurement_remedies, frozenset()),
    (print_remedies, frozenset()),
    (output_settings, frozenset()),
    (output_remedies, frozenset()),
)
"""Rewrites and the ids of the breaks that they are for; without ids, those of any break."""

_OF_CONDITIONS = frozenset({"where", "cond", "random_cond", "computed_where", "assert_async"})
"""Kinds for which the condition of a branch is a tensor."""


@dataclass(frozen=True)
class Rewrites:
    """What may be written for one finding."""

    remedies: tuple[Remedy, ...] = ()
    """The best first, not verified."""
    refused: tuple[RefusedRewrite, ...] = ()
    """Those that are not the same for every call, each once."""


def rewrites(
    finding: Finding, report: Report, read: Callable[[str], str | None], others: Sequence[Report] = ()
) -> Rewrites:
    """What may be written for one finding. `read` gives the text of a file as the run had it.

    `others`: the reports of further targets; a setting holds for those that run the file of the report's target.
    """
    path = report.target.path
    others = tuple(
        other for other in others if other is not report and path in {other.target.path, *other.files}
    )
    candidates = tuple(
        supported(candidate, report, read) if isinstance(candidate, Remedy) else candidate
        for candidate in _candidates(finding, report, read, others)
    )
    refused = (candidate for candidate in candidates if isinstance(candidate, RefusedRewrite))
    return Rewrites(
        tuple(candidate for candidate in candidates if isinstance(candidate, Remedy)),
        tuple(dict.fromkeys(refused)),
    )


def _candidates(
    finding: Finding, report: Report, read: Callable[[str], str | None], others: Sequence[Report]
) -> Iterator[Remedy | RefusedRewrite]:
    if finding.code in RECOMPILED:
        yield from recompilation_remedies(finding, report, read)
        return
    if finding.code == TUNED:
        yield from tuning_remedies(finding, report, read)
    if not finding.code.startswith(BREAKS):
        return
    text = read(finding.span.path)
    site = Site.of(finding, report, text) if text is not None else None
    if site is not None:
        for rewrite in _rewrites(site):
            known = _for_all_calls(site, rewrite, read) if isinstance(rewrite, Remedy) else rewrite
            yield _with_used_imports(site, known) if isinstance(known, Remedy) else known
    yield from break_settings(finding, report, read, site, others)
    yield from bound_remedies(finding, report, read, others)


def _for_all_calls(site: Site, remedy: Remedy, read: Callable[[str], str | None]) -> Remedy | RefusedRewrite:
    why = replaced_method(site, read) if remedy.kind in _OF_CONDITIONS else ""
    if remedy.kind == "assert_async":
        context, at = Context.of(site.report, read_line=line_reader(read)), site.finding.span
        handler = handler_of_branch(
            context, Location(at.path, at.line, at.column, at.end_line, at.end_column)
        )
        why = why or (f"{handler.words(at.path)} catches the exception" if handler is not None else "")
    if remedy.kind == "where":
        caveat = numbers_of_sides(site, remedy.texts[site.finding.span.path])
        remedy = dataclasses.replace(remedy, caveat=caveat)
    return RefusedRewrite(remedy.kind, remedy.title, why) if why else for_all_callers(site, remedy, read)


def _with_used_imports(site: Site, remedy: Remedy) -> Remedy:
    """The remedy without the imports that it leaves without a use."""
    path = site.finding.span.path
    text = without_unused_imports(path, site.text, remedy.texts[path], site.report.roots)
    return dataclasses.replace(remedy, texts={**remedy.texts, path: text})


def _rewrites(site: Site) -> Iterator[Remedy | RefusedRewrite]:
    ids = {site.finding.code, *site.finding.gb_ids[:1]}
    for family, wanted in _FAMILIES:
        if not wanted or wanted & ids:
            yield from family(site)
