# pytorch/pytorch#121902, #118742: weight norm and spectral norm by parametrization
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


class Critic(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.conv = weight_norm(nn.Conv1d(2, dim, 3, padding=1))
        self.score = spectral_norm(nn.Linear(dim, 1))

    def forward(self, x):  # info: [FL201] "recompiled: grad mode was on, now off"
        return self.score(torch.relu(self.conv(x)).mean(-1))


if __name__ == "__main__":
    torch.manual_seed(0)
    critic = Critic()
    compiled = torch.compile(critic)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.05)
    for _ in range(3):
        real, fake = torch.randn(4, 2, 16), torch.rand(4, 2, 16)
        loss = compiled(fake).mean() - compiled(real).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    critic.eval()
    with torch.no_grad():
        print(compiled(real).mean().item())
# run by: make corpora
