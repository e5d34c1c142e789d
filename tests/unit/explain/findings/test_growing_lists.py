"""Lists that compiled code makes longer in each call: what takes their place, where the source shows that they grow."""

from __future__ import annotations

import itertools

import pytest

from fuselight.shared.report import GuardCause
from fuselight_server.explain.findings import findings
from tests.support.recompilations import again, failed
from tests.support.reports import report


@pytest.mark.parametrize(
    ("body", "lengths", "is_grown"),
    [
        ("self.rows.append(x)\nreturn max(self.rows[-2:])", (0, 1, 2, 3), True),
        ("self.rows.extend([x, x])\nreturn torch.stack(self.rows)", (1, 3, 5), True),
        ("self.rows.append(x)\nreturn max(self.rows[-2:])", (1, 2), False),
        ("self.rows.append(x)\nreturn max(self.rows[-2:])", (1, 2, 1, 2), False),
        ("self.rows.append(x)\nself.rows.pop(0)\nreturn max(self.rows)", (1, 2, 3), False),
        ("self.rows.append(x)\nself.rows = self.rows[-2:]\nreturn max(self.rows)", (1, 2, 3), False),
        ("self.rows.append(x)\ndel self.rows[:-2]\nreturn max(self.rows)", (1, 2, 3), False),
        ("return torch.stack(self.rows)", (1, 2, 3), False),
        ("self.rows.append(x)\n# maxlen\nreturn max(self.rows[-2:])", (1, 2, 3), False),
    ],
)
def test_a_list_that_each_call_makes_longer_is_not_only_expected(
    body: str, lengths: tuple[int, ...], *, is_grown: bool
) -> None:
    text = [
        "    def forward(self, x):",
        "        x = x * 2",
        *(f"        {line}" for line in body.split("\n")),
    ]
    lines = dict.fromkeys(range(1, 20), "\n") | dict(enumerate(text, 20))
    changed = (
        failed(f"len(self.rows) was {was}, now {now}", source="self.rows", cause=GuardCause.LENGTH)
        for was, now in itertools.pairwise(lengths)
    )
    facts = report(recompiles=tuple(again(item, compile_id=f"0/{n}") for n, item in enumerate(changed, 1)))
    (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
    step = "one tensor in place of" if "torch.stack" in body else "a fixed number of elements in"
    assert finding.hints[0].startswith(f"Keep {step} `self.rows`") is is_grown
    if is_grown:  # each of these functions reads the list, so that its length would be guarded all the same
        assert not any("outside the compiled code" in hint for hint in finding.hints)


@pytest.mark.parametrize(
    ("line", "is_grown"),
    [
        ("cache['k'].append(x)", True),
        ("self.caches[0][name].append(x)", True),
        ("cache['v'].append(x)", False),
        ("cache['k'] = [x]", False),
    ],
)
def test_a_list_that_is_an_entry_of_a_dict_is_known_by_its_key(line: str, *, is_grown: bool) -> None:
    lines = dict(enumerate(("    def forward(self, x, cache, name):", "\n", f"        {line}"), 20))
    changed = (
        failed(f"len({source}) was {n}, now {n + 1}", source=source, cause=GuardCause.LENGTH)
        for n, source in enumerate(["self.caches[0]['k']"] * 3)
    )
    facts = report(recompiles=tuple(again(item, compile_id=f"0/{n}") for n, item in enumerate(changed, 1)))
    (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
    assert finding.hints[0].startswith("Keep a fixed number of elements in") is is_grown
