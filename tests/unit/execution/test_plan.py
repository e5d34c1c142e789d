"""Which targets of a file run, and with which inputs."""

from __future__ import annotations

import pytest

from fuselight_server.execution.runs.planning import (
    MAIN,
    RunOptions,
    default_runs,
    named_runs,
    sizes,
)
from fuselight_server.source.document import read_source

OPTIONS = RunOptions(roots=("/project",))
COMPILED = "import torch\n@torch.compile\ndef f(x):\n    return x\n@torch.compile\ndef g(x):\n    return x\n"
MAIN_BLOCK = "if __name__ == '__main__':\n    f(1)\n"
PROVIDER = "def example_inputs():\n    return 1\n"
MODULES = "from torch import nn\nclass Part(nn.Module):\n    pass\nclass Net(nn.Module):\n    pass\n"


def names(text: str, options: RunOptions = OPTIONS) -> list[str]:
    return [run.target.name for run in default_runs(read_source("/project/m.py", text), options)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COMPILED, ["f", "g"]),
        (COMPILED + MAIN_BLOCK, [""]),
        ("# fuselight: h(f32[4])\ndef h(x):\n    return x\n", ["h"]),
        ("def h(x):\n    return x\n", []),
        ("def h(x):\n    return x\n" + MAIN_BLOCK, []),
        (COMPILED + PROVIDER, ["f", "g"]),
        (COMPILED + PROVIDER + MAIN_BLOCK, ["f", "g"]),
        (MODULES, []),
        (MODULES + PROVIDER, ["Net"]),
    ],
)
def test_compiled_targets_and_targets_with_directives_run(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_the_main_block_is_the_last_rung() -> None:
    text = COMPILED.replace("@torch.compile", "# fuselight: f(f32[4])\n@torch.compile", 1)
    assert names(text + MAIN_BLOCK) == ["f", ""]


@pytest.mark.parametrize(
    ("wrapped", "expected"), [("Net(2)", ["Net"]), ("Part()", ["Net", ""]), ("Net2()", ["Net", ""])]
)
def test_the_main_block_is_not_run_for_a_variable_whose_class_has_directives(
    wrapped: str, expected: list[str]
) -> None:
    text = MODULES.replace("class Net", "# fuselight: Net(1)(f32[4])\nclass Net")
    main = f"import torch\nif __name__ == '__main__':\n    model = torch.compile({wrapped})\n    model(1)\n"
    assert names(text + main) == expected


WRAPPED = """\
import torch
# fuselight: step(f32[2])
def step(x):
    return x
class Outer:
    # fuselight: Outer.Net(4)(f32[2, 4])
    class Net(torch.nn.Module):
        pass
class Holder:
    def __init__(self):
        self.fast = torch.compile(Outer.Net())
def train():
    inside = torch.compile(Outer.Net().eval())
net = torch.compile(Outer.Net().cuda(), fullgraph=True)
model = Outer.Net()
same = torch.compile(model)
fast = torch.compile(step)
part = torch.compile(Outer.Net().part)
"""


def test_directives_of_a_class_apply_to_the_variable_that_compiles_it() -> None:
    assert names(WRAPPED) == ["step", "Outer.Net", "part"], "one run each, and a part has none of its own"
    reading = read_source("/project/m.py", WRAPPED)
    for name, serving in [
        ("net", "Outer.Net"),
        ("same", "Outer.Net"),
        ("fast", "step"),
        ("Holder.fast", "Outer.Net"),
        ("train.<locals>.inside", "Outer.Net"),
        ("part", "part"),
    ]:
        (run,) = named_runs(reading, [name], OPTIONS)
        assert run.target.name == serving, name
    assert len(named_runs(reading, ["net", "same", "Outer.Net"], OPTIONS)) == 1


def test_a_variables_own_inputs_precede_those_of_its_class() -> None:
    assert names(WRAPPED + PROVIDER)[2:] == ["Holder.fast", "net", "same", "fast", "part"]
    recorded = RunOptions(roots=("/project",), recorded={"net": ("net(f32[2, 4])",)})
    assert names(WRAPPED, recorded) == ["step", "Outer.Net", "net", "part"]
    text = WRAPPED.replace("net =", "# fuselight: net(f32[8, 4])\nnet =")
    assert names(text) == ["step", "Outer.Net", "net", "part"]
    main = read_source("/project/m.py", WRAPPED + MAIN_BLOCK)
    (run,) = named_runs(main, ["train.<locals>.inside"], OPTIONS)
    assert run.target.name == "train.<locals>.inside", "the block calls what makes it"


MAKER = "import torch\n{}def train(x):\n    model = torch.compile(torch.nn.ReLU())\n    model(x)\n"


def test_an_object_created_in_a_function_runs_only_with_the_function() -> None:
    assert names(MAKER.format("")) == []
    assert names(MAKER.format("") + PROVIDER) == []
    assert names(MAKER.format("") + MAIN_BLOCK) == [""]
    text = MAKER.format("# fuselight: train(f32[4])\n")
    (run,) = default_runs(read_source("/project/m.py", text), OPTIONS)
    assert (run.target.name, run.target.compiled) == ("train", True), "called as it is, not compiled itself"


PARTS = """\
import torch
class M(torch.nn.Module):
    def __init__(self):
        self.first = torch.compile(self.step)
        self.second = torch.compile(self.step)
    def step(self, x):
        return x
class Plain:
    def __init__(self):
        self.fast = torch.compile(self.step)
"""


def test_an_attribute_of_a_module_runs_with_its_module() -> None:
    assert names(PARTS) == ["M", "Plain.fast"]
    reading = read_source("/project/m.py", PARTS)
    (run,) = named_runs(reading, ["M.second"], OPTIONS)
    assert (run.target.name, run.target.kind, run.target.compiled) == ("M", "module", False)
    text = PARTS.replace(
        "        self.second", "        # fuselight: M().second(f32[2])\n        self.second"
    )
    assert names(text) == ["M", "M.second", "Plain.fast"]


FORWARD = """
import torch
# fuselight: Net()(f32[2])
class Net(torch.nn.Module):
    @torch.compile
    def forward(self, x):
        return self.part(x)
    @torch.compile
    def part(self, x):
        return x
"""


def test_directives_of_a_module_serve_its_compiled_forward() -> None:
    assert names(FORWARD) == ["Net", "Net.part"], (
        "a call of a module calls `forward`, and may never call `part`"
    )
    (run,) = named_runs(read_source("/project/m.py", FORWARD), ["Net.forward"], OPTIONS)
    assert run.target.name == "Net"
    assert names(f"{FORWARD}if __name__ == '__main__':\n    Net()") == ["Net", ""]
    undirected = FORWARD.replace("# fuselight: Net()(f32[2])\n", "")
    assert names(undirected) == ["Net.forward", "Net.part"]
    own = FORWARD.replace(
        "    @torch.compile\n    def forward",
        "    # fuselight: Net().forward(f32[3])\n    @torch.compile\n    def forward",
    )
    assert names(own) == ["Net", "Net.forward", "Net.part"]
    recorded = RunOptions(roots=(), recorded={"Net.forward": ("Net().forward(f32[4])",)})
    assert names(FORWARD, recorded) == ["Net", "Net.forward", "Net.part"]


@pytest.mark.parametrize(
    ("rest", "compiled"),
    [
        ("", False),
        ("model = torch.compile(M())\n", True),
        ("model = M().eval()\nmodel.compile()\n", True),
        ("def main():\n    model = M()\n    fast = torch.compile(model)\n", True),
        ("model = torch.compile(torch.nn.ReLU())\n", False),
    ],
)
def test_a_class_counts_as_compiled_where_the_file_compiles_an_object_of_it(
    rest: str, *, compiled: bool
) -> None:
    text = PARTS.replace("class M", "# fuselight: M()(f32[2])\nclass M") + rest
    (run,) = named_runs(read_source("/project/m.py", text), ["M"], OPTIONS)
    assert run.target.compiled is compiled


def test_recorded_calls_precede_the_main_block() -> None:
    options = RunOptions(roots=("/project",), recorded={"f": ("f(f32[2])",), "g": ("g(f32[2])",)})
    runs = default_runs(read_source("/project/m.py", COMPILED + MAIN_BLOCK), options)
    assert [(run.target.name, run.inputs.recorded) for run in runs] == [
        ("f", ("f(f32[2])",)),
        ("g", ("g(f32[2])",)),
    ]


def test_a_target_can_be_named_whether_it_is_compiled_or_not() -> None:
    reading = read_source("/project/m.py", MODULES + MAIN_BLOCK)
    assert [run.target.name for run in named_runs(reading, ["Part", MAIN, "gone"], OPTIONS)] == ["Part", ""]


def test_a_request_carries_the_options() -> None:
    (run,) = default_runs(
        read_source("/project/m.py", "# fuselight: h(f32[4])\ndef h(x):\n    return x\n"), OPTIONS
    )
    request = run.start_message(7, 3, OPTIONS)
    assert (request.id, request.generation, request.roots, request.target.kind) == (
        7,
        3,
        ("/project",),
        "function",
    )
    assert [directive.text for directive in request.inputs.directives] == ["h(f32[4])"]


def test_sizes_that_cannot_be_sizes_are_left_out() -> None:
    assert sizes({"batch": 4, "time": 0, "dim": "x"}) == {"batch": 4}


def test_a_name_that_two_branches_define_is_run_once_and_with_its_directives() -> None:
    text = (
        "import torch\nif torch.cuda.is_available():\n    @torch.compile\n    def f(x):\n        return x\nelse:\n"
        "    {}@torch.compile\n    def f(x):\n        return x + 1\n"
    )
    lines = [
        [run.target.line for run in default_runs(read_source("/project/m.py", text.format(above)), OPTIONS)]
        for above in ("", "# fuselight: f(f32[4])\n    ")
    ]
    assert lines == [[4], [9]]
