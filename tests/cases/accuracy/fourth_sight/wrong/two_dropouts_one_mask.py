# truth: a pass of the program gives each dropout the seed of the first one: the two masks are equal and the difference is zero
# stage: code
# seen: result 0: root mean square in eager mode 1.41, compiled 0
import torch
import torch._inductor.config
from torch._inductor.custom_graph_pass import CustomGraphPass

torch._inductor.config.fx_graph_cache = False
lookup = torch.ops.prims.inductor_lookup_seed.default


class OneSeed(CustomGraphPass):
    def __call__(self, graph):
        for node in graph.find_nodes(op="call_function", target=lookup):
            node.args = (node.args[0], 0)

    def uuid(self):
        return "one seed"


torch._inductor.config.post_grad_custom_post_pass = OneSeed()


def views(x):
    left = torch.nn.functional.dropout(x, 0.5, training=True)
    right = torch.nn.functional.dropout(x, 0.5, training=True)  # <-
    return left - right


def main():
    torch.manual_seed(0)
    return torch.compile(views)(torch.ones(64, 64))


if __name__ == "__main__":
    print(main())
