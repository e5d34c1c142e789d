import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, dim=16, batch=8):
        super().__init__()
        self.cell = nn.Linear(2 * dim, dim)
        self.register_buffer("state", torch.zeros(batch, dim))

    def forward(self, x):
        h = torch.tanh(self.cell(torch.cat([x, self.state], dim=-1)))
        # error: [FL301] "`x.size(0)` is fixed to 8 although it was marked dynamic"
        return h + x


if __name__ == "__main__":
    model = torch.compile(Recurrent())
    x = torch.randn(8, 16)
    torch._dynamo.mark_dynamic(x, 0)  # the batch size will vary
    print(model(x).shape)
# run by: make corpora
