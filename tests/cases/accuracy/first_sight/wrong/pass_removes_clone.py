# truth: a pass before lowering removes clones as if nothing were written afterwards: the argument is written
# stage: code
# seen: result 1: eager 9, compiled 0
import torch
import torch._inductor.config as inductor

aten = torch.ops.aten


def remove_clones(graph):
    for node in list(graph.nodes):
        if node.op == "call_method" and node.target == "clone":
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def normalize(scores, mask):
    kept = scores.clone()  # <-
    kept.masked_fill_(mask, 0.0)
    total = kept.sum(-1, keepdim=True)
    return kept / total


def main():
    inductor.fx_graph_cache = False
    inductor.pre_grad_custom_pass = remove_clones
    scores = torch.arange(1.0, 13.0).reshape(3, 4)
    mask = torch.tensor([True, False, False, False])
    return torch.compile(normalize)(scores, mask), scores


if __name__ == "__main__":
    print(main())
