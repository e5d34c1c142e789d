# truth: a joint-graph pass swaps the operands of the subtraction
# stage: code
# seen: result 0: eager 2.71828, compiled 0.367879
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def swap(graph):
    for node in graph.find_nodes(op="call_function", target=aten.sub.Tensor):
        node.args = node.args[::-1]


def residual(target, prediction):
    error = target - prediction  # <-
    return error.exp()


def main():
    inductor.fx_graph_cache = False
    inductor.joint_custom_pre_pass = swap
    return torch.compile(residual)(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.5, 1.0, 3.0]))


if __name__ == "__main__":
    print(main())
