# truth: a module's class gets another forward after the first call; compiled code keeps the old one
# stage: capture
# seen: result 1: eager 3, compiled 2.85772
import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def hard_gate(self, x):
    return x * torch.clamp(x / 6 + 0.5, 0, 1)


def main():
    model = torch.nn.Sequential(Gate(), torch.nn.Identity())
    compiled = torch.compile(model)
    x = torch.linspace(-4, 4, 9)
    soft = compiled(x)
    Gate.forward = hard_gate
    hard = compiled(x)  # <-
    return soft, hard


if __name__ == "__main__":
    print(main())
