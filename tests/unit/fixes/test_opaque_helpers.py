"""Helpers that break inside: which become operators, and with which rule for the shape of the result."""

from __future__ import annotations

import pytest

from tests.unit.fixes.test_rewrites import offered

MARK = "np.random.rand()"
HELPER = """\
def spans(x: torch.Tensor, size: tuple[int, int], share: float = 0.5):
    rows, width = size
    mask = np.zeros((rows, width), dtype=bool)
    for row in range(rows):
        mask[row, int(np.random.rand() * width)] = True
    return mask
"""
HEAD = "import numpy as np\nimport torch\n\n\n"


def operators(helper: str, mark: str = MARK) -> list[str]:
    """The new text of the file for each operator that is offered."""
    return [one.texts["m.py"] for one in offered(HEAD + helper, mark, "GB0033") if one.kind == "custom_op"]


def rule(helper: str) -> str:
    """The last line of the rule for the shape; empty without an operator."""
    found = operators(helper)
    return found[0].rstrip().rpartition("\n")[2].strip() if found else ""


def test_a_helper_keeps_its_name_and_its_result() -> None:
    (text,) = operators(HELPER)
    assert (
        text
        == HEAD
        + """\
def spans(x: torch.Tensor, size: tuple[int, int], share: float = 0.5):
    return spans_operator(x, size, share).numpy()


@torch.library.custom_op("m::spans", mutates_args=(), tags=torch.Tag.nondeterministic_seeded)
def spans_operator(x: torch.Tensor, size: list[int], share: float = 0.5) -> torch.Tensor:
    rows, width = size
    mask = np.zeros((rows, width), dtype=bool)
    for row in range(rows):
        mask[row, int(np.random.rand() * width)] = True
    return torch.from_numpy(mask)


@spans_operator.register_fake
def _(x, size, share=0.5):
    rows, width = size
    return torch.empty((rows, width), dtype=torch.bool)
"""
    )


RULES = {
    "return torch.empty((rows, width), dtype=torch.bool)": HELPER,
    "return torch.empty(x.shape, dtype=torch.bool)": HELPER.replace("(rows, width), dtype", "x.shape, dtype"),
    "return torch.empty((rows, width), dtype=torch.float64)": HELPER.replace(", dtype=bool", ""),
    "return torch.empty((rows, width), dtype=torch.int32)": HELPER.replace(
        "return mask", "return mask.astype(np.int32)"
    ),
    "return torch.empty(rows * 2 + len(size), dtype=torch.bool)": HELPER.replace(
        "(rows, width), dtype", "rows * 2 + len(size), dtype"
    ),
}


@pytest.mark.parametrize("line", RULES)
def test_the_rule_for_the_shape(line: str) -> None:
    assert rule(RULES[line]) == line


def test_a_tensor_is_returned_as_it_is() -> None:
    (text,) = operators(HELPER.replace("return mask", "return torch.from_numpy(mask)"))
    assert "    return spans_operator(x, size, share)\n" in text
    assert text.count("from_numpy") == 1


def test_no_gradient_comes_through_numbers_of_a_tensor() -> None:
    (text,) = operators(HELPER.replace(", dtype=bool", ""))
    assert "return spans_operator(x, size, share).detach().numpy()\n" in text


NOT_CERTAIN = {
    "a size that depends on data": HELPER.replace("(rows, width), dtype", "int(x.sum()), dtype"),
    "a size that changes on the way": HELPER.replace("    mask =", "    width = width // 2\n    mask ="),
    "an array that is assigned twice": HELPER.replace("    return", "    mask = mask[:1]\n    return"),
    "an array that changes its shape": HELPER.replace("    return", "    mask.shape = (-1,)\n    return"),
    "two results": HELPER.replace("return mask", "return mask, rows"),
    "another result": HELPER.replace("    for row", "    if share == 0:\n        return None\n    for row"),
    "no result": HELPER.replace("    return mask", "    print(mask)"),
    "a function of unknown shape": HELPER.replace("np.zeros((rows, width), dtype=bool)", "np.unique(x)"),
    "a dtype that is an argument": HELPER.replace("dtype=bool", "dtype=share"),
    "a tensor with a gradient": HELPER.replace(
        "np.zeros((rows, width), dtype=bool)", "torch.zeros((rows, width), dtype=torch.float32)"
    ),
    "an argument is written": HELPER.replace("    return", "    x[0] = 1\n    return"),
    "a view of an argument is written": HELPER.replace(
        "    return", "    values = x.numpy()\n    values[0] += 1\n    return"
    ),
    "an argument of a type that operators do not take": HELPER.replace("share: float", "share: Share"),
    "an argument without a type": HELPER.replace("x: torch.Tensor", "x"),
    "star arguments": HELPER.replace("share: float = 0.5", "*share"),
    "a decorator": "@functools.cache\n" + HELPER,
    "a generator": HELPER.replace("    return", "    yield row\n    return"),
    "the name is taken": HELPER + "\n\nspans_operator = 1\n",
    "a method": "class A:\n" + "".join(f"    {line}\n" for line in HELPER.splitlines()),
}


@pytest.mark.parametrize("helper", NOT_CERTAIN.values(), ids=NOT_CERTAIN)
def test_no_operator_where_something_is_not_certain(helper: str) -> None:
    assert operators(helper) == []


def test_what_is_read_of_an_argument_is_no_view_of_it() -> None:
    helper = HELPER.replace("    mask =", "    sizes = x.sum(-1).tolist()\n    sizes[0] = 1\n    mask =")
    assert len(operators(helper)) == 1
