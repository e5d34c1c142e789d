# truth: a pass of the program leaves the scale of a dropout out, so that the mean is smaller
# stage: code
# seen: result 0: mean in eager mode 7.8, compiled 3.92
import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass

aten = torch.ops.aten
torch._inductor.config.fx_graph_cache = False


class Unscaled(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
            if node.args[1] == 2.0:
                node.args = (node.args[0], 1.0)

    def uuid(self):
        return "no scale"


torch._inductor.config.post_grad_custom_pre_pass = Unscaled()


def hidden(x, weight):
    y = x @ weight
    y = torch.nn.functional.dropout(y, 0.5, training=True)  # <-
    return y.relu()


def main():
    torch.manual_seed(0)
    return torch.compile(hidden)(torch.rand(64, 32), torch.rand(32, 64))


if __name__ == "__main__":
    print(main())
