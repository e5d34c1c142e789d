"""What `fuselight check --facts` prints of a report."""

from __future__ import annotations

import io
import json

from fuselight.shared.report import Branch, Fact, FactKind, FileFacts, TracedFacts, TracedValue
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.facts import print_facts
from fuselight_server.cli.formats.json import as_json
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles
from tests.support.golden import expect
from tests.support.reports import FILE, VERSIONS, report

SOURCE = [
    "def forward(self, é, x):",
    "    y = self.proj(é)",
    "    if self.training:",
    "        y = 2 * y",
    "    return y",
]
VALUES = (
    TracedValue(FactKind.TENSOR, "f32[2, 8]", "cpu", "contiguous", requires_grad=True),
    TracedValue(FactKind.TENSOR, "f32[4, 8]", "cpu", "strided", requires_grad=True),
    TracedValue(FactKind.CONSTANT, "False"),
)
FACTS = FileFacts(
    facts=(
        Fact(2, 4, 2, 5, ((0, 12), (1, 2)), assigned=True, omitted=3),
        Fact(2, 8, 2, 21, ((0, 12), (1, 2))),
        Fact(3, 7, 3, 20, ((2, 14),)),
    ),
    branches=(Branch(3, 7, 3, 20, 0, 14), Branch(3, 7, 3, 20, 1, 14)),
    untraced=((4, 4),),
)


def outcome() -> CheckOutcome:
    new_report = report(facts=TracedFacts(VALUES, {FILE: FACTS}))
    return CheckOutcome(reports=[new_report], sources=SourceFiles({FILE: list(SOURCE)}))


def text_of(check_outcome: CheckOutcome) -> str:
    out = io.StringIO()
    print_facts(check_outcome, Terminal(out))
    return out.getvalue()


def test_text_is_a_table_for_each_file() -> None:
    expect(
        text_of(outcome()),
        """\
        /project/model.py: Net - 3 expressions of /project/model.py
        line  expression     value                         times
        2     y =            f32[2, 8] cpu                 12
                             f32[4, 8] cpu not contiguous  2
                             and 3 more values
        2     self.proj(é)   f32[2, 8] cpu                 12
                             f32[4, 8] cpu not contiguous  2
        3     self.training  False                         14
        line 3: self.training was always false
        never traced with these inputs: line 4

        """,
    )


def test_a_target_without_facts_says_why() -> None:
    assert text_of(CheckOutcome(reports=[report()])).endswith("Net - no expression was traced\n")
    old = report(versions=VERSIONS.__class__(**{**vars(VERSIONS), "python": "3.10.13"}))
    assert "Python 3.11 or later" in text_of(CheckOutcome(reports=[old]))


def test_json_has_them_with_lines_and_columns_of_characters() -> None:
    assert "facts" not in json.loads(as_json(outcome()))["targets"][0]
    (file,) = json.loads(as_json(outcome(), with_facts=True))["targets"][0]["facts"]
    assert (file["path"], file["untraced"]) == (FILE, [[4, 4]])
    name, call, _ = file["expressions"]
    assert (name["text"], name["assigned"], name["omitted"]) == ("y", True, 3)
    assert (call["line"], call["column"], call["end_column"], call["text"]) == (2, 9, 21, "self.proj(é)")
    assert call["values"][1] == {
        "kind": "tensor",
        "value": "f32[4, 8]",
        "device": "cpu",
        "strides": "strided",
        "requires_grad": True,
        "count": 2,
    }
    assert [(condition["text"], condition["always"]) for condition in file["conditions"]] == [
        ("self.training", False)
    ]
