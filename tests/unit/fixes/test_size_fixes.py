"""Remedies for sizes that vary: the text before, the guard that failed, and the text after."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import (
    Branch,
    GuardCause,
    GuardFailure,
    Location,
    Outcome,
    SizeChange,
    Symbol,
)
from tests.support.recompilation_fixes import COMPILED, CORE, HEAD, offered, size

if TYPE_CHECKING:
    from fuselight_server.fixes.rewrites.families import RefusedRewrite

_OTHER = dataclasses.replace(size((1, 4, 7)), source="n", sizes=(SizeChange("n", 1, 4, 7),))
_FIXED = (Symbol("s0", "x.size(1)", specialized_to="7", stack=(Location("m.py", 8),)),)
_ELSEWHERE = (dataclasses.replace(_FIXED[0], stack=(Location("/lib/parts.py", 80),)),)
_ARRAY = dataclasses.replace(size((1, 4, 7)), source="x", expression="___from_numpy(L['x'])")


_STAYS_FIXED: dict[str, tuple[GuardFailure, GuardFailure | None, tuple[Symbol, ...]]] = {
    "`x` is a NumPy array, and torch frees the sizes of tensors only": (_ARRAY, None, ()),
    "`n.size(1)` varies too, and this change would keep it fixed": (size((1, 4, 7)), _OTHER, ()),
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
