"""What a function does with a number, read from its source."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Location
from fuselight_server.explain.findings.common.number_uses import Use, uses_of


def uses(*body: str, names: tuple[str, ...] = ("n",)) -> set[Use]:
    lines = ["def f(self, x, n):", *(f"    {line}" for line in body), "def other(n):", "    return x[n]"]
    return set(uses_of(lambda _path, line: dict(enumerate(lines, 1)).get(line), Location("f.py", 1), names))


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("return x * (n - 1)", Use.OTHER),
        ("x += n", Use.OTHER),
        ("return x[: n + 1]", Use.SLICE),
        ("return x[n]", Use.INDEX),
        ("return x.view(-1, n * 2)", Use.SIZE),
        ("return torch.zeros(size=n)", Use.SIZE),
        ("for i in range(n): x = x + i", Use.LOOP),
        ("return x if n > 3 else -x", Use.CONDITION),
        ("return x * min(n, 4)", Use.PYTHON),
        ("return x / math.sqrt(n)", Use.PYTHON),
        ("return f'{n}', x", Use.SHOWN),
        ("return g(n)", Use.OTHER),
    ],
)
def test_the_use_of_a_number(line: str, use: Use) -> None:
    assert uses(line) == {use}


def test_all_uses_and_only_those_of_the_expression() -> None:
    assert uses("y = x * self.n", "return y[self.n], n", names=("self.n",)) == {Use.OTHER, Use.INDEX}
    assert uses("return x * n", names=("self.n",)) == set()
    assert uses("return x * n", names=("not an expression",)) == set()


def test_an_expression_of_many_parts_has_no_known_use() -> None:
    assert uses(f"y = ({'x + ' * 500}x).relu()", "return y[n]") == {Use.INDEX}
    assert uses(f"y = ({'x + ' * 500}x).relu", "return y[n]", names=("self.n",)) == set()
