"""Each rung of the ladder in a real worker: its inputs, its reason if it has none, and its report."""

# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import pytest

from fuselight.shared.report import Culprit, Report, Rung
from tests.support.live_worker import LiveWorker, replace

NET = """\
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 4)
    def forward(self, x, scale=1.0):
        return self.l(x) * scale
"""


def texts(report: Report) -> list[str]:
    assert report.failures == ()
    assert report.inputs is not None
    return [call.text for call in report.inputs.calls]


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ("(torch.ones(2, 4),)", ["Net()(f32[2, 4])"]),
        ("torch.ones(2, 4)", ["Net()(f32[2, 4])"]),
        ('{"x": torch.ones(2, 4), "scale": 2.0}', ["Net()(x=f32[2, 4], scale=2.0)"]),
        ('((torch.ones(2, 4),), {"scale": 0.5})', ["Net()(f32[2, 4], scale=0.5)"]),
        ("[(torch.ones(2, 4),), (torch.ones(3, 4),)]", ["Net()(f32[2, 4])", "Net()(f32[3, 4])"]),
    ],
)
def test_a_provider_may_return_each_form(live: LiveWorker, answer: str, calls: list[str]) -> None:
    source = NET + f"def example_inputs():\n    return {answer}\n"
    report = live.analyse(source, "Net", provider="example_inputs", provider_line=8)
    assert texts(report) == calls
    assert report.inputs is not None
    assert (report.inputs.rung, report.inputs.line) == (Rung.PROVIDER, 8)
    assert len(report.compiles) == len(calls)


def test_a_provider_with_a_parameter_gets_the_target(live: LiveWorker) -> None:
    source = NET + "def example_inputs(name):\n    return torch.ones({'Net': 5}[name], 4)\n"
    assert texts(live.analyse(source, "Net", provider="example_inputs")) == ["Net()(f32[5, 4])"]


def test_a_provider_that_raises_is_on_its_line(live: LiveWorker) -> None:
    failure = live.failure(
        NET + "def example_inputs():\n    return 1 / 0\n", "Net", provider="example_inputs"
    )
    assert (failure.culprit, failure.exception, failure.stack[-1].line) == (
        Culprit.USER,
        "ZeroDivisionError",
        9,
    )
    assert failure.phase == "build"


def test_an_empty_provider_falls_through_to_the_next_rung(live: LiveWorker) -> None:
    source = NET + "def example_inputs():\n    return []\n"
    report = live.analyse(source, "Net", provider="example_inputs", recorded=("Net()(f32[6, 4])",))
    assert texts(report) == ["Net()(f32[6, 4])"]
    assert report.inputs is not None
    assert report.inputs.rung is Rung.RECORDED


def test_a_class_that_needs_arguments_says_so(live: LiveWorker) -> None:
    source = NET.replace("__init__(self)", "__init__(self, dim)", 1) + "def example_inputs():\n    return 1\n"
    failure = live.failure(source, "Net", provider="example_inputs")
    assert failure.kind == "inputs"
    assert "missing a required argument: 'dim'" in failure.message
    assert "directive" in failure.next_step


def test_the_models_own_dummy_inputs(live: LiveWorker) -> None:
    source = (
        NET
        + "    @property\n    def dummy_inputs(self):\n        return {'x': torch.ones(2, 4), 'scale': 3.0}\n"
    )
    report = live.analyse(source, "Net")
    assert texts(report) == ["Net()(x=f32[2, 4], scale=3.0)"]
    assert report.inputs is not None
    assert report.inputs.rung is Rung.DUMMY_INPUTS


def test_dummy_inputs_of_a_transformers_model(live: LiveWorker) -> None:
    source = (
        "from transformers import GPT2Config, GPT2Model\n"
        "class Config(GPT2Config):\n"
        "    def __init__(self, **rest):\n"
        "        super().__init__(**{'n_layer': 1, 'n_head': 2, 'n_embd': 8, 'vocab_size': 64, **rest})\n"
        "class Small(GPT2Model):\n"
        "    config_class = Config\n"
    )
    report = live.analyse(source, "Small")
    assert texts(report) == ["Small()(input_ids=i64[3, 5])"]
    assert report.inputs is not None
    assert report.inputs.rung is Rung.DUMMY_INPUTS
    assert any(record.graph is not None for record in report.compiles)


JAXTYPING = """\
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
def attend(q: Float[Tensor, "batch heads 8"], ids: Int[Tensor, "batch"], mask: Bool[Tensor, ""], scale: float = 1.0):
    return (q * scale).sum(-1)[ids % 2] * mask
"""


def test_annotations_take_sizes_from_the_settings(live: LiveWorker) -> None:
    report = live.analyse(JAXTYPING, "attend", default_sizes={"batch": 3, "*": 2})
    assert texts(report) == ["attend(q=f32[3, 2, 8], ids=i64[3], mask=bool[])"]
    assert report.inputs is not None
    assert (report.inputs.rung, report.inputs.line) == (Rung.ANNOTATIONS, 4)
    assert len(report.compiles) == 1


def test_annotations_without_a_size_are_ignored_and_named(live: LiveWorker) -> None:
    failure = live.failure(JAXTYPING, "attend", default_sizes={"heads": 2})
    assert failure.kind == "inputs"
    assert "dimension batch" in failure.message
    assert "fuselight.inputs.defaultSizes" in failure.message


def test_annotations_of_a_module_and_of_a_method(live: LiveWorker) -> None:
    source = """\
import torch
from jaxtyping import Float
class Net(torch.nn.Module):
    def forward(self, x: Float[torch.Tensor, "n 4"]):
        return self.scale(x)
    def scale(self, x: Float[torch.Tensor, "n=3 4"]):
        return x * 2
"""
    assert texts(live.analyse(source, "Net", default_sizes={"n": 5})) == ["Net()(x=f32[5, 4])"]
    assert texts(live.analyse(source, "Net.scale")) == ["Net.scale(x=f32[3, 4])"]


def test_recorded_inputs_share_the_object_and_show_its_recompilation(live: LiveWorker) -> None:
    recorded = ("Net()(f32[2, 4])", "Net()(f32[7, 4], scale=2.0)", "Net(<Config>)(f32[1, 4])")
    report = live.analyse(NET, "Net", recorded=recorded)
    assert texts(report) == list(recorded[:2])
    assert len(report.recompiles) == 1


def test_recorded_inputs_without_a_notation_are_ignored(live: LiveWorker) -> None:
    source = NET + 'if __name__ == "__main__":\n    torch.compile(Net())(torch.ones(1, 4))\n'
    report = live.analyse(source, "Net", recorded=("Net(<Config>)(f32[1, 4])",))
    assert report.failures == ()
    assert report.inputs is not None
    assert (report.inputs.rung, report.inputs.line) == (Rung.MAIN, 8)
    assert len(report.compiles) == 1


def test_the_main_block_gets_its_arguments(live: LiveWorker) -> None:
    source = "import sys, torch\n\nif __name__ == '__main__':\n    print(sys.argv[0] == __file__, sys.argv[1:])\n    torch.compile(torch.sin)(torch.ones(2))\n"
    request = live.request(source, "")
    report = live.report(replace(request, argv=("--steps", "3")))
    assert report.output.stdout == "True ['--steps', '3']\n"


def test_a_target_without_known_inputs(live: LiveWorker) -> None:
    failure = live.failure("def f(x, y):\n    return x + y\n")
    assert (failure.kind, failure.stack[-1].line) == ("inputs", 1)
    assert "`# fuselight: f(...)`" in failure.next_step


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ndef make():\n    return 1\n# fuselight: net(f32[2])\nnet = torch.compile(torch.nn.ReLU())\n",
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n# fuselight: net(f32[2])\nnet = Net()\nnet.compile()\n",
        "import torch as t\n@t.compile(dynamic=False)\n# fuselight: net(f32[2])\ndef net(x):\n    return x + 1\n",
        "import torch\nclass Outer:\n    class net(torch.nn.Module):\n        # fuselight: Outer.net()(f32[2])\n        def forward(self, x):\n            return x + 1\n",
    ],
)
def test_ways_to_compile(live: LiveWorker, source: str) -> None:
    report = live.analyse(source, "net")
    assert report.failures == ()
    assert len(report.compiles) == 1


def test_a_disabled_target_is_reported(live: LiveWorker) -> None:
    source = "import torch\n@torch.compiler.disable\n# fuselight: f(f32[2])\ndef f(x):\n    return x + 1\n"
    report = live.analyse(source)
    (uncompiled_code,) = report.not_compiled
    assert (uncompiled_code.kind.value, uncompiled_code.location.line) == ("disabled", 4)


DEEP = """\
import torch
class Block(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x)
class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(4, 4)
        ...
    def forward(self, x):
        for scale in range(3):
            x = self.run(x, scale)
        print("end")
        return x
    def run(self, x, scale):
        return self.block(x) * scale
class Deep(Base):
    pass
"""
DECORATED = DEEP.replace("    def run(", "    @torch.compile\n    def run(")


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (DECORATED, "run"),
        (DEEP.replace("...", "self.run = torch.compile(self.run)"), "run"),
        (DEEP.replace("...", "self.steps = [torch.compile(self.run)]").replace("self.run(x", "self.steps[0](x"), "steps"),
        (DEEP.replace("...", "self.block.compile()"), "block"),
        (DEEP.replace("...", "self.block = torch.compile(self.block)"), "block"),
    ],
)  # fmt: skip
def test_a_class_with_compiled_parts_runs_unchanged(live: LiveWorker, source: str, part: str) -> None:
    directive = "# fuselight: Deep()(f32[2, 4])\n"
    report = live.analyse(source.replace("class Deep", directive + "class Deep"), "Deep")
    assert report.failures == ()
    assert report.breaks == ()  # the print stands outside the compiled code
    assert report.compiles
    assert [(note.kind, note.text) for note in report.notes] == [
        ("as_compiled", f"Deep runs as compiled in the source: {part}, not the whole of it")
    ]


@pytest.mark.parametrize(
    "source",
    [
        DEEP,
        DEEP.replace("    def run(", "    @torch.compiler.disable\n    def run("),
        DEEP.replace("...", "self.block.register_buffer('n', torch.ones(1))"),
    ],
)
def test_a_class_without_compiled_parts_is_compiled_entirely(live: LiveWorker, source: str) -> None:
    directive = "# fuselight: Deep()(f32[2, 4])\n"
    report = live.analyse(source.replace("class Deep", directive + "class Deep"), "Deep")
    assert [note.kind for note in report.notes] == []
    assert len(report.breaks) >= 1


@pytest.mark.parametrize(
    "compiled",
    [
        "@torch.compile\ndef inner(x):\n    return x * 2\n",
        "inner = torch.compile(torch.nn.Identity())\n",
        "class Inner(torch.nn.Module):\n    forward = torch.sin\n\n\ninner = Inner()\ninner.compile()\n",
    ],
)
def test_a_function_that_calls_compiled_code_runs_unchanged(live: LiveWorker, compiled: str) -> None:
    calls = "\n\n# fuselight: f(f32[4])\ndef f(x):\n    print('eager')\n    return inner(x) + 1\n"
    report = live.analyse(f"import torch\n\n\n{compiled}{calls}", "f")
    assert (report.failures, report.breaks) == ((), ())
    assert [note.text for note in report.notes] == [
        "f runs as compiled in the source: inner, not the whole of it"
    ]


def test_a_class_compiled_entirely_and_in_parts_is_compiled_entirely(live: LiveWorker) -> None:
    source = DECORATED.replace("class Deep", "# fuselight: Deep()(f32[2, 4])\nclass Deep")
    request = live.request(source, "Deep")
    report = live.report(replace(request, target=replace(request.target, compiled=True)))
    assert report.notes == ()
    assert len(report.breaks) == 1


def test_torchs_own_annotations_have_no_shapes(live: LiveWorker) -> None:
    source = "import torch\nnet = torch.compile(torch.nn.Sequential(torch.nn.ReLU()))\n"
    failure = live.failure(source, "net")
    assert failure.kind == "inputs"
    assert failure.message == (
        "no inputs are known for net: net is a Sequential of torch.nn.modules.container, whose annotations give no shapes"
    )


def test_annotations_are_read_through_torch_compile(live: LiveWorker) -> None:
    source = (
        "import torch\nfrom jaxtyping import Float\nclass Net(torch.nn.Module):\n"
        '    def forward(self, x: Float[torch.Tensor, "2 4"]):\n        return x + 1\n'
        "net = torch.compile(Net())\n"
    )
    assert texts(live.analyse(source, "net")) == ["net(x=f32[2, 4])"]


def test_an_attribute_of_objects_is_not_looked_for_in_the_class(live: LiveWorker) -> None:
    source = (
        "import torch\nclass Plain:\n    def __init__(self):\n"
        "        self.fast = torch.compile(self.step)\n    def step(self, x):\n        return x\n"
        "def example_inputs():\n    return torch.ones(2)\n"
    )
    request = live.request(source, "Plain.fast", provider="example_inputs")
    (failure,) = live.report(replace(request, target=replace(request.target, kind="variable"))).failures
    assert failure.message == (
        "no inputs are known for Plain.fast: only objects of Plain have fast: a directive calls it as Plain().fast(...)"
    )
    assert "# fuselight: Plain().fast(...)" in failure.next_step


def test_the_directive_that_is_suggested_for_a_class_makes_an_object_and_calls_it(live: LiveWorker) -> None:
    assert "`# fuselight: Net()(...)`" in live.failure(NET, "Net").next_step


BOUNDED = """\
import numpy as np
import torch


@torch.compile(backend="eager")
def bounded(x):
    half = np.percentile(x.numpy(), 50)  # an array of one element in compiled code, a number in eager mode
    return x.clamp(max={limit})


if __name__ == "__main__":
    {call}
"""


@pytest.mark.parametrize(
    ("limit", "call", "words"),
    [
        ("float(half)", "bounded(torch.ones(6))", "Run it without torch.compile (TORCH_COMPILE_DISABLE=1)"),
        ("1.0", "bounded(torch.ones(6)).no_such_method()", "The code raised this, not the compiler"),
    ],
)
def test_an_error_of_a_program_may_be_of_compiled_code_only_within_a_compiled_call(
    live: LiveWorker, limit: str, call: str, words: str
) -> None:
    report = live.analyse(BOUNDED.format(limit=limit, call=call), "")
    assert report.failures[0].next_step.startswith(words)
