"""A relation between symbolic values: the user's condition stands for torch's algebra where it surely is its cause."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Compile, Guard, GuardCause, GuardFailure, Mismatch, Outcome
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.expectations import expectation
from tests.support.recompilations import WHOLE, again, failed
from tests.support.reports import at, report

FUNCTION = """\
def forward(self, x, n):
    pad = 32 + 8 * n
    {}
        x = x * 2
    return x
"""


def title_of(line: str, words: str, code: str = "", now: str | None = "12") -> tuple[str, str]:
    """The title, and the first hint, for a relation that was made on line 3 of the function."""
    lines = FUNCTION.format(line).splitlines()
    relation = failed(
        words, source="", cause=GuardCause.RELATION, code=code, born=(at(3),), was=None, now=now
    )
    given = report(recompiles=(again(relation, location=at(1), function="forward"),))
    texts = dict(enumerate(lines, 1))
    (finding,) = findings(given, read_line=lambda _path, number: texts.get(number))
    return finding.title, finding.hints[0]


ALGEBRA = "(32 + 8*n) != 128 no longer holds: n is 12"


@pytest.mark.parametrize(
    "condition", ["pad == 128", "32 + n * 8 == 128", "pad // x.size(1) < len(self.rows)"]
)
@pytest.mark.parametrize("statement", ["if {}:", "while {}:"])
def test_the_condition_of_the_line_stands_for_torchs_algebra(condition: str, statement: str) -> None:
    title, hint = title_of(statement.format(condition), ALGEBRA)
    assert title == f"recompiled: the outcome of `{condition}` changed: n is 12"
    assert hint == (
        f"Expect one compile for each outcome of `{condition}`, also where the values in it are dynamic"
    )


@pytest.mark.parametrize(
    "line",
    [
        "if pad == 128 and self.training:",  # either part
        "if x.sum() > pad:",  # what it calls may have guards of its own
        "if x is not None:",  # no comparison of numbers
        "if 3 < pad < 128:",
        "if (pad ==",  # the text has changed since
        "for i in range(pad):",
    ],
)
def test_torchs_text_stays_where_another_part_of_the_line_may_be_the_cause(line: str) -> None:
    title, hint = title_of(line, ALGEBRA)
    assert title == f"recompiled: {ALGEBRA}"
    assert hint.startswith("Expect one compile for the calls for which `(32 + 8*n) != 128` holds")


def test_a_size_of_0_or_1_is_no_outcome_of_the_condition() -> None:
    words = "2 <= x.size(0) <= 8 no longer holds: x.size(0) is 1"
    assert title_of("if x.size(0) > 8:", words, code="2 <= L['x'].size()[0] <= 8", now="1")[0] == (
        f"recompiled: {words}"
    )


def test_which_end_of_a_range_failed_is_not_known_without_a_value() -> None:
    words = "2 <= x.size(0) <= 8 no longer holds"
    title, hint = title_of("if x.size(0) > 8:", words, code="2 <= L['x'].size()[0] <= 8", now=None)
    assert title == f"recompiled: {words}"
    assert "outcome" not in hint


def test_another_version_says_why_it_does_not_fit() -> None:
    def of(mode: str, other: str) -> GuardFailure:
        words = f"mode was {mode}, now {other}"
        return failed(words, source="mode", cause=GuardCause.VALUE, was=mode, now=other)

    rate = failed("rate was 0.5, now 0.25", source="rate")
    first = again(of("A", "B"), rate)
    entries = (Mismatch("0/1", (of("B", "A"),)), Mismatch("0/0", (rate,)))
    fits_not, back = (again(compile_id="0/2", entries=entries[:number]) for number in (1, 2))
    (finding,) = findings(report(recompiles=(first, back)))
    assert "- mode was B, now A (the version for it does not fit: rate was 0.5, now 0.25)" in finding.message
    (finding,) = findings(report(recompiles=(first, fits_not)))
    assert "does not fit" not in finding.message


@pytest.mark.parametrize(
    ("line", "result", "told"),
    [
        ("if n % 3:", "n % 3", "the outcome of `n % 3` changed: n % 3 is 2"),
        (
            "if x.size(0) % 3 == 0:",
            "x.size(0) % 3",
            "the outcome of `x.size(0) % 3 == 0` changed: x.size(0) % 3 is 2",
        ),
        ("if pad % 3:", "(1 + (x.size(0) + -1 * n) // 8) % 3", "the outcome of `pad % 3` changed"),
        ("if self.ready:", "n % 3", "n % 3 was 0, now 2"),
    ],
)
def test_a_result_that_a_condition_tests_is_one_outcome_of_it(line: str, result: str, told: str) -> None:
    relation = failed(f"{result} was 0, now 2", source="", cause=GuardCause.RELATION, born=(at(3),))
    texts = dict(enumerate(FUNCTION.format(line).splitlines(), 1))
    given = report(recompiles=(again(relation, location=at(1), function="forward"),))
    (finding,) = findings(given, read_line=lambda _path, number: texts.get(number))
    assert finding.title == f"recompiled: {told}"
    if "outcome" not in told:
        assert finding.hints[0].startswith("Expect one compile for the calls for which `n % 3 == 0` holds")


@pytest.mark.parametrize(("result", "is_calculated"), [("rate ** 2.0", True), ("n % 3", False)])
def test_a_calculated_float_is_a_value_and_caches_lose_its_guard(result: str, *, is_calculated: bool) -> None:
    was, now = ("0.81", "0.6561") if is_calculated else ("0", "2")
    relation = failed(f"{result} was {was}, now {now}", source="", cause=GuardCause.RELATION, born=(at(3),))
    (finding,) = findings(report(recompiles=(again(relation, location=at(1), function="forward"),)))
    assert ("`fuselight accuracy` compares the results" in finding.message) is is_calculated
    (words,) = expectation(relation)
    expected = f"Expect one compile for each value of `{result}`, which the code computes"
    assert (words == expected) is is_calculated
    assert (f"`{result} == {was}` holds" in words) is not is_calculated


def test_a_view_is_said_to_start_elsewhere() -> None:
    words = "2 <= part.storage_offset() no longer holds: part.storage_offset() is 0"
    title, _ = title_of("if pad == 128:", words, code="2 <= L['part'].storage_offset()", now="0")
    assert title == (
        "recompiled: part was a view that starts at element 2 or later of its memory, now at element 0"
    )


@pytest.mark.parametrize(("other", "is_listed"), [("seen", False), ("skipped", True)])
def test_an_element_of_a_set_and_the_whole_set_are_one_advice(other: str, *, is_listed: bool) -> None:
    element = failed(
        "'b' was not in seen, now it is", source="seen", cause=GuardCause.KEYS, was=None, now=None
    )
    whole = failed(f"{other} was {{'a'}}, now {{'b'}}", source=other, cause=GuardCause.VALUE)
    (finding,) = findings(report(recompiles=(again(element, whole),)))
    assert f"- {other} was" in finding.message
    texts = [remedy.text for remedy in finding.remedies]
    assert any(f"for each value of `{other}`" in text for text in texts) is is_listed


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("max(3, L['n']) == 5", "Expect one compile for each value of `max(3, n)`"),
        ("max(3, L['n']) != 3", "Expect one compile for the calls for which `max(3, n) == 3` holds"),
    ],
)
def test_a_result_that_the_next_version_fixes_compiles_for_each_value(guard: str, expected: str) -> None:
    relation = failed("max(3, n) was 3, now 5", source="", cause=GuardCause.RELATION, was="3", now="5")
    compiled = Compile("0/1", 0, Outcome.COMPILED, guards=(Guard("SHAPE_ENV", "", (guard,)),))
    (finding,) = findings(report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(relation),)))
    assert any(remedy.text.startswith(expected) for remedy in finding.remedies)
