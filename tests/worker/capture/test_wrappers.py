"""Frames of a library's wrapper have the name and docstring of the wrapped function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuselight.capture.dynamo import wrappers
from fuselight.shared.report import GuardCause
from tests.support.recording import record

pytestmark = pytest.mark.torch

COMPILED_MODULE = """
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    compiled = torch.compile(net)

    def main():
        compiled(torch.ones(2, 4))
        compiled(torch.ones(3, 4))
        net.eval()
        compiled(torch.ones(3, 4))
    """


def test_a_module_of_torch_is_named_instead_of_its_wrapper(tmp_path: Path) -> None:
    got = record(tmp_path, COMPILED_MODULE)
    (frame,) = got.parts.frames
    assert frame.function == "Sequential"
    assert frame.location.path.endswith("container.py")
    assert frame.parameters == ("self", "input")
    assert frame.wrapper is not None
    assert (Path(frame.wrapper.path).name, frame.wrapper.function) == ("external_utils.py", "inner")
    sizes, mode = got.parts.recompiles
    assert {recompilation.function for recompilation in (sizes, mode)} == {"Sequential"}
    (failure,) = sizes.entries[0].failures
    assert (failure.source, failure.difference) == ("input", "input.size(0) was 2, now 3")
    assert "L['args'][0]" in failure.code, "the expression stays Dynamo's"
    assert mode.entries[0].failures[0].difference == "self[1].training was True, now False"
    compiled = got.parts.compiles[1]
    assert [symbol.source for symbol in compiled.symbols] == ["input.size(0)"]
    words = {guard.source for guard in compiled.guards}
    assert {"input", "self[0].weight"} <= words
    assert not any(word.startswith(("args[", "fn")) for word in words), words
    assert not got.parts.problems


def test_a_callable_object_is_named_instead_of_its_wrapper(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Blend:
            def __init__(self):
                self.rate = 2

            def __call__(self, x, other):
                return x + other * self.rate

        blend = Blend()
        compiled = torch.compile(blend)

        def main():
            compiled(torch.ones(2, 4), torch.ones(4))
            compiled(torch.ones(3, 4), other=torch.ones(4))
            blend.rate = 5
            compiled(torch.ones(3, 4), other=torch.ones(4))
        """,
    )
    assert {(frame.function, frame.parameters) for frame in got.parts.frames} == {
        ("Blend.__call__", ("self", "x", "other"))
    }
    differences = {item.entries[0].failures[0].difference for item in got.parts.recompiles}
    assert "self.rate was 2, now 5" in differences


def test_a_partial_has_the_names_of_its_function_and_so_have_values_of_a_closure(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        import functools

        def made(table):
            def blend(first, x, rate, *, gain):
                return (first + x * rate) * gain + table

            return blend

        table = torch.ones(4, 4)
        blend = functools.partial(made(table), torch.ones(4), gain=2)
        compiled = torch.compile(blend)

        def main():
            x = torch.ones(4, 4)
            compiled(x, 2)
            compiled(x, rate=3)
            blend.keywords["gain"] = 5
            compiled(x, rate=3)
            blend.keywords["gain"] = 2
            compiled(table, 2)
        """,
    )
    assert {(frame.function, frame.parameters) for frame in got.parts.frames} == {
        ("made.blend", ("first", "x", "rate", "gain"))
    }
    texts = {failure.difference for item in got.parts.recompiles for failure in item.entries[0].failures}
    assert texts >= {"gain was 2, now 5", "x and table are the same tensor now, which they were not"}


def test_two_modules_after_one_wrapper_are_two_frames(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        first, second = torch.compile(nn.Linear(4, 4)), torch.compile(nn.Sequential(nn.ReLU()))

        def main():
            first(torch.ones(2, 4))
            second(torch.ones(2, 4))
        """,
    )
    assert [frame.function for frame in got.parts.frames] == ["Linear", "Sequential"]


def test_functions_that_share_a_wrapper_are_compared_with_their_own_versions(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        import functools

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        @torch.no_grad()
        def scaled(x, factor):
            return x * factor

        @torch.no_grad()
        def bounded(x, most):
            return x.clamp(max=most)

        @logged
        def moved(x, by):
            return x + by

        @logged
        def padded(x, width):
            return torch.nn.functional.pad(x, (0, width))

        pairs = [[torch.compile(each) for each in pair] for pair in ((scaled, bounded), (moved, padded))]

        def main():
            for first, second in pairs:
                first(torch.ones(4), True)
                second(torch.ones(4), 3)
                first(torch.ones(4), False)
        """,
    )
    assert [
        [[failure.difference for failure in entry.failures] for entry in item.entries]
        for item in got.parts.recompiles
    ] == [
        [["called for bounded, compiled for scaled"]],
        [["factor was True, now False"], ["called for scaled, compiled for bounded"]],
        [["called for padded, compiled for moved"]],
        [["by was True, now False"], ["called for moved, compiled for padded"]],
    ]
    assert {item.entries[-1].failures[0].cause for item in got.parts.recompiles} == {GuardCause.WRAPPED}


def test_a_limit_and_a_break_are_reported_for_the_module(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Talks(nn.Module):
            def forward(self, x):
                print("in between")
                return x * 2

        net = torch.compile(nn.Sequential(nn.Linear(4, 4), Talks()), dynamic=False)

        def main():
            with torch.no_grad():  # with gradients torch warns of its own look at `.grad`, here an error
                for rows in range(2, 12):
                    net(torch.ones(rows, 4))
        """,
    )
    assert got.failure is None
    assert "Sequential" in {graph_break.frame_function for graph_break in got.parts.breaks}
    parts = got.parts
    (limit,) = parts.not_compiled
    assert limit.wrapper is not None
    assert limit.wrapper.function == "inner", "the code object's own place is kept"
    names = {
        *(uncompiled_code.function for uncompiled_code in parts.not_compiled),
        *(recompilation.function for recompilation in parts.recompiles),
        *(frame.function for frame in parts.frames),
    }
    assert not any("inner" in name for name in names), names


def _library_wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(self: object, *args: object, **kwargs: object) -> object:
        return function(self, *args, **kwargs)

    return wrapper


@_library_wrapper
def forward(self: object, ids: object, mask: object = None, *, cache: object = None) -> object:
    return (self, ids, mask, cache)


def _callee(roots: tuple[str, ...]) -> wrappers.Callee:
    code = forward.__code__
    assert forward.__closure__ is not None
    held = {
        name: cell.cell_contents for name, cell in zip(code.co_freevars, forward.__closure__, strict=True)
    }
    return wrappers.callee_of(code, {"self": None, "args": (), "kwargs": {}, **held}, roots)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("args[0].size(1) was 8, now 9", "ids.size(1) was 8, now 9"),
        ("args[1].size(0) == args[0].size(0) no longer holds", "mask.size(0) == ids.size(0) no longer holds"),
        ("kwargs['cache'].size(0) was 1, now 2", "cache.size(0) was 1, now 2"),
        ("args[2] was 1, now 2", "args[2] was 1, now 2"),
        ("self.args[0] was 1, now 2", "self.args[0] was 1, now 2"),
        ("len(args) was 1, now 0", "the number of positional arguments was 1, now 0"),
        ("len(self.args) was 1, now 0", "len(self.args) was 1, now 0"),
        ("kwargs was empty, now a dict of 1", "the dict of keyword arguments was empty, now a dict of 1"),
        ("args", "positional arguments"),
        ("kwargs", "keyword arguments"),
        ("function.__defaults__", "function.__defaults__"),
    ],
)
def test_arguments_of_a_decorator_have_the_names_of_the_wrapped_function(text: str, words: str) -> None:
    callee = _callee(roots=())
    assert callee.function == "forward"
    assert callee.location.path == __file__
    assert callee.in_its_words(text) == words


def test_a_user_wrapper_keeps_its_name_and_docstring() -> None:
    callee = _callee(roots=(str(Path(__file__).parent),))
    assert callee.function == "_library_wrapper.wrapper"
    assert callee.in_its_words("args[0] was 1, now 2") == "ids was 1, now 2"
    assert callee.in_its_words("len(args) was 1, now 0") == "len(args) was 1, now 0"
    assert callee.parameters == ("self", "ids", "mask", "cache")
    assert callee.wraps is not None
    assert callee.wraps.line == forward.__wrapped__.__code__.co_firstlineno + 1  # type: ignore[attr-defined]


def _logged(function: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*given: object, **named: object) -> object:
        result = function(*given, **named)
        return (result, named.get("cache"))

    return inner


def _shifted(function: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: object, **kwargs: object) -> object:
        return function("more", *args, **kwargs)

    return inner


def _replaced(function: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: object, **kwargs: object) -> object:
        args = args[1:]
        return function(*args, **kwargs)

    return inner


class _Held:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)


class _Taking:
    def take(self, rows: object, columns: object) -> object:
        return (rows, columns)


def pair(left: object, right: object) -> object:
    return (left, right)


def _of_user(function: Any) -> wrappers.Callee:
    held: dict[str, object] = {}
    if isinstance(function, _Held):
        held["self"] = function
        code = _Held.__call__.__code__
    else:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__, strict=True)
        held |= {name: cell.cell_contents for name, cell in cells}
    return wrappers.callee_of(code, held, (str(Path(__file__).parent),))


@pytest.mark.parametrize(
    ("function", "text", "words"),
    [
        (_logged(pair), "given[1].size(0) was 4, now 7", "right.size(0) was 4, now 7"),
        (_logged(pair), "named['left'].dtype was f32, now f64", "left.dtype was f32, now f64"),
        (_logged(_library_wrapper(pair)), "given[1] was 4, now 7", "right was 4, now 7"),
        (_logged(_Taking().take), "given[0] was 4, now 7", "rows was 4, now 7"),
        (_Held(pair), "args[0] was 4, now 7", "left was 4, now 7"),
        (_Held(_Taking().take), "args[1] was 4, now 7", "columns was 4, now 7"),
        (_shifted(pair), "args[0] was 4, now 7", "args[0] was 4, now 7"),
        (_replaced(pair), "args[0] was 4, now 7", "args[0] was 4, now 7"),
    ],
)
def test_what_a_user_wrapper_passes_on_as_it_came_has_the_name_of_its_parameter(
    function: Any, text: str, words: str
) -> None:
    assert _of_user(function).in_its_words(text) == words


def test_the_parameters_of_a_user_wrapper_are_those_that_its_caller_passes() -> None:
    assert _of_user(_logged(_Taking().take)).parameters == ("rows", "columns")
    assert _of_user(_Held(_Taking().take)).parameters == ("self", "rows", "columns")
