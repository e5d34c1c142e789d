"""torch._check for a number that decides a branch: where it stands, and what it promises."""

from __future__ import annotations

import pytest

from fuselight_server.fixes.rewrites.families import FixClass
from tests.support.offered_remedies import offered

HEAD = "import torch\n\n\ndef f(x, n, y):\n"


def promises(body: str, mark: str) -> list[str]:
    """The lines that remedies of a branch insert."""
    text = HEAD + body
    out = []
    for remedy in offered(text, mark):
        if remedy.kind == "check":
            assert remedy.fix_class is FixClass.CHANGES
            new = remedy.texts["m.py"].splitlines()
            (line,) = [row for row in new if row not in text.splitlines()]
            assert new[new.index(line) - 1].strip().startswith("k = ")
            out.append(line.strip())
    return out


@pytest.mark.parametrize(
    ("body", "mark", "expected"),
    [
        (
            "    k = int(n.max())\n    z = x\n    if k > 10:\n        z = y\n    return z\n",
            "k > 10",
            ["torch._check(k <= 10)", "torch._check(k > 10)"],
        ),
        (
            "    k = n.max().item()  # most\n    if x.size(0) == k and y is None:\n        print(k)\n    return x\n",
            "x.size(0) == k",
            ["torch._check(x.size(0) != k)", "torch._check(x.size(0) == k)"],
        ),
        (
            "    k = n.any().item()\n    if not k:\n        print(k)\n    return x\n",
            "not k",
            ["torch._check(torch.sym_not(k))", "torch._check(k)"],
        ),
        (
            "    k = n.sum().item()\n    if not k:\n        print(k)\n    return x\n",
            "not k",
            ["torch._check(k == 0)", "torch._check(k != 0)"],
        ),
    ],
)
def test_a_branch_is_promised_both_ways(body: str, mark: str, expected: list[str]) -> None:
    assert promises(body, mark) == expected


@pytest.mark.parametrize(
    ("body", "mark"),
    [
        ("    k = n.max().item()\n    z = x.sum()\n    if k > z:\n        print(k)\n    return x\n", "k > z"),
        ("    k = n.max().item()\n    y = y + 1\n    if k > y:\n        print(k)\n    return x\n", "k > y"),
        (
            "    k = n.max().item()\n    k = k + 1\n    if k > 10:\n        print(k)\n    return x\n",
            "k > 10",
        ),
        ("    k = x.shape[0]\n    if k > 10:\n        print(k)\n    return x\n", "k > 10"),
        ("    k = n.max().item(); z = x\n    if k > 10:\n        print(k)\n    return x\n", "k > 10"),
        ("    k = n.max().item()\n    if k > len(y):\n        print(k)\n    return x\n", "k > len(y)"),
        (
            "    k = n.max().item()\n    size = 3\n    if k > size:\n        print(k)\n    return x\n",
            "k > size",
        ),
        ("    k = n.max().item()\n    if 2 < k < 10:\n        print(k)\n    return x\n", "2 < k < 10"),
    ],
)
def test_nothing_is_promised_of_values_that_the_line_does_not_have(body: str, mark: str) -> None:
    assert promises(body, mark) == []
