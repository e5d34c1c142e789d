"""Breaks in modules: recurrent layers, hooks, scripted modules, lookups by tensor."""

import torch
from torch import nn

SCRIPTED = torch.jit.script(nn.Linear(4, 4))


# fuselight: Recurrent()(f32[3, 2, 4])
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 4)

    def forward(self, x):  # info(2.11, 2.13, 2.14): [FL101] "is not compiled"
        out, _ = self.layer(x)  # warning(2.11, 2.13, 2.14): [GB0014] "RNN, GRU and LSTM"
        #        ^^^^^^^^^^
        # warning(2.15): [GB0148] "graph break: RNN, GRU and LSTM modules are not traced"
        #        ^^^^^^^^^^^^^
        return out + 1


# fuselight: calls_a_scripted_module(f32[4])
def calls_a_scripted_module(x):  # info: [FL101] "is not compiled"
    return SCRIPTED(x) + 1
    # warning(2.13, 2.14, 2.15): [GB4695] "torch.jit"
    # warning(2.11): [GB0357] "UnspecializedNNModuleVariable wrapped around ScriptModules unsupported"


# fuselight: BackwardHook()(f32[4])
class BackwardHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.layer.register_full_backward_hook(lambda module, given, taken: None)

    def forward(self, x):
        return self.layer(x)  # warning: [GB0083] "backward hooks"


# fuselight: PrintingHook()(f32[4])
class PrintingHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.layer.register_forward_hook(self.show)

    @staticmethod
    def show(module, given, taken):
        print(taken.shape)  # warning: [GB0059] "`print` cannot be traced"

    def forward(self, x):
        return self.layer(x)


# fuselight: PicksALayer()(f32[4])
class PicksALayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        return self.layers[x.argmax() % 2](x)
        # warning(2.13, 2.14, 2.15): [GB0124] "Python number"
        # warning(2.11): [GB0218] "unsupported index(Tensor)"


# fuselight: BuildsALayer()(f32[4])
class BuildsALayer(nn.Module):
    def forward(self, x):
        layer = nn.Linear(4, 4, bias=False)  # warning: [GB0264] "Parameter"
        return layer(x)


# fuselight: KeyedByATensor()(f32[4])
class KeyedByATensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(4, 4)})

    def forward(self, x):  # info: [FL101] "is not compiled"
        return self.layers[x](x)  # error: [FL401] "KeyError"  # warning: [GB0088] "raised"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x = self.layer(x)
        print("block")  # warning: [GB0059] "`print` cannot be traced"
        return x


# fuselight: Stack()(f32[4])
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x):
        return self.blocks(x)
