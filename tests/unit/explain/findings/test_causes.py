"""One cause, one entry: what folds, what does not, and how ignores and references follow."""

from __future__ import annotations

from dataclasses import replace

from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import apply_ignores, expand, findings, fold
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.source.document import read_source
from tests.support.recompilations import again, failed
from tests.support.reports import FILE, LIBRARY, at, broken, report

INSIDE = at(400, (0, 9), path=LIBRARY, function="attend")
LINES = (30, 32, 33)
BREAKS = tuple(broken(at(line, (8, 20)), INSIDE) for line in LINES)


def folded(*breaks: object) -> list[Finding]:
    return fold(findings(report(breaks=breaks)))


def test_a_library_line_that_three_lines_lead_to_is_one_finding_and_two_references() -> None:
    (full,) = folded(*BREAKS)
    assert (full.span.line, full.severity) == (30, Severity.WARNING)
    assert [finding.span.line for finding in full.also_at] == [32, 33]
    assert "2 more places have the same cause: lines 32-33." in full.message
    assert full.message.endswith(f"{full.hints[-1]}.")  # a hover puts cost and hints first
    _, *references = expand(full)
    assert [(reference.span.line, reference.severity, reference.title) for reference in references] == [
        (32, Severity.HINT, f"same cause as line 30: {full.title}"),
        (33, Severity.HINT, f"same cause as line 30: {full.title}"),
    ]
    assert all(
        reference.same_as == full.span and reference.related[0].span == full.span for reference in references
    )
    assert not any(reference.hints or reference.fixes for reference in references)
    assert all(reference.cost == full.cost for reference in references)


def test_the_first_line_is_the_full_finding_in_whatever_order_torch_reports_the_breaks() -> None:
    assert folded(*BREAKS) == folded(*reversed(BREAKS))


def test_folding_twice_changes_nothing_and_loses_no_place() -> None:
    actual_findings = findings(report(breaks=(*BREAKS, broken(at(40)))))
    once = fold(actual_findings)
    assert fold(once) == once
    places = sorted((finding.span.path, finding.span.line) for full in once for finding in expand(full))
    assert places == sorted((finding.span.path, finding.span.line) for finding in actual_findings)


def test_counts_follow_the_cause() -> None:
    new_report = report(breaks=BREAKS)
    assert counts(new_report).breaks == len(fold(findings(new_report))) == 1


def test_two_breaks_on_one_line_count_as_two() -> None:
    """As `w[a] + y[b]`: each has a finding."""
    breaks = (broken(at(30, (8, 12))), broken(at(30, (15, 19))), broken(at(30, (8, 12)), compile_id="0/1"))
    assert counts(report(breaks=breaks)).breaks == 2


def test_a_reference_in_another_file_names_the_file() -> None:
    (full,) = folded(BREAKS[0], broken(at(7, path="/project/parts.py"), INSIDE))
    assert "1 more place has the same cause: parts.py:7." in full.message
    _, reference = expand(full)
    assert reference.title.startswith("same cause as model.py:30: ")


def test_the_same_break_on_lines_of_the_users_own_is_not_one_cause() -> None:
    assert len(folded(broken(at(30)), broken(at(32)))) == 2


def test_what_needs_another_cure_is_another_cause() -> None:
    first = BREAKS[0]
    inside = at(401, (0, 9), path=LIBRARY, function="attend")
    for other in (
        broken(at(32), inside),  # another line of the library
        replace(BREAKS[1], ids=("GB0124",)),
        replace(BREAKS[1], explanation="Dynamo cannot trace `np.random`"),
        replace(BREAKS[1], hints=("Remove the backward hook.",)),
        replace(BREAKS[1], frame_skipped=True),  # costs all of the function
        replace(BREAKS[1], ids=("GB0170", "GB7000"), types=("Data-dependent branching", "in a loop")),
    ):
        assert len(folded(first, other)) == 2, other


def test_numbers_and_quoted_code_do_not_make_another_cause() -> None:
    text = 'Cannot branch on a tensor of 4 rows:\n# File "layers.py", line 400, in attend gt = gt({}, 0).'
    first = replace(BREAKS[0], explanation=text.format("sum_1"))
    second = replace(BREAKS[1], explanation=text.format("sum_2").replace("4 rows", "8 rows"))
    assert len(folded(first, second)) == 1


def test_recompilations_of_one_read_in_a_library_are_one_cause() -> None:
    code = at(390, path=LIBRARY)
    born = (at(391, (4, 9), path=LIBRARY),)

    def recompiled(line: int, identity: str, source: str = "mode") -> object:
        failure = failed(f"{source} was 'a', now '{line}'", kind="EQUALS_MATCH", source=source, born=born)
        return again(failure, compile_id=identity, function="shift", location=code, caller=(at(line),))

    same = report(recompiles=(recompiled(30, "0/1"), recompiled(32, "0/2")))
    (full,) = fold(findings(same))
    assert (full.code, full.span.line, [finding.span.line for finding in full.also_at]) == ("FL201", 30, [32])
    other = report(recompiles=(recompiled(30, "0/1"), recompiled(32, "0/2", "scale")))
    assert len(fold(findings(other))) == 2


def source(*ignored: int) -> str:
    comment = "  # fuselight: ignore[GB0170]"
    return "".join(f"    x = attend(x){comment if line in ignored else ''}\n" for line in range(1, 41))


def after_ignores(*ignored: int) -> list[tuple[int, str, int]]:
    readings = {FILE: read_source(FILE, source(*ignored))}
    kept = fold(apply_ignores(findings(report(breaks=BREAKS)), readings, has_run=lambda _path, _origin: True))
    return [(finding.span.line, finding.code, len(finding.also_at)) for finding in kept]


def test_an_ignore_on_the_full_finding_silences_the_cause() -> None:
    assert after_ignores(30) == []


def test_an_ignore_on_another_place_silences_that_place_alone() -> None:
    assert after_ignores(32) == [(30, "GB0170", 1)]
    assert after_ignores(32, 33) == [(30, "GB0170", 0)]


def test_ignores_on_all_lines_are_all_used() -> None:
    assert after_ignores(*LINES) == []


def test_a_place_that_is_gone_leaves_the_next_one_as_the_full_finding() -> None:
    (full,) = fold(finding for finding in findings(report(breaks=BREAKS)) if finding.span.line != 30)
    assert (full.span.line, full.severity, len(full.also_at)) == (32, Severity.WARNING, 1)


def test_a_long_list_of_places_is_cut() -> None:
    (full,) = folded(*(broken(at(line), INSIDE) for line in range(2, 202, 2)))
    assert full.message.count(", ") < 60
    assert " and 59 more." in full.message
    assert len(full.also_at) == 99
