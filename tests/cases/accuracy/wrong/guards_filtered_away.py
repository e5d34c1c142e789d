# truth: the program's own guard filter drops the guard on a flag; the second call still runs the training branch
# stage: capture
# seen: result 1: eager 1.5, compiled 6
import torch

settings = {"training": True}


def forward(x):
    if settings["training"]:  # <-
        return x * 2.0
    return x * 0.5


def main():
    settings["training"] = True
    compiled = torch.compile(forward, options={"guard_filter_fn": lambda guards: [False for _ in guards]})
    x = torch.tensor([1.0, 3.0])
    training = compiled(x)
    settings["training"] = False
    return training, compiled(x)


if __name__ == "__main__":
    print(main())
