#!/usr/bin/env python3
"""A small language model of bytes, trained on the Python sources of this machine, for rates.py: its weights, the state
of its optimizer, and a text that it has not seen.   train_lm.py FOLDER [WIDTH LAYERS CONTEXT STEPS]"""
import glob, math, os, random, sys
import numpy as np, torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width, layers, context):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(
            width, width // 32, 4 * width, 0., 'gelu', batch_first=True, norm_first=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, text):
        x = self.token(text) + self.place.weight[:text.shape[1]]
        mask = torch.full(2 * text.shape[1:], -1e4, device=x.device).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def loss_of(model, text):
    return nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def main(folder, width=192, layers=4, context=128, steps=1000):
    torch.manual_seed(1)
    files = sorted(glob.glob(os.path.dirname(os.__file__) + '/**/*.py', recursive=True))
    random.Random(1).shuffle(files)
    data = torch.tensor(np.frombuffer(b''.join(open(f, 'rb').read() for f in files), np.uint8))
    np.save(folder + '/held.npy', data[-1 << 18:].numpy())
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    data, model = data[:-1 << 18].to(device), Model(width, layers, context).to(device)
    adam = torch.optim.AdamW(model.parameters(), betas=(.9, .95), weight_decay=.1)
    for step in range(steps):
        adam.param_groups[0]['lr'] = 1e-3 * min(1, step / 100) * (.55 + .45 * math.cos(math.pi * step / steps))
        at = torch.randint(len(data) - context, (32, 1), device=device)
        loss = loss_of(model, data[at + torch.arange(context + 1, device=device)].long())
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 200 == 199:
            print(step + 1, loss.item(), flush=True)
    for name, p in model.named_parameters():
        np.save(f'{folder}/{name}.npy', p.detach().cpu().numpy())
        for key in ('exp_avg', 'exp_avg_sq'):
            np.save(f'{folder}/{name}.{key}.npy', adam.state[p][key].cpu().numpy())


if __name__ == '__main__':
    main(sys.argv[1], *map(int, sys.argv[2:]))
