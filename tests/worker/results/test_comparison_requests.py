"""What a request asks for: one stage, one call, settings, training, another configuration."""

from __future__ import annotations

import pytest

from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import RAISES_NOTHING
from tests.support.compared_programs import HEAD, compared, one_call
from tests.support.live_worker import LiveWorker


def test_one_stage_and_one_call(live: LiveWorker) -> None:
    body = """\
def f(x):
    x.unfold(1, 1, 5).mul_(2.0)
    return x + 0.0
if __name__ == "__main__":
    compiled = torch.compile(f)
    for _ in range(3):
        compiled(torch.arange(1.0, 25.0).reshape(4, 6))
    print("not reached")
"""
    for backend, passed in (("eager", True), ("aot_eager", False)):
        results = compared(live, body, backend=backend, calls=(1,))
        assert [(call.index, call.accuracy.passed) for call in results.calls] == [(1, passed)]
        assert results.backend == backend


def test_a_setting_of_the_request_holds_against_the_programs_own(live: LiveWorker) -> None:
    """A setting is tried on programs that set it: most of all a pass of their own."""
    body = """\
import torch._inductor.config as config
def off(gm, example):
    for node in gm.graph.find_nodes(op="call_method", target="sin") if config.post_grad_custom_post_pass else ():
        node.target = "cos"
    gm.recompile()
    return gm.forward
config.post_grad_custom_post_pass = print
def f(x):
    return x.sin()
if __name__ == "__main__":
    config.post_grad_custom_post_pass = repr
    torch.compile(f, backend=off)(torch.ones(9))
"""
    assert one_call(live, body).accuracy.passed is False
    name = "torch._inductor.config.post_grad_custom_post_pass"
    assert one_call(live, body, settings={name: ""}).is_as_eager


def test_an_option_and_a_setting_of_the_program_are_named_and_left_out(live: LiveWorker) -> None:
    body = """\
scale = 2.0
levels = []
def record(value):
    levels.append(value.sum().item())
def f(x):
    x = x * scale
    record(x)
    x.mul_(2)
    return x
if __name__ == "__main__":
    torch._dynamo.config.reorderable_logging_functions.add(record)
    skipped = {"guard_filter_fn": lambda guards: [False for _ in guards]}
    compiled = torch.compile(f, backend="eager", options=skipped)
    compiled(torch.ones(3))
    scale = 3.0
    compiled(torch.ones(3))
"""
    own = ('options["guard_filter_fn"]', "torch._dynamo.config.reorderable_logging_functions")
    results = compared(live, body)
    assert (results.replaced, [call.is_wrong for call in results.calls]) == (own, [True, True])
    assert [call.is_as_eager for call in compared(live, body, settings={own[1]: ""}).calls] == [True, False]
    without = compared(live, body, settings=dict.fromkeys(own, ""))
    assert [call.is_as_eager for call in without.calls] == [True, True]


def test_what_a_backend_of_the_program_keeps_is_no_difference_and_stays(live: LiveWorker) -> None:
    body = """\
graphs = []
def keeping(gm, example_inputs):
    graphs.append(1.0 + len(graphs))
    scale = graphs[-1]
    return lambda *args: [value * scale for value in gm.forward(*args)]
def f(x):
    return x.sin()
if __name__ == "__main__":
    compiled = torch.compile(f, backend=keeping, dynamic=False)
    compiled(torch.ones(3))
    compiled(torch.ones(4))
"""
    results = compared(live, body)
    assert [call.is_as_eager for call in results.calls] == [True, False], "the second graph doubles"
    assert results.calls[1].others == ()


def test_the_line_on_which_only_eager_mode_raises(live: LiveWorker) -> None:
    body = """\
def f(table, rows):
    table = table * 2
    return torch.index_select(table, 0, rows)
if __name__ == "__main__":
    torch.compile(f, backend="aot_eager_decomp_partition")(torch.ones(4, 3), torch.tensor([-1]))
"""
    call = one_call(live, body, locate_seconds=5.0)
    assert call.others[0].text.startswith(RAISES_NOTHING)
    assert call.accuracy.first[-1].line == HEAD.count("\n") + 3
    assert call.accuracy.first_why == "Eager mode raises IndexError on this line."


def test_a_decomposition_of_the_program_is_named_and_left_out(live: LiveWorker) -> None:
    body = """\
from torch._inductor import decomposition
def doubled(x):
    return x * torch.sigmoid(x) * 2
def f(x):
    return torch.nn.functional.silu(x)
if __name__ == "__main__":
    decomposition.decompositions[torch.ops.aten.silu.default] = doubled
    decomposition.fast_random_decomps.cache_clear()
    torch.compile(f, backend="aot_eager_decomp_partition")(torch.ones(9))
"""
    results = compared(live, body)
    name = "torch._inductor.decomposition.decompositions[aten.silu.default]"
    assert (results.calls[0].is_wrong, results.replaced) == (True, (name,))
    assert one_call(live, body, settings={name: ""}).is_as_eager


def test_a_setting_of_the_request_and_one_that_torch_lacks(live: LiveWorker) -> None:
    source = f'{HEAD}if __name__ == "__main__":\n    aot(torch.sin)(torch.ones(2))\n'
    wanted = {"torch._inductor.config.fallback_random": "True", "torch._inductor.config.no_such": "1"}
    report = live.report(live.request(source, "").of_kind(AccuracyRequest, settings=wanted))
    assert report.results is not None
    assert report.results.settings == wanted
    assert [(problem.stage, problem.what) for problem in report.problems] == [
        ("settings", "torch._inductor.config.no_such")
    ]


def test_cuda_graphs_are_left_out_and_that_is_said(live: LiveWorker) -> None:
    source = f"""{HEAD}
if __name__ == "__main__":
    torch.compile(torch.sin, mode="reduce-overhead", backend="inductor")(torch.ones(3))
"""
    report = live.report(live.request(source, "").of_kind(AccuracyRequest))
    assert [note.kind for note in report.notes] == ["cuda_graphs"]
    assert report.results is not None
    assert [call.is_as_eager for call in report.results.calls] == [True]


TRAINED = """\
import torch
from torch import nn

# fuselight: Net()(f32[4, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
    def forward(self, x):
        return self.a(x).relu()
"""


@pytest.mark.parametrize("training", [True, False, None])
def test_a_target_is_trained_if_the_request_asks_for_it(live: LiveWorker, *, training: bool | None) -> None:
    report = live.report(live.request(TRAINED, "Net").of_kind(AccuracyRequest, training=training))
    assert report.results is not None
    (call,) = report.results.calls
    assert call.accuracy.passed, call.accuracy
    assert report.inputs is not None
    assert (report.inputs.grad, report.inputs.training) == (bool(training), bool(training))


OFF_BY_A_BACKEND = """\
def off(graph, inputs):
    def run(*args):
        return tuple(part * 1.25 for part in graph(*args))
    return run
def f(x):
    return torch.softmax(x, -1)
if __name__ == "__main__":
    torch.compile(f, backend=%s)(torch.linspace(-1, 1, 8))
"""


@pytest.mark.parametrize(
    ("backend", "against", "sides"),
    [("off", "backend:eager", (True, False)), ('"eager"', "backend:aot_eager", None)],
)
def test_a_call_is_compared_with_another_configuration(
    live: LiveWorker, backend: str, against: str, sides: tuple[bool, bool] | None
) -> None:
    results = compared(live, OFF_BY_A_BACKEND % backend, against=against)
    (call,) = results.calls
    assert results.against == against
    assert call.is_wrong is (sides is not None)
    known = call.next_to_eager
    assert (known and (known.own, known.other)) == sides
    if sides is not None:
        assert against in call.accuracy.why or "float64" in call.accuracy.why
        assert "eager's" not in call.accuracy.why
