"""Code objects of an edited file, and the arguments that are recorded for them."""

from __future__ import annotations

import dataclasses
import textwrap
from types import CodeType, FunctionType
from typing import Any

import pytest
import torch

from fuselight.worker.child.recorded_arguments import ArgumentRecorder, fresh_values, function_key
from fuselight.worker.live.edited_text import (
    NotApplicableError,
    ParsedFile,
    check_code,
    check_replaceable,
    moved,
)

pytestmark = pytest.mark.torch

TEXT = textwrap.dedent(
    """\
    from __future__ import annotations
    import torch

    raise RuntimeError("no statement of the module runs")

    class Outer:
        raise RuntimeError("nor one of a class")

        class Inner:
            @property
            def value(self):
                return self._value

            @value.setter
            def value(self, value):
                self._value = value

    def outer(x):
        def inner(y):
            return x + y
        return inner

    if torch:
        def chosen():
            return 1
    else:
        def chosen():
            return 2
    """
)


def _codes(text: str) -> dict[str, list[CodeType]]:
    parsed = ParsedFile(text, "model.py")
    every = [function for functions in parsed.functions.values() for function in functions]
    compiled = parsed.compiled(every, redirect=False)
    assert len(compiled) == len(every)
    return {
        name: [compiled[id(function_text.node)] for function_text in function]
        for name, function in parsed.functions.items()
    }


def test_each_function_has_a_code_object_with_the_lines_of_the_text() -> None:
    codes = _codes(TEXT)
    assert {name: [code.co_firstlineno for code in code] for name, code in codes.items()} == {
        "Outer.Inner.value": [10, 14],
        "outer": [18],
        "outer.<locals>.inner": [19],
        "chosen": [24, 27],
    }
    (inner,) = codes["outer.<locals>.inner"]
    assert (inner.co_freevars, inner.co_filename) == (("x",), "model.py")


def test_code_moves_with_what_is_inside_it() -> None:
    (outer,) = _codes(TEXT)["outer"]
    lower = moved(outer, 5)
    inner = next(constant for constant in lower.co_consts if isinstance(constant, CodeType))
    assert (lower.co_firstlineno, inner.co_firstlineno) == (23, 24)
    assert FunctionType(lower, {})(1)(2) == 3


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("def f(a, b=1): pass", "def f(a, b=2): pass", "defaults"),
        ("def f(a, *, b=1): pass", "def f(a, *, b): pass", "signature"),
        ("def f(a, b): pass", "def f(a, /, b): pass", "signature"),
        ("def f(a): pass", "def f(*a): pass", "signature"),
        ("@g\ndef f(a): pass", "@h\ndef f(a): pass", "decorators"),
        ("def f(a): pass", "async def f(a): pass", "kind"),
        ("def f(a: int) -> int: pass", "def f(a: str): return a", None),
    ],
)
def test_a_changed_def_statement_is_not_taken_over(old: str, new: str, reason: str | None) -> None:
    ((before,),), ((after,),) = (ParsedFile(text, "m.py").functions.values() for text in (old, new))
    if reason is None:
        check_replaceable(before, after)
        return
    with pytest.raises(NotApplicableError) as error_info:
        check_replaceable(before, after)
    assert error_info.value.reason == reason


def test_a_new_variable_of_the_function_around_it_is_unknown() -> None:
    (before,) = _codes("def f(a, b):\n    def g(): return a\n")["f.<locals>.g"]
    (after,) = _codes("def f(a, b):\n    def g(): return a + b\n")["f.<locals>.g"]
    check_code(before, after, ("a", "b"))
    with pytest.raises(NotApplicableError) as error_info:
        check_code(before, after, ("a",))
    assert error_info.value.reason == "closure"


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    rest: list[Any]


class Model(torch.nn.Module):
    pass


def _record(function: Any, *args: Any) -> list[dict[str, Any]]:
    key = function_key(function.__code__)
    recorder = ArgumentRecorder({key})
    with recorder.listening():
        function(*args)
    return [fresh_values(call) for call in recorder.calls[key]]


def test_what_a_call_changes_is_recorded_as_it_was() -> None:
    def change(pair: Pair, named: dict[str, Any], model: Model) -> None:
        pair.rest.append(1)
        pair.first = torch.zeros(2)
        named.clear()
        del model

    first, model = torch.ones(3), Model()
    cycle: list[Any] = []
    cycle.append(cycle)
    (values,) = _record(change, Pair(first, [cycle]), {"a": first}, model)
    assert values["pair"].first is first
    assert len(values["pair"].rest) == 1
    assert values["pair"].rest[0][0] is values["pair"].rest[0]
    assert values["named"] == {"a": first}
    assert values["model"] is model


def test_an_intermediate_is_kept_without_what_computed_it() -> None:
    def use(x: torch.Tensor) -> None:
        del x

    leaf = torch.ones(4, requires_grad=True)
    (values,) = _record(use, leaf.sin())
    kept = values["x"]
    assert (kept.requires_grad, kept.is_leaf) == (True, False)
    kept.add_(1)
    assert torch.equal(kept.detach(), torch.ones(4).sin() + 1)


def test_a_tensor_above_the_limit_is_kept_without_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def use(small: torch.Tensor, large: torch.Tensor) -> None:
        del small, large

    monkeypatch.setattr("fuselight.worker.child.recorded_arguments.KEPT_BYTES", 100)
    (values,) = _record(use, torch.ones(4), torch.ones(8, 4).T)
    assert torch.equal(values["small"], torch.ones(4))
    large = values["large"]
    assert (large.shape, large.stride(), float(large.sum())) == ((4, 8), (1, 4), 0)


def test_the_modes_of_a_call_are_in_force_again() -> None:
    def use() -> tuple[Any, ...]:
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.get_default_dtype(),
            torch.ones(1).device.type,
        )

    key = function_key(use.__code__)
    recorder = ArgumentRecorder({key})
    torch.set_default_dtype(torch.float64)
    try:
        with recorder.listening(), torch.inference_mode(), torch.autocast("cpu"), torch.device("meta"):
            expected = use()
    finally:
        torch.set_default_dtype(torch.float32)
    assert expected == (False, True, True, torch.float64, "meta")
    (call,) = recorder.calls[key]
    with call.modes.active():
        assert use() == expected
    assert use() == (True, False, False, torch.float32, "cpu")
