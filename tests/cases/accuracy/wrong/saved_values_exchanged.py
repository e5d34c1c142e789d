# truth: the partition exchanges two saved values of one shape: gradients of the two arguments are swapped
# stage: functionalization
# seen: result 1: eager -3, compiled 1; result 2: eager 1, compiled -3
import functorch.compile
import torch
import torch._dynamo.backends.debugging as debugging
import torch._inductor.compile_fx as compile_fx
from torch._functorch import partitioners
from torch._inductor import config

partition = partitioners.min_cut_rematerialization_partition


def wrong(*args, **kwargs):
    forward, backward = partition(*args, **kwargs)
    saved = [node for node in backward.graph.find_nodes(op="placeholder") if "tangents" not in node.name]
    first, second = saved[0], saved[1]
    for user in {**first.users, **second.users}:
        user.args = tuple({first: second, second: first}.get(arg, arg) for arg in user.args)
    backward.recompile()
    return forward, backward


def loss(left, right):
    return (left * right).sum()  # <-


def main():
    config.fx_graph_cache = False
    for module in (partitioners, functorch.compile, debugging, compile_fx):
        module.min_cut_rematerialization_partition = wrong
    left = torch.linspace(1, 2, 4, requires_grad=True)
    right = torch.linspace(-3, 3, 4, requires_grad=True)
    value = torch.compile(loss)(left, right)
    value.backward()
    return value.detach(), left.grad, right.grad


if __name__ == "__main__":
    print(main())
