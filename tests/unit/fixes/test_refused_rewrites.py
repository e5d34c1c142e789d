"""Rewrites that are right for some calls only: none is offered, and the reason is said."""

from __future__ import annotations

import pytest

from fuselight.shared.report import FactKind, TracedValue
from fuselight_server.fixes.rewrites import families
from fuselight_server.fixes.syntax.traced_names import is_number_value
from tests.support.offered_remedies import finding_at, offered, refused, rewrites

NUMBERS = {
    "arithmetic of Python": ("n = x.max().item()\nreturn x * (n - 5)\n", "x.max().item()", "wraps"),
    "a function of lists": (
        "torch._foreach_mul_(y, x.max().item())\nreturn x\n",
        "x.max().item()",
        "`torch._foreach_mul_` gets `x.max().item()`, and may need a number: if it takes a tensor, pass the tensor",
    ),
    "a comparison": (
        "top = x.max().item() != x.shape[0]\nreturn x * top\n",
        "x.max().item()",
        "a branch on it",
    ),
    "a sign": ("n = x.max().item()\nreturn x * -n\n", "x.max().item()", "wraps"),
    "a square": ("n = x.max().item()\nreturn x + n * n\n", "x.max().item()", "wraps"),
    "a power of ten": ("n = x.max().item()\nreturn x + 10**n\n", "x.max().item()", "`10**n` may have"),
    "an exponent": ("return x ** x.max().item()\n", "x.max().item()", "other values with a tensor"),
    "a remainder": ("return x % x.max().item()\n", "x.max().item()", "other values with a tensor"),
    "the left operand of a division": (
        "return x.max().item() / x\n",
        "x.max().item()",
        "other values with a tensor",
    ),
    "another tensor's dtype": ("return x * y.max().item()\n", "y.max().item()", "another than `x`"),
    "a converted tensor": (
        "return x * x.double().max().item()\n",
        "x.double().max().item()",
        "another than `x`",
    ),
    "a tensor that changes its dtype": (
        "n = x.max().item()\nx = x.long()\nreturn x * n\n",
        "x.max().item()",
        "another than `x`",
    ),
    "an integer of a fraction": ("return x - int(x.sum())\n", "int(x.sum())", "NaN"),
    "a result": ("n = x.max().item()\nreturn x * n, n\n", "x.max().item()", "callers get `n` as a number"),
    "an element of a result": (
        'return {"x": x, "top": [x.max().item()]}\n',
        "x.max().item()",
        "callers get `x.max().item()` as a number: if they take a tensor, return the tensor",
    ),
    "an argument of a function": (
        "return LOG.scaled(x, top=x.max().item())\n",
        "x.max().item()",
        "`LOG.scaled` gets",
    ),
    "an attribute": ("self.top = x.max().item()\nreturn x\n", "x.max().item()", "stored"),
    "a global": ("global n\nn = x.max().item()\nreturn x * n\n", "x.max().item()", "several places"),
    "a function inside": (
        "n = x.max().item()\nreturn [a * n for a in x]\n",
        "x.max().item()",
        "a comprehension",
    ),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_a_number_stays_where_a_tensor_differs(case: str) -> None:
    body, mark, reason = NUMBERS[case]
    assert rewrites(body, mark, "GB0124") == []
    (refusal,) = refused(body, mark, "GB0124")
    assert refusal.kind == "keep_tensor"
    assert reason in refusal.reason


BRANCHES = {
    "numbers": ("n = 0.1 if x.sum() > 0 else 0.3\nreturn x * n\n", "x.sum() > 0", "Python numbers"),
    "a number and a tensor": ("return x if x.sum() > 0 else 0\n", "x.sum() > 0", "on the other"),
    "another shape": (
        "if x.sum() > 0:\n    return x.sum(0, keepdim=True)\nreturn x * 1\n",
        "x.sum() > 0",
        "another shape",
    ),
    "a parameter that has another shape": (
        "if x.sum() > 0:\n    y = x * 2\nreturn y\n",
        "x.sum() > 0",
        "`x * 2` and `y` may have different shapes",
    ),
    "a tensor that may broadcast": ("if x.sum() > 0:\n    x = x * y\nreturn x\n", "x.sum() > 0", "shapes"),
    "another dtype": ("return x.long() if x.sum() > 0 else x\n", "x.sum() > 0", "dtypes"),
    "a method of a user's object": (
        "if x.sum() > 0:\n    return LOG.norm(x)\nreturn x\n",
        "x.sum() > 0",
        "have an effect",
    ),
    "a module of the user's": ("if x.sum() > 0:\n    return F.relu(x)\nreturn x\n", "x.sum() > 0", "tensor"),
    "an index that may not be there": (
        "if x.sum() > 0:\n    return x[3]\nreturn x[0]\n",
        "x.sum() > 0",
        "fail",
    ),
    "a dimension that may not be there": (
        "if x.sum() > 0:\n    return x.softmax(1)\nreturn x\n",
        "x.sum() > 0",
        "fail",
    ),
    "a dimension of a function": (
        "return torch.softmax(x, 2) if x.sum() > 0 else x * 1.5\n",
        "x.sum() > 0",
        "fail",
    ),
    "a flip of a dimension that is not there": (
        "if x.sum() > 0:\n    return x.flip(1)\nreturn x\n",
        "x.sum() > 0",
        "fail",
    ),
    "a flip of one dimension twice": (
        "if x.sum() > 0:\n    return x.flip(0, -1)\nreturn x\n",
        "x.sum() > 0",
        "fail",
    ),
    "a flip of rows that are not there": (
        "return torch.fliplr(x) if x.sum() > 0 else x\n",
        "x.sum() > 0",
        "fail",
    ),
    "a flip of a dimension that is computed": (
        "return x.flip(y.dim() - 1) if x.sum() > 0 else x\n",
        "x.sum() > 0",
        "fail",
    ),
    "a logarithm": ("return torch.log(x) if x.sum() > 0 else x * 1.5\n", "x.sum() > 0", "NaN"),
    "a division by a tensor": ("return x / x if x.sum() > 0 else x * 1.5\n", "x.sum() > 0", "NaN"),
    "a matrix product": ("return x @ x if x.sum() > 0 else x\n", "x.sum() > 0", "fail"),
    "several elements": ("if x > 0:\n    return x\nreturn -x\n", "x > 0", "several elements"),
    "the truth of several": ("if not m:\n    return x\nreturn -x\n", "not m", "several elements"),
    "a row of one number": (
        "if torch.rand(1) < 0.5:\n    return x.sum() * 2\nreturn x.sum()\n",
        "torch.rand(1) < 0.5",
        "`torch.rand(())` has none",
    ),
    "rows of one number": (
        "if torch.randn((1, 1)) > 0:\n    return x * 2\nreturn x\n",
        "torch.randn((1, 1)) > 0",
        "`torch.randn(())` has none",
    ),
    "several numbers": (
        "if torch.rand(2).all():\n    return x * 2\nif torch.rand(3) > 0:\n    return x\nreturn -x\n",
        "torch.rand(3) > 0",
        "several elements",
    ),
    "a change in place later": (
        "if x.sum() > 0:\n    y = x * 2\nelse:\n    y = x\ny += 1\nreturn y\n",
        "x.sum() > 0",
        "in place on line 9",
    ),
    "a change of the result": (
        "z = x if x.sum() > 0 else -x\nz.add_(1)\nreturn z\n",
        "x.sum() > 0",
        "in place on line 6",
    ),
    "a property": (
        "return x * self.lazy_scale if x.sum() > 0 else x * 2\n",
        "x.sum() > 0",
        "runs code of yours",
    ),
    "an attribute of what a property gives": (
        "return x * self.made.drop if x.sum() > 0 else x * 2\n",
        "x.sum() > 0",
        "runs code of yours",
    ),
    "a change of the result in the next round": (
        "for _ in range(3):\n    x += 1\n    if x.sum() > 0:\n        x = x * 2\nreturn x\n",
        "x.sum() > 0",
        "in place on line 6",
    ),
    "a change in a function inside": (
        "def grow():\n    x.add_(1)\nif x.sum() > 0:\n    x = x * 2\ngrow()\nreturn x\n",
        "x.sum() > 0",
        "in place on line 6",
    ),
    "a slice": ("return x[:1] if x.sum() > 0 else x\n", "x.sum() > 0", "`x[:1]` may have another shape"),
    "a parameter": ("return self.w if x.sum() > 0 else -self.w\n", "x.sum() > 0", "tensor"),
}


@pytest.mark.parametrize("case", BRANCHES)
def test_a_branch_stays_where_a_selection_differs(case: str) -> None:
    body, mark, reason = BRANCHES[case]
    assert rewrites(body, mark) == []
    (refusal,) = refused(body, mark)
    assert refusal.kind == "where"
    assert reason in refusal.reason


def test_a_change_before_the_branch_is_no_change_of_its_result() -> None:
    body = "x += 1\nfor _ in range(3):\n    if x.sum() > 0:\n        x = x * 2\nreturn x\n"
    assert [kind for kind, _ in rewrites(body, "x.sum() > 0")] == ["where"]


@pytest.mark.parametrize("call", ["x.softmax(-1)", "torch.softmax(x, 0)", "x.log_softmax(dim=-1)"])
def test_a_dimension_that_each_input_has_is_selected(call: str) -> None:
    assert rewrites(f"if x.sum() > 0:\n    return {call}\nreturn x * 1.5\n", "x.sum() > 0") != []


@pytest.mark.parametrize(
    ("test", "is_offered"),
    [
        ("x.sum() > 0 and self.sync", True),
        ("x.sum() > 0 and self.lazy", False),
        ("self.lazy and x.sum() > 0", True),  # in the order of the text
        ("x.sum() > 0 and self.made.sync", False),
        ("x.sum() > 0 and self.drop > 0.1", True),
        ("x.sum() > 0 and self.made.drop > 0.1", False),
        ("x.sum() > 0 and not self.lazy", False),
        ("x.sum() > 0 or self.lazy", False),
        ("x.sum() > 0 and self.training", True),
        ("x.sum() > 0 and self.unseen is not None", False),
        ("self.unseen is not None and x.sum() > 0", True),
        ("x.sum() > 0 and y is not None", True),
        ("x.sum() > 0 and self == y", False),
        ("x.sum() > 0 and self in m", False),
    ],
)
def test_an_operand_moves_before_a_tensor_only_if_no_code_runs(test: str, *, is_offered: bool) -> None:
    body = f"if {test}:\n    x = x * 2\nreturn x\n"
    assert bool(rewrites(body, "x.sum() > 0")) is is_offered


MASKS = {
    "a mask that may select rows": ("return x[m].sum()\n", "x[m]", "different shapes"),
    "an index that may be no mask": ("k = x.argmax()\nreturn x[k].sum()\n", "x[k]", "tensor|fail|effect"),
    "what it writes": (
        "z = x * 2\nz[x > 0] = z[x > 0] / 2\nreturn z\n",
        "z[x > 0] = z[x > 0] / 2",
        "backward",
    ),
    "a tensor of the caller": ("x[x > 0] = x[x > 0] * 2\nreturn x\n", "x[x > 0] * 2", "share its memory"),
    "a view": ("z = x.view(-1)\nz[x > 0] = x[x > 0] * 2\nreturn z\n", "x[x > 0] * 2", "share its memory"),
    "a logarithm": (
        "z = x.clone()\nz[x > 0] = torch.log(x[x > 0])\nreturn z\n",
        "torch.log(x[x > 0])",
        "NaN",
    ),
    "a source that changes": (
        "z = x.clone()\nz[x > 0] = x[x > 0] * 2\nx.add_(1)\nreturn z\n",
        "x[x > 0] * 2",
        "in place",
    ),
    "a mean of integers or halves": ("k = h > 0\nreturn h[k].mean()\n", "h[k]", "tensor"),
}


@pytest.mark.parametrize("case", MASKS)
def test_a_selection_by_a_mask_stays(case: str) -> None:
    body, mark, reason = MASKS[case]
    assert rewrites(body, mark, "GB0036") == []
    refused_rewrites = refused(body, mark, "GB0036")
    assert any(word in rewrite.reason for rewrite in refused_rewrites for word in reason.split("|"))


COUNTS = {
    "a bound": ("n = m.nonzero().size(0)\nreturn x[:n]\n", "m.nonzero()", "other values with a tensor"),
    "a loop": ("for i in range(len(m.nonzero())):\n    x = x + i\nreturn x\n", "m.nonzero()", "`range` gets"),
    "a mask of rows": ("return x / x[m].shape[0]\n", "x[m]", "may have different shapes"),
    "another result": ("n = m.nonzero().size(0)\nreturn x * 2, n\n", "m.nonzero()", "callers get `n`"),
}


@pytest.mark.parametrize("case", COUNTS)
def test_a_count_stays_where_a_tensor_differs(case: str) -> None:
    body, mark, reason = COUNTS[case]
    assert rewrites(body, mark, "GB0036") == []
    assert any(
        reason in each.reason for each in refused(body, mark, "GB0036") if each.kind == "count_nonzero"
    )


@pytest.mark.parametrize(
    ("body", "mark"),
    [
        ("return x / m.nonzero().size(1)\n", "m.nonzero()"),
        ("return x / m.nonzero().numel()\n", "m.nonzero()"),
        ("return x[m.nonzero()]\n", "m.nonzero()"),
        ("return x / x.unique().size(0)\n", "x.unique()"),
    ],
)
def test_what_is_no_count_of_rows_is_not_counted(body: str, mark: str) -> None:
    kinds = [kind for kind, _ in rewrites(body, mark, "GB0036")]
    assert "count_nonzero" not in {*kinds, *(each.kind for each in refused(body, mark, "GB0036"))}


def test_gradients_of_zero_are_named() -> None:
    text = "import torch\n\n\ndef f(x):\n    return x if x.sum() > 0 else x.detach()\n"
    (remedy,) = offered(text, "x.sum() > 0")
    assert "gradients of zero instead of None" in remedy.changes


def test_a_layer_with_statistics_needs_inputs_of_training() -> None:
    head = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
    body = (
        "        self.a = {}\n\n    def forward(self, x):\n        return self.a(x) if x.sum() > 0 else x\n"
    )
    for layer, is_offered in {"nn.Linear(4, 4)": True, "nn.BatchNorm1d(4)": False, "Block()": False}.items():
        remedies = offered(head + body.format(layer), "x.sum() > 0", trains=False)
        assert [remedy.kind for remedy in remedies] == (["cond"] if is_offered else [])


def test_a_short_circuit_stays() -> None:
    for test in ("y.sum() != 0 and x.sum() // y.sum() > 2", "x.sum() > 0 and x[3] > 0"):
        assert rewrites(f"if {test}:\n    x = x * 2\nreturn x\n", test) == []
    test = "y.sum() != 0 and x.sum() > 2"
    assert [kind for kind, _ in rewrites(f"if {test}:\n    x = x * 2\nreturn x\n", test)] == ["where"]


EFFECTS = {
    "print(next(batches))\nreturn x\n": False,
    "print(self.count())\nreturn x\n": False,
    'print(f"{x.mean():.3f}", len(x), round(float(y.sum()), 2))\nreturn x\n': True,
}


@pytest.mark.parametrize("body", EFFECTS)
def test_output_with_an_effect_is_not_skipped(body: str) -> None:
    kinds = [kind for kind, _ in rewrites(body, body.partition("\n")[0], "GB0059")]
    assert ("is_compiling" in kinds) is EFFECTS[body]


def test_a_function_of_the_file_that_is_called_print_is_no_output() -> None:
    text = "import torch\n\n\ndef print(x): ...\n\n\ndef f(x):\n    print(x)\n    return x\n"
    assert offered(text, "print(x)\n    return", "GB0059") == ()


def test_arguments_that_are_changed_in_place_are_not_copied() -> None:
    text = "import torch\n\n\ndef f(x):\n    return F.apply(x, x)\n"
    assert [remedy.kind for remedy in offered(text, "F.apply(x, x)", "GB6297")] == ["clone_argument"]
    dirty = f"{text}\n\nclass F:\n    def forward(c, x, y):\n        c.mark_dirty(x)\n"
    assert offered(dirty, "F.apply(x, x)", "GB6297") == ()


@pytest.mark.parametrize("before", ["y = LOG.norm(x)", "y = x[3]", "y = self.table['y']"])
def test_what_is_computed_before_the_branch_cannot_fail_in_it(before: str) -> None:
    body = f"{before}\nif x.sum() > 0:\n    y = y * 2\nreturn y\n"
    assert [kind for kind, _ in rewrites(body, "x.sum() > 0")] == ["where"]
    late = f"if x.sum() > 0:\n    z = x * 2\nelse:\n    z = {before.removeprefix('y = ')}\nreturn z\n"
    assert "torch.where computes both sides" in refused(late, "x.sum() > 0")[0].reason


def test_what_is_no_tensor_or_was_not_read_is_named() -> None:
    (refusal,) = refused("if x.sum() > 0:\n    y = self.sync\nreturn y\n", "x.sum() > 0")
    assert refusal.reason.startswith("`self.sync` and `y` are a tensor on one side and a Python number")
    text = "import torch\n\n\ndef f(x, late):\n    if x.sum() > 0:\n        x = late\n    return x\n"
    finding, report = finding_at(text, "x.sum() > 0", call="other(f32[4])")
    (refusal,) = families.rewrites(finding, report, {"m.py": text}.get).refused
    assert refusal.reason == (
        "the run did not read `late`: if it is always a tensor, write `late: torch.Tensor` in the parameters"
    )
    annotated = text.replace("x, late", "x, late: torch.Tensor")
    finding, report = finding_at(annotated, "x.sum() > 0", call="other(f32[4])")
    (refusal,) = families.rewrites(finding, report, {"m.py": annotated}.get).refused
    assert "may have different shapes for other inputs: if they never do" in refusal.reason


@pytest.mark.parametrize(
    ("text", "is_number"), [("1e-05", True), ("zf0", True), ("s1", True), ("f32[]", False)]
)
def test_a_small_or_dynamic_float_is_a_number(text: str, *, is_number: bool) -> None:
    assert is_number_value(TracedValue(FactKind.CONSTANT, text)) is is_number
