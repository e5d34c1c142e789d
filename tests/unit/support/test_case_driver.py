"""The driver of the annotated cases must fail when it should: a case that cannot fail proves nothing."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from tests.support.case_files import RELEASES
from tests.support.cases import CaseError, disagreements, expectations, rewritten

PATH = "/case.py"
SOURCE = """\
def f(x):
    y = x.item()  # warning: [GB0124] "python number"
    #   ^^^^^^^^
    return y
"""


def finding(line: int = 2, **changes: object) -> Finding:
    values: dict[str, object] = {
        "code": "GB0124",
        "severity": Severity.WARNING,
        "title": "`.item()` converts a tensor to a Python number",
        "message": "It waits for the device.",
        "span": Span(PATH, line, 8, line, 16),
        "tier": Tier.CAPTURE,
        "target": "f",
        "inputs": "",
        "torch": "2.13.0",
        **changes,
    }
    return Finding(**values)  # type: ignore[arg-type] # a test's own keywords


def test_a_matching_case_has_no_differences() -> None:
    assert disagreements(PATH, SOURCE, [finding()]) == []


def test_text_may_occur_in_the_message_in_any_case() -> None:
    source = SOURCE.replace("python number", "WAITS FOR")
    assert disagreements(PATH, source, [finding()]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        finding(line=4),
        finding(code="GB0170"),
        finding(severity=Severity.ERROR),
        finding(title="something else"),
        finding(span=Span(PATH, 2, 8, 2, 17)),
        finding(span=Span(PATH, 2, None, None, None)),
        finding(span=Span(PATH, 2, 8, 3, 16)),
        finding(span=Span("/other.py", 2, 8, 2, 16)),
    ],
    ids=["line", "code", "severity", "text", "columns", "no columns", "several lines", "file"],
)
def test_each_difference_fails_on_both_sides(wrong: Finding) -> None:
    messages = disagreements(PATH, SOURCE, [wrong])
    assert [line.split(":")[0] for line in messages] in (
        ["unexpected", "missing"],
        ["in another file", "missing"],
    )


def test_a_second_finding_needs_its_own_expectation() -> None:
    (disagreement,) = disagreements(PATH, SOURCE, [finding(), finding()])
    assert disagreement.startswith("unexpected: 2:8-2:16 warning: [GB0124]")


def test_a_missing_finding_is_a_disagreement() -> None:
    assert disagreements(PATH, SOURCE, []) == ['missing: 2: warning: [GB0124] "python number"']


def test_several_expectations_on_one_line_each_have_their_carets() -> None:
    source = 'ab = 1  # hint: [A1] "x"  # info: [B2] "y"\n#^\n'
    with pytest.raises(CaseError, match="line 2: 1 runs of"):
        expectations(source)
    expectation, two = expectations(source.replace("#^", "#^ ^"))
    assert (expectation.code, expectation.columns, two.code, two.columns) == ("A1", (1, 2), "B2", (3, 4))


def test_a_malformed_expectation_is_an_error() -> None:
    with pytest.raises(CaseError, match="line 1"):
        expectations("x = 1  # warning [GB0124] 'quotes'\n")


def test_a_comment_line_refers_to_the_line_above() -> None:
    source = '# directive\n# error: [FL501] "a"\n# hint: [FL106] "b"\n#^ ^\ndef f(): pass\n'
    assert [
        (expectation.line, expectation.code, expectation.columns) for expectation in expectations(source)
    ] == [
        (1, "FL501", (1, 2)),
        (1, "FL106", (3, 4)),
    ]


def test_an_expectation_that_does_not_fit_is_on_the_next_line() -> None:
    findings = [finding(title="t" * 110, span=Span(PATH, 1))]
    text = rewritten(PATH, "    x = 1\n", findings)
    assert text == f'    x = 1\n    # warning: [GB0124] "{"t" * 110}"\n'
    assert disagreements(PATH, text, findings) == []
    assert rewritten(PATH, text, findings) == text


def test_rewriting_takes_over_what_was_found_and_keeps_words_that_fit() -> None:
    findings = [finding(), finding(line=4, title="new here", span=Span(PATH, 4))]
    text = rewritten(PATH, SOURCE, findings)
    assert text == SOURCE.replace("return y", 'return y  # warning: [GB0124] "new here"')
    assert disagreements(PATH, text, findings) == []


def test_rewriting_drops_what_did_not_come() -> None:
    assert rewritten(PATH, SOURCE, []) == "def f(x):\n    y = x.item()\n    return y\n"


def test_an_expectation_may_be_of_some_releases_only() -> None:
    source = SOURCE.replace("warning:", "warning(2.11, 2.13):")
    assert disagreements(PATH, source, [finding()], "2.13") == []
    assert disagreements(PATH, source, [], "2.14") == []
    (disagreement,) = disagreements(PATH, source, [], "2.11")
    assert disagreement == 'missing: 2: warning(2.11, 2.13): [GB0124] "python number"'
    (disagreement,) = disagreements(PATH, source, [finding()], "2.14")
    assert disagreement.startswith("unexpected: 2:8-2:16 warning: [GB0124]")


def all_but(*without: str) -> str:
    """The other releases, as an expectation names them."""
    return ", ".join(release for release in RELEASES if release not in without)


def test_another_release_gets_expectations_of_its_own_and_may_join_others() -> None:
    other = [finding(code="GB9999", title="new here")]
    text = rewritten(PATH, SOURCE, other, "2.14")
    assert text == SOURCE.replace("warning:", f"warning({all_but('2.14')}):").replace(
        "    return y", '    # warning(2.14): [GB9999] "new here"\n    #   ^^^^^^^^\n    return y'
    )
    assert disagreements(PATH, text, other, "2.14") == []
    assert disagreements(PATH, text, [finding()], "2.13") == []
    assert rewritten(PATH, text, [finding()], "2.14") == SOURCE
    joined = rewritten(PATH, text, other, "2.11")
    assert f"warning({all_but('2.11', '2.14')}): [GB0124]" in joined
    assert "warning(2.11, 2.14): [GB9999]" in joined
    assert rewritten(PATH, joined, other, "2.11") == joined


def test_the_main_release_speaks_for_all_that_are_not_named() -> None:
    text = "x = 1\n"
    findings = [finding(line=1, title="t", span=Span(PATH, 1))]
    assert rewritten(PATH, text, findings, "2.13") == 'x = 1  # warning: [GB0124] "t"\n'
    assert rewritten(PATH, 'x = 1  # warning: [GB0124] "t"\n', [], "2.13") == text
    marked = 'x = 1  # warning(2.13, 2.14): [GB0124] "t"\n'
    assert rewritten(PATH, marked, [], "2.13") == marked.replace("2.13, ", "")
