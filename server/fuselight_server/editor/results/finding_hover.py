"""A finding in a hover: what to do first, for all findings of the line, then what happened.

A hover shows some ten lines; the rest is out of sight. Invariant: a verified fix comes before advice, and what was
tried and refused is no advice.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_target
from fuselight_server.base.markdown import code_block, code_span, link, plain
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advised, refusals
from fuselight_server.editor.results.input_lines import inputs_line, target_named
from fuselight_server.editor.results.shown_findings import ShownFinding, address, message
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings.common.how_to import how_to
from fuselight_server.explain.findings.common.text import compose, sentence

_MAX_FIXES = 2
"""Fixes of a finding that are named before they are verified."""
_MAX_REFUSED = 3
"""Changes that did not help, of a finding."""


@dataclass(frozen=True)
class ExplainedFinding:
    """A finding with what a hover needs to explain it."""

    finding: Finding
    edited: bool
    line: str = ""
    """The line of the source on which it starts, for an example."""
    ways: str = ""
    """For a target without inputs: what gives it some, as Markdown."""


def explanations_of(snapshot: Snapshot, shown: Sequence[ShownFinding]) -> list[str]:
    """Explain the findings of a place: those of runs here first, then those of other sources under their names."""
    of_runs, of_others = ([item for item in shown if item.is_of_run is here] for here in (True, False))
    parts = explanations([_explained(snapshot, item) for item in of_runs])
    parts += [text for item in of_runs if (text := _also_in(item))]
    for item in of_others:
        explained = explain_of_source(item.label, _explained(snapshot, item))
        parts.append("\n\n".join(filter(None, (explained, _also_in(item)))))
    return parts


def _explained(snapshot: Snapshot, shown: ShownFinding) -> ExplainedFinding:
    """Add to a finding the line where it starts, and what gives it inputs."""
    finding = shown.finding
    line = snapshot.document.line(finding.span.line)
    return ExplainedFinding(finding, shown.edited, line or "", _ways_to_inputs(snapshot, finding))


def _ways_to_inputs(snapshot: Snapshot, finding: Finding) -> str:
    """What gives inputs to a target without any, as the lens and the quick fixes do; empty for other findings."""
    document, name = snapshot.document, dict(finding.data).get("target", "")
    target = target_named(document, name)
    if finding.code != "FL502" or target is None or name != finding.target:
        return ""
    result = snapshot.captures.get(Key(document.path, name))
    programs = result.input_programs if result is not None and snapshot.can_run else ()
    where = "the lens above it" if snapshot.client.lenses else "the code actions of this line"
    ways = [
        f"- **{plain(f'Use the inputs of {program.name}')}**: run it up to its first call of {code_span(name)}."
        for program in programs
    ]
    if result is None:
        ways.append("- **Run**: look for a program, test or notebook of the workspace that calls it.")
    if line := inputs_line(document, target):
        ways.append(f"- **Add a line** with the inputs of a call, such as:\n\n{code_block(line, 'python')}")
    head = f"Fuselight compiles a real call of {code_span(name)}, and knows none yet."
    if ways:
        head += f" Choose in {where}:"
    recorded = "Or run a program that calls it with `fuselight run` in a terminal, which records its inputs."
    return "\n".join([head, "", *ways, "", recorded])


def _also_in(item: ShownFinding) -> str:
    """Name the other sources of a finding, with their words where these differ."""
    shown = message(item.finding)
    lines = []
    for other in item.others:
        words = message(other.finding)
        more = "." if words == shown else f": {plain(words)}"
        lines.append(f"- {item.finding.code} is in {plain(other.label)}, too{more}")
    return "\n".join(lines)


def explanations(shown: Sequence[ExplainedFinding]) -> list[str]:
    """Say what the diagnostics above the hover leave out: of several findings, what to do for each comes first."""
    if len(shown) <= 1:
        return [explain(item) for item in shown]
    return [
        "\n\n".join(_with_code(finding, _to_do(finding)) for finding in shown),
        *(_with_code(finding, _details(finding)) for finding in shown),
    ]


def explain(shown: ExplainedFinding) -> str:
    """Say of a finding what to do, then what happened."""
    return "\n\n".join((*_to_do(shown), *_details(shown)))


def markdown(finding: Finding, *, edited: bool) -> str:
    """Say all about a finding, as Markdown that stands alone."""
    code = link(finding.code, address(finding))
    return f"**{plain(message(finding))}** {code}\n\n{explain(ExplainedFinding(finding, edited))}"


def explain_of_source(label: str, shown: ExplainedFinding) -> str:
    """Say all about a finding of a job or a failed test, under its name."""
    code = link(shown.finding.code, address(shown.finding))
    head = f"*{plain(label)}* **{code}** {plain(message(shown.finding))}"
    return f"{head}\n\n{explain(shown)}"


def _with_code(shown: ExplainedFinding, parts: Sequence[str]) -> str:
    code = f"**{link(shown.finding.code, address(shown.finding))}**"
    return "\n\n".join((code, *parts))


def _to_do(shown: ExplainedFinding) -> list[str]:
    if shown.ways:
        return [shown.ways]
    parts = ["*From before your edit of this line.*"] if shown.edited else []
    fixes = [remedy for remedy in shown.finding.remedies if remedy.is_fix]
    states = {remedy.state for remedy in fixes}
    parts += _fixes(shown.finding)
    parts.append(_rendered(compose(hints=_hints(shown.finding))))
    if RemedyState.VERIFIED not in states and not shown.edited and shown.finding.same_as is None:
        parts += _example(shown)
    return [part for part in parts if part]


def _fixes(finding: Finding) -> list[str]:
    passed = [remedy for remedy in finding.remedies if remedy.state is RemedyState.VERIFIED]
    if passed:
        shown = f"{passed[0].text}: {', '.join(filter(None, (passed[0].counts, passed[0].why)))}"
        return [f"**Fix, verified:** {plain(shown)}. Apply it with Quick Fix."]
    parts, untried = [], [remedy for remedy in finding.remedies if _is_untried_fix(remedy)]
    if untried:
        named = " *or* ".join(plain(remedy.text) for remedy in untried[:_MAX_FIXES])
        parts.append(f"**Fix, not tried yet:** {named}. Quick Fix verifies it.")
    return [*parts, *(plain(sentence(text)) for text in refusals(finding.remedies)[:_MAX_REFUSED])]


def _is_untried_fix(remedy: FindingRemedy) -> bool:
    return remedy.is_fix and remedy.state is RemedyState.NOT_TRIED


def _example(shown: ExplainedFinding) -> list[str]:
    example = how_to(shown.finding, shown.line)
    if example is None or "```" in example.code:
        return []
    return [f"{plain(example.words)}:", code_block(example.code, "python")]


def _details(shown: ExplainedFinding) -> list[str]:
    if shown.ways:
        return []
    finding = shown.finding
    happened = finding.message.removeprefix(finding.title).removeprefix(".").strip()
    cost, hints = compose(cost=finding.cost), compose(hints=finding.hints)
    parts = [cost if cost in happened else ""]
    parts += [text.strip() for text in happened.replace(hints, "").replace(cost, "").split("\n\n")]
    if finding.gb_ids:
        parts.append(f"Related: {', '.join(finding.gb_ids)}")
    source = [
        format_target(finding.target),
        finding.inputs,
        f"torch {finding.torch}" if finding.torch else "",
    ]
    ran = f"*{finding.tier.value}: {'; '.join(plain(part) for part in source if part)}*"
    return [*(_rendered(part) for part in parts if part), ran]


def _hints(finding: Finding) -> tuple[str, ...]:
    """The hints of a finding besides its fixes."""
    return advised(
        remedy
        for remedy in finding.remedies
        if not _is_untried_fix(remedy) and remedy.state is not RemedyState.VERIFIED
    )


def _rendered(text: str) -> str:
    """A text as Markdown: lines that begin with a dash are the items of a list."""
    return "\n\n".join(
        "\n".join(f"- {plain(line[2:])}" for line in lines) if is_item else plain("\n".join(lines))
        for paragraph in text.split("\n\n")
        for is_item, lines in itertools.groupby(paragraph.split("\n"), lambda line: line.startswith("- "))
    )
