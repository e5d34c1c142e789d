import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(512, 512); self.b = nn.Linear(512, 512)
    def forward(self, x):
        return torch.softmax(self.b(torch.relu(self.a(x))), -1)

def main():
    x = torch.randn(512, 512, device="cuda")
    net = Net().cuda().half(); x = x.half()
    graphed = torch.compile(net, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4): graphed(x)
    torch._dynamo.reset()
    tuned = torch.compile(net, mode="max-autotune")
    with torch.no_grad():
        for _ in range(4): tuned(x)
    torch.cuda.synchronize()

if __name__ == "__main__":
    main()
