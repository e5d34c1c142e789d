"""Starts of one program that differ in one planted cause each. `record_caches.py` runs them."""

PROGRAM = """\
import os

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass

torch.set_num_threads(2)
torch.set_default_dtype(torch.float32)
torch.set_float32_matmul_precision("highest")
torch.use_deterministic_algorithms(False)
torch.compiler.config.cache_key_tag = ""


class Tidy(CustomGraphPass):
    def __call__(self, graph):
        pass

    def uuid(self):
        return "tidy 1"


torch._inductor.config.post_grad_custom_post_pass = Tidy()


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] ** 2 * grad


def folded(x):
    return x * 3


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.gain = 0.5

    def forward(self, x):
        h = torch.relu(self.up(x))
        h = h * self.gain
        return h.sum(-1)


options = {"max_fusion_size": 48}
net = torch.compile(Net(), options=options)
x = torch.ones(4, 8)
with torch.no_grad():
    net(x)
"""

Edits = tuple[tuple[str, str], ...]


def _setting(line: str) -> Edits:
    return (("options = {", f"{line}\noptions = {{"),)


_TRAINING = ("with torch.no_grad():\n    net(x)", "net(x).sum().backward()")
_FORWARD = ("with torch.no_grad():\n    net(x)", "net(x)")
STARTS: dict[str, Edits] = {
    "base": (),
    "inductor_option": (('"max_fusion_size": 48', '"max_fusion_size": 24'),),
    "environment": _setting(
        # What a variable does at the import of torch; the processes of a recording are forked after it.
        'os.environ["TORCHINDUCTOR_MAX_AUTOTUNE"] = "1"\ntorch._inductor.config.max_autotune = True'
    ),
    "matmul_precision": (('precision("highest")', 'precision("high")'),),
    "deterministic": (("algorithms(False)", "algorithms(True)"),),
    "input_size": (("torch.ones(4, 8)", "torch.ones(6, 8)"),),
    "input_stride": (("torch.ones(4, 8)", "torch.ones(8, 4).t()"),),
    "input_dtype": (("torch.ones(4, 8)", "torch.ones(4, 8).double()"), ("Net()", "Net().double()")),
    "edited_line": (("self.up(x))", "self.up(x)) + 1"),),
    "swapped_lines": (("h.sum(-1)", "h.amax(-1)"),),
    "constant": (("self.gain = 0.5", "self.gain = 0.25"),),
    "threads": (("num_threads(2)", "num_threads(1)"),),
    "tag": (('cache_key_tag = ""', 'cache_key_tag = "blue"'),),
    "custom_pass": (("tidy 1", "tidy 2"),),
    "default_dtype": (
        ("dtype(torch.float32)", "dtype(torch.bfloat16)"),
        ("Net()", "Net().float()"),
        ("torch.ones(4, 8)", "torch.ones(4, 8).float()"),
    ),
    "dynamo_setting": _setting("torch._dynamo.config.assume_static_by_default = False"),
    "functorch_setting": _setting("torch._functorch.config.treat_parameters_as_free_to_save = False"),
    "gradients": (_TRAINING,),
    "forward_alone": (_FORWARD,),
    "forward_alone_again": (_FORWARD,),
    "autocast_around": (("torch.no_grad():", 'torch.no_grad(), torch.autocast("cpu", torch.bfloat16):'),),
    "cuda_graphs": (("options=options", 'mode="reduce-overhead"'),),
    "autocast_unrecorded": (("torch.no_grad():", 'torch.no_grad(), torch.autocast("cpu", torch.float16):'),),
    "another_folder": (),
    "autocast_inside": (
        (
            "        h = torch.relu",
            '        with torch.autocast("cpu", torch.bfloat16):\n            h = torch.relu',
        ),
    ),
    "autograd_function": (("h * self.gain", "Cubed.apply(h)"), _TRAINING),
    "pass_without_uuid": (('return "tidy 1"', "return None"),),
    "unknown_function": (
        ("h * self.gain", "folded(h)"),
        ("class Net", "torch.compiler.allow_in_graph(folded)\n\n\nclass Net"),
    ),
    "freezing": _setting("torch._inductor.config.freezing = True"),
    "caches_off": _setting("torch._inductor.config.fx_graph_cache = False"),
    "same": (),
    "comment": (("options = {", "# the options of the compiler\noptions = {"),),
    "renamed": (),
    "rank_5": (),
}
"""Name of a start, and what differs in its program."""
OTHER_FOLDER = frozenset(("another_folder",))
"""Starts with a cache folder of their own, in which nothing is."""
WITHOUT_LOGGER = frozenset(("autocast_unrecorded",))
"""Starts whose logs lack the components of AOTAutograd's keys."""
FILE_NAMES = {"renamed": "model.py"}


def program_of(name: str) -> str:
    """The text of the program of a start."""
    text = PROGRAM
    for old, new in STARTS[name]:
        if text.count(old) != 1:
            raise ValueError(f"`{old}` occurs {text.count(old)} times in the program")
        text = text.replace(old, new)
    return text
