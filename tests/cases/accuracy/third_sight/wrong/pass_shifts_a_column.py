# truth: a pass of the program writes the column after the one that the assignment names
# stage: code
# seen: result 0: off by up to 39
import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass

aten = torch.ops.aten
torch._inductor.config.fx_graph_cache = False


class Shift(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=aten.select_scatter.default):
            node.args = (*node.args[:3], node.args[3] + 1)

    def uuid(self):
        return "shift of a column"


torch._inductor.config.post_grad_custom_pre_pass = Shift()


def marked(table, flag):
    result = table * 2
    result[:, 1] = flag  # <-
    return result.cumsum(0)


def main():
    return torch.compile(marked)(torch.arange(12.0).reshape(3, 4), torch.full((3,), -1.0))


if __name__ == "__main__":
    print(main())
