"""Rewrites of random numbers, and of layers that they skip."""

from __future__ import annotations

import textwrap

import pytest

from fuselight_server.fixes.rewrites.families import FixClass
from tests.support.offered_remedies import first, offered, refused, rewrites

REWRITES = {
    "torch_random: NumPy": (
        ("return x * np.random.rand()\n", "np.random.rand()", "GB0007"),
        ("torch_random", "return x * torch.rand(())\n"),
    ),
    "torch_random: between two limits": (
        ("return x * random.uniform(0.5, 2)\n", "random.uniform(0.5, 2)", "GB0007"),
        ("torch_random", "return x * torch.empty(()).uniform_(0.5, 2)\n"),
    ),
    "torch_random: a power": (
        ("return 2 ** random.random() * x\n", "random.random()", "GB0007"),
        ("torch_random", "return 2 ** torch.rand(()) * x\n"),
    ),
    "torch_random: what is calculated of it has a name": (
        ("n = 10 ** (np.random.rand() / 20)\nm = n - 1\nreturn x * m / n\n", "np.random.rand()", "GB0033"),
        ("torch_random", "n = 10 ** (torch.rand(()) / 20)\nm = n - 1\nreturn x * m / n\n"),
    ),
}


@pytest.mark.parametrize("case", REWRITES)
def test_a_random_number_becomes_one_of_torch(case: str) -> None:
    (body, mark, *code), after = REWRITES[case]
    assert first(body, mark, *code) == after


MISFITS = {
    "a size": ("return x[int(np.random.rand() * 4) :]\n", "np.random.rand()"),
    "a result": ("n = random.random()\nreturn x * n, n\n", "random.random()"),
    "a number alone": ("n = random.random() * 2\nreturn x\n", "random.random()"),
    "a remainder": ("return random.random() % 2 * x\n", "random.random()"),
    "a name that is a result, too": (
        "n = random.random() * 2\nm = n + 1\nreturn x * m, m\n",
        "random.random()",
    ),
    "a name that is a size": ("n = random.random() * 2\nreturn x[int(n) :]\n", "random.random()"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_random_number_stays_where_a_tensor_may_not_stand(case: str) -> None:
    body, mark = MISFITS[case]
    assert rewrites(body, mark, "GB0007") == []
    assert [rewrite.kind for rewrite in refused(body, mark, "GB0007")] == ["torch_random"]


def test_random_numbers_with_a_size_stay() -> None:
    assert rewrites("return x * np.random.rand(3)\n", "np.random.rand(3)", "GB0007") == []


SKIPPED = """\
for layer in self.layers:
    number = {draw}
    if self.training and number < self.drop:
        continue
    x = layer(x)
"""


def test_a_layer_that_is_skipped_at_random_may_also_be_computed() -> None:
    body = (
        f"import torch\n\n\ndef f(self, x):\n{textwrap.indent(SKIPPED.format(draw='torch.rand([])'), '    ')}"
    )
    kinds = {remedy.kind: remedy for remedy in offered(body, "number < self.drop")}
    assert list(kinds) == ["cond", "random_cond", "computed_where"]
    remedy = kinds["computed_where"]
    assert "x = torch.where(number < self.drop, x, layer(x))\n" in remedy.texts["m.py"]
    assert remedy.fix_class is FixClass.CHANGES


def test_a_layer_that_a_flag_skips_at_random_may_also_be_computed() -> None:
    head = "import torch\n\n\ndef f(self, x):\n    for layer in self.layers:\n        skips = False\n"
    drawn = (
        "        if self.training:\n            number = torch.rand([])\n            if number < self.drop:\n"
    )
    layer = "                skips = True\n        if not skips:\n            x = layer(x)\n    return x\n"
    kinds = {remedy.kind: remedy for remedy in offered(head + drawn + layer, "number < self.drop")}
    assert list(kinds) == ["cond", "random_cond", "computed_where"]
    new = kinds["computed_where"].texts["m.py"]
    assert "skips = torch.where(number < self.drop, True, skips)\n" in new
    assert ", layer(x), x)\n" in new
    assert "cond(" not in new


def test_a_branch_that_is_not_random_computes_no_side_in_vain() -> None:
    body = f"import torch\n\n\ndef f(self, x):\n{textwrap.indent(SKIPPED.format(draw='x.sum()'), '    ')}"
    assert [remedy.kind for remedy in offered(body, "number < self.drop")] == ["cond", "random_cond"]


@pytest.mark.parametrize("draw", ["np.random.uniform(0, 1)", "random.uniform(0, 1)"])
@pytest.mark.parametrize("is_at_draw", [True, False])
def test_a_number_that_decides_a_branch_becomes_one_of_torch(draw: str, *, is_at_draw: bool) -> None:
    body = f"import torch\n\n\ndef f(self, x):\n{textwrap.indent(SKIPPED.format(draw=draw), '    ')}"
    mark, code = (draw, "GB0033") if is_at_draw else ("number < self.drop", "GB0170")
    remedies = [remedy for remedy in offered(body, mark, code) if "uniform_(0, 1)" in remedy.texts["m.py"]]
    assert [remedy.kind for remedy in remedies] == ["cond", "computed_where"]
    assert all(
        remedy.fix_class is FixClass.CHANGES and "random numbers" in remedy.changes for remedy in remedies
    )


DECIDED = {
    "and": "self.training and number < self.drop",
    "if": "number < self.drop if self.training else False",
    "not": "not self.eval and number < self.drop",
    "or": "self.mode is None or number < self.drop",
}
"""Values of a flag that is a tensor in some calls and a bool of Python in the others."""


@pytest.mark.parametrize("case", DECIDED)
def test_a_flag_that_python_may_decide_becomes_a_tensor_first(case: str) -> None:
    head = (
        "import torch\n\n\ndef f(self, x):\n    for layer in self.layers:\n        number = torch.rand([])\n"
    )
    flag = f"        is_skipped = {DECIDED[case]}\n        if not is_skipped:\n            x = layer(x)\n    return x\n"
    kinds = {
        remedy.kind: remedy for remedy in offered(head + flag, "if not is_skipped:\n            x = layer(x)")
    }
    assert list(kinds) == ["cond", "random_cond", "computed_where"]
    assert "(torch.logical_not(torch.as_tensor(is_skipped).bool()), " in kinds["computed_where"].texts["m.py"]


def test_a_flag_that_is_always_a_tensor_stays_as_it_is() -> None:
    head = "import torch\n\n\ndef f(self, x):\n    is_skipped = torch.rand([]) < 0.1\n"
    text = f"{head}    for layer in self.layers:\n        if not is_skipped:\n            x = layer(x)\n    return x\n"
    remedies = offered(text, "if not is_skipped:\n            x = layer(x)")
    assert "(torch.logical_not(is_skipped.bool()), " in remedies[-1].texts["m.py"]
