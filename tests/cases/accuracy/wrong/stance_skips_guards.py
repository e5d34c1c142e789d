# truth: set_stance(skip_guard_eval_unsafe=True) runs a graph of the wrong branch
# stage: capture
# seen: result 1: eager 20, compiled 2
import torch


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        return x * self.scale  # <-


def main():
    head = Head()
    model = torch.compile(head)
    x = torch.tensor([1.0, 2.0])
    results = [model(x)]
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        head.scale = 10.0
        results.append(model(x))
    return results


if __name__ == "__main__":
    print(main())
