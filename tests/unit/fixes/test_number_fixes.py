"""Remedies for numbers that vary: the text before, the guard that failed, and the text after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import (
    GuardCause,
    GuardFailure,
)
from fuselight_server.fixes.rewrites.families import (
    FixClass,
    RefusedRewrite,
)
from fuselight_server.fixes.syntax import attribute_uses

if TYPE_CHECKING:
    from pathlib import Path
from tests.support.recompilation_fixes import COMPILED, CORE, HEAD, number, offered


def test_a_number_is_converted_before_the_compiled_function() -> None:
    text = (
        f"{HEAD}class Net(nn.Module):\n"
        "    @torch.compile(fullgraph=True)  # all of it\n"
        "    def forward(self, x, /, n: float = 1.0, *rest, k=2, **more) -> torch.Tensor:\n"
        '        """Scale.\n\n        By n.\n        """\n\n'
        "        return x * n\n"
    )
    remedies = offered(text, number("n", "0.5", "2"), "Net.forward")
    assert [(remedy.kind, remedy.fix_class) for remedy in remedies.values()] == [
        ("tensor_argument", FixClass.EQUAL)
    ]
    assert remedies["tensor_argument"].texts["m.py"] == (
        f"{HEAD}class Net(nn.Module):\n"
        "    def forward(self, x, /, n: float = 1.0, *rest, k=2, **more) -> torch.Tensor:\n"
        '        """Scale.\n\n        By n.\n        """\n'
        "        return self._compiled_forward(x, torch.as_tensor(n, dtype=torch.float64) if type(n) is float else n, "
        "*rest, k=k, **more)\n\n"
        "    @torch.compile(fullgraph=True)  # all of it\n"
        "    def _compiled_forward(self, x, /, n: float = 1.0, *rest, k=2, **more) -> torch.Tensor:\n"
        "        return x * n\n"
    )


NOT_SPLIT = {
    "another decorator": "@torch.compile\n@other\ndef f(x, n):\n    return x * n\n",
    "a generator": "@torch.compile\ndef f(x, n):\n    yield x * n\n",
    "a recursion": "@torch.compile\ndef f(x, n):\n    return f(x, n)\n",
    "a global that it assigns": "@torch.compile\ndef f(x, n):\n    global N\n    N = n\n    return x\n",
    "compiled elsewhere": "def f(x, n):\n    return x * n\n\n\ng = torch.compile(f)\n",
    "in a function": "def h():\n    @torch.compile\n    def f(x, n):\n        return x * n\n\n    return f\n",
    "a coroutine": "@torch.compile\nasync def f(x, n):\n    return x * n\n",
    "comments among the parameters": "@torch.compile\ndef f(\n    x,  # why\n    n,\n):\n    return x * n\n",
}


@pytest.mark.parametrize("body", NOT_SPLIT.values(), ids=NOT_SPLIT)
def test_a_function_that_does_not_fit_is_not_split(body: str) -> None:
    assert offered(f"{HEAD}{body}", number("n", "0.5", "0.25"), "f") == {}


@pytest.mark.parametrize(("body", "is_said"), [("n * x", True), ("x - n * x", True), ("x * n", False)])
def test_a_float_that_is_rounded_as_a_tensor_is_named(body: str, is_said: bool) -> None:  # noqa: FBT001 - a row
    """The left operand of a product in half precision is rounded to it first, if it is a tensor."""
    text = COMPILED.replace("x * n", body)
    caveat = offered(text, number("n", "0.5", "0.25"), "f")["tensor_argument"].caveat
    assert caveat == ("`n` is rounded first where it multiplies half-precision tensors" if is_said else "")


def test_the_name_of_the_compiled_function_is_free() -> None:
    text = f"{COMPILED}\n\ndef _compiled_f(): ...\n"
    other = {"other.py": "from m import *\n\n\ndef _compiled_f_1(): ...\n"}
    after = offered(text, number("n", "0.5", "0.25"), "f", others=other)["tensor_argument"].texts["m.py"]
    assert "def _compiled_f_2(x, n):" in after


def test_a_global_number_becomes_a_parameter() -> None:
    text = f"{HEAD}N = 1.5\n\n\n@torch.compile\ndef f(x):\n    return x * N\n"
    remedies = offered(text, number("N", "1.5", "2", "G['N'] == 1.5"), "f")
    argument = "torch.as_tensor(N, dtype=torch.float64) if type(N) is float else N"
    assert remedies["tensor_argument"].texts["m.py"] == (
        f"{HEAD}N = 1.5\n\n\ndef f(x):\n    return _compiled_f(x, {argument})\n\n\n"
        "@torch.compile\ndef _compiled_f(x, N):\n    return x * N\n"
    )


CLASS = """\
class Net(nn.Module):
    def __init__(self, start: int) -> None:
        super().__init__()
        self.calls: int = start  # so far

    def reset(self):
        self.calls = 0

    def forward(self, x):
        self.calls += 2 - 1
        return x + self.calls
"""


def calls(was: str = "0", now: str = "1") -> GuardFailure:
    return number("self.calls", was, now, f"L['self'].calls == {was}")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("        pass", "`__init__` does not assign `calls`"),
        ("        self.calls = 0\n        self.calls = 2", "`__init__` assigns `calls` in 2 places"),
    ],
)
def test_a_number_that_init_does_not_assign_once_stays(lines: str, reason: str) -> None:
    refused: list[RefusedRewrite] = []
    text = HEAD + CLASS.replace("        self.calls: int = start  # so far", lines)
    assert "buffer" not in offered(text, calls(), "Net.forward", refused=refused)
    assert reason in {rewrite.reason for rewrite in refused}


def test_a_number_of_a_module_becomes_a_tensor_with_all_its_assignments() -> None:
    remedies = offered(HEAD + CLASS, calls(), "Net.forward")
    assert list(remedies) == ["buffer", "allow_unspec_int_on_nn_module"]
    assert remedies["buffer"].fix_class is FixClass.EXACT
    assert remedies["buffer"].texts["m.py"] == HEAD + CLASS.replace(
        "self.calls: int = start", 'self.calls = torch.tensor(start, device="cpu")'
    ).replace("self.calls = 0", "self.calls = torch.full_like(self.calls, 0)").replace(
        "self.calls += 2 - 1", "self.calls = self.calls + (2 - 1)"
    )
    assert remedies["buffer"].title == "Make `self.calls` a tensor, for no training after inference_mode"
    text = HEAD + CLASS.replace("start: int", "start: float")
    fraction = offered(text, calls("0", "0.5"), "Net.forward")
    assert list(fraction) == ["buffer"]
    assert "torch.tensor(start, dtype=torch.float64, device=" in fraction["buffer"].texts["m.py"]


def test_integers_of_modules_may_vary_beside_a_float() -> None:
    """Whether torch makes a constant of the float all the same, a trial and the verification show."""
    kind, refused = "allow_unspec_int_on_nn_module", list[RefusedRewrite]()
    other = number("self.rate", "0.5", "0.45", "L['self'].rate == 0.5")
    assert kind in offered(HEAD + CLASS, calls(), "Net.forward", other=other, refused=refused)
    assert not any(refusal.kind == kind for refusal in refused)


def test_a_number_that_only_init_sets_has_no_limit() -> None:
    text = CLASS.replace("        self.calls += 2 - 1\n", "").replace("self.calls = 0", "pass")
    assert offered(HEAD + text, calls(), "Net.forward")["buffer"].title == "Make `self.calls` a tensor"


def read(code: str) -> str:
    return CLASS.replace("return x + self.calls", code)


USED = {
    "another function": CLASS + "\n\ndef f(net):\n    net.calls = 1\n",
    "another object": read("other.calls = 2\n        return x"),
    "two names": CLASS.replace("self.calls = 0", "self.calls = self.other = 0"),
    "a tuple": CLASS.replace("self.calls = 0", "self.calls, y = 0, 1"),
    "a loop": CLASS.replace("self.calls = 0", "for self.calls in range(3):\n            pass"),
    "del": CLASS.replace("self.calls = 0", "del self.calls"),
    "an operator that changes the type": CLASS.replace("+= 2 - 1", "/= 2"),
    "an operator that overflows": CLASS.replace("+= 2 - 1", "*= 2"),
    "a value that may be no integer": CLASS.replace("self.calls = 0", "self.calls = reset_value()"),
    "an argument that may be no integer": CLASS.replace("start: int", "start"),
    "created twice": CLASS.replace("so far\n", "so far\n        self.calls = 1\n"),
    "never created": CLASS.replace("self.calls: int = start", "pass"),
    "by name": CLASS + '\n\nsetattr(net, "calls", 3)\n',
    "by a computed name": CLASS + "\n\nfor name in names:\n    print(getattr(net, name))\n",
    "all attributes": CLASS + "\n\nprint(vars(net))\n",
    "as an index": read("return x[self.calls - 1]"),
    "as text": read('print(f"{self.calls}")\n        return x'),
    "as a condition": read("return x if self.calls > 2 else -x"),
    "as a result": read("return x, self.calls"),
    "in JSON": CLASS + "\n\ndef save(net):\n    return json.dumps([net.calls])\n",
    "in a function inside": read("return f(lambda: x + self.calls)"),
    "in a subclass": CLASS + "\n\nclass Other(Net):\n    def size(self):\n        return self.calls\n",
    "with shared copies": CLASS + "\n\nother = copy.copy(net)\n",
    "among the buffers": CLASS + "\n\nfor one in net.buffers():\n    one.zero_()\n",
    "a base of the workspace": CLASS.replace("(nn.Module)", "(Base)")
    + "\n\nclass Base(nn.Module):\n    def size(self):\n        return self.calls\n",
}


@pytest.mark.parametrize("text", USED.values(), ids=USED)
def test_a_number_that_is_also_used_otherwise_stays(text: str) -> None:
    refused: list[RefusedRewrite] = []
    assert "buffer" not in offered(HEAD + text, calls(), "Net.forward", refused=refused)
    (refusal,) = [rewrite for rewrite in refused if rewrite.kind == "buffer"]
    assert "\n" not in refusal.reason
    assert not refusal.reason.endswith(".")


STRANGERS = {
    "a class of its own": "\n\nclass Other:\n    def __init__(self):\n        self.calls = []\n",
    "another attribute": "\n\ndef f(net):\n    return net.calls_so_far, net.recalls\n",
}


@pytest.mark.parametrize("more", STRANGERS.values(), ids=STRANGERS)
def test_an_attribute_of_other_objects_is_another(more: str) -> None:
    assert "buffer" in offered(HEAD + CLASS + more, calls(), "Net.forward")


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize(
    ("use", "is_used"),
    [
        ("def train(net):\n    net.calls = 0\n", True),
        ("def show(net):\n    return f'{net.calls:d}'\n", True),
        ("from m import Net\n\nprint(Net(0).__dict__, 'calls')\n", True),
        ("class Phone:\n    def ring(self):\n        self.calls += 1\n", False),
        ("calls = 3\n", False),
    ],
)
def test_other_files_of_the_workspace_are_searched(
    use: str, tmp_path: Path, *, is_used: bool, ran: bool
) -> None:
    if ran:
        remedies = offered(HEAD + CLASS, calls(), "Net.forward", others={"train.py": use})
    else:
        (tmp_path / "train.py").write_text(use, encoding="utf-8")
        remedies = offered(HEAD + CLASS, calls(), "Net.forward", roots=(str(tmp_path),))
    assert ("buffer" in remedies) is not is_used


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("calls = 1\n", encoding="utf-8")
    assert "buffer" in offered(HEAD + CLASS, calls(), "Net.forward", roots=(str(tmp_path),))
    file.write_text("net.calls = 12\n", encoding="utf-8")
    assert "buffer" not in offered(HEAD + CLASS, calls(), "Net.forward", roots=(str(tmp_path),))


def test_the_answers_of_a_search_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribute_uses, "_KEPT", 3)
    for file in range(6):
        (tmp_path / f"m{file}.py").write_text("calls = 1\n", encoding="utf-8")
    assert "buffer" in offered(HEAD + CLASS, calls(), "Net.forward", roots=(str(tmp_path),))
    assert len(attribute_uses._has_word) == 3


NUMBERS = {
    "a size": "return x[:n]",
    "a branch": "return x if n > 1 else -x",
    "a result": "return x * n, n",
    "text": 'return x, f"{n}"',
    "the left operand of a division": "return n / x",
    "a power": "return x**n",
    "arithmetic of numbers": "return x * (n + 1)",
    "a tensor without dimensions": "return x.sum() * n",
    "a function inside": "return (lambda: x * n)()",
    "another value": "n = n * 2\n    return x * n",
}


@pytest.mark.parametrize("body", NUMBERS.values(), ids=NUMBERS)
def test_a_number_stays_where_a_tensor_differs(body: str) -> None:
    refused: list[RefusedRewrite] = []
    text = f"{HEAD}@torch.compile\ndef f(x, n):\n    {body}\n"
    assert "tensor_argument" not in offered(text, number("n", "0.5", "0.25"), "f", refused=refused)
    assert "tensor_argument" in {rewrite.kind for rewrite in refused}


@pytest.mark.parametrize("annotation", ["", ": int", ": float"])
@pytest.mark.parametrize("body", ["return x * n", "x += n\n    return x", "return (x - n).relu()"])
def test_an_integer_becomes_a_tensor_and_a_float_in_its_place_stays_a_number(
    annotation: str, body: str
) -> None:
    text = f"{HEAD}@torch.compile\ndef f(x, n{annotation}):\n    {body}\n"
    remedy = offered(text, number("n", "2", "3"), "f")["tensor_argument"]
    assert "torch.as_tensor(n) if type(n) is int else n" in next(iter(remedy.texts.values()))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return x[n]", "where a tensor may differ from a number"),
        ("return x * n**2", "where a tensor may differ from a number"),
        ("return table[n] + x", "where a tensor may differ from a number"),
        ("return x.roll(n)", "where a tensor may differ from a number"),
        ("return scaled(x, n)", "which may need a number"),
        ("return scaled(x, by=n)", "which may need a number"),
    ],
)
def test_the_refusal_of_a_number_names_the_use_that_needs_it(body: str, why: str) -> None:
    """What an annotation would not change is no reason to write one."""
    refused: list[RefusedRewrite] = []
    text = f"{HEAD}@torch.compile\ndef f(x, n):\n    {body}\n"
    assert "tensor_argument" not in offered(text, number("n", "2", "3"), "f", refused=refused)
    (reason,) = (rewrite.reason for rewrite in refused if rewrite.kind == "tensor_argument")
    assert reason.startswith("`n` is used in `")
    assert reason.endswith(f"`, {why}")


def length() -> GuardFailure:
    return GuardFailure(
        "LENGTH", "xs", "len(L['xs']) == 1", "len(xs) was 1, now 2", "1", "2", cause=GuardCause.LENGTH
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sum(xs)", "xs.sum(0, dtype=xs.dtype if xs.dtype != torch.bool else None)"),
        ("torch.stack(xs)", "xs"),
        ("torch.stack(xs, dim=-1)", "xs.movedim(0, -1)"),
        ("torch.cat(xs) / len(xs)", "xs.flatten(0, 1) / xs.size(0)"),
        ("torch.cat(xs, 1)", ""),
        ("xs[0]", ""),
        ("sum(x * 2 for x in xs)", ""),
        ("sum(xs) + g(xs)", ""),
    ],
)
def test_a_list_becomes_one_tensor_only_if_all_its_uses_are_known(before: str, after: str) -> None:
    text = f"{HEAD}@torch.compile\ndef f(xs):\n    return {before}\n"
    remedies = offered(text, length(), "f")
    assert list(remedies) == (["stack"] if after else [])
    if after:
        assert remedies["stack"].fix_class is FixClass.CHANGES
        assert (
            remedies["stack"]
            .texts["m.py"]
            .endswith(f"@torch.compile\ndef _compiled_f(xs):\n    return {after}\n")
        )


AT_CALL = {
    "by position": (
        "    return core(y + 1, z) * 2\n",
        "    return core(y + 1, torch.as_tensor(z, dtype=torch.float64) if type(z) is float else z) * 2\n",
    ),
    "by name": (
        "    return self.core(n=z / 2)\n",
        "    return self.core(n=torch.as_tensor(n_1, dtype=torch.float64) if type(n_1 := z / 2) is float else n_1)\n",
    ),
    "star arguments": ("    return core(*y)\n", ""),
    "two calls": ("    return core(y, z) + core(z, y)\n", ""),
    "in a comprehension": ("    return [core(y, z) for z in range(3)]\n", ""),
}


@pytest.mark.parametrize(("before", "after"), AT_CALL.values(), ids=AT_CALL)
def test_an_argument_is_converted_in_the_call_that_brought_it(before: str, after: str) -> None:
    text = f"{CORE}core = make()\n\n\ndef step(self, y, z):\n"
    remedies = offered(text + before, number("n", "0.5", "0.25"), "Core.forward", caller=before)
    assert [remedy.texts["m.py"] for remedy in remedies.values()] == ([text + after] if after else [])


def test_the_result_of_a_cast_call_is_cast_back() -> None:
    text = f"{CORE}core = make()\n\n\ndef step(y, z):\n    return core(y, z)\n"
    dtype = GuardFailure(
        *("TENSOR_MATCH", "x", "check_tensor(L['x'], Tensor)", "x.dtype", "float32", "bfloat16"),
        cause=GuardCause.DTYPE,
    )
    remedies = offered(text, dtype, "Core.forward", caller="    return core(")
    assert remedies["cast_at_call"].texts["m.py"] == text.replace(
        "core(y, z)\n", "core(y.to(torch.float32), z).to(y.dtype)\n"
    )
