# truth: a method that is replaced on its class after the first call is not noticed
# stage: capture
# seen: result 1: eager 0.995, compiled 0.95
import torch


class Schedule:
    def rate(self):
        return 0.1


schedule = Schedule()


def step(weight, grad):
    return weight - schedule.rate() * grad  # <-


def main():
    compiled = torch.compile(step)
    weight, grad = torch.ones(4), torch.full((4,), 0.5)
    first = compiled(weight, grad)
    Schedule.rate = lambda self: 0.01
    second = compiled(weight, grad)
    return first, second


if __name__ == "__main__":
    print(main())
