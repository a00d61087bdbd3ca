"""Model, data, training and evaluation."""

import torch
from sklearn.datasets import load_digits
from torch import nn

TEST_SHARE = 0.2


class Net(nn.Module):
    """A small convolutional network for images of 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 16, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def load_data(partition: int, partitions: int) -> tuple:
    """The images and labels that a client trains on, and those it evaluates on."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    own = torch.arange(partition, len(labels), partitions)
    test = own[: int(TEST_SHARE * len(own))]
    train = own[len(test) :]
    return (images[train], labels[train]), (images[test], labels[test])


def train_model(
    model: Net, images: torch.Tensor, labels: torch.Tensor, epochs: int, rate: float, batch: int
) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(epochs):
        for rows in torch.randperm(len(labels)).split(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


def evaluate_model(model: Net, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    with torch.no_grad():
        scores = model(images)
        loss = nn.functional.cross_entropy(scores, labels).item()
    return loss, (scores.argmax(1) == labels).float().mean().item()
