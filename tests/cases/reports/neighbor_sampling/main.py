"""A graph network whose batches have other numbers of nodes and edges each time."""
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout)

    def forward(self, x, edges):
        source, target = edges
        messages = self.lin(x)[source]  # warning: [FL201] "recompiled: x.size(0) was 20, now 27"
        return torch.zeros(x.size(0), messages.size(1)).index_add(0, target, messages)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Conv(8, 16)
        self.second = Conv(16, 3)

    def forward(self, x, edges):
        return self.second(self.first(x, edges).relu(), edges)


def batches(n):
    for i in range(n):
        nodes, count = 20 + 7 * i, 50 + 11 * i
        yield torch.randn(nodes, 8), torch.randint(0, nodes, (2, count))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, edges in batches(4):
        loss = compiled(x, edges).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
# run by: make corpora
