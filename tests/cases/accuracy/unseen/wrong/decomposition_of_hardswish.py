# truth: the decomposition of hardswish is replaced by one with a wrong slope
# stage: decomposition
# seen: result 0: eager 6.32387, compiled 6.27161
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def wrong(x):
    return x * torch.clamp(x + 3.0, 0.0, 6.0) / 6.05


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 2.0, 8))

    def forward(self, x):
        wide = x * self.scale
        centered = wide - wide.mean(-1, keepdim=True)
        active = torch.nn.functional.hardswish(centered)  # <-
        return active.sum(-1)


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.hardswish.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    return torch.compile(Block())(torch.linspace(-4, 4, 32).reshape(4, 8)).detach()


if __name__ == "__main__":
    print(main())
