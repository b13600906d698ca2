"""The model of train_ddp.py: a transformer that guesses the next character of sentences made up by a little grammar.

Nothing here knows that there are several ranks, but for `make_batch`, which deals out the sequences of a step to them.
"""

import random

import torch
from torch import nn

CONTEXT = 32  # characters in a sequence
WORDS = [["the", "a", "no", "every"], ["old", "tall", "quiet", "green", "wide"],
         ["tree", "root", "river", "wind", "bird"], ["feeds", "follows", "crosses", "remembers", "leaves"],
         ["the", "one", "each"], ["branch", "forest", "shore", "sky"]]


def make_text(sentences=600):
    """Some 20 KB, the same in every process."""
    choice = random.Random(7).choice
    return "".join(" ".join(map(choice, WORDS)) + choice(".!?") + "\n" for _ in range(sentences))


TEXT = make_text()
ALPHABET = sorted(set(TEXT))
LETTERS = torch.tensor([ALPHABET.index(letter) for letter in TEXT])


def make_batch(seed, step, sequences, ranks, rank):
    """(characters, the character after each), both [sequences, CONTEXT], of one rank. Depends on the arguments only, so
    that training can be taken up again at any step. The ranks share one draw: two have the same only by chance."""
    draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(LETTERS) - CONTEXT, (ranks, sequences), generator=draw)[rank]
    drawn = torch.stack([LETTERS[start:start + CONTEXT + 1] for start in starts])
    return drawn[:, :-1], drawn[:, 1:]


class LanguageModel(nn.Module):
    """`layers` transformer blocks of `width` (a multiple of 64, or less than 128): some 12 layers width^2 weights."""

    def __init__(self, layers, width):
        super().__init__()
        self.letter, self.place = nn.Embedding(len(ALPHABET), width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, max(1, width // 64), 4 * width, dropout=0.0, batch_first=True,
                                       norm_first=True) for _ in range(layers))
        self.head = nn.Linear(width, len(ALPHABET))
        self.mask = torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), diagonal=1)

    def forward(self, letters, following):
        """The mean cross entropy of guessing `following`."""
        x = self.letter(letters) + self.place.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), following.flatten())
