"""The option `freezing`: weights are constants of the generated code, and results are those of the weights in use."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch._inductor.utils import run_and_get_code

import fuselight
from fuselight.adapters.torch_api.dynamo import module_tensors
from fuselight.measure.compile_configuration import Compiled, configured
from fuselight.replay import backend, preparation
from fuselight.replay.arguments import TunedOptionsError
from fuselight.replay.machine_key import machine_key
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared import tuned_file
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.devices import find
from fuselight.shared.report import Numerics, Preparation, TunedResult, Work
from fuselight.shared.tuned_code import compile_code
from tests.support.case_files import marked

pytestmark = pytest.mark.torch
NAME = "default+freezing=True"
MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8, bias=False)
        self.line = torch.nn.Linear(8, 4, bias=False)

    def forward(self, x):
        return self.line(self.first(x))

def made():
    torch.manual_seed(0)
    return Net(), torch.randn(3, 8)
"""
"""Without generated kernels, also frozen, which would make one for a bias: no C++ is compiled."""


class Normalized(torch.nn.Module):
    """A batch norm after a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.norm.running_mean = torch.randn(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tensor: torch.Tensor = self.norm(self.convolution(x))
        return tensor


class Scaled(torch.nn.Module):
    """A weight without dimensions: Inductor writes its value into the code."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class Block(torch.nn.Module):
    """One of several."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tensor: torch.Tensor = self.line(x)
        return tensor


class Counting(torch.nn.Module):
    """A buffer that each call changes, beside constant weights."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        tensor: torch.Tensor = self.line(x) * self.calls
        return tensor


class Three(torch.nn.Module):
    """Linear layers that read the same tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [line(x) for line in self.lines]


class StandIn:
    """Stands for Inductor: with `freezing` it copies the weights that the module has, else it runs the graph."""

    def __init__(self, _mode: str | None, options: dict[str, Any], **_: Any) -> None:
        self.config = options
        self.inputs: list[int] = []

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.inputs.append(len(inputs))
        if self.config.get("refused"):
            raise RuntimeError("no compiler")
        run: Callable[..., Any] = (copy.deepcopy(gm) if self.config.get("freezing") else gm).forward
        return run


@pytest.fixture
def no_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "InductorBackend", StandIn)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad(), torch._inductor.config.patch(fx_graph_cache=False):
        yield
    torch._dynamo.reset()


def model_and_input() -> tuple[Any, torch.Tensor]:
    namespace: dict[str, Any] = {"__name__": "model"}
    exec(MODEL, namespace)  # noqa: S102 - the source above
    model_and_input: tuple[Any, torch.Tensor] = namespace["made"]()
    return model_and_input


def freezing(messages: list[str] | None = None, /, **options: Any) -> Callable[..., Any]:
    say = (messages if messages is not None else []).append
    return prepared_inductor(Preparation(), None, {"freezing": True, **options}, say=say)


def compiled(model: Any, **arguments: Any) -> Callable[..., Any]:
    run: Callable[..., Any] = torch.compile(model, **arguments)
    return run


def inputs_of(code: str) -> int:
    """The number of inputs of a generated graph."""
    (line,) = (line for line in code.splitlines() if line.strip().endswith("= args"))
    return line.partition("=")[0].count(",") + (not line.partition("=")[0].strip().endswith(","))


def generated(run: Callable[..., Any], *inputs: Any) -> tuple[Any, str]:
    """What a first call returns, and the code of its one graph."""
    value, (code,) = run_and_get_code(run, *inputs)
    return value, code


def measured(name: str, model: Any, *inputs: Any) -> tuple[Compiled, Any]:
    """A call as a benchmark or a search makes it."""
    with configured(parse_configuration(name), find("cpu")) as backends:
        value = compiled(model)(*inputs)
    return backends, value


def text_of(backends: Compiled) -> str:
    (graph,) = backends.graphs
    return backends.texts[graph.text_key or ""]


def tuned(backends: Compiled, name: str = NAME, **changes: Any) -> TunedResult:
    key = machine_key(torch.device("cpu"))
    given: dict[str, Any] = {
        "file": "model.py", "target": "Net", "work": Work.INFERENCE, "numerics": Numerics.EXACT, "device": key.device,
        "capability": key.capability, "torch": key.torch, "triton": key.triton,
        "graphs": tuple(backends.captured.values()),
        "configuration": name, "options": backends.options, "kernels": backends.choices.by_family,
    }  # fmt: skip
    return TunedResult(**{**given, **changes})


def test_torch_ignores_the_option_and_takes_the_setting() -> None:
    """What all of this is for; a torch that freezes by the option alone needs none of it."""
    model, x = model_and_input()
    _, code = generated(compiled(model, options={"freezing": True}), x)
    assert inputs_of(code) > 1
    torch._dynamo.reset()
    with torch._inductor.config.patch(freezing=True):
        assert module_tensors.is_freezing_set()
        _, code = generated(compiled(model), x)
        assert inputs_of(code) == 1
        torch._dynamo.reset()
        value, code = generated(compiled(model, backend=freezing()), x)
    assert inputs_of(code) == 1
    torch.testing.assert_close(value, model(x))
    assert not module_tensors.is_freezing_set()


def test_weights_are_constants_and_a_batch_norm_is_folded() -> None:
    model, x = Normalized().eval(), torch.randn(2, 3, 8, 8)
    expected, messages = model(x), list[str]()
    value, code = generated(compiled(model, backend=freezing(messages)), x)
    assert inputs_of(code) == 1
    assert "sqrt" not in code
    torch.testing.assert_close(value, expected)
    assert not messages
    torch._dynamo.reset()
    assert "sqrt" in generated(compiled(model, backend=freezing(freezing=False)), x)[1]


def test_a_benchmark_freezes_and_a_source_that_passes_the_option_does_not() -> None:
    model, x = model_and_input()
    backends, value = measured(NAME, model, x)
    assert inputs_of(text_of(backends)) == 1
    assert not backends.notes
    assert backends.options == {"freezing": True}
    torch.testing.assert_close(value, model(x))
    torch._dynamo.reset()
    with configured(parse_configuration("written"), find("cpu")) as backends:
        compiled(model, options={"freezing": True})(x)
    assert inputs_of(text_of(backends)) > 1
    (note,) = backends.notes
    assert "torch._inductor.config.freezing = True" in note


@pytest.mark.usefixtures("no_inductor")
def test_what_records_gradients_is_not_frozen_and_says_so() -> None:
    model, x = model_and_input()
    with torch.enable_grad():
        backends, value = measured(NAME, model, x)
        value.sum().backward()
    assert model.line.weight.grad is not None
    (note,) = backends.notes
    assert "the call records gradients" in note


def test_without_gradients_the_grad_mode_does_not_count() -> None:
    """Torch's own freezing needs torch.no_grad() in any case."""
    model, x = model_and_input()
    with torch.enable_grad():
        backends, value = measured(NAME, model.requires_grad_(requires_grad=False), x)
    assert inputs_of(text_of(backends)) == 1
    assert not backends.notes
    torch.testing.assert_close(value, model(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_changed_weights_give_their_own_results_and_are_reported_once(*, dynamic: bool) -> None:
    model, x = model_and_input()
    other, messages = copy.deepcopy(model), list[str]()
    run = compiled(model, backend=freezing(messages), dynamic=dynamic)
    torch.testing.assert_close(run(x), model(x))
    for parameter in other.parameters():
        parameter.mul_(1.5)
    model.load_state_dict(other.state_dict())
    for size in (3, 2, 3) if dynamic else (3, 3):
        torch.testing.assert_close(run(x[:size]), other(x[:size]))
    (text,) = messages
    assert "weights have changed" in text
    assert "torch._dynamo.reset()" in text


def train(model: torch.nn.Module, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    with torch.enable_grad():
        model(x).sum().backward()
    optimizer.step()


@pytest.mark.usefixtures("no_inductor")
@pytest.mark.parametrize(
    "kind",
    marked((torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad), {torch.optim.SGD, torch.optim.Adagrad}),
)
def test_a_fused_step_which_torch_counts_as_no_change_is_noticed(kind: Any) -> None:
    model, x = model_and_input()
    other, messages = copy.deepcopy(model), list[str]()
    run = compiled(model, backend=freezing(messages))
    run(x)
    train(other, x, kind(other.parameters(), lr=0.1, fused=True))
    torch.testing.assert_close(run(x), model(x))
    assert not messages, "the step of another model's optimizer"
    count = model.line.weight._version
    train(model, x, kind(model.parameters(), lr=0.1, fused=True))
    assert model.line.weight._version == count, "the reason for this test"
    torch.testing.assert_close(run(x), model(x))
    (text,) = messages
    assert "weights have changed" in text
    torch._dynamo.reset()
    torch.testing.assert_close(run(x), model(x))
    assert len(messages) == 1


@pytest.mark.usefixtures("no_inductor")
def test_a_compiled_optimizer_beside_frozen_weights_is_compiled_once() -> None:
    model, x = model_and_input()
    run = compiled(model, backend=freezing())
    run(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    counter = torch._dynamo.testing.CompileCounter()
    optimizer.step = torch.compile(optimizer.step, backend=counter)  # type: ignore[method-assign]
    for _ in range(3):
        train(model, x, optimizer)
    assert counter.frame_count == 1
    torch.testing.assert_close(run(x), model(x))


@pytest.mark.usefixtures("no_inductor")
def test_weights_are_frozen_again_after_a_reset() -> None:
    model, x = model_and_input()
    messages: list[str] = []
    compiler: Any = freezing(messages)
    run = compiled(model, backend=compiler)
    for call in range(3):
        torch.testing.assert_close(run(x), model(x))
        torch.testing.assert_close(run(x), model(x))
        assert compiler.frozen.inputs == [1] * (call + 1)
        torch._dynamo.reset()
        model.line.weight.mul_(2)
    assert compiler.plain.inputs == []
    assert not messages


@pytest.mark.usefixtures("no_inductor")
def test_replaced_weights_give_their_own_results_and_the_first_ones_stay_frozen() -> None:
    model, x = model_and_input()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    first, messages = model.line.weight, list[str]()
    run = compiled(model, backend=freezing(messages))
    expected = run(x)
    state["line.weight"] *= 2
    model.load_state_dict(state, assign=True)
    torch.testing.assert_close(run(x), model(x))
    (text,) = messages
    assert "other weights or buffers" in text
    assert not torch.allclose(run(x), expected)
    assert first is not model.line.weight


@pytest.mark.usefixtures("no_inductor")
def test_blocks_that_share_code_have_their_own_weights() -> None:
    blocks = torch.nn.Sequential(*(Block() for _ in range(3)))
    x, messages = torch.randn(4, 8), list[str]()
    expected, compiler = blocks(x), freezing(messages)
    for block in blocks:
        block.compile(backend=compiler)
    for _ in range(2):
        torch.testing.assert_close(blocks(x), expected)
    (text,) = messages
    assert "of another module with the same code" in text


def test_what_the_graph_changes_itself_is_no_constant() -> None:
    model, x, messages = Counting(), torch.randn(2, 4), list[str]()
    other = copy.deepcopy(model)
    run = compiled(model, backend=freezing(messages))
    for call in range(3):
        torch.testing.assert_close(run(x), other(x), msg=str(call))
    model.calls.zero_()
    other.calls.zero_()
    torch.testing.assert_close(run(x), other(x))
    assert not messages


@pytest.mark.usefixtures("no_inductor")
def test_weights_whose_changes_are_not_counted_are_not_frozen() -> None:
    messages: list[str] = []
    with torch.inference_mode():
        model, x = model_and_input()
        value = compiled(model, backend=freezing(messages))(x)
        torch.testing.assert_close(value, model(x))
    (text,) = messages
    assert "torch.inference_mode()" in text


@pytest.mark.usefixtures("no_inductor")
def test_a_graph_that_cannot_be_compiled_again_runs_as_captured() -> None:
    model, x = model_and_input()
    messages: list[str] = []
    compiler: Any = freezing(messages)
    run = compiled(model, backend=compiler)
    run(x)
    compiler.plain.config["refused"] = True
    model.line.weight.mul_(2)
    for _ in range(2):
        torch.testing.assert_close(run(x), model(x))
    assert ["weights have changed" in messages[0], "no compiler" in messages[1], len(messages)] == [
        True,
        True,
        2,
    ]
    assert "runs in eager mode" in messages[1]


@pytest.mark.usefixtures("no_inductor")
def test_a_preparation_comes_before_freezing() -> None:
    model, x = model_and_input()
    with torch.autocast("cpu", torch.bfloat16):
        expected = model(x).float()
    prepared, value = measured(f"{NAME}+bf16", model, x)
    torch.testing.assert_close(value, expected)
    torch._dynamo.reset()
    assert prepared.captured.keys() == measured("default", model, x)[0].captured.keys()


def test_linear_layers_are_combined() -> None:
    """What the knob `concat_linear` needs: without freezing it does nothing."""
    model, x = Three().eval(), torch.randn(16, 32)
    run = compiled(model, backend=freezing(**{"cpp.enable_concat_linear": True}))
    value, code = generated(run, x)
    torch.testing.assert_close(value, model(x))
    assert inputs_of(code) == 1
    assert "(96, 32)" in code


@pytest.mark.corpora
def test_matrix_multiplications_are_generated_in_cpp() -> None:
    """What the knob `cpp_gemm` needs: a constant weight. The library is left out, so that nothing is timed."""
    model, x = torch.nn.Linear(32, 32).eval(), torch.randn(16, 32)
    run = compiled(model, backend=freezing(max_autotune_gemm=True, max_autotune_gemm_backends="CPP"))
    value, code = generated(run, x)
    torch.testing.assert_close(value, model(x), atol=1e-4, rtol=1e-4)
    assert "micro_gemm" in code


def test_models_that_differ_in_a_scalar_share_no_cached_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x = torch.ones(4)
    with torch._inductor.config.patch(fx_graph_cache=True):
        for scale in (2.0, 3.0):
            torch._dynamo.reset()
            assert compiled(Scaled(scale), backend=freezing())(x).tolist() == [scale] * 4


def test_the_copied_code_freezes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = model_and_input()
    backends, expected = measured(NAME, model, x)
    result = tuned(backends, options={"freezing": True, "max_fusion_size": 7})
    names: dict[str, Any] = {"model": model}
    torch._dynamo.reset()
    with torch._inductor.config.patch(freezing=False):  # as before afterwards
        exec(compile_code(result, device="cpu"), names)  # noqa: S102 - our own text
        value, code = generated(names["model"], x)
        tuned_file.keep(tmp_path / tuned_file.NAME, [result])
        monkeypatch.chdir(tmp_path)
        assert fuselight.tuned_options(model) == {"options": {"max_fusion_size": 7}}
    assert inputs_of(code) == 1
    torch.testing.assert_close(value, expected)
    with pytest.raises(TunedOptionsError, match=r"torch\._inductor\.config\.freezing = True"):
        fuselight.tuned_options(model)


@pytest.mark.usefixtures("no_inductor")
def test_what_freezing_does_not_do_is_a_warning_of_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backend, "_state", backend.ReplayState())
    monkeypatch.chdir(tmp_path)
    model, x = model_and_input()
    with torch.enable_grad():
        backends, _ = measured(NAME, model, x)
        tuned_file.keep(tmp_path / tuned_file.NAME, [tuned(backends, work=Work.FORWARD_BACKWARD)])
        torch._dynamo.reset()
        with caplog.at_level(logging.WARNING, "fuselight"):
            compiled(model, backend=backend.replay)(x).sum().backward()
    assert "freezing has no effect: the call records gradients" in caplog.text


@pytest.mark.usefixtures("no_inductor")
def test_the_captured_graph_stays_as_it_was() -> None:
    model, x = model_and_input()
    seen: list[tuple[str, str]] = []
    compiler = freezing()

    def compiling(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        before = str(gm.graph)
        function: Callable[..., Any] = compiler(gm, inputs)
        seen.append((before, str(gm.graph)))
        return function

    compiled(model, backend=compiling)(x)
    ((before, after),) = seen
    assert before == after
