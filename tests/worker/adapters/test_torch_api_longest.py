"""Which multiplications and convolutions of a graph Inductor times, where only the longest are to be."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.codecache import CacheBase
from torch._inductor.codegen.common import KernelTemplate
from torch._inductor.graph import GraphLowering
from torch._inductor.select_algorithm import AlgorithmSelectorCache, ExternKernelCaller, ExternKernelChoice
from torch.fx.experimental.proxy_tensor import make_fx

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.choices import longest_multiplications
from fuselight.adapters.torch_api.choices.kernel_choices import (
    ChoiceRecorder,
    replaying,
)
from fuselight.adapters.torch_api.choices.longest_multiplications import autotuning_longest
from fuselight.adapters.torch_api.patching import forget
from fuselight.replay.preparation import prepared_inductor
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.report import KnobBound
from fuselight.shared.report.tuned import Preparation
from fuselight.tune.knobs import KNOBS, KnobSetting, configuration_of
from tests.support.counted_timings import counting_timings

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:TypedStorage")]  # torch times with it
OPTIONS = {"max_autotune_gemm": True}
Function = Callable[..., list[torch.Tensor]]


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class ChosenError(BaseException):
    """The candidates of a graph are known: nothing is generated. No handler of a compiler catches it."""


@pytest.fixture
def compiled_timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sizes of each multiplication that has several candidates; none is timed in fact.

    A template stands for its candidate, which it takes half a second to write.
    """
    timed: list[str] = []
    real: Any = AlgorithmSelectorCache.__call__

    def select(selector: Any, name: str, choices: Any, nodes: Any, *args: Any, **named: Any) -> Any:
        if len(choices) > 1:
            timed.append(str([str(size) for size in nodes[0].get_size()]))
        library = [choice for choice in choices if isinstance(choice, ExternKernelCaller)]
        return real(selector, name, library[:1], nodes, *args, **named)

    monkeypatch.setattr(AlgorithmSelectorCache, "__call__", select)
    monkeypatch.setattr(
        KernelTemplate, "maybe_append_choice", lambda template, choices, **_: choices.append(template)
    )
    return timed


@pytest.fixture
def timed(compiled_timed: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As `compiled_timed`, where a compile ends once the candidates are known."""

    def end(*_: Any, **__: Any) -> None:
        raise ChosenError

    monkeypatch.setattr(GraphLowering, "compile_to_module", end)
    return compiled_timed


def square(size: int, count: int = 4) -> torch.Tensor:
    return torch.zeros(count, size, size)


def three(long: torch.Tensor, middle: torch.Tensor, short: torch.Tensor) -> list[torch.Tensor]:
    """Multiplications of other sizes, one of them twice; Inductor has templates for these on a CPU, too."""
    return [
        torch.bmm(long, long),
        torch.bmm(middle, middle),
        torch.bmm(middle + 1, middle),
        torch.bmm(short, short),
    ]


SECOND: Any = ExternKernelChoice(torch.bmm, "at::bmm_out", name="second_bmm")
INPUTS = (square(768), square(256), square(128))
LONG, MIDDLE, SHORT = ("['4', '768', '768']", "['4', '256', '256']", "['4', '128', '128']")


def compile_with(
    longest: int, *inputs: torch.Tensor, function: Function = three, dynamic: bool | None = None
) -> None:
    backend = prepared_inductor(Preparation(), None, OPTIONS, dynamic=dynamic, longest=longest)
    torch._dynamo.reset()
    with torch.no_grad(), contextlib.suppress(ChosenError):
        torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (0, [LONG, MIDDLE, MIDDLE, SHORT]),
        (1, [LONG]),
        pytest.param(2, [LONG, MIDDLE, MIDDLE], marks=pytest.mark.contract),
        (3, [LONG, MIDDLE, MIDDLE, SHORT]),
    ],
)
def test_the_longest_have_candidates_and_the_others_are_those_of_the_library(
    timed: list[str], longest: int, expected: list[str]
) -> None:
    compile_with(longest, *INPUTS)
    assert timed == expected


def test_the_cached_code_of_one_number_is_not_that_of_another(
    compiled_timed: list[str],
) -> None:
    for longest in (1, 2, 0):
        before = len(compiled_timed)
        compile_with(longest, *INPUTS)
        assert len(compiled_timed) > before, longest


def test_several_short_ones_are_longer_than_one(timed: list[str]) -> None:
    def several(long: torch.Tensor, short: torch.Tensor) -> list[torch.Tensor]:
        return [torch.bmm(long, long), *(torch.bmm(short + number, short) for number in range(3))]

    compile_with(1, square(256), square(128), function=several)
    assert timed == [SHORT] * 3


def test_what_cannot_matter_is_not_timed(timed: list[str]) -> None:
    compile_with(8, square(1536), square(768), square(16))
    assert timed == ["['4', '1536', '1536']", LONG, LONG]


def test_sizes_that_differ_from_call_to_call_are_those_of_the_first() -> None:
    nodes = list(make_fx(three, tracing_mode="symbolic")(*INPUTS).graph.nodes)
    shorter = longest_multiplications._shorter(nodes, 1)
    assert sorted(str(node.args[1]) for node in shorter) == ["middle_1", "middle_1", "short_1"]


def test_an_operator_without_an_estimate_is_left_to_inductor(
    timed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longest_multiplications, "_operations", lambda *_: None)
    compile_with(1, *INPUTS)
    assert timed == [LONG, MIDDLE, MIDDLE, SHORT]


@pytest.mark.corpora  # test_kernel_choices.py takes a recorded choice without timing
def test_a_replay_has_what_was_chosen_and_times_nothing() -> None:
    def two(long: torch.Tensor, short: torch.Tensor) -> list[torch.Tensor]:
        return [torch.bmm(long, long), torch.bmm(short, short)]

    inputs = torch.randint(3, (2, 320, 320)).float(), torch.randint(3, (2, 24, 24)).float()  # sums are exact
    recorder = ChoiceRecorder()
    backend = prepared_inductor(Preparation(), None, OPTIONS, compiling=recorder.recording, longest=1)
    with counting_timings() as timed, torch.no_grad():
        torch.compile(two, backend=backend)(*inputs)
    assert timed
    assert ["320" in key for key in recorder.by_family["algorithms"]] == [True]
    torch._dynamo.reset()
    again = prepared_inductor(Preparation(), None, OPTIONS, compiling=lambda: replaying(recorder.by_family))
    with counting_timings() as timed, torch.no_grad():
        tensors = torch.compile(two, backend=again)(*inputs)
    assert timed == []
    torch.testing.assert_close(tensors, two(*inputs))


def _graph(function: Callable[..., Any], *inputs: torch.Tensor) -> list[torch.fx.Node]:
    return list(make_fx(function, tracing_mode="fake")(*inputs).graph.nodes)


def test_convolutions_have_an_estimate_and_their_gradients_take_no_place() -> None:
    def step(images: torch.Tensor, large: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
        tensor = torch.nn.functional.conv2d(torch.nn.functional.conv2d(images, large), small)
        return torch.autograd.grad(tensor.sum(), large)[0]

    weights = torch.randn(512, 512, 3, 3, requires_grad=True), torch.randn(64, 512, 3, 3, requires_grad=True)
    nodes = _graph(step, torch.randn(64, 512, 16, 16), *weights)
    convolutions = [node for node in nodes if "convolution" in str(node.target)]
    assert len(convolutions) >= 3
    assert [node.args[1].name for node in longest_multiplications._shorter(nodes, 1)] == ["small_1"]  # type: ignore[union-attr]
    assert longest_multiplications._shorter(nodes, 2) == frozenset()


def test_convolutions_without_templates_take_no_place() -> None:
    def layers(images: torch.Tensor, weight: torch.Tensor, small: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.nn.functional.conv2d(images, weight, dilation=2),
            torch.nn.functional.conv_transpose2d(images, weight),
            torch.nn.functional.conv2d(images, small),
        ]

    nodes = _graph(layers, torch.randn(8, 64, 32, 32), torch.randn(64, 64, 3, 3), torch.randn(8, 64, 3, 3))
    assert len([node for node in nodes if "convolution" in str(node.target)]) == 3
    assert longest_multiplications._shorter(nodes, 1) == frozenset()


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch was built without MKL")  # type: ignore[no-untyped-call]
def test_frozen_linear_layers_of_a_cpu_have_an_estimate(timed: list[str]) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = torch.nn.Linear(64, 4096), torch.nn.Linear(4096, 8)

        def forward(self, x: torch.Tensor) -> Any:
            return self.narrow(self.wide(x))

    options = {**OPTIONS, "max_autotune_gemm_backends": "CPP,ATEN", "freezing": True}
    for longest, expected in ((2, ["['1024', '64']", "['1024', '4096']"]), (1, ["['1024', '64']"])):
        timed.clear()
        torch._dynamo.reset()
        backend = prepared_inductor(Preparation(), None, options, longest=longest)
        with torch.no_grad(), contextlib.suppress(ChosenError):
            torch.compile(Net().eval(), backend=backend)(torch.ones(1024, 64))
        assert timed == expected


def test_sizes_that_depend_on_data_are_left_to_inductor() -> None:
    def selected(mask: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return weight[mask] @ weight

    nodes = list(make_fx(selected, tracing_mode="symbolic")(torch.ones(8) > 0, torch.ones(8, 8)).graph.nodes)
    assert any("mm" in str(node.target) for node in nodes)
    assert longest_multiplications._shorter(nodes, 1) == frozenset()


def test_a_graph_without_multiplications_compiles() -> None:
    with autotuning_longest(1), torch.no_grad():
        tensor = torch.compile(torch.sin, backend="inductor")(torch.ones(4))
    torch.testing.assert_close(tensor, torch.ones(4).sin())


def test_timings_in_a_shared_folder_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second candidate is the library's as well: a template is a program in C++ that is compiled to time it."""

    def add_second(template: Any, choices: list[Any], **_: Any) -> None:
        choices.append(SECOND.bind(template.input_nodes, template.layout))

    monkeypatch.setattr(KernelTemplate, "maybe_append_choice", add_second)
    timings = tmp_path / "timings"
    timings.mkdir()
    counts = list[int]()
    for name in ("first", "second", "alone"):
        cache = tmp_path / name
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
        forget([CacheBase.get_local_cache_path])  # as in another process
        if name != "alone":
            settings.share_timings(str(cache), str(timings))
        with counting_timings() as timed:
            compile_with(1, square(64, 2).contiguous(), function=lambda value: [torch.bmm(value, value)])
        counts.append(len(timed))
    first, second, alone = counts
    assert (second, alone) == (0, first)
    assert first > 0
    assert list(timings.iterdir())


def test_what_could_not_be_timed_is_tried_again(tmp_path: Path) -> None:
    cache, timings = tmp_path / "cache", tmp_path / "timings"
    timings.mkdir()
    times = {"system": {"hash": "h"}, "cache": {"mm": {"sizes": {"highest": {"a": 0.5, "b": math.inf}}}}}
    (timings / "h").write_text(json.dumps(times))
    (timings / ".1.tmp").write_text("{")
    settings.share_timings(str(cache), str(timings))
    data = json.loads((cache / "cache" / "h").read_text())
    assert data == {"system": {"hash": "h"}, "cache": {"mm": {"sizes": {"highest": {"a": 0.5}}}}}


def test_without_links_timings_are_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("a privilege is not held by the client")

    monkeypatch.setattr("os.symlink", refuse)
    settings.share_timings(str(tmp_path / "cache"), str(tmp_path / "timings"))
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize(
    "knob",
    [knob for knob in KNOBS if knob.bound in {KnobBound.IDLE, KnobBound.GENERATED}],
    ids=lambda knob: knob.name,
)
def test_which_knobs_change_the_sources_of_templates(
    knob: KnobSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor finds timings by a template's source, which has these settings."""
    config: Any = importlib.import_module("torch._inductor.config")
    compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")
    codegen: Any = importlib.import_module("torch._inductor.codegen.triton")
    monkeypatch.setattr(
        "torch.utils._triton.triton_hash_with_backend", lambda: ""
    )  # which asks a GPU's driver
    known = torch._inductor.list_options()
    options = {
        name: value
        for name, value in parse_configuration(configuration_of([knob])).options.items()
        if name in known
    }
    if options.get("cpp_wrapper"):
        options.update(compile_fx.get_cpp_wrapper_config())
    before = codegen.TritonKernel.inductor_meta_common()
    with config.patch(options):
        after = codegen.TritonKernel.inductor_meta_common()
    assert (before == after) == knob.keeps_multiplications
