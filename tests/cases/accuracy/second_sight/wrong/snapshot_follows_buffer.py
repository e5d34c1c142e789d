# truth: a pass removes the copy of a buffer: the result of an earlier call changes when a later call writes the buffer
# stage: code
# seen: result 0: eager 1, compiled 4.25; result 2: eager 2.5, compiled 4.25
import torch
import torch._inductor.config as inductor


def without_copies(graph):
    for node in list(graph.nodes):
        if node.op == "call_method" and node.target == "clone":
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


class Averaged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("level", torch.zeros(4))

    def forward(self, x):
        self.level.mul_(0.5).add_(x)
        snapshot = self.level.clone()  # <-
        return snapshot, (x - self.level).square().sum()


def main():
    inductor.fx_graph_cache = False
    inductor.pre_grad_custom_pass = without_copies
    model = Averaged()
    compiled = torch.compile(model)
    with torch.no_grad():
        return [compiled(torch.full((4,), float(at))) for at in range(1, 4)]


if __name__ == "__main__":
    print(main())
