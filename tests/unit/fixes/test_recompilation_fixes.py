"""Remedies for recompilations: the text before, the guard that failed, and the text after."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import (
    Branch,
    Compile,
    Frame,
    GuardCause,
    GuardFailure,
    Location,
    Mismatch,
    Outcome,
    Recompile,
    Report,
    SizeChange,
    Symbol,
    TargetRef,
    Tier,
    Versions,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.explain.findings.recompilations.recompilations import subject_of
from fuselight_server.fixes.rewrites.families import (
    FixClass,
    RefusedRewrite,
    Remedy,
    rewrites,
)
from fuselight_server.fixes.syntax import attribute_uses
from tests.support.offered_remedies import traced

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import torch\nfrom torch import nn\n\n\n"


def offered(
    text: str,
    failure: GuardFailure,
    function: str,
    *,
    torch: str = "2.13.0",
    others: dict[str, str] | None = None,
    caller: str = "",
    roots: tuple[str, ...] = (),
    refused: list[RefusedRewrite] | None = None,
    resumes_at: int | None = None,
    other: GuardFailure | None = None,
    part: GuardFailure | None = None,
    calling: str = "",
    outcome: Outcome = Outcome.COMPILED,
    symbols: tuple[Symbol, ...] = (),
    branches: tuple[Branch, ...] = (),
) -> dict[str, Remedy]:
    """The remedies by kind, where the guard failed on the `def` line of a function that the line `caller` calls.

    `calling`: the function of that line, of which Dynamo made `outcome`. `part`: what fails in the part after a break.
    """
    name = function.rpartition(".")[2]
    line = text[: text.index(f"def {name}(")].count("\n") + 1
    at = Location("m.py", line)
    above: tuple[Location, ...] = ()
    further: tuple[Frame, ...] = ()
    if caller:
        above = (Location("m.py", text[: text.index(caller)].count("\n") + 1, function=calling or None),)
    if calling:
        further = (Frame(calling, Location("m.py", text[: text.index(f"def {calling}(")].count("\n") + 1)),)
    failures = (failure,) if other is None else (failure, other)
    again = [Recompile(function, at, (Mismatch("0/0", failures),), compile_id="0/1", caller=above)]
    if part is not None:
        further = (Frame(function, at, line + 2),)
        again.append(Recompile(function, at, (Mismatch("1/0", (part,)),), compile_id="1/1"))
    report = Report(
        *(Versions("3.11", torch, None, "0", "linux", "python"), TargetRef("m.py", name, line, "function")),
        *(Tier.CAPTURE, 1),
        recompiles=tuple(again),
        frames=(
            Frame(function, at, resumes_at, parameters=("self", "x", "n") if "." in function else ("x", "n")),
            *further,
        ),
        compiles=(
            Compile("0/1", 0, Outcome.COMPILED, symbols=symbols),
            *(Compile("1/1", 1, outcome) for _ in further),
        ),
        files=dict.fromkeys(("m.py", *(others or {})), ""),
        roots=roots,
        facts=dataclasses.replace(
            traced(text),
            files={"m.py": dataclasses.replace(traced(text).files["m.py"], branches=branches)},
        ),
    )
    finding = Finding(
        *("FL201", Severity.WARNING, f"recompiled: {failure.difference}", "message", Span("m.py", line)),
        *(Tier.CAPTURE, name, "", torch),
        subject=subject_of(failure),
    )
    known = rewrites(finding, report, {"m.py": text, **(others or {})}.get)
    if refused is not None:
        refused += known.refused
    return {remedy.kind: remedy for remedy in known.remedies}


def size(*changes: tuple[int, int, int], rank: int = 2) -> GuardFailure:
    written = ", ".join("4" for _ in range(rank))
    return GuardFailure(
        *("TENSOR_MATCH", "x", f"check_tensor(L['x'], Tensor, size=[{written}], stride=[4, 1])", "x.size(0)"),
        *(str(changes[0][1]), str(changes[0][2])),
        cause=GuardCause.DIMENSION,
        sizes=tuple(SizeChange("x", *change) for change in changes),
    )


def number(source: str, was: str, now: str, code: str = "") -> GuardFailure:
    code = code or f"L['{source}'] == {was}"
    return GuardFailure(
        *("EQUALS_MATCH", source, code, f"{source} was {was}, now {now}", was, now), cause=GuardCause.NUMBER
    )


COMPILED = f"{HEAD}@torch.compile\ndef f(x, n):\n    return x * n\n"


_OTHER = dataclasses.replace(size((1, 4, 7)), source="n", sizes=(SizeChange("n", 1, 4, 7),))
_FIXED = (Symbol("s0", "x.size(1)", specialized_to="7", stack=(Location("m.py", 8),)),)
_ELSEWHERE = (dataclasses.replace(_FIXED[0], stack=(Location("/lib/parts.py", 80),)),)
_ARRAY = dataclasses.replace(size((1, 4, 7)), source="x", expression="___from_numpy(L['x'])")


_STAYS_FIXED: dict[str, tuple[GuardFailure, GuardFailure | None, tuple[Symbol, ...]]] = {
    "`x` is a NumPy array, and torch frees the sizes of tensors only": (_ARRAY, None, ()),
    "`n.size(1)` varies too, and stays fixed": (size((1, 4, 7)), _OTHER, ()),
    "line 8 needs the exact value of `x.size(1)`": (size((1, 4, 7)), None, _FIXED),
    "parts.py:80 needs the exact value of `x.size(1)`": (size((1, 4, 7)), None, _ELSEWHERE),
}


@pytest.mark.parametrize("reason", _STAYS_FIXED)
@pytest.mark.parametrize(
    ("torch", "kind", "caller"),
    [
        ("2.13.0", "shapes_spec", ""),
        ("2.12.0", "mark_dynamic", ""),
        ("2.12.0", "mark_dynamic", "f(x, n)  # call"),
    ],
)
def test_a_size_that_stays_fixed_all_the_same_is_not_freed(
    reason: str, torch: str, kind: str, caller: str
) -> None:
    failure, other, symbols = _STAYS_FIXED[reason]
    refused: list[RefusedRewrite] = []
    text = f"{COMPILED}\n\ndef run(x, n):\n    f(x, n)  # call\n"
    remedies = offered(
        text, failure, "f", torch=torch, other=other, symbols=symbols, refused=refused, caller=caller
    )
    assert kind not in remedies
    assert reason in {rewrite.reason for rewrite in refused if rewrite.kind == kind}
    assert kind in offered(text, size((1, 4, 7)), "f", torch=torch, caller=caller)


def test_a_size_that_varies_is_a_variable_of_the_call_that_compiles() -> None:
    remedies = offered(COMPILED, size((1, 4, 7)), "f")
    assert list(remedies) == ["dynamic", "shapes_spec"]
    assert remedies["shapes_spec"].texts["m.py"] == COMPILED.replace(
        "import nn\n",
        "import nn\nfrom torch.fx.experimental.dynamic_spec import ParamsSpec, ShapeVar, TensorSpec\n",
    ).replace(
        "@torch.compile",
        '@torch.compile(shapes_spec=ParamsSpec({"x": TensorSpec([None, ShapeVar("x_1")])}))',
    )
    assert list(offered(COMPILED, size((1, 4, 7)), "f", torch="2.14.1")) == ["dynamic", "dynamic_shapes"]
    assert list(offered(COMPILED, size((1, 1, 7)), "f")) == ["shapes_spec"]


def test_a_variable_for_one_size_is_refused_where_another_varies() -> None:
    """torch makes no size dynamic by itself where the call names some."""
    refused: list[RefusedRewrite] = []
    other = dataclasses.replace(size((0, 3, 5)), source="y", sizes=(SizeChange("y", 0, 3, 5),))
    assert list(offered(COMPILED, size((1, 4, 7)), "f", refused=refused, other=other)) == ["dynamic"]
    assert [refusal.reason.partition(" varies")[0] for refusal in refused] == ["`y.size(0)`"]


def test_a_size_of_a_part_of_an_argument_varies_too() -> None:
    """The rows of a mask in a dict vary with those of `x`: a variable for `x` alone saves no compile."""
    refused: list[RefusedRewrite] = []
    mask = dataclasses.replace(
        size((0, 3, 5)), source="n[16].rows", sizes=(SizeChange("n[16].rows", 0, 3, 5),)
    )
    assert list(offered(COMPILED, size((1, 4, 7)), "f", refused=refused, other=mask)) == ["dynamic"]
    assert [refusal.reason.partition(" varies")[0] for refusal in refused] == ["`n[16].rows.size(0)`"]


@pytest.mark.parametrize("sides", [(1, 1), (2, 0)])
def test_no_size_is_freed_where_each_side_of_a_branch_on_it_needs_its_own_compile(
    sides: tuple[int, int],
) -> None:
    text = (
        f"{HEAD}@torch.compile\ndef f(x, n):\n    if x.size(0) > 16:\n        x = x / 2\n    return x * n\n"
    )
    relation = GuardFailure(
        *("LAMBDA_GUARD", "", "2 <= L['x'].size()[0] <= 16"),
        *("2 <= x.size(0) <= 16 no longer holds: x.size(0) is 24", None, "24"),
        cause=GuardCause.RELATION,
    )
    branch = Branch(7, 7, 7, 21, true=sides[0], false=sides[1])
    assert ("dynamic" in offered(text, relation, "f", branches=(branch,))) is (0 in sides)


def test_a_size_of_a_part_after_a_break_is_no_variable_of_the_call() -> None:
    """torch knows it by no name of a parameter, and makes all sizes static that no entry names."""
    assert list(offered(COMPILED, size((1, 4, 7)), "f", resumes_at=7)) == ["dynamic"]


@pytest.mark.parametrize(
    ("change", "kind", "call"),
    [
        ((0, 4, 7), "mark_dynamic", "mark_dynamic(x, 0)"),
        ((0, 1, 7), "mark_unbacked", "decorators.mark_unbacked(x, 0)"),
    ],
)
def test_before_2_13_a_size_is_marked_outside_of_what_is_traced(
    change: tuple[int, int, int], kind: str, call: str
) -> None:
    after = offered(COMPILED, size(change), "f", torch="2.12.0")[kind].texts["m.py"]
    assert after == (
        f"{HEAD}def f(x, n):\n    if not torch.compiler.is_compiling():\n        torch._dynamo.{call}\n"
        "    return _compiled_f(x, n)\n\n\n@torch.compile\ndef _compiled_f(x, n):\n    return x * n\n"
    )


def test_the_call_that_compiles_is_found_by_name() -> None:
    text = (
        f"{HEAD}class A(nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
        "class B(nn.Module): ...\n\n\na = torch.compile(A())\nb = torch.compile(B())\n"
    )
    after = offered(text, size((0, 4, 7)), "A.forward")["dynamic"].texts["m.py"]
    assert after == text.replace("torch.compile(A())", "torch.compile(A(), dynamic=True)")
    called = text.replace("a = torch.compile(A())", "a = A()\na.compile()")
    after = offered(called, size((0, 4, 7)), "A.forward")["dynamic"].texts["m.py"]
    assert after == called.replace("a.compile()", "a.compile(dynamic=True)")
    twice = text.replace("B())", "A())")
    assert offered(twice, size((0, 4, 7)), "A.forward") == {}


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


@pytest.mark.parametrize(
    ("other", "part", "name"),
    [
        (number("self.rate", "0.5", "0.45", "L['self'].rate == 0.5"), None, "`self.rate`"),
        (number("self.rate", "1", "1e-05"), None, "`self.rate`"),
        (None, number("___stack0", "0.5", "inf"), "a value carried over the graph break on line 15"),
        (number("x.__class__", "torch.Tensor", "torch.nn.Parameter"), None, None),
        (number("self.mode", "'v1.0'", "'v1.5'"), None, None),
    ],
)
def test_integers_of_modules_stay_where_a_float_varies_too(
    other: GuardFailure | None, part: GuardFailure | None, name: str | None
) -> None:
    """Backends make a constant of a float that code without tensors computes with: it compiles each time."""
    kind, refused = "allow_unspec_int_on_nn_module", list[RefusedRewrite]()
    remedies = offered(HEAD + CLASS, calls(), "Net.forward", other=other, part=part, refused=refused)
    reasons = [refusal.reason for refusal in refused if refusal.kind == kind]
    assert (kind in remedies) == (name is None)
    assert reasons == [f"{name} varies, too, and backends may compile for each value of a float"] * bool(name)


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
    for number in range(6):
        (tmp_path / f"m{number}.py").write_text("calls = 1\n", encoding="utf-8")
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
        ("return x[n]", "where a tensor differs from a number"),
        ("return x * n**2", "where a tensor differs from a number"),
        ("return table[n] + x", "where a tensor differs from a number"),
        ("return x.roll(n)", "where a tensor differs from a number"),
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


def container(cause: GuardCause, name: str, was: str, now: str) -> GuardFailure:
    words = f"key 0 of {name} was {was}, now {now}" if cause is GuardCause.KEYS else f"{name} was {was}"
    return GuardFailure("TYPE_MATCH", name, f"L['{name}']", words, was, now, cause=cause)


LISTS = {
    "return xs[0] + sum(xs)": True,
    "a, b = xs\n    return a + b": True,
    "return sum(x * 2 for x in xs)": True,
    "return torch.cat(xs)": True,
    "xs.append(x)\n    return x": False,
    "xs[0] = x\n    return x": False,
    "xs += [x]\n    return x": False,
    "return x, xs": False,
    "return keep(xs)": False,
    "return xs + [x]": False,
    "return xs[1:]": False,
    "return isinstance(xs, tuple)": False,
}


@pytest.mark.parametrize("body", LISTS)
def test_a_list_is_copied_only_where_it_is_read(body: str) -> None:
    text = f"{HEAD}@torch.compile\ndef f(xs, x):\n    {body}\n"
    remedies = offered(text, container(GuardCause.TYPE, "xs", "list", "tuple"), "f")
    assert list(remedies) == (["list_argument"] if LISTS[body] else [])
    for remedy in remedies.values():  # a named tuple and a subclass stay as they are
        assert "(list(xs) if type(xs) is tuple else xs, x)" in remedy.texts["m.py"]


def test_a_list_that_a_call_makes_is_converted_once() -> None:
    text = f"{HEAD}def f(x, n):\n    return sum(x)\n\n\ndef step(make):\n    return f(make(), 1)\n"
    remedies = offered(text, container(GuardCause.TYPE, "x", "list", "tuple"), "f", caller="    return f(")
    remedy = remedies["list_argument_at_call"]
    assert remedy.title == "Pass `make()` as a list in the call on line 10"
    assert "    return f(list(x) if type(x := make()) is tuple else x, 1)\n" in remedy.texts["m.py"]


DICTS = {
    "return sum(parts.values())": True,
    'return parts["a"] * parts.get("b", 1)': True,
    "return x if 'a' in parts else -x": True,
    "return torch.cat(list(parts.values()))": False,
    "return [v for v in parts.values()]": False,
    "parts['a'] = x\n    return x": False,
    "return parts.pop('a')": False,
    "return parts[x]": False,
    "return next(iter(parts))": False,
}


@pytest.mark.parametrize("body", DICTS)
def test_keys_are_sorted_only_where_their_order_is_free(body: str) -> None:
    text = f"{HEAD}@torch.compile\ndef f(parts, x):\n    {body}\n"
    remedies = offered(text, container(GuardCause.KEYS, "parts", "a", "b"), "f")
    assert list(remedies) == (["sorted_keys"] if DICTS[body] else [])


@pytest.mark.parametrize(
    ("body", "changes"), [("return sum(parts.values())", True), ("return parts['a'] - parts['b']", False)]
)
def test_values_that_are_added_in_another_order_change(body: str, *, changes: bool) -> None:
    text = f"{HEAD}@torch.compile\ndef f(parts, x):\n    {body}\n"
    remedy = offered(text, container(GuardCause.KEYS, "parts", "a", "b"), "f")["sorted_keys"]
    assert ("order of additions" in remedy.changes, remedy.fix_class is FixClass.CHANGES) == (
        changes,
        changes,
    )
    assert "if type(parts) is dict else parts" in remedy.texts["m.py"], "a subclass stays what it is"


STRIDES = {
    "return x + 1": True,
    "x.add_(1)\n    return x + 1": False,
    "return x": False,
    "x += 1\n    return x * 2": False,
}


@pytest.mark.parametrize("body", STRIDES)
def test_a_tensor_is_copied_only_where_it_is_read(body: str) -> None:
    failure = GuardFailure(
        "TENSOR_MATCH", "x", "check_tensor(L['x'], Tensor)", "x.stride", "1", "4", cause=GuardCause.STRIDE
    )
    remedies = offered(f"{HEAD}@torch.compile\ndef f(x):\n    {body}\n", failure, "f")
    assert [remedy.changes for remedy in remedies.values()] == (
        ["the strides of results"] if STRIDES[body] else []
    )


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


CORE = f"{HEAD}class Core(nn.Module):\n    def forward(self, x, n):\n        return x * n\n\n\n"
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


def test_a_size_is_marked_before_the_call_that_brought_it() -> None:
    text = f"{CORE}core = make()\n\n\ndef step(y, z):\n    if z:\n        y = core(y, z)\n    return y\n"
    remedies = offered(text, size((0, 4, 7), (1, 4, 9)), "Core.forward", caller="        y = core(")
    assert remedies["mark_dynamic"].texts["m.py"] == text.replace(
        "        y = core",
        "        torch._dynamo.mark_dynamic(y, 0)\n        torch._dynamo.mark_dynamic(y, 1)\n        y = core",
    )
    entry = offered(text, size((0, 1, 7)), "Core.forward", caller="        y = core(")
    assert "torch._dynamo.decorators.mark_unbacked(y, 0)\n" in entry["mark_unbacked"].texts["m.py"]


@pytest.mark.parametrize(
    ("outcome", "is_offered"), [(Outcome.COMPILED, False), (Outcome.EMPTY, False), (Outcome.SKIPPED, True)]
)
def test_no_size_is_marked_inside_of_compiled_code(outcome: Outcome, *, is_offered: bool) -> None:
    """torch refuses that: "Attempt to trace forbidden callable". A frame that was skipped runs in eager mode."""
    text = f"{CORE}core = make()\n\n\ndef step(y, z):\n    print(z)\n    y = core(y, z)\n    return y\n"
    for torch in ("2.13.0", "2.12.0"):
        for change in (size((0, 4, 7)), size((0, 1, 7))):
            kinds = offered(
                *(text, change, "Core.forward"),
                torch=torch,
                caller="    y = core(",
                calling="step",
                outcome=outcome,
            )
            assert any(kind.startswith("mark_") for kind in kinds) is is_offered, kinds


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
