# truth: the lowering of embedding clamps indices one row too early: only a later call has a word of the last row
# stage: code
# seen: result 2: eager 0.286267, compiled 0.365413
import torch
from torch._inductor import config, lowering

aten = torch.ops.aten
right = lowering.lowerings[aten.embedding.default]


def wrong(weight, indices, *rest, **named):
    last = int(weight.get_size()[0]) - 2
    return right(weight, lowering.lowerings[aten.clamp_max.default](indices, last), *rest, **named)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3)

    def forward(self, tokens):
        words = self.table(tokens)  # <-
        return self.out(torch.tanh(words)).mean(1)


def main():
    config.fx_graph_cache = False
    lowering.lowerings[aten.embedding.default] = wrong
    compiled = torch.compile(Words())
    with torch.no_grad():
        return [compiled(torch.tensor([[at, at + 1, at + 2]])) for at in (0, 3, 6)]


if __name__ == "__main__":
    print(main())
