"""A failure of the capture's own trace or run is a problem, and the program goes on as if it had not happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.dynamo import aot_graphs
from fuselight.capture.dynamo import AotCapture, capture_only

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def dynamo_as_before() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def _capture(backend: Callable[..., Any]) -> tuple[AotCapture, torch.Tensor | Exception]:
    aot = AotCapture(lambda _gm: True, aot_eager=backend)
    torch._dynamo.reset()
    torch.manual_seed(0)
    with capture_only(aot):
        try:
            compiled = torch.compile(lambda x: torch.nn.functional.dropout(x.sin(), 0.5) + 1)
            return aot, compiled(torch.ones(8))
        except Exception as error:  # noqa: BLE001 - what the capture let through
            return aot, error


def _expected() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.nn.functional.dropout(torch.ones(8).sin(), 0.5) + 1


def test_a_failure_of_our_trace_alone_is_a_problem_and_the_program_goes_on() -> None:
    def fails(_gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        message = "only here"
        raise NotImplementedError(message)

    aot, result = _capture(fails)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, _expected())
    (problem,) = aot.problems
    assert problem.what.startswith("what AOTAutograd fixes or refuses in a graph")
    assert problem.why == "NotImplementedError: only here"


def test_a_failure_of_our_run_alone_is_a_problem_and_random_numbers_are_those_of_the_program() -> None:
    def fails_later(_gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        def run(*_args: torch.Tensor) -> Any:
            torch.rand(3)
            message = "not in eager mode"
            raise TypeError(message)

        return run

    aot, result = _capture(fails_later)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, _expected())
    assert [problem.why for problem in aot.problems] == ["TypeError: not in eager mode"]


def _runs_then_fails(gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
    def run(*args: torch.Tensor) -> Any:
        gm.forward(*args)
        message = "after all operators"
        raise TypeError(message)

    return run


def test_a_second_run_draws_what_the_generators_of_all_devices_gave_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A generator of the CPU stands for that of a device: the graph draws from it in both runs."""
    generators = {name: torch.Generator().manual_seed(seed) for seed, name in enumerate(("cuda", "xpu"))}
    for name, generator in generators.items():
        monkeypatch.setattr(getattr(torch, name), "default_generators", (generator,))
    drawn: list[list[float]] = []

    def draws(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def run(*args: torch.Tensor) -> Any:
            drawn.append([float(torch.rand(1, generator=generator)) for generator in generators.values()])
            return _runs_then_fails(gm, inputs)(*args)

        return run

    aot, result = _capture(draws)
    assert isinstance(result, torch.Tensor)
    assert [problem.why for problem in aot.problems] == ["TypeError: after all operators"]
    again = [float(torch.rand(1, generator=generator)) for generator in generators.values()]
    assert [again] == drawn, "the program draws next what the failed run has drawn"


def _captured(program: Callable[..., Any], *args: Any) -> tuple[AotCapture, Any]:
    aot = AotCapture(lambda _gm: True, aot_eager=_runs_then_fails)
    torch._dynamo.reset()
    with capture_only(aot):
        try:
            return aot, torch.compile(program)(*args)
        except TypeError as error:
            return aot, error


def test_an_input_that_a_failed_run_changed_is_not_changed_twice() -> None:
    for program in (
        lambda x: x.add_(1),
        lambda x: torch.relu_(x.mul_(2)),
        lambda x: x.view(-1).fill_(3).sum(),
    ):
        x, once = torch.ones(4), torch.ones(4)
        program(once)
        aot, result = _captured(program, x)
        assert str(result) == "after all operators"
        assert torch.equal(x, once)
        assert aot.problems == ()
    aot, result = _captured(lambda x: x.sin().add_(1), torch.ones(4))
    assert torch.equal(result, torch.ones(4).sin() + 1), "a new tensor may be changed in each run"
    assert aot.problems


def test_an_input_whose_changes_torch_does_not_count_has_no_second_run() -> None:
    with torch.inference_mode():
        x = torch.ones(4)
        _, result = _captured(lambda x: x.add_(1), x)
    assert str(result) == "after all operators"
    assert x.tolist() == [2.0] * 4


def test_a_custom_operator_of_a_failed_run_is_not_called_twice() -> None:
    calls: list[str] = []

    @torch.library.custom_op("fuselight_once::log", mutates_args=())
    def log(x: torch.Tensor) -> torch.Tensor:
        calls.append("operator")
        return x.clone()

    log.register_fake(torch.empty_like)

    def note(x: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor:  # not a fake one, of the trace
            calls.append("function")
        return x + 1

    allowed = torch._dynamo.allow_in_graph(note)  # type: ignore[no-untyped-call]
    for program in (lambda x: log(x) * 2, lambda x: allowed(x) * 2):
        _, result = _captured(program, torch.ones(3))
        assert str(result) == "after all operators"
    assert calls == ["operator", "function"]


def test_a_graph_that_aot_autograd_refuses_for_inductor_too_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        message = "refused"
        raise NotImplementedError(message)

    monkeypatch.setattr(aot_graphs, "refusal_of_inductor", lambda *_: RuntimeError("refused there too"))
    aot, result = _capture(fails)
    assert isinstance(result, Exception)
    assert "NotImplementedError: refused" in str(result)
    assert aot.problems == ()


def test_a_failed_trace_leaves_no_mode_of_its_graph_on(monkeypatch: pytest.MonkeyPatch) -> None:
    left, modes = [], []

    def fails(_gm: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        left.append(torch.inference_mode())
        left[-1].__enter__()  # as an operator of a graph does, whose end is not reached
        message = "inside inference mode"
        raise RuntimeError(message)

    def refusal(*_: Any) -> None:
        modes.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))

    monkeypatch.setattr(aot_graphs, "refusal_of_inductor", refusal)
    try:
        _, result = _capture(fails)
    finally:
        left[-1].__exit__(None, None, None)
    assert isinstance(result, torch.Tensor)
    assert modes == [(False, True)]


def test_a_graph_that_torch_cannot_compile_in_inference_mode_is_a_failure() -> None:
    aot, program = AotCapture(lambda _gm: True), torch.inference_mode()(lambda x: x[1:] * 2)

    def call() -> None:
        torch._dynamo.reset()
        with capture_only(aot), pytest.raises(RuntimeError, match="version_counter for inference tensor"):
            torch.compile(program)(torch.ones(4))

    with ThreadPoolExecutor(1) as thread:  # torch leaves dispatch modes on in the thread whose trace failed
        thread.submit(call).result()
    assert aot.problems == ()


def _plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def _inside(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x + 1


@pytest.mark.parametrize(
    ("function", "enters"),
    [
        (torch.inference_mode()(_plus_one), True),
        (_inside, True),
        (lambda x: _inside(x) * 2, True),
        (torch.no_grad()(_plus_one), False),
        (_plus_one, False),
    ],
)
def test_a_graph_that_enters_inference_mode_is_known(function: Any, *, enters: bool) -> None:
    seen = []

    def backend(gm: torch.fx.GraphModule, _inputs: Any) -> Any:
        seen.append(aot_graphs.enters_inference_mode(gm))
        return gm.forward

    torch._dynamo.reset()
    compiled: Any = torch.compile(function, backend=backend)
    compiled(torch.ones(4))
    assert seen == [enters]
