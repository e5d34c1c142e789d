"""Rewrites that let a compile cache hit: autocast around the call, keys for functions and passes, settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from fuselight_server.fixes.rewrites.autocast import AutocastPlace, autocast_remedies
from fuselight_server.fixes.rewrites.cache_keys import (
    function_key_remedies,
    pass_key_remedies,
    setting_remedies,
)
from fuselight_server.fixes.rewrites.remedy import Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight_server.fixes.syntax.refusals import RefusedRewrite

PATH = "/m.py"
CAST = 'torch.autocast("cpu", torch.bfloat16)'
NET = f"""\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        with {CAST}:
            h = self.up(x)
        return torch.relu(h)
"""
BARE_NET = NET.replace(f"        with {CAST}:\n    ", "")


def text_of(candidates: Iterable[Remedy | RefusedRewrite]) -> str:
    (candidate,) = candidates
    assert isinstance(candidate, Remedy), candidate
    return candidate.texts[PATH]


def reason_of(candidates: Iterable[Remedy | RefusedRewrite]) -> str:
    (candidate,) = candidates
    assert not isinstance(candidate, Remedy), candidate.texts[PATH]
    return candidate.reason


def moved(text: str, *, imported: str = "") -> Iterable[Remedy | RefusedRewrite]:
    """The rewrite of the first autocast in a text, whose first `def step` or `def forward` is compiled."""
    lines = text.split("\n")
    line = next(number for number, row in enumerate(lines, 1) if "autocast(" in row)
    function = next(number for number, row in enumerate(lines, 1) if re.search(r"def (step|forward)\b", row))
    place = AutocastPlace(PATH, line, "step", function)
    return autocast_remedies(place, text, lambda name: name == imported)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"""\
import torch
# fuselight: step(f32[4])
@torch.compile(dynamic=True)
def step(x):
    \"\"\"A step.\"\"\"
    # the product
    with {CAST}:  # cheaper
        # of both
        y = x @ x
        return y, (1 +
                   2)
        # end
""",
            f"""\
import torch
# fuselight: step(f32[4])
@{CAST}
@torch.compile(dynamic=True)
def step(x):
    \"\"\"A step.\"\"\"
    # the product
    # cheaper
    # of both
    y = x @ x
    return y, (1 +
               2)
    # end
""",
            id="decorated",
        ),
        pytest.param(
            f"import torch\n@torch.no_grad()\n@torch.compile\n@{CAST}\ndef step(x):\n    return x @ x\n",
            f"import torch\n@torch.no_grad()\n@{CAST}\n@torch.compile\ndef step(x):\n    return x @ x\n",
            id="decorator of autocast",
        ),
        pytest.param(
            f"import torch\ndef step(x):\n    with torch.no_grad(), {CAST}: y = x @ x\n    return y.view(-1)\n"
            "step = torch.compile(step)\nprint(step(1))\n",
            "import torch\ndef step(x):\n    with torch.no_grad(): y = x @ x\n    return y.view(-1)\n"
            f"step = {CAST}(torch.compile(step))\nprint(step(1))\n",
            id="function under its own name, with a grad mode",
        ),
        pytest.param(
            "import torch as t\ndef step(x):\n    with t.amp.autocast('cuda'): y = x @ x; z = y\n    return z\n"
            "def main():\n    fast = t.compile(step, mode='default')\n    fast(1)\n",
            "import torch as t\ndef step(x):\n    y = x @ x; z = y\n    return z\n"
            "def main():\n    fast = t.amp.autocast('cuda')(t.compile(step, mode='default'))\n    fast(1)\n",
            id="function compiled in another one",
        ),
        pytest.param(
            NET
            + """\
def main():
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters())
    model = torch.compile(model)
    for index in range(3):
        # the loss
        loss = criterion(model(torch.ones(4, 16)), index).sum()
        y = model(index)
    return model(y)
""",
            BARE_NET
            + f"""\
def main():
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters())
    model = torch.compile(model)
    for index in range(3):
        # the loss
        with {CAST}:
            output = model(torch.ones(4, 16))
        loss = criterion(output, index).sum()
        with {CAST}:
            y = model(index)
    with {CAST}:
        return model(y)
""",
            id="module",
        ),
        pytest.param(
            NET + "net = torch.compile(Net())\nnet(1)\n",
            BARE_NET + f"net = torch.compile(Net())\nwith {CAST}:\n    net(1)\n",
            id="module at top level",
        ),
        pytest.param(
            NET
            + "class Outer:\n    def __init__(self):\n        self.net = Net()\n        self.net.compile()\n"
            "    def run(self, x):\n        return self.net(x) + 1\n",
            BARE_NET
            + "class Outer:\n    def __init__(self):\n        self.net = Net()\n        self.net.compile()\n"
            f"    def run(self, x):\n        with {CAST}:\n            output = self.net(x)\n"
            "        return output + 1\n",
            id="module in an attribute, compiled in place",
        ),
    ],
)
def test_autocast_moves_around_the_compiled_call(before: str, after: str) -> None:
    assert text_of(moved(before)) == after


STEP = f"import torch\ndef step(x):\n    with {CAST}:\n        y = x @ x\n    return y\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            (
                "import torch\n@torch.compile\ndef step(x):\n    with torch.autocast(x.device.type):\n"
                "        return x @ x\n"
            ),
            "the arguments of autocast depend on `x`",
        ),
        (
            NET.replace('"cpu"', "self.device") + "net = torch.compile(Net())\nnet(1)\n",
            "the arguments of autocast depend on `self`",
        ),
        (
            STEP.replace("return y", "return y @ x") + "fast = torch.compile(step)\n",
            "line 5 is outside of autocast, and would come under it",
        ),
        (
            STEP.replace("return y", "return y.sum()") + "fast = torch.compile(step)\n",
            "line 5 is outside of autocast, and would come under it",
        ),
        (
            (
                f"import torch\n@torch.compile\ndef step(x):\n    if x is not None:\n        with {CAST}:\n"
                "            x = x @ x\n"
            ),
            "autocast is entered in a branch, a loop or another block",
        ),
        (
            f"import torch\n@torch.compile\n@scaled\ndef step(x):\n    with {CAST}:\n        return x @ x\n",
            "the decorator on line 3 may compute, and would come under autocast",
        ),
        (
            f"import torch\n@torch.compile\ndef step(x):\n    with {CAST}, timer():\n        return x @ x\n",
            "the `with` statement enters something else, too",
        ),
        (
            f"import torch\n@torch.compile\ndef step(x):\n    with {CAST}:\n        yield x @ x\n",
            "`step` is a generator or a coroutine, which runs on after its call",
        ),
        (
            f"import torch\n@torch.compile\ndef step(x):\n    with {CAST}:\n        return step(x - 1)\n",
            "`step` calls itself",
        ),
        (STEP + "fast = torch.compile(step)\nstep(1)\n", "line 7 uses `step` without torch.compile"),
        (
            STEP + "fast = torch.compile(step)\nslow = torch.compile(step)\n",
            "no single torch.compile of `step` is in this file",
        ),
        (STEP, "no single torch.compile of `step` is in this file"),
        (
            NET + "net = torch.compile(Net())\ntrain(net)\nnet(1)\n",
            "line 8 passes `net` on, so other calls may exist",
        ),
        (
            NET + "net = Net()\nfast = torch.compile(net)\nnet(1)\nfast(1)\n",
            "line 9 calls `net` without torch.compile",
        ),
        (
            NET + "net = torch.compile(Net())\nother = Net()\nnet(1)\n",
            "the file does not make exactly one object of `Net`",
        ),
        (NET + "net = torch.compile(Net())\nnet.forward(1)\n", "line 8 calls `net.forward` itself"),
        (
            NET + "net = torch.compile(Net())\nif net(1).any():\n    pass\n",
            "the call on line 8 is not the first that its statement evaluates",
        ),
        (
            NET + "net = torch.compile(Net())\nz = f() + net(1)\n",
            "the call on line 8 is not the first that its statement evaluates",
        ),
        (
            NET + "net = torch.compile(Net())\nz = net(a @ b)\n",
            "arguments of the call on line 8 are computed with it, and would come under autocast",
        ),
        (
            NET + "net = torch.compile(Net())\nz = net(net(1))\n",
            "arguments of the call on line 8 are computed with it, and would come under autocast",
        ),
        (
            NET + "net = torch.compile(Net())\nz = net(1) + net(2)\n",
            "the call on line 8 is not the first that its statement evaluates",
        ),
    ],
)
def test_where_another_call_or_operation_would_change_autocast_stays(text: str, reason: str) -> None:
    assert reason_of(moved(text)) == reason


def test_what_other_files_import_stays() -> None:
    function = STEP + "fast = torch.compile(step)\n"
    assert reason_of(moved(function, imported="step")) == "`step` may be called without torch.compile, too"
    module = NET + "net = torch.compile(Net())\nnet(1)\n"
    assert reason_of(moved(module, imported="Net")) == "another file imports `Net`"
    assert reason_of(moved(module, imported="net")) == "another file imports `net`"


def test_autocast_of_a_part_of_what_is_compiled_stays() -> None:
    text = (
        "import torch\n@torch.compile\ndef step(x):\n    return part(x)\n"
        f"def part(x):\n    with {CAST}:\n        return x @ x\n"
    )
    assert reason_of(moved(text)) == "autocast is entered in `part`, a part of what is compiled as `step`"


FOLDED = "import torch\nSCALE = 3\ndef factor():\n    return SCALE\ndef folded(x):\n    return x * factor()\n"


def test_a_function_gets_the_hash_of_its_file_as_key() -> None:
    head, rest = FOLDED.split("\n", 1)
    assert text_of(function_key_remedies(PATH, FOLDED, "__main__.folded")) == (
        f"{head}\nfrom torch._inductor.custom_graph_pass import get_hash_for_files\n"
        'torch._inductor.config.unsafe_marked_cacheable_functions |= {f"{__name__}.folded": '
        f"get_hash_for_files((__file__,))}}\n{rest}"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            FOLDED.replace("SCALE = 3", "import os\nSCALE = int(os.environ['SCALE'])"),
            "its code uses `os` of `os`, which the hash of its file does not show",
        ),
        (
            FOLDED.replace("SCALE = 3", "from settings import SCALE"),
            "its code uses `SCALE` of `settings`, which the hash of its file does not show",
        ),
        (
            FOLDED.replace("SCALE = 3", "from . import SCALE"),
            "its code uses `SCALE` of `.`, which the hash of its file does not show",
        ),
        (
            FOLDED.replace("SCALE = 3", "SCALE = float(open('scale').read())"),
            "its code uses `open`, which the hash of its file does not show",
        ),
        (
            FOLDED.replace("    return x", "    global COUNT\n    return x"),
            "line 6 changes variables outside of the function",
        ),
        (
            "import torch\nfrom lib import folded\n",
            "`folded` is not defined exactly once at top level of this file",
        ),
    ],
)
def test_a_function_that_depends_on_more_than_its_file_gets_no_key(text: str, reason: str) -> None:
    assert reason_of(function_key_remedies(PATH, text, "__main__.folded")) == reason


METHOD = "\n    def uuid(self):\n        return get_hash_for_files((__file__,))\n"
IMPORT = "from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files\n"


def test_passes_get_a_uuid() -> None:
    head = "import torch\n"
    owner = "class Fold:\n    def __call__(self, graph):\n        pass\n"
    use = "torch._inductor.config.post_grad_custom_post_pass = Fold()\n"
    keyed = owner.replace("Fold:", "Fold(CustomGraphPass):")
    assert text_of(pass_key_remedies(PATH, head + owner + use)) == f"{head}{IMPORT}{keyed}{METHOD}{use}"
    function = "def fold(graph):\n    pass\n"
    called = "class Fold(CustomGraphPass):\n    def __call__(self, graph):\n        return fold(graph)\n"
    for setting in (
        "torch._inductor.config.joint_custom_pre_pass = {}\n",
        'f = torch.compile(g, options={{"pre_grad_custom_pass": {}}})\n',
        "torch._inductor.config.patch(post_grad_custom_pre_pass={})(f)\n",
    ):
        assert text_of(pass_key_remedies(PATH, head + function + setting.format("fold"))) == (
            f"{head}{IMPORT}{function}\n\n{called}{METHOD}\n\n{setting.format('Fold()')}"
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import torch\n", "no statement of this file sets a custom pass"),
        (
            (
                "import torch\nclass Fold:\n    def __init__(self, n):\n        self.n = n\n"
                "torch._inductor.config.post_grad_custom_post_pass = Fold(3)\n"
            ),
            "`Fold` has values or bases that are no part of the hash of the file",
        ),
        (
            "import torch\ndef make():\n    return len\ntorch._inductor.config.post_grad_custom_post_pass = make()\n",
            "`make` returns the pass, and its values are no part of the hash of the file",
        ),
        (
            (
                "import torch\nclass Fold(Base):\n    def uuid(self):\n        return 1\n"
                "torch._inductor.config.post_grad_custom_post_pass = Fold()\n"
            ),
            "the custom pass of this file has a `uuid()`",
        ),
        (
            "import torch\nfrom lib import fold\ntorch._inductor.config.post_grad_custom_post_pass = fold\n",
            "`fold` is not defined exactly once at top level of this file",
        ),
    ],
)
def test_passes_with_values_of_other_places_get_no_uuid(text: str, reason: str) -> None:
    assert reason_of(pass_key_remedies(PATH, text)) == reason


def test_settings_are_set_or_changed() -> None:
    name = "torch._inductor.config.fx_graph_cache"
    assert text_of(setting_remedies(PATH, "import torch\nx = 1\n", name, value=True)) == (
        "import torch\ntorch._inductor.config.fx_graph_cache = True\nx = 1\n"
    )
    imported = "import torch._inductor.config as config\n"
    assert text_of(
        setting_remedies(PATH, f"{imported}config.fx_graph_cache = False\n", name, value=True)
    ) == (f"{imported}config.fx_graph_cache = True\n")
    text = "import torch\nwith torch._inductor.config.patch(fx_graph_cache=False):\n    pass\n"
    assert "not a plain assignment" in reason_of(setting_remedies(PATH, text, name, value=True))
