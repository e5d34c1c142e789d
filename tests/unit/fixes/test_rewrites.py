"""Rewrites: the text before, the finding on it, and the text after."""

from __future__ import annotations

import textwrap

import pytest

from fuselight.report import Report, TargetRef, Tier, Versions
from fuselight_server.finding import Finding, Severity, Span
from fuselight_server.fixes import FixClass, Remedy, remedies

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")


def offered(text: str, mark: str, code: str = "GB0170", *, subject: str = "") -> tuple[Remedy, ...]:
    """The remedies for a finding at the first occurrence of `mark` in `text`."""
    at = text.encode().index(mark.encode())
    before = text.encode()[:at]
    line, column = before.count(b"\n") + 1, at - (before.rfind(b"\n") + 1)
    end = before + mark.encode()
    end_line, end_column = end.count(b"\n") + 1, len(end) - (end.rfind(b"\n") + 1)
    span = Span("m.py", line, column, end_line, end_column)
    finding = Finding(
        *(code, Severity.WARNING, "title", "message", span, Tier.CAPTURE, "f", "", "2.13.0"), subject=subject
    )
    report = Report(VERSIONS, TargetRef("m.py", "f", 1, "function"), Tier.CAPTURE, 1)
    return remedies(finding, report, {"m.py": text}.get)


CONFIGURATION = {
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "reorderable_logging_functions",
    "ignore_logging_functions",
}
"""Kinds that are settings of torch._dynamo: they do not rewrite the statement."""


def first(body: str, mark: str, code: str = "GB0170") -> tuple[str, str]:
    """Kind of the first remedy for a function's body, and the new body."""
    head = "import torch\n\n\ndef f(self, x, y, m):\n"
    found = [
        one
        for one in offered(head + textwrap.indent(body, "    "), mark, code)
        if one.kind not in CONFIGURATION
    ]
    assert found, "no remedy"
    after = found[0].texts["m.py"]
    assert after.startswith(head)
    return found[0].kind, textwrap.dedent(after[len(head) :])


def test_both_sides_return() -> None:
    body = "# before\nif x.sum() > 0:  # positive\n    # twice\n    return x * 2\n\nreturn x - 1  # less\n"
    assert first(body, "x.sum() > 0") == (
        "where",
        "# before\n# positive\n# twice\n# less\nreturn torch.where(x.sum() > 0, x * 2, x - 1)\n",
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
        ("if m.any():\n    return x, y\nelse:\n    return y, x\n", "m.any()"),
        (
            "where",
            "is_selected = m.any()\nreturn torch.where(is_selected, x, y), torch.where(is_selected, y, x)\n",
        ),
    ),
    "where: truth of a tensor": (
        ("if not m[0]:\n    return x\nreturn y\n", "not m[0]"),
        ("where", "return torch.where(torch.logical_not(m[0].bool()), x, y)\n"),
    ),
    "where: a conditional expression": (
        ("return 1 + (x + 1 if x.sum() > 0 else x)  # why\n", "x.sum() > 0"),
        ("where", "return 1 + torch.where(x.sum() > 0, x + 1, x)  # why\n"),
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
        ("y[m] = x[m] * 2 + torch.exp(x[m])\nreturn y\n", "x[m]", "GB0036"),
        ("where", "y.copy_(torch.where(m, x * 2 + torch.exp(x), y))\nreturn y\n"),
    ),
    "where: a sum of what a mask selects": (
        ("return (x + 1)[x > 0].sum() * 2\n", "(x + 1)[x > 0]", "GB0036"),
        ("where", "return torch.where(x > 0, x + 1, 0).sum() * 2\n"),
    ),
    "where: a mean of what a mask selects": (
        ("return torch.mean(x[m])\n", "x[m]", "GB0036"),
        ("where", "return (torch.where(m, x, 0).sum() / m.sum())\n"),
    ),
    "where: all reductions of a statement": (
        ("return x[m].sum() / y[m].mean() + (x[0].sum() - x[y > 0].prod())\n", "x[m]", "GB0036"),
        (
            "where",
            (
                "return torch.where(m, x, 0).sum() / (torch.where(m, y, 0).sum() / m.sum()) "
                "+ (x[0].sum() - torch.where(y > 0, x, 1).prod())\n"
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
    "keep_tensor: item": (
        ("return x * (y + 1).max().item()\n", "(y + 1).max().item()", "GB0124"),
        ("keep_tensor", "return x * (y + 1).max().detach()\n"),
    ),
    "keep_tensor: after text that is not ASCII": (
        ('return x + len("größe 🙂") * x.sum().item()\n', "x.sum().item()", "GB0124"),
        ("keep_tensor", 'return x + len("größe 🙂") * x.sum().detach()\n'),
    ),
    "keep_tensor: float": (
        ("return x - float(y[0] + 1)\n", "float(y[0] + 1)", "GB0124"),
        ("keep_tensor", "return x - (y[0] + 1).detach()\n"),
    ),
    "keep_tensor: int": (
        ("return x - int(y.sum())  # less\n", "int(y.sum())", "GB0124"),
        ("keep_tensor", "return x - y.sum().long()  # less\n"),
    ),
    "keep_tensor: a name": (
        ("n = y.max().item()  # most\nreturn x * n + x.clamp(max=n)\n", "y.max().item()", "GB0124"),
        ("keep_tensor", "n = y.max().detach()  # most\nreturn x * n + x.clamp(max=n)\n"),
    ),
    "keep_tensor: two conversions": (
        ("n = int(y.max().item())\nx -= n\nreturn x\n", "y.max().item()", "GB0124"),
        ("keep_tensor", "n = y.max().long()\nx -= n\nreturn x\n"),
    ),
    "where: a number that decides": (
        ("if y.max().item() > 0:\n    return x\nreturn -x\n", "y.max().item()", "GB0124"),
        ("where", "return torch.where(y.max() > 0, x, -x)\n"),
    ),
    "where: the name of a number that decides": (
        (
            "n = float(y.max())\nif not n > 0:\n    x = x * n\nreturn x + n\n",
            "float(y.max())",
            "GB0124",
        ),
        (
            "where",
            "n = y.max().detach()\nx = torch.where(torch.logical_not(n > 0), x * n, x)\nreturn x + n\n",
        ),
    ),
    "where: after a test without a tensor": (
        ("if y is not None and x.sum() > 0:  # why\n    x = x * y\nreturn x\n", "x.sum() > 0"),
        ("where", "# why\nif y is not None:\n    x = torch.where(x.sum() > 0, x * y, x)\nreturn x\n"),
    ),
    "where: a return after a test without a tensor": (
        ("if x.sum() > 0 and self.training:\n    return x * y\nreturn x\n", "x.sum() > 0"),
        ("where", "if self.training:\n    return torch.where(x.sum() > 0, x * y, x)\nreturn x\n"),
    ),
    "where: continue": (
        (
            "for a in y:\n    p = a.sum()\n    if p < 0:\n        continue  # skip\n    x = x * a\nreturn x\n",
            "p < 0",
        ),
        (
            "where",
            "for a in y:\n    p = a.sum()\n    # skip\n    x = torch.where(p < 0, x, x * a)\nreturn x\n",
        ),
    ),
    "cond: an operand that Dynamo has not seen": (
        ("if not m or self.sync:\n    x = self.a(x)\nreturn x\n", "not m or self.sync"),
        (
            "cond",
            (
                "x = torch.cond(torch.logical_or(torch.logical_not(m.bool()), torch.as_tensor(self.sync)), "
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
        ("if x.sum() > 0:\n    return torch.abs(\n        x,  # a\n    )\nreturn y\n", "x.sum() > 0"),
        ("where", "# a\nreturn torch.where(x.sum() > 0, torch.abs(x), y)\n"),
    ),
    "where: continue after a test without a tensor": (
        (
            "for a in y:\n    if self.training and torch.rand([]) < 0.5:\n        continue\n    x = x * a\nreturn x\n",
            "torch.rand([]) < 0.5",
        ),
        (
            "where",
            """\
for a in y:
    if self.training:
        x = torch.where(torch.rand([]) < 0.5, x, x * a)
    else:
        x = x * a
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
    "torch_random: NumPy": (
        ("return x * np.random.rand()\n", "np.random.rand()", "GB0007"),
        ("torch_random", "return x * torch.rand(())\n"),
    ),
    "torch_random: between two limits": (
        ("return x * random.uniform(0.5, 2)\n", "random.uniform(0.5, 2)", "GB0007"),
        ("torch_random", "return x * torch.empty(()).uniform_(0.5, 2)\n"),
    ),
    "plain_tensor: a new tensor": (
        (
            "p = torch.nn.Parameter(torch.zeros(4))\nreturn x + p\n",
            "torch.nn.Parameter(torch.zeros(4))",
            "GB0264",
        ),
        ("plain_tensor", "p = torch.zeros(4)\nreturn x + p\n"),
    ),
    "plain_tensor: a computed value": (
        ("return torch.nn.Parameter(x * 2) + torch.pi\n", "torch.nn.Parameter(x * 2)", "GB0264"),
        ("plain_tensor", "return (x * 2).detach() + torch.pi\n"),
    ),
    "clone_argument: one tensor twice": (
        ("return F.apply(x, y, x, 2, x)  # z\n", "F.apply(x, y, x, 2, x)", "GB6297"),
        ("clone_argument", "return F.apply(x, y, x.clone(), 2, x.clone())  # z\n"),
    ),
    "graph_print: tensors and text": (
        (
            'print("sum", x.sum(), f"{y.mean():.2f} of {m!r}")\nreturn y\n',
            'print("sum", x.sum(), f"{y.mean():.2f} of {m!r}")',
            "GB0059",
        ),
        (
            "graph_print",
            'torch._higher_order_ops.print("sum {!s} {:.2f} of {!r}", x.sum(), y.mean(), m)\nreturn y\n',
        ),
    ),
    "is_compiling: print to a file": (
        ("print(x, file=y)\nreturn y\n", "print(x, file=y)", "GB0059"),
        ("is_compiling", "if not torch.compiler.is_compiling():\n    print(x, file=y)\nreturn y\n"),
    ),
    "is_compiling: print of text with braces": (
        ("print('{}', x)\nreturn y\n", "print('{}', x)", "GB0059"),
        ("is_compiling", "if not torch.compiler.is_compiling():\n    print('{}', x)\nreturn y\n"),
    ),
    "is_compiling: print over several lines": (
        (
            'y = x\nprint(\n    "a",  # one\n    x,\n)  # two\nreturn y\n',
            'print(\n    "a",  # one\n    x,\n)',
            "GB0059",
        ),
        (
            "is_compiling",
            """\
y = x
if not torch.compiler.is_compiling():
    print(
        "a",  # one
        x,
    )  # two
return y
""",
        ),
    ),
    "is_compiling: a logger": (
        ('logger.info("a %s", x)\nreturn y\n', 'logger.info("a %s", x)', "GB0291"),
        ("is_compiling", 'if not torch.compiler.is_compiling():\n    logger.info("a %s", x)\nreturn y\n'),
    ),
}


@pytest.mark.parametrize("case", REWRITES)
def test_a_rewrite(case: str) -> None:
    (body, mark, *code), after = REWRITES[case]
    assert first(body, textwrap.indent(mark, "    ").lstrip(), *code) == after


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
    "random numbers with a size": ("return x * np.random.rand(3)\n", "np.random.rand(3)", "GB0007"),
    "a parameter of the module": (
        "self.p = torch.nn.Parameter(x)\nreturn x\n",
        "torch.nn.Parameter(x)",
        "GB0264",
    ),
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
    "print as a value": ("y = print(x)\nreturn y\n", "print(x)", "GB0059"),
    "print beside another statement": ("y = x; print(x)\nreturn y\n", "print(x)", "GB0059"),
    "print after a colon": ("if y: print(x)\nreturn y\n", "print(x)", "GB0059"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_remedy_for(case: str) -> None:
    body, mark, *code = REFUSED[case]
    text = "import torch\n\n\ndef f(self, x, y, m):\n" + textwrap.indent(body, "    ")
    assert [one for one in offered(text, mark, *(code or ["GB0170"])) if one.kind not in CONFIGURATION] == []


def test_a_module_of_torch_may_be_computed_on_both_sides() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        self.a = nn.Linear(4, 4)\n        self.b = nn.Dropout()\n\n    def forward(self, x):\n"
        "        if x.sum() > 0:\n            x = self.a(x)\n        return x\n"
    )
    assert [one.kind for one in offered(text, "x.sum() > 0")] == ["where"]
    assert [one.kind for one in offered(text.replace("self.a(x)", "self.b(x)"), "x.sum() > 0")] == ["cond"]


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


def test_torch_is_imported_where_the_new_code_needs_it() -> None:
    text = "from math import pi\n\n\ndef f(x):\n    print(x)\n    return x * pi\n"
    *_, remedy = offered(text, "print(x)", "GB0059")
    assert remedy.texts["m.py"] == (
        "from math import pi\nimport torch\n\n\ndef f(x):\n"
        "    if not torch.compiler.is_compiling():\n        print(x)\n    return x * pi\n"
    )
    assert remedy.changes


@pytest.mark.parametrize("text", ["'a\\tb'", "'\\x1b[1m'", "f'a\tb{x}'"])
def test_text_that_cannot_be_seen_stays_as_it_is_written(text: str) -> None:
    body = f"import torch\n\n\ndef f(x):\n    print({text}, x)\n    return x\n"
    assert "graph_print" not in [one.kind for one in offered(body, f"print({text}, x)", "GB0059")]
    plain = "import torch\n\n\ndef f(x):\n    print('a', x)\n    return x\n"
    assert "graph_print" in [one.kind for one in offered(plain, "print('a', x)", "GB0059")]


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
    kinds = {one.kind: one for one in offered(body, "number < self.drop")}
    assert list(kinds) == ["cond", "computed_where"]
    found = kinds["computed_where"]
    assert "x = torch.where(number < self.drop, x, layer(x))\n" in found.texts["m.py"]
    assert found.fix_class is FixClass.CHANGES


def test_a_layer_that_a_flag_skips_at_random_may_also_be_computed() -> None:
    head = "import torch\n\n\ndef f(self, x):\n    for layer in self.layers:\n        skips = False\n"
    drawn = (
        "        if self.training:\n            number = torch.rand([])\n            if number < self.drop:\n"
    )
    layer = "                skips = True\n        if not skips:\n            x = layer(x)\n    return x\n"
    kinds = {one.kind: one for one in offered(head + drawn + layer, "number < self.drop")}
    assert list(kinds) == ["cond", "computed_where"]
    new = kinds["computed_where"].texts["m.py"]
    assert "skips = torch.where(number < self.drop, True, skips)\n" in new
    assert ", layer(x), x)\n" in new
    assert "cond(" not in new


def test_a_branch_that_is_not_random_computes_no_side_in_vain() -> None:
    body = f"import torch\n\n\ndef f(self, x):\n{textwrap.indent(SKIPPED.format(draw='x.sum()'), '    ')}"
    assert [one.kind for one in offered(body, "number < self.drop")] == ["cond"]


@pytest.mark.parametrize("draw", ["np.random.uniform(0, 1)", "random.uniform(0, 1)"])
@pytest.mark.parametrize("is_at_draw", [True, False])
def test_a_number_that_decides_a_branch_becomes_one_of_torch(draw: str, *, is_at_draw: bool) -> None:
    body = f"import torch\n\n\ndef f(self, x):\n{textwrap.indent(SKIPPED.format(draw=draw), '    ')}"
    mark, code = (draw, "GB0033") if is_at_draw else ("number < self.drop", "GB0170")
    found = [one for one in offered(body, mark, code) if "uniform_(0, 1)" in one.texts["m.py"]]
    assert [one.kind for one in found] == ["cond", "computed_where"]
    assert all(one.fix_class is FixClass.CHANGES and "random numbers" in one.changes for one in found)


IN_EAGER_MODE = "if not torch.compiler.is_compiling():\n    "
FLAGS = {
    "h.requires_grad = True\nreturn h\n": f"{IN_EAGER_MODE}h.requires_grad = True\nreturn h\n",
    "h.requires_grad_()\nreturn h\n": f"{IN_EAGER_MODE}h.requires_grad_()\nreturn h\n",
    "h.requires_grad = False\nreturn h\n": "",
    "h.requires_grad_(False)\nreturn h\n": "",
    "return h.requires_grad_()\n": ("return h if torch.compiler.is_compiling() else h.requires_grad_()\n"),
    "x = torch.zeros(2).requires_grad_(True)\nreturn x\n": (
        "x = torch.zeros(2) if torch.compiler.is_compiling() else torch.zeros(2).requires_grad_(True)\nreturn x\n"
    ),
    "return [h.requires_grad_()]\n": "",
}


@pytest.mark.parametrize("body", FLAGS)
def test_a_tensor_that_is_to_require_a_gradient(body: str) -> None:
    head = "import torch\n\n\ndef f(h):\n"
    mark = next(one for one in ("h.requires_grad", "torch.zeros(2).requires_grad_(True)") if one in body)
    found = offered(head + textwrap.indent(body, "    "), mark, "GB0206")
    texts = [textwrap.dedent(one.texts["m.py"][len(head) :]) for one in found]
    assert texts == ([FLAGS[body]] if FLAGS[body] else [])
