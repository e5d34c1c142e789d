# truth: only the gradient of gelu is wrong: its decomposition leaves out the second term
# stage: decomposition
# seen: result 1: eager 0.122958, compiled 0.00810814
import torch
from torch._inductor import config, decomposition

aten = torch.ops.aten


def wrong(grad, x, approximate="none"):
    return grad * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))


class Feed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = torch.nn.Linear(6, 12), torch.nn.Linear(12, 6)

    def forward(self, x):
        wide = self.up(x)
        active = torch.nn.functional.gelu(wide)  # <-
        return self.down(active)


def main():
    config.fx_graph_cache = False
    decomposition.decompositions[aten.gelu_backward.default] = wrong
    decomposition.fast_random_decomps.cache_clear()
    model = Feed()
    value = torch.compile(model)(torch.linspace(-1, 1, 24).reshape(4, 6))
    value.square().sum().backward()
    return value.detach(), model.up.weight.grad


if __name__ == "__main__":
    print(main())
