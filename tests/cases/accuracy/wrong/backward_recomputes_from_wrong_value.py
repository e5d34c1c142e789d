# truth: the partitioner's backward reads the sine where it must recompute the cosine: gradients only
# stage: functionalization
# seen: result 1: eager 0.904064, compiled 5.24166
import torch
from torch._functorch import partitioners
from torch._inductor import config

aten = torch.ops.aten
right = partitioners.reordering_to_mimic_autograd_engine


def wrong(module):
    for node in module.graph.find_nodes(op="call_function", target=aten.cos.default):
        node.target = aten.sin.default
    return right(module)


def loss(x):
    wave = torch.sin(x)  # <-
    return (wave * torch.exp(wave)).sum()


def main():
    config.fx_graph_cache = False
    partitioners.reordering_to_mimic_autograd_engine = wrong
    x = torch.linspace(0.1, 1.4, 8, requires_grad=True)
    value = torch.compile(loss)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
