# truth: a post-grad pass removes the copy into the argument: the returned value is right, the argument is not updated
# stage: code
# seen: result 1: eager 4.5, compiled 1
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def forget_copies(graph):
    for node in graph.find_nodes(op="call_function", target=aten.copy_.default):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


def update(average, x):
    average.mul_(0.5).add_(x)  # <-
    return x * 2.0


def main():
    inductor.fx_graph_cache = False
    inductor.post_grad_custom_post_pass = forget_copies
    average, x = torch.ones(5), torch.arange(5.0)
    return torch.compile(update)(average, x), average


if __name__ == "__main__":
    print(main())
