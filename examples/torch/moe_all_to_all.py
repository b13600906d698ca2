#!/usr/bin/env python3
"""Trains a mixture of experts that live on different ranks: tokens travel by all_to_all_single, there and back.

  torchrun --nproc_per_node 2 moe_all_to_all.py                          # over Banyan, its package in PYTHONPATH
  torchrun --nproc_per_node 2 moe_all_to_all.py --backend gloo --check   # and compares with all experts on one rank

Ranks send each other uneven parts, other ones at each step, and the gradients of the backward pass travel the same ways
back: see moe_layer.py. README.md says how to start it without torchrun, and what to do about Debian 12's torchrun.
"""

import argparse
import sys
import time

import torch
import torch.distributed as dist

from moe_layer import Exchange, MixtureOfExperts

WIDTH, TOKENS, EXPERTS = 64, 512, 2  # numbers in a token; tokens of a rank in a step; experts of a rank


def make_batch(seed, step, ranks):
    """(tokens, targets), each [ranks, TOKENS, WIDTH]. A token is of one of four kinds, with a centre and a map each."""
    draw = torch.Generator().manual_seed(seed)
    centres, maps = torch.randn(4, WIDTH, generator=draw), torch.randn(4, WIDTH, WIDTH, generator=draw)
    draw.manual_seed(seed * 1_000_003 + step + 1)
    kinds = torch.randint(4, (ranks, TOKENS), generator=draw)
    tokens = centres[kinds] + 0.3 * torch.randn(ranks, TOKENS, WIDTH, generator=draw)
    return tokens, sum((kinds == kind)[..., None] * (tokens @ maps[kind]) for kind in range(4)) / WIDTH ** 0.5


def train(model, forward, arguments, parts):
    """Trains with those ranks' parts of each batch, and gives the losses over the whole of it."""
    optimizer, losses, ranks = torch.optim.Adam(model.parameters(), lr=3e-3), [], dist.get_world_size()
    for step in range(arguments.steps):
        tokens, targets = (whole[parts].flatten(0, 1) for whole in make_batch(arguments.seed, step, ranks))
        optimizer.zero_grad()
        loss = (forward(tokens) - targets).square().sum() / (ranks * TOKENS * WIDTH)
        loss.backward()
        loss = loss.detach()
        if len(parts) < ranks:
            for tensor in [loss, *(parameter.grad for parameter in model.router.parameters())]:
                dist.all_reduce(tensor)
        optimizer.step()
        losses.append(loss.item())
    return losses


def difference_from_one_rank(model, losses, arguments):
    """Trains all experts on every rank for itself; gives the greatest difference of any loss or weight on any rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    alone = MixtureOfExperts(arguments.seed, WIDTH, EXPERTS * ranks, range(EXPERTS * ranks))
    wanted = train(alone, alone.forward_alone, arguments, list(range(ranks)))
    pairs = [(torch.tensor(losses), torch.tensor(wanted))]
    for module, other in zip([model.router, *model.experts], [alone.router, *alone.experts[EXPERTS * rank:]]):
        pairs += zip(module.parameters(), other.parameters())
    worst = torch.stack([(one - other).abs().max() for one, other in pairs]).max().detach()
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return worst.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["banyan", "gloo"], default="banyan")
    parser.add_argument("--steps", type=int, default=100, help="default 100")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--check", action="store_true", help="trains all experts on one rank, too, and compares")
    arguments = parser.parse_args()
    if arguments.backend == "banyan":
        import banyan_torch  # noqa: F401, makes the backend known
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64 if arguments.check else torch.float32)  # rounding may change a token's way
    dist.init_process_group(arguments.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = MixtureOfExperts(arguments.seed, WIDTH, EXPERTS * ranks, range(EXPERTS * rank, EXPERTS * (rank + 1)))
    begin = time.perf_counter()
    losses = train(model, model.forward, arguments, [rank])
    per_step = 1e3 / arguments.steps
    if rank == 0:
        for step in sorted({*range(0, arguments.steps, 20), arguments.steps - 1}):
            print(f"step {step}: loss {losses[step]:.4f}")
        print(f"{(time.perf_counter() - begin) * per_step:.2f} ms per step, {Exchange.seconds * per_step:.2f} ms of it "
              f"in exchanges, which brought {Exchange.rows} tokens and gradients to rank 0 from other ranks")
    worst = difference_from_one_rank(model, losses, arguments) if arguments.check else 0.0
    if rank == 0 and arguments.check:
        print(f"{'equal to' if worst < 1e-9 else 'DIFFERENT from'} all experts on one rank: losses and weights, within "
              f"{worst:.1e}")
    dist.destroy_process_group()
    return 0 if worst < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
