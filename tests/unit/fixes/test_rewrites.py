"""Rewrites: the text before, the finding on it, and the text after."""

from __future__ import annotations

import textwrap

import pytest

from fuselight_server.fixes.rewrites.families import FixClass
from tests.support.offered_remedies import HEAD, first, offered, rewrites


def test_both_sides_return() -> None:
    body = "# before\nif x.sum() > 0:  # positive\n    # twice\n    return x * 2\n\nreturn x - 1  # less\n"
    assert first(body, "x.sum() > 0") == (
        "where",
        "# before\n# positive\n# twice\n# less\nreturn torch.where(x.sum() > 0, x * 2, x - 1)\n",
    )


MEAN = (
    "(torch.where({mask}, {name}, 0).sum(dtype=torch.promote_types({name}.dtype, torch.float32)) / {mask}.sum())"
    ".to({name}.dtype)"
)

REWRITES = {
    "where: both sides assign": (
        ("if x.sum() > 0:\n    y = x * 2\nelse:\n    y = x - 1\nreturn y\n", "x.sum() > 0"),
        ("where", "y = torch.where(x.sum() > 0, x * 2, x - 1)\nreturn y\n"),
    ),
    "where: one side assigns a parameter": (
        ("if x.sum() > 0:\n    x = x * 2\nreturn x\n", "x.sum() > 0"),
        ("where", "x = torch.where(x.sum() > 0, x * 2, x)\nreturn x\n"),
    ),
    "where: a chain": (
        (
            "if x.sum() > 0:\n    y = x * 2\nelif x.sum() < -1:\n    y = x\nelse:\n    y = -x\nreturn y\n",
            "x.sum() > 0",
        ),
        ("where", "y = torch.where(x.sum() > 0, x * 2, torch.where(x.sum() < -1, x, -x))\nreturn y\n"),
    ),
    "where: two names": (
        ("if m.any():\n    x = x + 1\n    y = y * 2\nreturn x + y\n", "m.any()"),
        (
            "where",
            """\
is_selected = m.any()
x = torch.where(is_selected, x + 1, x)
y = torch.where(is_selected, y * 2, y)
return x + y
""",
        ),
    ),
    "where: a tuple is returned": (
        ("if m.any():\n    return x, -x\nelse:\n    return -x, x\n", "m.any()"),
        (
            "where",
            "is_selected = m.any()\nreturn torch.where(is_selected, x, -x), torch.where(is_selected, -x, x)\n",
        ),
    ),
    "where: truth of a tensor": (
        ("t = m.sum()\nif not t:\n    return x\nreturn -x\n", "not t"),
        ("where", "t = m.sum()\nreturn torch.where(torch.logical_not(t.bool()), x, -x)\n"),
    ),
    "where: a conditional expression": (
        ("return 1 + (x + 1 if x.sum() > 0 else x)  # why\n", "x.sum() > 0"),
        ("where", "return 1 + torch.where(x.sum() > 0, x + 1, x)  # why\n"),
    ),
    "where: a flip": (
        ("if x.sum() > 0:\n    x = x.flip(-1)\nreturn x\n", "x.sum() > 0"),
        ("where", "x = torch.where(x.sum() > 0, x.flip(-1), x)\nreturn x\n"),
    ),
    "where: a flip of named dimensions": (
        ("return torch.flip(x, dims=[0]) if x.sum() > 0 else torch.flipud(x)\n", "x.sum() > 0"),
        ("where", "return torch.where(x.sum() > 0, torch.flip(x, dims=[0]), torch.flipud(x))\n"),
    ),
    "where: a row of one drawn number": (
        ("if torch.rand(1) < self.drop:\n    x = x.flip(0)\nreturn x\n", "torch.rand(1) < self.drop"),
        ("where", "x = torch.where(torch.rand(1) < self.drop, x.flip(0), x)\nreturn x\n"),
    ),
    "where: a division by a number of the run": (
        ("return x / self.drop if x.sum() > 0 else x * self.drop\n", "x.sum() > 0"),
        ("where", "return torch.where(x.sum() > 0, x / self.drop, x * self.drop)\n"),
    ),
    "cond: a side that may have side effects": (
        ("if x.sum() > 0:\n    return self.a(x)\nreturn x\n", "x.sum() > 0"),
        ("cond", "return torch.cond(x.sum() > 0, lambda: self.a(x), lambda: x.clone())\n"),
    ),
    "assert_async: raise": (
        ('if x.sum() < 0:  # bad\n    raise ValueError("negative")\nreturn x\n', "x.sum() < 0"),
        (
            "assert_async",
            '# bad\ntorch._assert_async(torch.logical_not(x.sum() < 0), "negative")\nreturn x\n',
        ),
    ),
    "assert_async: a message that is computed": (
        ("assert x.sum() > 0, x.shape\nreturn x\n", "x.sum() > 0"),
        ("assert_async", "torch._assert_async(x.sum() > 0)\nreturn x\n"),
    ),
    "masked_fill: a number": (
        ("y = x.clone()\ny[x > 0] = -1.5  # low\nreturn y\n", "y[x > 0]", "GB0036"),
        ("masked_fill", "y = x.clone()\ny.masked_fill_(x > 0, -1.5)  # low\nreturn y\n"),
    ),
    "where: a masked assignment": (
        ("z = x.clone()\nm = x > 0\nz[m] = x[m] * 2 + torch.tanh(x[m])\nreturn z\n", "x[m]", "GB0036"),
        (
            "where",
            "z = x.clone()\nm = x > 0\nz.copy_(torch.where(m, x * 2 + torch.tanh(x), z))\nreturn z\n",
        ),
    ),
    "where: a sum of what a mask selects": (
        ("return (x + 1)[x > 0].sum() * 2\n", "(x + 1)[x > 0]", "GB0036"),
        ("where", "return torch.where(x > 0, x + 1, 0).sum() * 2\n"),
    ),
    "where: a mean of what a mask selects": (
        ("k = x > 0\nreturn torch.mean(x[k])\n", "x[k]", "GB0036"),
        ("where", f"k = x > 0\nreturn {MEAN.format(name='x', mask='k')}\n"),
    ),
    "where: all reductions of a statement": (
        (
            "k = x > 0\nreturn x[k].sum() / x[k].mean() + (x[0].sum() - x[x < 1].prod()) + y[m].sum()\n",
            "x[k]",
            "GB0036",
        ),
        (
            "where",
            (
                f"k = x > 0\nreturn torch.where(k, x, 0).sum() / {MEAN.format(name='x', mask='k')} "
                "+ (x[0].sum() - torch.where(x < 1, x, 1).prod()) + y[m].sum()\n"
            ),
        ),
    ),
    "output_size: repeats that are written down": (
        (
            "return torch.repeat_interleave(x, torch.tensor([1, 2]), dim=0)\n",
            "torch.repeat_interleave(x, torch.tensor([1, 2]), dim=0)",
            "GB0036",
        ),
        ("output_size", "return torch.repeat_interleave(x, torch.tensor([1, 2]), dim=0, output_size=3)\n"),
    ),
    "count_nonzero: rows of positions": (
        ("n = (x > 0).nonzero().size(0)\nreturn x / n\n", "(x > 0).nonzero()", "GB0036"),
        ("count_nonzero", "n = torch.count_nonzero(x > 0)\nreturn x / n\n"),
    ),
    "count_nonzero: a length": (
        ("return x * len(torch.argwhere(m))\n", "torch.argwhere(m)", "GB0036"),
        ("count_nonzero", "return x * torch.count_nonzero(m)\n"),
    ),
    "count_nonzero: rows of a branch": (
        ("if torch.nonzero(m).shape[0] > 2:\n    return x\nreturn -x\n", "torch.nonzero(m)", "GB0036"),
        ("where", "return torch.where(torch.count_nonzero(m) > 2, x, -x)\n"),
    ),
    "keep_tensor: item": (
        ("return x * (x + 1).max().item()\n", "(x + 1).max().item()", "GB0124"),
        ("keep_tensor", "return x * (x + 1).max().detach()\n"),
    ),
    "keep_tensor: after text that is not ASCII": (
        ('return (x + len("größe 🙂")) * x.sum().item()\n', "x.sum().item()", "GB0124"),
        ("keep_tensor", 'return (x + len("größe 🙂")) * x.sum().detach()\n'),
    ),
    "keep_tensor: an element, which may change later": (
        ("return x - float(x[0])\n", "float(x[0])", "GB0124"),
        ("keep_tensor", "return x - x[0].reshape(()).detach().clone()\n"),
    ),
    "keep_tensor: a name": (
        ("n = x.max().item()  # most\nreturn x * n + (x > n)\n", "x.max().item()", "GB0124"),
        ("keep_tensor", "n = x.max().detach()  # most\nreturn x * n + (x > n)\n"),
    ),
    "keep_tensor: in place": (
        ("n = x.amin().item()\nx -= n\nreturn x.add_(n)\n", "x.amin().item()", "GB0124"),
        ("keep_tensor", "n = x.amin().detach()\nx -= n\nreturn x.add_(n)\n"),
    ),
    "where: a number that is no float32": (
        ("n = y.max().item()\nif n > 0.1:\n    x = -x\nreturn x\n", "y.max().item()", "GB0124"),
        ("where", "n = y.max()\nx = torch.where(n.double() > 0.1, -x, x)\nreturn x\n"),
    ),
    "where: a number in its condition": (
        ("if y.max().item() < -1:\n    return x\nreturn -x\n", "y.max().item()", "GB0124"),
        ("where", "return torch.where(y.max().double() < -1, x, -x)\n"),
    ),
    "where: a number that decides": (
        ("if y.max().item() > 0:\n    return x\nreturn -x\n", "y.max().item()", "GB0124"),
        ("where", "return torch.where(y.max() > 0, x, -x)\n"),
    ),
    "where: a number of a tensor whose sizes are not known decides": (
        ("if self.eps.item() > 0:\n    return x\nreturn -x\n", "self.eps.item()", "GB0124"),
        ("where", "return torch.where(self.eps.reshape(()) > 0, x, -x)\n"),
    ),
    "where: the name of a number that decides": (
        (
            "n = float(x.max())\nif not n > 0:\n    x = x * n\nreturn x + n\n",
            "float(x.max())",
            "GB0124",
        ),
        (
            "where",
            "n = x.max().detach()\nx = torch.where(torch.logical_not(n > 0), x * n, x)\nreturn x + n\n",
        ),
    ),
    "where: after a test without a tensor": (
        ("if y is not None and x.sum() > 0:  # why\n    x = x * 2\nreturn x\n", "x.sum() > 0"),
        ("where", "# why\nif y is not None:\n    x = torch.where(x.sum() > 0, x * 2, x)\nreturn x\n"),
    ),
    "where: a return after a test without a tensor": (
        ("if x.sum() > 0 and self.training:\n    return x * 2\nreturn x\n", "x.sum() > 0"),
        ("where", "if self.training:\n    return torch.where(x.sum() > 0, x * 2, x)\nreturn x\n"),
    ),
    "where: continue": (
        (
            "for a in y:\n    p = a.sum()\n    if p < 0:\n        continue  # skip\n    x = x * 2\nreturn x\n",
            "p < 0",
        ),
        (
            "where",
            "for a in y:\n    p = a.sum()\n    # skip\n    x = torch.where(p < 0, x, x * 2)\nreturn x\n",
        ),
    ),
    "cond: an operand that Dynamo has not seen": (
        ("if not m.any() or self.sync:\n    x = self.a(x)\nreturn x\n", "not m.any() or self.sync"),
        (
            "cond",
            (
                "x = torch.cond(torch.logical_or(torch.logical_not(m.any()), torch.as_tensor(self.sync)), "
                "lambda: self.a(x), lambda: x.clone())\nreturn x\n"
            ),
        ),
    ),
    "cond: a flag that may be no tensor": (
        (
            "skip = False\nif y:\n    skip = x.sum() > 0\nif not skip:\n    x = self.a(x, **y)\nreturn x\n",
            "not skip",
        ),
        (
            "cond",
            (
                "skip = False\nif y:\n    skip = x.sum() > 0\n"
                "x = torch.cond(torch.logical_not(torch.as_tensor(skip)), "
                "lambda: self.a(x, **y), lambda: x.clone())\nreturn x\n"
            ),
        ),
    ),
    "where: a comment in a value": (
        ("if x.sum() > 0:\n    return torch.abs(\n        x,  # a\n    )\nreturn x\n", "x.sum() > 0"),
        ("where", "# a\nreturn torch.where(x.sum() > 0, torch.abs(x), x)\n"),
    ),
    "where: continue after a test without a tensor": (
        (
            "for a in y:\n    if self.training and torch.rand([]) < 0.5:\n        continue\n    x = x * 3\nreturn x\n",
            "torch.rand([]) < 0.5",
        ),
        (
            "where",
            """\
for a in y:
    if self.training:
        x = torch.where(torch.rand([]) < 0.5, x, x * 3)
    else:
        x = x * 3
return x
""",
        ),
    ),
    "cond: continue under a test without a tensor": (
        (
            """\
for layer in self.layers:
    if self.training:
        p = torch.rand([])
        if p < self.drop:
            continue
    x = layer(
        x,
        m,  # by position
    )
return x
""",
            "p < self.drop",
        ),
        (
            "cond",
            """\
for layer in self.layers:
    if self.training:
        p = torch.rand([])
        # by position
        x = torch.cond(p < self.drop, lambda: x.clone(), lambda: layer(x, m))
    else:
        x = layer(x, m)
return x
""",
        ),
    ),
    "cond: a flag that a branch decides": (
        (
            """\
for layer in self.layers:
    drop = False
    if m:
        if torch.rand([]) < self.drop:  # skip
            drop = True
    if not drop:
        x = layer(x)
return x
""",
            "torch.rand([]) < self.drop",
        ),
        (
            "cond",
            """\
for layer in self.layers:
    drop = False
    if m:
        # skip
        drop = torch.where(torch.rand([]) < self.drop, True, drop)
    x = torch.cond(torch.logical_not(torch.as_tensor(drop)), lambda: layer(x), lambda: x.clone())
return x
""",
        ),
    ),
    "assert_async: after a test without a tensor": (
        ("if y is not None and x.sum() < 0:\n    raise ValueError(y)\nreturn x\n", "x.sum() < 0"),
        (
            "assert_async",
            "if y is not None:\n    torch._assert_async(torch.logical_not(x.sum() < 0))\nreturn x\n",
        ),
    ),
    "clone_argument: one tensor twice": (
        ("return F.apply(x, y, x, 2, x)  # z\n", "F.apply(x, y, x, 2, x)", "GB6297"),
        ("clone_argument", "return F.apply(x, y, x.clone(), 2, x.clone())  # z\n"),
    ),
}


@pytest.mark.parametrize("case", REWRITES)
def test_a_rewrite(case: str) -> None:
    (body, mark, *code), after = REWRITES[case]
    assert first(body, mark, *code) == after


REFUSED = {
    "a mask and an index": ("y[m, 0] = 1\nreturn y\n", "y[m, 0]", "GB0036"),
    "a value of other elements": ("y[m] = x[m].cumsum(0)\nreturn y\n", "x[m]", "GB0036"),
    "two masks": ("y[m] = x[x > 0]\nreturn y\n", "x[x > 0]", "GB0036"),
    "a masked sum along a dimension": ("return x[m].sum(0)\n", "x[m]", "GB0036"),
    "repeats that are computed": (
        ("return torch.repeat_interleave(x, y)\n"),
        "torch.repeat_interleave(x, y)",
        "GB0036",
    ),
    "a number as an index": ("return x[y.max().item()]\n", "y.max().item()", "GB0124"),
    "a number in an f-string": ('return f"{y.max().item() * 2}"\n', "y.max().item()", "GB0124"),
    "a number that decides": (
        "if y.max().item() > 0:\n    return x\nreturn print(y)\n",
        "y.max().item()",
        "GB0124",
    ),
    "a number whose name is an index": (
        "n = y.max().item()\nreturn x[:n] + n\n",
        "y.max().item()",
        "GB0124",
    ),
    "a number whose name has other values": (
        "n = y.max().item()\nif m:\n    n = 2\nreturn x + n\n",
        "y.max().item()",
        "GB0124",
    ),
    "a number whose name a function reads": (
        "n = y.max().item()\nreturn lambda: x + n\n",
        "y.max().item()",
        "GB0124",
    ),
    "a number that is returned": ("n = y.max().item()\nreturn x + n, n\n", "y.max().item()", "GB0124"),
    "a number in text": ("return '%s' % y.max().item()\n", "y.max().item()", "GB0124"),
    "a number in a loop": (
        "while y.max().item() > 0:\n    y = y - 1\nreturn y\n",
        "y.max().item()",
        "GB0124",
    ),
    "continue before two statements": (
        "for a in y:\n    if x.sum() > 0:\n        continue\n    x = x + 1\n    x = x + a\nreturn x\n",
        "x.sum() > 0",
    ),
    "continue after a name without a value": (
        "for a in y:\n    if x.sum() > 0:\n        continue\n    z = a\nreturn x\n",
        "x.sum() > 0",
    ),
    "an else after a test without a tensor": (
        "if y is None and x.sum() > 0:\n    x = x + 1\nelse:\n    x = x * 2\nreturn x\n",
        "x.sum() > 0",
    ),
    "arguments that differ": ("return F.apply(x, y, *x)\n", "F.apply(x, y, *x)", "GB6297"),
    "a side effect": ("if x.sum() > 0:\n    y.append(x)\nreturn x\n", "x.sum() > 0"),
    "a change in place": ("if x.sum() > 0:\n    x = x.add_(1)\nreturn x\n", "x.sum() > 0"),
    "an augmented assignment": ("if x.sum() > 0:\n    x += 1\nreturn x\n", "x.sum() > 0"),
    "other names": ("if x.sum() > 0:\n    y = x\nelse:\n    z = x\nreturn x\n", "x.sum() > 0"),
    "a name without a value before": ("if x.sum() > 0:\n    z = x\nreturn x\n", "x.sum() > 0"),
    "values that depend on each other": (
        "if m.any():\n    x = x + 1\n    y = x * 2\nreturn x + y\n",
        "m.any()",
    ),
    "a random number": ("if x.sum() > 0:\n    return torch.rand(4)\nreturn print(x)\n", "x.sum() > 0"),
    "an elif": ("if y:\n    return x\nelif x.sum() > 0:\n    return y\nreturn m\n", "x.sum() > 0"),
    "None": ("if x.sum() > 0:\n    return None\nreturn x\n", "x.sum() > 0"),
    "text": ('if x.sum() > 0:\n    y = "a"\nelse:\n    y = "b"\nreturn x\n', "x.sum() > 0"),
    "a walrus": ("if (n := x.sum()) > 0:\n    return x\nreturn n\n", "(n := x.sum()) > 0"),
    "a chained comparison": ("if 0 < x.sum() < 1:\n    return x\nreturn y\n", "0 < x.sum() < 1"),
    "a loop": ("while x.sum() > 0:\n    x = x - 1\nreturn x\n", "x.sum() > 0"),
    "a comment that acts on its line": (
        "if x.sum() > 0:  # noqa: ABC\n    return x\nreturn y\n",
        "x.sum() > 0",
    ),
    "one line": ("if x.sum() > 0: return x\nreturn y\n", "x.sum() > 0"),
    "star arguments": ("if x.sum() > 0:\n    return torch.cat(*y)\nreturn {**y}\n", "x.sum() > 0"),
    "a comprehension": ("return [a if x.sum() > 0 else b for a, b in y]\n", "x.sum() > 0"),
    "a lambda": ("return lambda a: a if x.sum() > 0 else y\n", "x.sum() > 0"),
    "an f-string": ('return f"{x if x.sum() > 0 else y}"\n', "x.sum() > 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_remedy_for(case: str) -> None:
    body, mark, *code = REFUSED[case]
    assert rewrites(body, mark, *code) == []


SCALED = {
    "if x.sum() > 0:\n    x = x * self.drop\nreturn x\n": True,
    "if x.sum() > 0:\n    return torch.mul(x, self.drop)\nreturn x\n": True,
    "return self.drop * x if x.sum() > 0 else x\n": True,
    "if x.sum() > self.drop:\n    x = x * 2\nreturn x\n": False,
    "if x.sum() > 0:\n    x = x + self.drop\nreturn x\n": True,
    "if x.sum() > 0:\n    x = x * 2\nreturn x * self.drop\n": False,
}


@pytest.mark.parametrize("body", SCALED)
def test_torch_where_asks_for_numbers_also_where_they_are_not_used(body: str) -> None:
    """The gradient of the side that is not taken is zero, and zero times infinity is NaN; times None, it fails."""
    text = HEAD + textwrap.indent(body, "    ")
    mark = next(mark for mark in ("x.sum() > 0", "x.sum() > self.drop") if mark in body)
    (remedy,) = [remedy for remedy in offered(text, mark) if remedy.kind == "where"]
    words = "`self.drop` must be a finite number, also where its side is not taken"
    assert remedy.caveat == (words if SCALED[body] else "")


def test_torch_where_asks_for_a_divisor_that_is_not_zero() -> None:
    body = "if x.sum() > 0:\n    return x / self.drop\nreturn x * self.drop\n"
    text = HEAD + textwrap.indent(body, "    ")
    (remedy,) = [remedy for remedy in offered(text, "x.sum() > 0") if remedy.kind == "where"]
    assert remedy.caveat.endswith("is not taken, and `self.drop` not 0")


def test_a_form_feed_hides_no_number_of_a_side() -> None:
    body = next(body for body, asks in SCALED.items() if asks)
    text = f"FIRST = 1\n\x0c\nSECOND = 2\n\x0c\n{HEAD}{textwrap.indent(body, '    ')}"
    (remedy,) = [remedy for remedy in offered(text, "x.sum() > 0") if remedy.kind == "where"]
    assert "`self.drop` must be a finite number" in remedy.caveat


def test_torch_cond_says_what_layers_lose_in_training() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        self.a = nn.Linear(4, 4)\n        self.b = nn.Dropout()\n\n    def forward(self, x):\n"
        "        if x.sum() > 0:\n            x = self.a(x)\n        return x\n"
    )
    remedies = offered(text, "x.sum() > 0")
    assert [remedy.kind for remedy in remedies] == ["cond", "random_cond"]
    assert all(
        remedy.fix_class is FixClass.CHANGES and "gradients of zero" in remedy.changes for remedy in remedies
    )


@pytest.mark.parametrize("start", ["", "\ufeff", "# -*- coding: utf-8 -*-\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("step", ["\t", "  ", "    "])
def test_layout_is_kept(start: str, newline: str, step: str) -> None:
    head = f"{start}import torch as th\n\ndef f(x):  # größe\n>y = '🙂'\n"
    before = f"{head}>if x.sum() > 0:  # ü\n>>return x\n>return -x"
    after = f"{head}># ü\n>return th.where(x.sum() > 0, x, -x)"
    before, after = (
        text.replace("> ", "\0").replace(">", step).replace("\0", "> ").replace("\n", newline)
        for text in (before, after)
    )
    (remedy,) = offered(before, "x.sum() > 0")
    assert remedy.texts["m.py"] == after
    assert remedy.fix_class is FixClass.EQUAL


def test_half_typed_code_has_no_remedy() -> None:
    text = "import torch\n\ndef f(x):\n    y = (\n    if x.sum() > 0:\n        return x\n    return -x\n"
    assert offered(text, "x.sum() > 0") == ()
