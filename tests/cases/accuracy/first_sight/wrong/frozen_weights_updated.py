# truth: with freezing, weights are constants of the code; they are changed in place after the first call
# stage: code
# seen: result 1: eager 0.540708, compiled 0.146851
import torch
import torch._inductor.config as inductor


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.project = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.relu(self.project(x))  # <-


def main():
    inductor.freezing = True
    inductor.fx_graph_cache = False
    model = Head().eval()
    compiled = torch.compile(model)
    x = torch.linspace(-1, 1, 16).reshape(2, 8)
    with torch.no_grad():
        first = compiled(x)
        model.project.weight.mul_(2.0)
        second = compiled(x)
    return first, second


if __name__ == "__main__":
    print(main())
