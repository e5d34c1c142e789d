"""Each submodule is compiled with its own backend object, which a function creates."""
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def compiled(module):
    def compiler(graph, inputs):
        return graph.forward

    return torch.compile(module, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)


class Feed(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x):
    # warning: [FL201] "recompiled: compiled before with another backend, mode or options of torch.compile"
        return self.linear(x).relu()


class Model(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(compiled(Feed()) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


if __name__ == "__main__":
    model = Model().eval()
    with torch.no_grad():
        for _ in range(2):
            model(torch.randn(3, 8))
# run by: make corpora
