# truth: the program's own post-grad pass replaces a doubling by a sum: the result is equal
# stage: none
# seen: no difference beyond rounding
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def double_by_sum(graph):
    for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
        if node.args[1] == 2:
            node.target, node.args = aten.add.Tensor, (node.args[0], node.args[0])


def doubled(x):
    return torch.cos(x) * 2


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = double_by_sum
    return torch.compile(doubled)(torch.linspace(0, 1, 16))


if __name__ == "__main__":
    print(main())
