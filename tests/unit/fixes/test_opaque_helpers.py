"""Helpers that break inside: which become operators, and with which rule for the shape of the result."""

from __future__ import annotations

import pytest

from fuselight_server.fixes.rewrites.families import FixClass
from tests.support.offered_remedies import offered

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
    return [
        remedy.texts["m.py"]
        for remedy in offered(HEAD + helper, mark, "GB0033")
        if remedy.kind == "custom_op"
    ]


def test_the_types_of_an_operator_are_named() -> None:
    typed, plain = (
        HELPER,
        HELPER.replace(HELPER.partition(":\n")[0], "def spans()").replace("size\n", "2, 3\n"),
    )
    caveats = [
        (remedy.fix_class, remedy.caveat)
        for helper in (typed, plain)
        for remedy in offered(HEAD + helper, MARK, "GB0033")
        if remedy.kind == "custom_op"
    ]
    types = "`x: torch.Tensor`, `size: list[int]`, `share: float`"
    words = f"`spans` takes only {types}, resolves the lazy conjugation of tensors"
    assert caveats == [(FixClass.EQUAL, words), (FixClass.EXACT, "")]


def rule(helper: str) -> str:
    """The last line of the rule for the shape; empty without an operator."""
    texts = operators(helper)
    return texts[0].rstrip().rpartition("\n")[2].strip() if texts else ""


def test_a_helper_keeps_its_name_and_its_result() -> None:
    (text,) = operators(HELPER)
    assert (
        text
        == HEAD
        + """\
def spans(x: torch.Tensor, size: tuple[int, int], share: float = 0.5):
    return spans_operator(x, size, share).numpy()


@torch.library.custom_op("m::spans", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
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
    **{
        f"an argument is written: {line}": HELPER.replace("    return", f"    {line}\n    return")
        for line in (
            "x.numpy()[0] = 1",
            "x.view(-1).zero_()",
            "values: np.ndarray = x.numpy(); values[0] = 1",
            "(values := x.numpy()).fill(0)",
            "values = rows = x.numpy(); values -= 1",
            "np.add(mask, 1, x.numpy())",
            "np.add.at(x.numpy(), 0, 1)",
            "torch.add(x, 1, out=x)",
            "RNG.shuffle(x.numpy())",
            "random.shuffle(size)",
            "size.append(3)",
            "sizes = size; sizes.pop()",
            "normalize(x)",
            "other.normalize(x.numpy())",
            "normalize(size)",
            "[row.fill(0) for row in x.numpy()]",
        )
    },
    "a loop over rows of an argument": HELPER.replace(
        "    return", "    for values in x.numpy():\n        values[0] = 1\n    return"
    ),
    "a size that grows": HELPER.replace(
        "    mask = np.zeros((rows, width),",
        "    both = [rows]\n    both.append(width)\n    mask = np.zeros(both,",
    ),
    "the operator of a function of almost that name": (
        f'{HELPER}\n\n@torch.library.custom_op("m::spans", mutates_args=())\ndef _spans_operator(): ...\n'
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


@pytest.mark.parametrize(
    "line",
    [
        "width_of = int(x.detach().numpy()[0])",
        "mask[x.detach().numpy() > 0] = True",
        "mask[RNG.choice(x.detach().numpy())] = True",
        "mask[:, sample(range(size[0]), rows)] = True",
        "mask[:] = np.maximum(x.detach().numpy(), 0) > 1",
    ],
)
def test_a_helper_that_reads_its_arguments_becomes_an_operator(line: str) -> None:
    assert len(operators(HELPER.replace("    return", f"    {line}\n    return"))) == 1


def test_two_equal_calls_of_a_helper_stay_two() -> None:
    (text,) = operators(HELPER.replace("np.random.rand()", "sample(range(9), 1)[0]"), "sample(range(9), 1)")
    assert "tags=(torch.Tag.nondeterministic_seeded,)" in text
