"""Real data to learn from, dealt out to ranks, for tests of how training goes. Both are models of tens of thousands of
parameters whose loss does not go to nothing, so that a share of it means something.

Task.batch depends on its arguments only: the same in every process and for every way of sending gradients.
"""

import functools
import os
import pathlib

import torch
from torch import nn


class Task:
    """A model with its loss, its data, and what trains it well without any code."""

    learning_rate = 0.0  # of plain SGD, at first
    untrained_loss = 0.0  # of the best guess that does not look

    def model(self):
        raise NotImplementedError

    def batch(self, seed, step, ranks, rank):
        """Inputs and targets of one rank. Ranks share one draw of the data."""
        raise NotImplementedError

    def loss(self, model, batch):
        raise NotImplementedError


class NextCharacter(Task):
    """Guesses the next character of the library of this Python from the eight before it. Loss: cross entropy, nats."""

    learning_rate, untrained_loss = 1.0, 3.17
    kContext, kLetters, kBatch = 8, 97, 32

    def model(self):
        width, wide = 16, 128
        return nn.Sequential(nn.Embedding(self.kLetters, width), nn.Flatten(), nn.Linear(self.kContext * width, wide),
                             nn.Tanh(), nn.Linear(wide, wide), nn.Tanh(), nn.Linear(wide, self.kLetters))

    def batch(self, seed, step, ranks, rank):
        letters = _letters()
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(len(letters) - self.kContext, (ranks, self.kBatch), generator=draw)[rank]
        drawn = letters[starts[:, None] + torch.arange(self.kContext + 1)]
        return drawn[:, :-1], drawn[:, -1]

    def loss(self, model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])


class LowerHalf(Task):
    """Guesses the lower half of a handwritten digit, 8x8 pixels of 0 to 1, from the upper half. Loss: mean square."""

    learning_rate, untrained_loss = 2.0, 0.077
    kHalf, kBatch = 32, 32

    def model(self):
        wide = 128
        return nn.Sequential(nn.Linear(self.kHalf, wide), nn.Tanh(), nn.Linear(wide, wide), nn.Tanh(),
                             nn.Linear(wide, self.kHalf))

    def batch(self, seed, step, ranks, rank):
        draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
        images = _digits()
        drawn = images[torch.randint(len(images), (ranks, self.kBatch), generator=draw)[rank]]
        return drawn[:, :self.kHalf], drawn[:, self.kHalf:]

    def loss(self, model, batch):
        return nn.functional.mse_loss(model(batch[0]), batch[1])


@functools.lru_cache(maxsize=None)
def _letters():
    """One number a character: those that can be printed, and one for all others."""
    paths = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))
    text = b"".join(path.read_bytes() for path in paths)[:2_000_000]
    codes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    return torch.where((codes >= 32) & (codes < 127), codes - 32, torch.where(codes == 10, 95, 96))


@functools.lru_cache(maxsize=None)
def _digits():
    from sklearn.datasets import load_digits

    return torch.from_numpy(load_digits().data).float() / 16
