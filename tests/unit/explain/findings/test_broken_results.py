"""What to do about a number that Python computes at a graph break, by what the code after the break does with it."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import Compile, GuardCause, Outcome, Symbol
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import PART, again, failed
from tests.support.reports import at, broken, report

HEAD = "    def forward(self, x, k):\n"


def finding_of(body: str, part: str = "RATES[k]", fixing: int | None = None) -> Finding:
    """The finding of a number that `part` on line 25, the first of the body, gave: torch fixed it in each compile."""
    lines = dict(enumerate(f"{HEAD}{body}".splitlines(), 24))
    start = lines[25].index(part)
    number = failed(
        "___stack0 was 0.5, now 0.25",
        "EQUALS_MATCH",
        "___stack0",
        born=(),
        code="L['___stack0'] == 0.5",
        cause=GuardCause.NUMBER,
    )
    stack = (at(fixing),) if fixing is not None else ()
    symbol = Symbol("zf0", "___stack0", specialized_to="0.25", stack=stack)
    given = report(
        frames=(dataclasses.replace(PART, carried=1),),
        compiles=(Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=(symbol,))),
        breaks=(broken(at(25, (start, start + len(part))), gb="GB4347"),),
        recompiles=(again(number, compile_id="0/1"),),
    )  # fmt: skip
    shown = findings(given, read_line=lambda _path, line: lines.get(line, "") if line < 40 else None)
    (finding,) = (item for item in shown if item.code == "FL201")
    return finding


PASSED = "Compute `{}` before the call and pass it in"
CALCULATED = f"{PASSED}: the code after the break only calculates with it"
AS_TENSOR = f"{PASSED} as a tensor: the code after the break accepts one"
OPEN = "Expect one compile for each value: computed before the call and passed in, it still needs one"
NEEDED = "Expect one compile for each value, also where it is passed in: line {} needs the number itself"


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("        r = RATES[k]\n        return x * (1 - r)", CALCULATED.format("RATES[k]")),
        ("        r = float(RATES[k])\n        return x / math.sqrt(1 + r)", CALCULATED.format("float(RATES[k])")),
        ("        return x * RATES[k]", CALCULATED.format("RATES[k]")),
        ("        r = RATES[k]\n        y = x * r\n        return y.clamp(0, 1)", CALCULATED.format("RATES[k]")),
        ("        r = RATES[k]\n        return torch.lerp(x, x.sin(), r)", AS_TENSOR.format("RATES[k]")),
        ("        r = RATES[k]\n        return self.mix(x, rate=r) + r", AS_TENSOR.format("RATES[k]")),
        ("        r = RATES[k]\n\n        return x * math.exp(-r)", NEEDED.format(27)),
        ("        r = RATES[k]\n        x = x.sin() + 1\n        return x * np.cos(r)", NEEDED.format(27)),
        ("        r = RATES[k]\n        for i in range(r):\n            x = x.sin()", NEEDED.format(26)),
        ("        r = RATES[k]\n        n = r + 1\n        return x[:n]", NEEDED.format(27)),
        (
            "        r = RATES[k]\n        return x.sin() if r > 1 else x",
            f"{PASSED}: torch then compiles once for each outcome of the condition on line 26".format("RATES[k]"),
        ),
    ],
)  # fmt: skip
def test_what_reads_the_number_decides(body: str, advice: str) -> None:
    (hint,) = finding_of(body).hints
    assert hint.startswith(advice)
    assert hint.endswith("This change of the code cannot be tried here") is (not hint.startswith("Expect"))


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("        r = TABLE(h.norm())\n        h = x.sin()\n        return h * r", "TABLE(h.norm())"),
        ("        r = RATES[k]\n        r = r * 2\n        return x * r", "RATES[k]"),
        ("        r = RATES[k]\n        return torch.lerp(x, x.sin(), math.sqrt(r))", "RATES[k]"),
        ("        self.rate = RATES[k]\n        return x * self.rate", "RATES[k]"),
    ],
)
def test_both_cases_stay_open_where_the_source_does_not_decide(body: str, part: str) -> None:
    (hint,) = finding_of(body, part).hints
    assert hint.startswith(OPEN)


def test_the_line_that_fixes_the_number_is_named() -> None:
    finding = finding_of("        r = RATES[k]\n        y = x * r\n        return y.expand(r)", fixing=27)
    assert finding.hints == (NEEDED.format(27),)
