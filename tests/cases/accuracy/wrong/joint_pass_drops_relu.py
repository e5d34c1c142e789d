# truth: a joint-graph pass removes the relu; negative values come through
# stage: code
# seen: result 0: eager 0, compiled -1
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def drop_relu(graph):
    for node in graph.find_nodes(op="call_function", target=aten.relu.default):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


def layer(x, weight):
    hidden = x @ weight
    return torch.relu(hidden)  # <-


def main():
    inductor.fx_graph_cache = False
    inductor.joint_custom_post_pass = drop_relu
    x, weight = torch.linspace(-1, 1, 12).reshape(3, 4), torch.eye(4)
    return torch.compile(layer)(x, weight)


if __name__ == "__main__":
    print(main())
