# truth: an attribute counts in Python; compiled code follows it by a guard and by writing it back
# stage: none
# seen: no difference beyond rounding
import torch


class Stepper:
    def __init__(self):
        self.steps = 0

    def __call__(self, x):
        self.steps += 1
        return x / self.steps


def main():
    stepper = Stepper()
    compiled = torch.compile(lambda x: stepper(x))
    return [compiled(torch.ones(2)) for _ in range(4)], stepper.steps


if __name__ == "__main__":
    print(main())
