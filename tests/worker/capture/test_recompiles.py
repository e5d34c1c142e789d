# ruff: noqa: E501, PLR0917 - CASES is a table, and its test takes its columns
"""Why a frame was recompiled, in terms of user code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuselight.shared.report import GuardCause
from tests.support.recording import record

pytestmark = pytest.mark.torch

# what the test is about, its cause, the function, two calls, the difference, and text on the line that made the guard
CASES = (
    ("size", GuardCause.DIMENSION, "return x + 1", "f(ones(4, 2))", "f(ones(7, 2))", "x.size(0) was 4, now 7", "return x"),
    ("rank", GuardCause.RANK, "return x + 1", "f(ones(4, 2))", "f(ones(4))", "x.dim() was 2, now 1", "return x"),
    ("dtype", GuardCause.DTYPE, "return x + 1", "f(ones(4))", "f(ones(4).double())", "x.dtype was float32, now float64", "return x"),
    ("stride", GuardCause.STRIDE, "return x + 1", "f(ones(4, 2))", "f(ones(2, 4).t())", "x.stride(0) was 2, now 1; x.stride(1) was 1, now 4", "return x"),
    ("grad", GuardCause.REQUIRES_GRAD, "return x + 1", "f(ones(4))", "f(ones(4).requires_grad_())", "x.requires_grad was False, now True", "return x"),
    ("parameter", GuardCause.TYPE, "return x + 1", "f(ones(4))", "f(nn.Parameter(ones(4)))", "the type of x was Tensor, now Parameter; x.requires_grad was False, now True", "return x"),
    ("int", GuardCause.NUMBER, "return x + (1 if a > 2 else 0)", "f(ones(4), 1)", "f(ones(4), 5)", "a was 1, now 5", "if a > 2"),
    ("string", GuardCause.VALUE, "return x + len(a)", "f(ones(4), 'a')", "f(ones(4), 'bc')", "a was 'a', now 'bc'", "len(a)"),
    ("none", GuardCause.NONE, "return x + 1 if a is None else x + a", "f(ones(4))", "f(ones(4), ones(4))", "a was None, now a float32 tensor of shape [4]", "a is None"),
    ("bool", GuardCause.VALUE, "return x + 1 if a else x - 1", "f(ones(4), True)", "f(ones(4), False)", "a was True, now False", "if a"),
    ("list length", GuardCause.LENGTH, "return x + sum(a)", "f(ones(4), [1, 2])", "f(ones(4), [1, 2, 3])", "len(a) was 2, now 3", "sum(a)"),
    ("metadata", GuardCause.OTHER, "return torch.mm(x, a)", "f(ones(3, 4), Scaled(ones(4, 5), 0))", "f(ones(3, 4), Scaled(ones(4, 5), 1))", "the metadata that a.__tensor_flatten__() returns was 0, now 1", "torch.mm"),
    ("iterator", GuardCause.LENGTH, "return x + sum(a)", "f(ones(4), iter((1, 2)))", "f(ones(4), iter((1, 2, 3)))", "the number of items left in a was 2, now 3", "sum(a)"),
    ("count", GuardCause.VALUE, "return x + next(a)", "f(ones(4), count())", "f(ones(4), count(5))", "next(a) was 0, now 5", "next(a)"),
    ("range", GuardCause.VALUE, "return x + next(a)", "f(ones(4), iter(range(3)))", "f(ones(4), iter(range(1, 3)))", "a was range(0, 3, 1), now range(1, 3, 1)", "next(a)"),
    ("key of a subclass", GuardCause.NUMBER, "return x + a['k']", "f(ones(4), Counter(j=1, k=1))", "f(ones(4), Counter(j=1, k=2))", "a['k'] was 1, now 2", "a['k']"),
    ("type", GuardCause.TYPE, "return x + sum(a)", "f(ones(4), [1, 2])", "f(ones(4), (1, 2))", "the type of a was list, now tuple", "sum(a)"),
    ("key", GuardCause.KEYS, "return x + (1 if 'k' in a else 0)", "f(ones(4), {'k': 1})", "f(ones(4), {'j': 1})", "'k' was in a, now it is not", "in a"),
    ("key of two parts", GuardCause.KEYS, "return x + (1 if ('k', 2) in a else 0)", "f(ones(4), {('k', 2): 1})", "f(ones(4), {'j': 1})", "('k', 2) was in a, now it is not", "in a"),
    ("dtype as a value", GuardCause.VALUE, "return x.to(a)", "f(ones(4), torch.half)", "f(ones(4), torch.double)", "a was torch.float16, now torch.float64", "x.to(a)"),
    ("attribute dtype", GuardCause.VALUE, "return x.to(a.dtype)", "f(ones(4), SimpleNamespace(dtype=torch.half))", "f(ones(4), SimpleNamespace(dtype=torch.double))", "a.dtype was torch.float16, now torch.float64", "x.to(a.dtype)"),
    ("first key", GuardCause.KEYS, "return x + sum(a.values())", "f(ones(4), {})", "f(ones(4), {'k': 1})", "a was empty, now {'k': 1}", "a.values()"),
    ("missing key", GuardCause.KEYS, "return x + sum(a.values())", "f(ones(4), {'k': ones(4), 'j': ones(4)})", "f(ones(4), {'k': ones(4)})", "a had the key 'j', now it has not", "a.values()"),
    ("value", GuardCause.NUMBER, "return x * (1 if a['k'] > 2 else 3)", "f(ones(4), {'k': 1})", "f(ones(4), {'k': 8})", "a['k'] was 1, now 8", "a['k']"),
    ("function", GuardCause.VALUE, "return a(x)", "f(ones(4), torch.sin)", "f(ones(4), torch.cos)", "a was torch.sin, now torch.cos", "a(x)"),
    ("enum", GuardCause.VALUE, "return x + 1 if a is Way.UP else x - 1", "f(ones(4), Way.UP)", "f(ones(4), Way.DOWN)", "a was Way.UP, now Way.DOWN", "a is Way.UP"),
    ("attribute enum", GuardCause.VALUE, "return x + 1 if a.b is Way.UP else x - 1", "f(ones(4), SimpleNamespace(b=Way.DOWN))", "f(ones(4), SimpleNamespace(b=Way.UP))", "a.b was Way.DOWN, now Way.UP", "a.b is Way.UP"),
    ("grad mode", GuardCause.GLOBAL_STATE, "return x + 1", "f(ones(4))", "no_grad(f, ones(4))", "grad mode was on, now off", None),
    ("default dtype", GuardCause.GLOBAL_STATE, "return x + torch.ones(4)", "f(ones(4))", "in_double(f, ones(4))", "the default dtype was float32, now float64", None),
    ("attribute", GuardCause.MISSING, "return x + (1 if hasattr(a, 'b') else 0)", "f(ones(4), box)", "f(ones(4), box.with_b())", "a.b was absent, now [1]", "hasattr"),
    ("number attribute", GuardCause.NUMBER, "return x + getattr(a, 'b', 0)", "f(ones(4), Box())", "f(ones(4), Box(b=3))", "a.b was absent, now 3", "getattr"),
    ("attribute of the class", GuardCause.NUMBER, "return x * a.size", "f(ones(4), Box())", "f(ones(4), Box(size=2))", "a.size was 1, now 2", "a.size"),
    ("none of the class", GuardCause.NONE, "return x + 1 if a.table is None else x + a.table", "f(ones(4), Box())", "f(ones(4), Box(table=ones(4)))", "a.table was None, now a float32 tensor of shape [4]", "a.table is None"),
    ("list of the class", GuardCause.LENGTH, "return x * len(a.seen)", "f(ones(4), box)", "f(ones(4), box.with_seen())", "len(a.seen) was 1, now 2", "len(a.seen)"),
    ("global", GuardCause.NUMBER, "return x * FLAG", "f(ones(4))", "flagged(f, ones(4))", "FLAG was 1, now 2", "FLAG"),
    ("variable", GuardCause.VALUE, "return x * len(os.environ['FUSELIGHT_A'])", "with_variables(f, 'a')", "with_variables(f, 'bc')", "os.environ['FUSELIGHT_A'] was 'a', now 'bc'", "os.environ"),
    ("deleted variable", GuardCause.MISSING, "return x * len(os.environ.get('FUSELIGHT_A', ''))", "with_variables(f, 'a')", "f(ones(4))", "os.environ['FUSELIGHT_A'] was set, now it is not", "os.environ"),
    ("aliasing", GuardCause.ALIASING, "return x + a", "f(ones(4), ones(4))", "f(*[ones(4)] * 2)", "a and x are the same tensor now, which they were not", None),
)  # fmt: skip


@pytest.mark.parametrize(
    ("what", "cause", "body", "first", "second", "difference", "born"), CASES, ids=[case[0] for case in CASES]
)
def test_the_difference(
    tmp_path: Path,
    what: str,
    cause: GuardCause,
    body: str,
    first: str,
    second: str,
    difference: str,
    born: str | None,
) -> None:
    del what
    got = record(
        tmp_path,
        f"""
        import enum
        import os
        from collections import Counter
        from itertools import count
        from types import SimpleNamespace
        from unittest import mock
        from torch import ones

        class Scaled(torch.Tensor):
            @staticmethod
            def __new__(cls, data, constant):
                strides = data.stride()
                return torch.Tensor._make_wrapper_subclass(cls, data.size(), strides=strides, dtype=data.dtype)

            def __init__(self, data, constant):
                self.data_, self.constant = data, constant

            def __tensor_flatten__(self):
                return ["data_"], self.constant

            @staticmethod
            def __tensor_unflatten__(inner, constant, size, stride):
                return Scaled(inner["data_"], constant)

            @classmethod
            def __torch_dispatch__(cls, func, types, args, kwargs=None):
                return func(*(arg.data_ if isinstance(arg, Scaled) else arg for arg in args))

        def with_variables(f, value):
            with mock.patch.dict(os.environ, FUSELIGHT_A=value):
                return f(ones(4))

        class Way(enum.Enum):
            UP = 1
            DOWN = 2

        FLAG = 1

        class Box:
            size, table, seen = 1, None, [0]

            def __init__(self, **own):
                self.__dict__ |= own

            def with_b(self):
                self.b = [1]
                return self

            def with_seen(self):
                self.seen.append(1)
                return self

        box = Box()

        def no_grad(f, *args):
            with torch.no_grad():
                return f(*args)

        def in_double(f, x):
            torch.set_default_dtype(torch.float64)
            try:
                return f(x)
            finally:
                torch.set_default_dtype(torch.float32)

        def flagged(f, x):
            global FLAG
            FLAG = 2
            return f(x)

        @torch.compile
        def f(x, a=None):
            {body}

        def main():
            {first}
            {second}
        """,
    )
    assert got.failure is None
    (again,) = got.parts.recompiles
    assert again.function == "f"
    assert again.location.line == got.line("def f(x")
    assert again.compile_id is not None
    (entry,) = again.entries
    assert [failure.difference for failure in entry.failures] == [difference]
    (failure,) = entry.failures
    assert failure.cause is cause
    if born is None:
        assert not failure.born
    else:
        line = next(place.line for place in reversed(failure.born) if place.path == got.path)
        assert line == got.line(body)
        assert born in got.lines[line - 1]
    if failure.was is not None:
        assert f"was {failure.was}, now {failure.now}" in failure.difference
    assert again.caller[-1].path == got.path
    assert not got.parts.problems


def test_the_nearest_entry_comes_first_and_all_failing_guards_are_there(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2

            def forward(self, x, y=None):
                if self.training:
                    x = x + 1
                if y is not None:
                    x = x + y
                return x * self.scale

        net = Net()
        compiled = torch.compile(net)

        def main():
            compiled(torch.ones(4))
            net.eval()
            net.scale = 3
            compiled(torch.ones(4))
            compiled(torch.ones(4), torch.ones(4))
        """,
    )
    first, second = got.parts.recompiles
    assert [failure.difference for failure in first.entries[0].failures] == [
        "self.training was True, now False",
        "self.scale was 2, now 3",
    ]
    assert [len(entry.failures) for entry in second.entries] == [1, 3]
    assert [entry.compile_id for entry in second.entries] == ["0/1", "0/0"]
    assert second.caller[-1].line == got.line("torch.ones(4), torch.ones(4)")


def test_a_relation_between_dynamic_sizes_is_reported_with_both_values_and_its_line(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile(dynamic=True)
        def f(x, y):
            if x.size(0) > 2 * y.size(0):
                return x + 1
            return x + 2

        def main():
            f(torch.ones(9), torch.ones(4))
            f(torch.ones(6), torch.ones(5))
        """,
    )
    (again,) = got.parts.recompiles
    failure = again.entries[0].failures[0]
    assert failure.difference == "x.size(0) > 2*y.size(0) no longer holds: x.size(0) is 6, y.size(0) is 5"
    assert failure.born[-1].line == got.line("if x.size(0)")


def test_an_index_of_a_list_is_a_number_that_the_line_fixes_and_no_relation(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def f(x, parts, n):
            return x * parts[n]

        def main():
            parts = [torch.ones(2)] * 5
            for n in (1, 2, 3):
                f(torch.ones(2), parts, n)
        """,
    )
    first, second = (again.entries[0].failures[0] for again in got.parts.recompiles)
    assert [failure.difference for failure in (first, second)] == ["n was 1, now 2", "n was 2, now 3"]
    assert {(failure.cause, failure.source, failure.expression) for failure in (first, second)} == {
        (GuardCause.NUMBER, "n", "L['n']")
    }
    assert second.born[-1].line == got.line("parts[n]")


def test_a_number_that_a_method_under_no_grad_fixes_is_read_on_its_line(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Schedule:
            def __init__(self):
                self.at, self.alphas = 0, [0.5] * 9

            def scaled(self, x):
                return x * self.alphas[self.at]

            @torch.no_grad()
            def step(self, x):
                return self.scaled(x)

        schedule = Schedule()
        step = torch.compile(schedule.step)

        def main():
            for at in range(4):
                schedule.at = at
                step(torch.ones(2))
        """,
    )
    nearest = [again.entries[0].failures[0] for again in got.parts.recompiles]
    assert [failure.difference.rpartition(" was ")[2] for failure in nearest] == [
        "0, now 1",
        "1, now 2",
        "2, now 3",
    ]
    assert {failure.born[-1].line for failure in nearest} == {got.line("self.alphas[self.at]")}
    assert "fuselight" not in "".join(reason for again in got.parts.recompiles for reason in again.reasons)


def test_another_backend_is_reported_as_such(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415

    from fuselight.capture.dynamo import Recorder  # noqa: PLC0415 - here without capture_only

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    torch._dynamo.reset()
    with Recorder(roots=(str(tmp_path),)) as recorder:
        torch.compile(f, backend="eager")(torch.ones(3))
        torch.compile(f, backend="aot_eager")(torch.ones(3))
    (again,) = recorder.parts().recompiles
    assert "another backend" in again.entries[0].failures[0].difference


def test_the_limit_is_reported_once_with_the_last_reason(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def f(x, a):
            return x + len(a)

        def main():
            for length in range(1, 13):
                f(torch.ones(2), "a" * length)
        """,
    )
    (refused,) = got.parts.not_compiled
    assert refused.kind.value == "recompile_limit"
    assert refused.location.line == got.line("def f(")
    assert "recompile_limit (8)" in refused.reason
    assert refused.gb_id == "GB0039"
    assert got.parts.recompiles[-1].compile_id is None
    assert len(got.parts.recompiles) == 8


def test_a_hook_that_compiled_code_registers_is_traced_as_without_the_recorder(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        import warnings

        layer = nn.Linear(3, 3)

        @torch.compile
        def hooked(x):
            handle = layer.register_forward_hook(lambda module, args, output: output * 2)
            y = layer(x)
            handle.remove()
            return y

        def main():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                hooked(torch.ones(2, 3))
        """,
    )
    assert got.failure is None
    assert (got.parts.problems, got.parts.unseen) == ((), ())
    assert not any(
        "fuselight" in f"{graph_break.reason}{graph_break.explanation}{graph_break.context}"
        for graph_break in got.parts.breaks
    )
    assert not any(
        "hooks.py" in place.path
        for graph_break in got.parts.breaks
        for place in graph_break.stack
        if "torch_api" in place.path
    )


def test_a_version_that_differs_in_values_is_nearer_than_one_of_another_kind_of_call(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def step(x, past, start):
            y = x if past is None else x + sum(one.sum() for one in past)
            return y * start

        def main():
            step(torch.ones(4), None, 0)
            step(torch.ones(4), [torch.ones(2, 5), torch.ones(2, 5), torch.ones(2, 5)], 5)
            step(torch.ones(4), [torch.ones(2, 6), torch.ones(2, 6), torch.ones(2, 6)], 6)
        """,
    )
    nearest = got.parts.recompiles[-1].entries[0]
    assert nearest.compile_id.endswith("0/1")
    assert nearest.failures[0].difference == "past[0].size(1) was 5, now 6"


def test_a_number_that_torch_fixes_again_is_compared_with_the_version_before(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Average:
            def __init__(self):
                self.settings = {"decay": 0.9}

            def step(self, old, new):
                for settings in [self.settings]:
                    decay = settings["decay"]
                return torch._foreach_lerp([old], [new], 1 - decay)[0]

        average = Average()
        step = torch.compile(average.step)

        def main():
            for decay in (0.9, 0.8, 0.7, 0.6):
                average.settings["decay"] = decay
                step(torch.ones(4), torch.zeros(4))
        """,
        aot_autograd=True,
    )
    nearest = [recompile.entries[0] for recompile in got.parts.recompiles]
    assert [entry.compile_id for entry in nearest] == ["0/0", "0/1", "0/2"]
    assert [[failure.difference for failure in entry.failures] for entry in nearest] == [
        ["self.settings['decay'] was 0.9, now 0.8"],
        ["self.settings['decay'] was 0.8, now 0.7"],
        ["self.settings['decay'] was 0.7, now 0.6"],
    ]
    failures = [entry.failures[0] for entry in nearest]
    assert {(failure.cause, failure.source) for failure in failures} == {
        (GuardCause.NUMBER, "self.settings['decay']")
    }
    assert {failure.born[-1].line for failure in failures} == {got.line("_foreach_lerp")}


def test_a_float_that_torch_fixes_by_a_result_is_that_number_on_its_line(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def clamped(x, clip):
            y = x + 1
            return y.clamp(1 - clip, 1 + clip)

        def main():
            for clip in (0.2, 0.18, 0.16):
                clamped(torch.ones(4), clip)
        """,
        aot_autograd=True,
    )
    failures = [recompile.entries[0].failures[0] for recompile in got.parts.recompiles]
    assert [(failure.cause, failure.source) for failure in failures] == [(GuardCause.NUMBER, "clip")] * 2
    assert {failure.born[-1].line for failure in failures} == {got.line("y.clamp")}


def test_a_number_with_several_results_differs_once_and_from_the_version_before(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Level:
            def __init__(self):
                self.value, self.half = 1.0, 0.0

        @torch.compile
        def advance(x, level):
            y = x * level.value
            level.half = level.value * 0.5
            level.value = level.value + 1.0
            return y

        def main():
            level = Level()
            for _ in range(4):
                advance(torch.ones(3), level)
        """,
        aot_autograd=True,
    )
    nearest = [recompile.entries[0].failures for recompile in got.parts.recompiles]
    assert [[failure.difference for failure in failures] for failures in nearest] == [
        ["level.value was 1.0, now 2.0"],
        ["level.value was 2.0, now 3.0"],
        ["level.value was 3.0, now 4.0"],
    ]


def test_a_freed_object_is_named_with_the_line_that_freed_it(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Descent:
            def __init__(self, parameters):
                self.state = {one: {"factor": 0.1} for one in parameters}

            def update(self, parameter):
                factor = self.state[parameter]["factor"]
                parameter.sub_(parameter.grad * factor)

        def main():
            layer = nn.Linear(4, 4, bias=False)
            update = torch.compile(Descent([layer.weight]).update)
            for _ in range(2):
                layer(torch.ones(2, 4)).sum().backward()
                with torch.no_grad():
                    update(layer.weight)
                layer.zero_grad()  # freed
        """,
    )
    (failure,) = got.parts.recompiles[0].entries[0].failures
    assert (failure.cause, failure.difference) == (GuardCause.DELETED, "parameter.grad was freed")
    assert [place.line for place in failure.dropped if place.path == got.path][-1:] == [
        got.line("# freed")
    ], failure


def test_values_that_changed_are_reported_with_code_that_was_dropped(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Descent:
            def __init__(self, parameters):
                self.state = {one: {"step": 0, "rate": 0.5, "kind": "plain", "seen": []} for one in parameters}

            def update(self, parameter):
                state = self.state[parameter]
                if state["kind"] == "plain" and len(state["seen"]) < 3:
                    parameter.sub_(parameter.grad * state["rate"] / (state["step"] + 1))

        def main():
            layer = nn.Linear(4, 4, bias=False)
            descent = Descent([layer.weight])
            update = torch.compile(descent.update)
            for _ in range(2):
                layer(torch.ones(2, 4)).sum().backward()
                with torch.no_grad():
                    update(layer.weight)
                layer.zero_grad()
                state = descent.state[layer.weight]
                state["step"] += 1
                state["rate"] *= 0.5
                state["seen"].append(1)
        """,
    )
    failures = got.parts.recompiles[0].entries[0].failures
    assert [(failure.cause, failure.difference) for failure in failures] == [
        (GuardCause.DELETED, "parameter.grad was freed"),
        (GuardCause.LENGTH, "self.state[parameter]['seen'] was empty, now [1]"),
        (GuardCause.NUMBER, "self.state[parameter]['rate'] was 0.5, now 0.25"),
        (GuardCause.NUMBER, "self.state[parameter]['step'] was 0, now 1"),
    ]
    assert failures[-1].source == "self.state[parameter]['step']"
    assert failures[-1].born[-1].line == got.line("parameter.sub_(")


def test_a_hook_that_was_removed_is_missing_and_no_other_object(tmp_path: Path) -> None:
    """Two modules share a hook: the guard that it is the same object fails because it is gone."""
    got = record(
        tmp_path,
        """
        net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def double(module, args, output):
            return output * 2

        @torch.compile
        def f(x):
            return net(x)

        def main():
            handles = [layer.register_forward_hook(double) for layer in net]
            before = net[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
            f(torch.ones(4))
            before.remove()
            f(torch.ones(4))
            for handle in handles:
                handle.remove()
            f(torch.ones(4))
        """,
    )
    texts = [{failure.difference for failure in item.entries[0].failures} for item in got.parts.recompiles]
    assert texts == [
        {"a forward pre-hook of net[1] was removed"},
        {"a forward hook of net[0] was removed", "a forward hook of net[1] was removed"},
    ]
    assert all(item.entries[0].failures[0].born for item in got.parts.recompiles)
