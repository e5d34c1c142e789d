# truth: the program's own partitioner changes a factor in the backward graph: gradients are 1 percent too large
# stage: code
# seen: result 1: eager 0.321006, compiled 0.325028
import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomPartitionerFn

aten = torch.ops.aten


class Partitioner(CustomPartitionerFn):
    def __call__(self, module, inputs, **kwargs):
        forward, backward = min_cut_rematerialization_partition(module, inputs, **kwargs)
        for node in backward.graph.find_nodes(op="call_function", target=aten.mul.Tensor):
            if isinstance(node.args[1], float):
                node.args = (node.args[0], node.args[1] * 1.01)
        backward.recompile()
        return forward, backward

    def uuid(self):
        return b"loses-factor"


def loss(x):
    scaled = x * 0.25  # <-
    return scaled.exp().sum()


def main():
    config.fx_graph_cache = False
    config.custom_partitioner_fn = Partitioner()
    x = torch.linspace(-1, 1, 8, requires_grad=True)
    value = torch.compile(loss)(x)
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
