# truth: the step of Adam is compiled, with its state kept in the optimizer
# stage: none
# seen: no difference beyond rounding
import torch


def main():
    torch.manual_seed(2)
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=torch.tensor(0.01), capturable=False, foreach=False)

    @torch.compile
    def step():
        optimizer.step()

    x = torch.arange(12.0).reshape(4, 3) / 12
    for _ in range(3):
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        step()
    return [parameter.detach() for parameter in layer.parameters()]


if __name__ == "__main__":
    print(main())
