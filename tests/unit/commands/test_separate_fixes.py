"""The diff of each of several fixes: it applies to the files as they are, with the fixes that it needs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fuselight_server.base.unified_diff import apply_diff
from fuselight_server.commands.separate_fixes import SeparateFix, separate_fixes
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from tests.support.reports import at, broken, report

MANY = "".join(f"a{number} = {number}\n" for number in range(30))


def passed(texts: Mapping[str, str], *, passes: bool = True) -> Attempt:
    remedy = Remedy("kind", "Change it", FixClass.EXACT, dict(texts))
    (known,) = findings(report(breaks=(broken(at(1)),)))
    status = FixStatus.PASSED if passes else FixStatus.REFUSED
    return Attempt(known, 1, remedy, status, "same", report=report() if passes else None)


def chained(before: Mapping[str, str], *changes: tuple[str, str, str]) -> tuple[SeparateFix, ...]:
    """Fixes that each replace a part of a text, on top of those before them."""
    texts = dict(before)
    attempts = []
    for path, old, new in changes:
        assert texts[path].count(old) == 1
        texts[path] = texts[path].replace(old, new)
        attempts.append(passed({path: texts[path]}))
    return separate_fixes(attempts, before, str)


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ([("a2 = 2\n", "b = 2\n"), ("a20 = 20\n", "c = 1\nd = 2\n")], [(), ()]),
        ([("a2 = 2\n", ""), ("a20 = 20\n", "")], [(), ()]),  # its line numbers are off without the first
        ([("a2 = 2\n", "b = 2\n"), ("b = 2\n", "c = 2\n")], [(), (0,)]),
        ([("a2 = 2\n", "b = 2\n"), ("a3 = 3\n", "c = 3\n")], [(), (0,)]),  # neighbors
        ([("a20 = 20\n", "x\n"), ("a2 = 2\n", "b\n"), ("b\n", "c\n")], [(), (), (1,)]),
        ([("a2 = 2\n", "import math\n"), ("a20 = 20\n", "math.pi\n")], [(), (0,)]),  # a name of the first
        (
            [("a2 = 2\n", "import math\n"), ("a20 = 20\n", "math.pi\n"), ("math.pi\n", "1\n")],
            [(), (0,), (0, 1)],
        ),
    ],
)
def test_a_fix_names_those_without_which_it_does_not_apply(
    changes: list[tuple[str, str]], needs: list[tuple[int, ...]]
) -> None:
    fixes = chained({"m.py": MANY}, *(("m.py", *change) for change in changes))
    assert [fix.needs for fix in fixes] == needs
    for fix in fixes:
        texts = {"m.py": MANY}
        for number in fix.needs:
            texts.update(apply_diff(fixes[number].diff, texts.get))
        after = apply_diff(fix.diff, texts.get)["m.py"]
        expected = MANY
        for number, change in enumerate(changes):
            if number in (*fix.needs, fixes.index(fix)):
                expected = expected.replace(*change)
        assert after == expected


def test_files_are_separate_and_what_did_not_pass_has_no_diff() -> None:
    before = {"m.py": "x = 1\n", "n.py": "y = 1"}
    both = {"m.py": "x = 2\n", "n.py": "y = 2"}
    refused = passed({"m.py": "z\n"}, passes=False)
    fixes = separate_fixes([refused, passed({"m.py": "x = 2\n"}), passed(both)], before, str)
    assert [fix.needs for fix in fixes] == [(), ()]
    assert apply_diff(fixes[1].diff, before.get) == {"n.py": "y = 2"}


def test_a_notebook_has_no_diffs_of_its_own() -> None:
    (fix,) = chained({"n.ipynb": "x = 1\n"}, ("n.ipynb", "1", "2"))
    assert fix.diff == ""
