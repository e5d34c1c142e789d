"""Changes of the program that compiled code does not follow, and those that it does.

The file's own `__main__` block makes the calls; each model is compiled for itself.
"""

import enum
import os

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x).relu()  # warning: [FL201] "x.size(0) was 2, now 4"


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()

    def forward(self, x):
        return self.second(self.first(x))


class Hooked(Stack):
    def forward(self, x):
        return super().forward(x) + 1


class Prehooked(Stack):
    def forward(self, x):
        return super().forward(x) + 2


class Watched(Stack):
    def forward(self, x):
        return super().forward(x) + 3


class Guarded(Stack):
    def forward(self, x):
        return super().forward(x) + 4


class Visited(Stack):
    def forward(self, x):
        return super().forward(x) + 5


def scaled(x):
    return x * float(os.getenv("UNSEEN_SCALE", "1"))  # warning: [FL202] "keeps the former value of `UNSEEN_SCALE`"


def chosen(x):
    return x * len(os.environ["UNSEEN_MODE"])  # warning: [FL201] "os.environ['UNSEEN_MODE'] was 'fast', now 'exact'"


class Kind(enum.Enum):
    RELU = 0
    SINE = 1


FUNCTIONS = {Kind.RELU: torch.relu, Kind.SINE: torch.sin}


def looked_up(x, kind):
    return FUNCTIONS[kind](x)  # warning: [FL202] "`looked_up` keeps what the first `kind` selected"


def compared(x, kind):
    return torch.relu(x) if kind is Kind.RELU else torch.sin(x)  # warning: [FL201] "kind was Kind.RELU"


class Slot:
    pass


def same_slot(x, slot, other):
    return x * 2 if slot is other else x * 3  # warning: [FL202] "keeps the outcome of `slot is other`"


def other_slot(x, slot, other):
    return x * 2 if slot is other else x * 3  # warning: [FL201] "same object, now they are not"


class Scaler:
    def scale(self, x):
        return x * 2

    def __call__(self, x):
        return self.scale(x)


class Patched(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaler = Scaler()
        self.body = Block()

    def forward(self, x):
        return self.scaler.scale(self.body(x))


class Swapped(nn.Module):
    def helper(self, x):
        return x + 1

    def forward(self, x):
        return self.helper(x) * 2  # warning: [FL201] "self.helper was Swapped.helper, now <lambda>"


def keep(module, args, output=None):
    return None


def doubled(self, x):
    return x * 4


if __name__ == "__main__":
    x = torch.randn(2, 3)

    model = Hooked()
    model.first.register_forward_hook(keep)
    compiled = torch.compile(model)
    compiled(x)
    model.first.register_forward_hook(keep)  # it had one, so torch has guards on them
    model.second.layer.register_forward_hook(keep)  # warning: [FL202] "Or register it before the first call"
    removed = model.second.register_forward_hook(keep)
    removed.remove()
    model.register_forward_hook(keep)  # of the compiled module itself, which runs them

    model = Prehooked()
    compiled = torch.compile(model)
    compiled(x)
    model.second.register_forward_pre_hook(keep)  # warning: [FL202] "register_forward_pre_hook"
    model.second.register_full_backward_hook(keep)  # warning: [FL202] "register_full_backward_hook"

    model = Watched()
    compiled = torch.compile(model)
    compiled(x)
    model.second.register_forward_hook(keep)  # the next call compiles again, with the hook
    compiled(torch.randn(4, 3))
    # nothing is compiled for this model yet
    other = Watched()
    other.first.register_forward_hook(keep)

    model = Visited()
    compiled = torch.compile(model)
    compiled(x)
    with model.first.register_forward_hook(keep):  # nothing is called
        pass
    with model.second.register_forward_pre_hook(keep):  # warning: [FL202] "set_stance('force_eager')"
        compiled(x)

    compiled = torch.compile(scaled)
    compiled(x)
    os.environ["UNSEEN_SCALE"] = "2"
    compiled(x)

    os.environ["UNSEEN_MODE"] = "fast"
    compiled = torch.compile(chosen)
    compiled(x)
    os.environ["UNSEEN_MODE"] = "exact"
    compiled(x)

    for function, first in ((same_slot, Slot()), (other_slot, None)):
        compiled, last = torch.compile(function), Slot()
        compiled(x, first or last, last)
        compiled(x, Slot() if first is None else last, last)

    for function in (looked_up, compared):
        compiled = torch.compile(function)
        for kind in Kind:
            compiled(x, kind)

    model = Guarded()
    torch._dynamo.config.skip_nnmodule_hook_guards = False
    compiled = torch.compile(model)
    compiled(x)
    model.second.register_forward_hook(keep)
    torch._dynamo.config.skip_nnmodule_hook_guards = True

    model = Patched()
    compiled = torch.compile(model)
    compiled(x)
    Scaler.scale = doubled  # warning: [FL202] "still calls the former `Scaler.scale`"
    compiled(x)

    model = Swapped()
    compiled = torch.compile(model)
    compiled(x)
    model.helper = lambda x: x - 1
    compiled(x)

    everywhere = register_module_forward_hook(keep)
    # warning: [FL202] "Register it before the first call, or call torch._dynamo.reset()"
