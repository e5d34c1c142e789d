# truth: a scheduler pass of the program drops the kernel that writes the argument
# stage: code
# seen: result 1: eager 6, compiled 0
import torch
import torch._inductor.config as inductor


def drop_mutations(nodes):
    return [node for node in nodes if not node.has_aliasing_or_mutation()]


def observe(count, x):
    count.add_(x.numel())  # <-
    return x.cumsum(0)


def main():
    inductor.fx_graph_cache = False
    inductor._pre_fusion_custom_pass = drop_mutations
    count, x = torch.zeros(1), torch.arange(6.0)
    return torch.compile(observe)(count, x), count


if __name__ == "__main__":
    print(main())
