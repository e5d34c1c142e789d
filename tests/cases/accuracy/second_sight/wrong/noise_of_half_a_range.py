# truth: the lowering of random numbers gives uniform numbers below one half
# stage: code
# seen: result 0: eager 0.495259, compiled 0.248905
import torch
from torch._inductor import config, inductor_prims, lowering

right = lowering.lowerings[inductor_prims.random]


def wrong(*args, **named):
    return lowering.lowerings[torch.ops.aten.mul.Tensor](right(*args, **named), 0.5)


def jitter(x):
    noise = torch.rand_like(x)  # <-
    return x + noise


def main():
    config.fx_graph_cache = False
    lowering.lowerings[inductor_prims.random] = wrong
    torch.manual_seed(0)
    return torch.compile(jitter)(torch.zeros(64, 64)).mean()


if __name__ == "__main__":
    print(main())
