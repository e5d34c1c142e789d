# pytorch/pytorch#173452: hooks capture activations for distillation, but not under a compiled model
import torch
from torch import nn


class Captured:
    def __init__(self, model):
        self.activations = {}
        for index, block in enumerate(model):
            block.register_forward_hook(self.hook(index))

    def hook(self, index):
        def capture(module, args, output):
            if torch.compiler.is_compiling():
                return
            self.activations[index] = output

        return capture


def network(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 8))


if __name__ == "__main__":
    torch.manual_seed(0)
    teacher, student = network(32), network(32)
    seen, wanted = Captured(student), Captured(teacher)
    student_fast = torch.compile(student)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(4, 8)
        with torch.no_grad():
            target = teacher(x)
        loss = nn.functional.mse_loss(student_fast(x), target)
        for index, activation in seen.activations.items():
            loss = loss + nn.functional.mse_loss(activation, wanted.activations[index])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(len(seen.activations), len(wanted.activations))
# run by: make corpora
