"""Small models, their data by rank and step, and training without any communication, to compare with."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from data import tensor_of

kFeatures, kBatch = 12, 6


class Net(nn.Module):
    """A perceptron of two hidden layers; parameters have odd sizes, so that buckets do not end on round numbers."""

    def __init__(self, width=17, dtype=torch.float32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(kFeatures, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                    nn.Linear(width, 3)).to(dtype)

    def forward(self, x):
        return self.layers(x)


class Mixed(nn.Module):
    """Layers of several types."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(kFeatures, 9)
        self.second = nn.Linear(9, 7).double()
        self.third = nn.Linear(7, 3)

    def forward(self, x):
        return self.third(self.second(torch.tanh(self.first(x)).double()).float())


class Branches(nn.Module):
    """Uses one of two layers, by what the step says."""

    def __init__(self):
        super().__init__()
        self.start = nn.Linear(kFeatures, 8)
        self.even, self.odd = nn.Linear(8, 3), nn.Linear(8, 3)
        self.use_odd = False

    def forward(self, x):
        return (self.odd if self.use_odd else self.even)(torch.tanh(self.start(x)))


class Words(nn.Module):
    """An embedding with sparse gradients."""

    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(50, 8, sparse=True, mode="sum")
        self.end = nn.Linear(8, 3)

    def forward(self, x):
        return self.end(self.table((x * 2).long().abs() + 7 * torch.arange(x.shape[1]) % 43))


def made(kind, *arguments, **values):
    """The same model in every process and every call."""
    torch.manual_seed(11)
    return kind(*arguments, **values)


def parallel(model, small_buckets=False, **options):
    """A copy of `model` in DistributedDataParallel. Small buckets have about 130 floats, so that a model has many."""
    model = copy.deepcopy(model)
    if not small_buckets:
        return DistributedDataParallel(model, **options)
    before = dist._DEFAULT_FIRST_BUCKET_BYTES  # 1 MiB, whatever bucket_cap_mb says
    dist._DEFAULT_FIRST_BUCKET_BYTES = 500
    try:
        return DistributedDataParallel(model, bucket_cap_mb=0.0005, **options)
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = before


def batch_of(rank, step):
    """Inputs and targets of one rank in one step."""
    return tensor_of(rank, (kBatch, kFeatures), salt=2 * step), tensor_of(rank, (kBatch, 3), salt=2 * step + 1)


def loss_of(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def train(model, optimizer, batches):
    """One step per batch; returns the losses."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def trained_serially(model, world, steps, make_optimizer=sgd, ranks_of_step=None):
    """A copy of `model`, trained on the batches of all ranks: the mean of their losses, in one process.

    ranks_of_step(step): the ranks that still have a batch; the mean counts the others as zeros.
    """
    model = copy.deepcopy(model)
    optimizer = make_optimizer(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for rank in ranks_of_step(step) if ranks_of_step else range(world):
            (loss_of(model, batch_of(rank, step)) / world).backward()
        optimizer.step()
    return model
