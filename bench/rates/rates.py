#!/usr/bin/env python3
"""Rates of codecs on real weights, KV blocks and optimizer state, and what they cost a model: train_lm.py makes FOLDER.

rates.py PROGRAM FOLDER [table|loss]   PROGRAM: bench/rates/code_tensor.cc, compiled (its first lines say how)
"""
import glob, math, os, subprocess, sys, tempfile
import numpy as np, torch
from train_lm import Model, loss_of

PROGRAM, FOLDER = sys.argv[1:3]
SPOT = tempfile.mkdtemp()


def coded(values, codec):
    """What the codec makes of a matrix, and the bits of a value."""
    values = np.ascontiguousarray(values, np.float32)
    values.tofile(SPOT + '/in')
    bytes_ = subprocess.run([PROGRAM, SPOT + '/in', str(values.shape[-1]), codec, SPOT + '/out'], check=True,
                            capture_output=True, text=True).stdout
    return np.fromfile(SPOT + '/out', np.float32).reshape(values.shape), 8 * int(bytes_) / values.size


def cosines(n):
    m = np.sqrt(2 / n) * np.cos(np.pi * (np.arange(n) + .5) * np.arange(n)[:, None] / n)
    m[0] /= np.sqrt(2)
    return m


def coded_by_transform(values, rate, n):
    """A cosine transform of n x n blocks before the same coder: a row for each frequency."""
    m, (r, c) = cosines(n), values.shape
    blocks = values.reshape(r // n, n, c // n, n).astype(float)
    bands = np.einsum('ij,xjyk,lk->ilxy', m, blocks, m)
    out, bits = coded(bands.reshape(n * n, -1), f'rate:{rate}')
    return np.einsum('ij,ilxy,lk->xjyk', m, out.reshape(bands.shape), m).reshape(r, c), bits


def decibels(values, others):
    values = values.astype(float)
    return -10 * math.log10(((values - others) ** 2).sum() / (values ** 2).sum())


def tensors():
    found = {}
    for file in sorted(glob.glob(FOLDER + '/*.np[yz]')):
        loaded = np.load(file)
        found.update(loaded if file.endswith('z') else {os.path.basename(file)[:-4]: loaded})
    return found


def model_of(found):
    names = {name: torch.tensor(value) for name, value in found.items() if 'exp_avg' not in name and name != 'held'}
    width, layers = names['head.weight'].shape[1], len({n.split('.')[1] for n in names if n.startswith('layers')})
    model = Model(width, layers, len(names['place.weight']))
    model.load_state_dict(names)
    return model.eval()


def main(what):
    found = tensors()
    model = model_of(found)
    context = len(found['place.weight'])
    text = torch.tensor(found['held'][:16 * (context + 1)]).long().view(16, -1)
    if what == 'table':
        layer = model.layers[0]
        with torch.no_grad():
            x = layer.norm1(model.token(text[:, :-1]) + model.place.weight)
            kv = (x @ layer.self_attn.in_proj_weight.T + layer.self_attn.in_proj_bias).flatten(0, 1).numpy()
        width = kv.shape[1] // 3
        rows = {'linear1': found['layers.1.linear1.weight'], 'in_proj': found['layers.1.self_attn.in_proj_weight'],
                'K': kv[:, width:2 * width], 'V': kv[:, 2 * width:]}
        rows.update({key: found['layers.1.linear1.weight.' + key] for key in ('exp_avg', 'exp_avg_sq')})
        for name, values in rows.items():
            for codec in ('int4', 'mxfp4', 'int8'):
                out, bits = coded(values, codec)
                print(f'{name:10} {codec:8} {bits:.2f} bits {decibels(values, out):6.1f} dB')
            for codec in ('rate', 'zfp1', 'zfp2', 'dct8', 'dct32'):
                cells = []
                for rate in (2, 3, 4, 6, 8):
                    dct = codec.startswith('dct')
                    out, bits = (coded_by_transform(values, rate, int(codec[3:])) if dct
                                 else coded(values, f'{codec}:{rate}'))
                    cells.append(f'{bits:.2f} {decibels(values, out):6.1f} dB')
                print(f'{name:10} {codec:8} ' + '  '.join(cells), flush=True)
    else:
        with torch.no_grad():
            print('float32', loss_of(model, text).item(), flush=True)
            for codec in sys.argv[4:] or ['rate:2', 'rate:3', 'rate:4', 'int4', 'mxfp4', 'zfp2:4', 'zfp2:6', 'int8']:
                other, size, count = model_of(found), 0, 0
                for parameter in other.parameters():
                    if parameter.dim() == 2:
                        out, bits = coded(parameter.numpy(), codec)
                        parameter.copy_(torch.tensor(out))
                        size, count = size + bits * out.size, count + out.size
                print(f'{codec}: {size / count:.2f} bits a weight, loss {loss_of(other, text).item():.4f}', flush=True)


if __name__ == '__main__':
    main(sys.argv[3])
