# truth: the recomputed exponential of the backward gets another constant than the forward had: gradients only
# stage: decomposition
# seen: result 1: eager 0.260279, compiled 0.269709
import torch
from torch._functorch import partitioners
from torch._inductor import config

aten = torch.ops.aten
right = partitioners.reordering_to_mimic_autograd_engine


def wrong(module):
    for node in module.graph.find_nodes(op="call_function", target=aten.exp.default):
        with module.graph.inserting_after(node):
            less = module.graph.call_function(aten.mul.Tensor, (node, 0.98))
        node.replace_all_uses_with(less, delete_user_cb=lambda user, kept=less: user is not kept)
    return right(module)


def loss(x):
    return torch.exp(x).tanh().sum()  # <-


def main():
    config.fx_graph_cache = False
    partitioners.reordering_to_mimic_autograd_engine = wrong
    x = torch.linspace(-1, 1, 8, requires_grad=True)
    value = torch.compile(loss)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
