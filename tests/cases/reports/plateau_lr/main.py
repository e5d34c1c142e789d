import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=16)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    # the learning rate is a tensor, so that the compiled step is not specialized on it
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(args.lr))
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=10.0)

    @torch.compile
    def optimizer_step():
        optimizer.step()  # info: [GB0025] "graph break: torch's optimizers break the graph here by design"

    for epoch in range(args.epochs):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer_step()
            total += loss.item()
        scheduler.step(total / len(loader))
        print(epoch, total / len(loader), float(optimizer.param_groups[0]["lr"]))


if __name__ == "__main__":
    main()
# run by: make corpora
