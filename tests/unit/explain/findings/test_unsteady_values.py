"""Values of clocks, random sources and addresses: the words say that they differ in each call, and show no digits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from fuselight.shared.report import GuardCause, Recompile
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import rounded
from fuselight_server.explain.findings.common.unsteady_values import without_unsteady_value
from tests.support.recompilations import DEF, again, failed
from tests.support.reports import report


def finding_of(source: str, *values: str, statement: str = "", imports: str = "") -> Finding:
    """The finding of a value whose calls had `values`, of code with a statement before the function reads it."""
    lines = {
        1: imports,
        DEF.line - 1: "class Net:\n",
        DEF.line: "    def forward(self, x):\n",
        DEF.line + 1: f"        {statement or 'pass'}\n",
        DEF.line + 2: f"        return x * {source}\n",
    }
    recompiles = tuple(
        again(
            failed(f"{source} was {was}, now {now}", source=source, was=was, now=now), compile_id=f"0/{index}"
        )
        for index, (was, now) in enumerate(itertools.pairwise(values), 1)
    )
    (finding,) = findings(
        report(recompiles=recompiles),
        read_line=lambda _path, line: lines.get(line, "\n") if line < DEF.line + 5 else None,
    )
    return finding


EARLY, LATE = "1795903647.4815674", "1795903647.6181586"


@pytest.mark.parametrize(
    ("source", "statement", "imports"),
    [
        ("start", "start = time.time()", "import time"),
        ("start", "start, end = clock(), 0", "from time import perf_counter as clock"),
        ("elapsed", "elapsed = time.perf_counter() - self.begin", "import time"),
        ("self.times['a']", "self.times['a'] += time.time() - start", "import time"),
        ("self.now", "self.now = datetime.now().timestamp()", "from datetime import datetime"),
        ("p", "p = np.random.uniform(0, 1)", "import numpy as np"),
        ("p", "p = random.random()", "import random"),
        ("key", "key = id(x)", ""),
        ("tag", "tag: int = uuid.uuid4().int", "import uuid"),
    ],
)
def test_a_value_of_a_source_that_never_repeats_has_no_digits_in_the_title(
    source: str, statement: str, imports: str
) -> None:
    finding = finding_of(source, EARLY, LATE, statement=statement, imports=imports)
    assert finding.title == f"recompiled: {source} has another value in each call"
    assert "Two of its values are 1795903647.48 and 1795903647.62." in finding.message


@pytest.mark.parametrize(
    "statement",
    [
        "start = self.clock.time()",
        "begin = time.time()",
        "start = len(time.strftime('%H'))",
        "time.sleep(start)",
    ],
)
def test_other_values_are_shown_as_far_as_they_differ(statement: str) -> None:
    finding = finding_of("start", EARLY, LATE, statement=statement, imports="import time")
    assert finding.title == "recompiled: start was 1795903647.48, now 1795903647.62"


def test_a_number_of_many_digits_that_never_repeats_is_an_address_or_a_time() -> None:
    addresses = ("139700000000016", "139700000000192", "139700000000368")
    finding = finding_of("key", *addresses)
    assert finding.title == "recompiled: key has another value in each call"
    assert not any(address in finding.message for address in addresses), "and not as a later change"
    assert "was" in finding_of("key", *addresses[:2]).title, "one change is no rule"
    assert "was" in finding_of("key", addresses[0], addresses[1], addresses[0]).title, "it repeats"
    assert "was" in finding_of("rows", "3", "4", "5").title


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("1.8158537149429321", "1.9478", "1.81585 to 1.9478"),
        (EARLY, LATE, "1795903647.48 to 1795903647.62"),
        ("0.10000000000000001", "0.1", "0.10000000000000001 to 0.1"),
    ],
)
def test_floats_have_as_many_digits_as_show_that_they_differ(was: str, now: str, words: str) -> None:
    given = failed(f"{was} to {now}", was=was, now=now, cause=GuardCause.NUMBER)
    assert rounded(given) == words


@pytest.mark.parametrize("terms", [3, 1_500])
def test_code_of_any_depth_is_read(terms: int) -> None:
    """A sum of a thousand terms ended `fuselight check` with a RecursionError."""
    finding = finding_of("self.k", "2", "3", statement=f"total = {' + '.join('1' * terms)}")
    assert finding.title == "recompiled: self.k was 2, now 3"


class CountedReads(tuple[Recompile, ...]):
    """Recompilations that count how often all of them are read."""

    __slots__ = ()
    reads = 0

    def __iter__(self) -> Iterator[Recompile]:
        type(self).reads += 1
        return super().__iter__()


def test_the_values_of_all_recompilations_are_read_once_for_all_failures() -> None:
    failures = [
        failed(f"a{n} was {n}.5, now {n}.25", source=f"a{n}", was=f"{n}.5", now=f"{n}.25") for n in range(9)
    ]
    recompile = again(*failures)
    context = Context.of(report(recompiles=CountedReads([recompile])))
    CountedReads.reads = 0
    assert [without_unsteady_value(context, recompile, failure) for failure in failures] == failures
    assert CountedReads.reads == 1
