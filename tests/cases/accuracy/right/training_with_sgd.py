# truth: twenty steps of SGD with momentum; weights differ by rounding that steps carry on
# stage: none
# seen: no difference beyond rounding
import torch


def main():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = torch.linspace(-1, 1, 64).reshape(16, 4)
    for _ in range(20):
        optimizer.zero_grad()
        loss = (compiled(x) - x.sum(-1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach(), [parameter.detach() for parameter in model.parameters()]


if __name__ == "__main__":
    print(main())
