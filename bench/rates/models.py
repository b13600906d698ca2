#!/usr/bin/env python3
"""What `banyan compress --bits` makes of the weights of three small real models, beside int4 and zfp at equal error.

  python3 bench/rates/models.py make FOLDER           # trains them, some minutes on one core
  python3 bench/rates/models.py compare build FOLDER  # a table, and what the coded weights cost the first model

  language   a transformer of bytes, trained on the sources of Python's standard library
  words      vectors of the words of these sources, by skip-grams with negative samples
  digits     a convolutional network for scikit-learn's handwritten digits

Of each matrix: the error of int4 (root mean square, relative to that of the values), and the bytes of each coder at
that error. zfp is given the best of what it has: a fixed accuracy, of the matrix as it is, or as one line. Vectors are
left out, since none of them codes these. Needs python3-torch, python3-zfpy and python3-sklearn of Debian.
"""

import argparse
import glob
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

MODELS = ("language", "words", "digits")
BITS = [round(2 + 0.1 * step, 1) for step in range(51)]  # of which that at int4's error is between two


# ---- Models ----


class Language(nn.Module):
    def __init__(self, width=96, layers=2, context=64):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(
            width, width // 32, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, text):
        x = self.token(text) + self.place.weight[:text.shape[1]]
        mask = torch.full(2 * text.shape[1:], -1e4).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))

    def loss(self, text):
        return nn.functional.cross_entropy(self(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def sources():
    files = sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py"))
    random.Random(1).shuffle(files)
    return b"".join(pathlib.Path(name).read_bytes() for name in files)


def text_in_rows(data, context=64, rows=64):
    return torch.tensor(np.frombuffer(data[:rows * (context + 1)], np.uint8)).long().view(rows, -1)


def train(model, loss_of_step, steps, rate):
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1, step / 50) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
        loss = loss_of_step(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.4f}", file=sys.stderr, flush=True)
    return model


def make_language(context=64):
    data = torch.tensor(np.frombuffer(sources()[1 << 16:], np.uint8))
    model = Language()

    def loss(_):
        at = torch.randint(len(data) - context, (16, 1))
        return model.loss(data[at + torch.arange(context + 1)].long())

    return train(model, loss, 500, 2e-3)


def make_words(vocabulary=6000, width=64, window=4):
    text = re.findall(r"[a-zA-Z_]{3,}", sources().decode("utf-8", "replace"))
    counts = {}
    for word in text:
        counts[word] = counts.get(word, 0) + 1
    numbers = {word: i for i, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word))[:vocabulary])}
    stream = torch.tensor([numbers[word] for word in text if word in numbers])
    model = nn.ModuleDict({"inner": nn.Embedding(vocabulary, width), "outer": nn.Embedding(vocabulary, width)})
    for table in model.values():
        nn.init.normal_(table.weight, std=0.1)

    def loss(_):
        at = torch.randint(window, len(stream) - window, (2048,))
        away = torch.randint(1, window + 1, at.shape) * (2 * torch.randint(0, 2, at.shape) - 1)
        x = model["inner"](stream[at])
        near = (x * model["outer"](stream[at + away])).sum(1)
        far = torch.einsum("nw,nkw->nk", x, model["outer"](stream[torch.randint(len(stream), (2048, 5))]))
        return -(nn.functional.logsigmoid(near) + nn.functional.logsigmoid(-far).sum(1)).mean()

    return train(model, loss, 1000, 5e-3)


def make_digits():
    from sklearn.datasets import load_digits
    digits = load_digits()
    images, labels = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None], torch.tensor(digits.target).long()
    model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))

    def loss(_):
        at = torch.randint(1500, (64,))
        return nn.functional.cross_entropy(model(images[at]), labels[at])

    train(model, loss, 300, 1e-3)
    with torch.no_grad():
        right = (model(images[1500:]).argmax(1) == labels[1500:]).float().mean().item()
    print(f"digits: {right:.1%} of those that were not trained with", file=sys.stderr)
    return model


# ---- Files ----


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.detach().contiguous().numpy().astype("<f4").tobytes()
        begin, data = len(data), data + values
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return {name: np.frombuffer(data[8 + length:][slice(*each["data_offsets"])], "<f4").reshape(each["shape"])
            for name, each in json.loads(data[8:8 + length]).items()}


# ---- Coders ----


def relative_error(values, others):
    values = values.astype(float)
    return math.sqrt(((values - others) ** 2).sum() / (values ** 2).sum())


def bytes_at(error, points):
    """Between two of (error, bytes): bytes go with the logarithm of the error."""
    points = sorted(points)
    for (small, more), (large, fewer) in zip(points, points[1:]):
        if small <= error <= large:
            part = math.log(error / small) / math.log(large / small)
            return more + part * (fewer - more)
    raise ValueError(f"an error of {error} is outside of {points[0]} to {points[-1]}")


def by_zfp(values, error):
    import zfpy

    def coded(shaped, tolerance):
        packed = zfpy.compress_numpy(shaped, tolerance=tolerance)
        return relative_error(shaped, zfpy.decompress_numpy(packed)), len(packed)

    best = None
    matrix = np.ascontiguousarray(values.reshape(values.shape[0], -1))
    for shaped in (matrix, matrix.reshape(-1)):
        # Tolerances are powers of two to zfp: of which the error is between two.
        scale = math.sqrt((values.astype(float) ** 2).mean())
        points = [coded(shaped, scale * 2.0 ** power) for power in range(-6, 6)]
        points = [(found, size) for found, size in dict(points).items() if found > 0]
        size = bytes_at(error, points)
        best = size if best is None else min(best, size)
    return best


def told(banyan, *words):
    return json.loads(subprocess.run([banyan, "compress", *map(str, words), "--json"], check=True, capture_output=True,
                                     text=True).stdout)


def compare(build, folder):
    banyan = str(build / "banyan")
    print("| model | values | error of int4 | int4, bits a value | zfp | ours | fewer than int4 | than zfp |\n"
          "|---|---|---|---|---|---|---|---|")
    for name in MODELS:
        path = folder / f"{name}.safetensors"
        count, sizes, squares, energy = 0, {"int4": 0, "zfp": 0, "ours": 0}, 0.0, 0.0
        for tensor, values in read_safetensors(path).items():
            if values.ndim < 2:
                continue
            codecs = told(banyan, path, "--tensor", tensor, "--bits", ",".join(map(str, BITS)))["codecs"]
            int4 = next(each for each in codecs if each["codec"] == "int4")
            count += values.size
            sizes["int4"] += int4["bytes"]
            sizes["ours"] += bytes_at(int4["error"], [(each["error"], each["bytes"]) for each in codecs
                                                      if each["codec"].startswith("rate:")])
            sizes["zfp"] += by_zfp(values, int4["error"])
            energy += float((values.astype(float) ** 2).sum())
            squares += int4["error"] ** 2 * float((values.astype(float) ** 2).sum())
        bits = {coder: 8 * size / count for coder, size in sizes.items()}
        print(f"| {name} | {count:,} | {100 * math.sqrt(squares / energy):.1f} % | {bits['int4']:.2f} | "
              f"{bits['zfp']:.2f} | {bits['ours']:.2f} | {1 - bits['ours'] / bits['int4']:.0%} | "
              f"{1 - bits['ours'] / bits['zfp']:.0%} |", flush=True)
    losses(banyan, folder)


def losses(banyan, folder):
    """Of the language model on text that it has not seen, with its weights as they are and packed."""
    text, path = text_in_rows(sources()[:1 << 16]), folder / "language.safetensors"

    def loss(of):
        model = Language()
        model.load_state_dict({name: torch.tensor(values.copy()) for name, values in read_safetensors(of).items()})
        with torch.no_grad():
            return model.eval().loss(text).item()

    print(f"\nloss of the language model: float32 {loss(path):.4f}", end="")
    with tempfile.TemporaryDirectory() as spot:
        packed, back = pathlib.Path(spot, "packed"), pathlib.Path(spot, "back.safetensors")
        for bits in (2, 3, 4, 6):
            size = told(banyan, path, "--bits", bits, "-o", packed)["packed_bytes"]
            subprocess.run([banyan, "decompress", packed, "-o", back], check=True, capture_output=True)
            print(f"; {bits} bits {loss(back):.4f} (file {path.stat().st_size / size:.1f} times smaller)", end="")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make").add_argument("folder", type=pathlib.Path)
    comparison = commands.add_parser("compare")
    for name in ("build", "folder"):
        comparison.add_argument(name, type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.command == "compare":
        return compare(arguments.build, arguments.folder)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, make in zip(MODELS, (make_language, make_words, make_digits)):
        torch.manual_seed(1)
        write_safetensors(arguments.folder / f"{name}.safetensors", dict(make().named_parameters()))
    return None


if __name__ == "__main__":
    main()
