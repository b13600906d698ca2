#!/usr/bin/env python3
"""A small language model, trained with DistributedDataParallel, that goes on after a worker was killed.

  torchrun --nproc_per_node 2 train_ddp.py                  # over Banyan, whose Python package is in PYTHONPATH
  torchrun --nproc_per_node 2 train_ddp.py --backend gloo   # the same losses, to rounding
  torchrun --nproc_per_node 2 --max_restarts=3 train_ddp.py --checkpoint model.pt --die-at 50  # one is killed, once

The same seed gives the same losses, bit for bit, also when the run was interrupted: with --compress, too, whose state
on each rank is in the checkpoint, but for codes that round at random. All hosts must see the file of the checkpoint.
README.md says how to start it without torchrun, and what to do about Debian 12's torchrun.
"""

import argparse
import functools
import json
import os
import signal
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from exchange_time import describe_exchange
from language_model import CONTEXT, LanguageModel, make_batch

REPORT_EVERY = 20  # steps; checkpoints are written as often


class Trainer:
    """A replica of the model and its optimizer. `step` gives the loss of this rank's sequences before the update.

    compress(model), if any, has DDP send its gradients in fewer bytes."""

    def __init__(self, layers, width, sequences, seed, group=None, compress=None):
        self.sequences, self.seed, self.group = sequences, seed, group
        torch.manual_seed(seed)
        self.model = DDP(LanguageModel(layers, width), process_group=group, gradient_as_bucket_view=True)
        self.compression = compress(self.model) if compress else None
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.step(0, update=False)  # DDP settles on its buckets, thus on an order of sums: always before what counts
        if self.compression is not None:
            self.compression.scale_(0)  # what that has lost belongs to no step

    def step(self, number, update=True):
        self.optimizer.zero_grad()
        loss = self.model(*make_batch(self.seed, number, self.sequences, dist.get_world_size(), dist.get_rank()))
        loss.backward()
        if update:
            self.optimizer.step()
        return loss.item()


def write_whole(path, write):
    """Writes a file that is there whole or not at all, whenever this process is killed."""
    with open(path + ".new", "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def states_of_compression(trainer):
    """On rank 0 those of all ranks, as each has lost something else; nothing without a code."""
    if trainer.compression is None:
        return []
    states = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(trainer.compression.state_dict(), states)
    return states


def load_compression(trainer, states, path):
    """Of this rank. Ends the program where the checkpoint is of another training."""
    wanted = 0 if trainer.compression is None else dist.get_world_size()
    if len(states) != wanted:
        sys.exit(f"train_ddp.py: {path} has the compression of {len(states)} ranks instead of {wanted}: go on with as "
                 "many ranks as before, and with the same --compress")
    if wanted:
        trainer.compression.load_state_dict(states[dist.get_rank()])


def train(trainer, arguments):
    """Takes up the checkpoint, if there is one, and trains to the last step. Gives the losses, a row per step and a
    number per rank, and the seconds of the steps made here."""
    rank, ranks, losses, seconds = dist.get_rank(), dist.get_world_size(), [], []
    model, optimizer, path = trainer.model.module, trainer.optimizer, arguments.checkpoint
    if path and os.path.exists(path):  # for all ranks the same file: none is written before all are past this
        weights, moments, losses, compressions = torch.load(path)
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        load_compression(trainer, compressions, path)
        print(f"rank {rank} goes on at step {len(losses)}", flush=True)
    while len(losses) < arguments.steps:
        mine = []
        for step in range(len(losses), min(len(losses) + REPORT_EVERY, arguments.steps)):
            if step == arguments.die_at and rank == ranks - 1 and os.getenv("TORCHELASTIC_RESTART_COUNT", "0") == "0":
                os.kill(os.getpid(), signal.SIGKILL)
            begin = time.perf_counter()
            mine.append(trainer.step(step))
            seconds.append(time.perf_counter() - begin)
        everyone = [torch.empty(len(mine), dtype=torch.float64) for _ in range(ranks)]
        dist.all_gather(everyone, torch.tensor(mine, dtype=torch.float64))
        losses += torch.stack(everyone, dim=1).tolist()
        if rank == 0:
            speed = len(mine) * ranks * trainer.sequences * CONTEXT / sum(seconds[-len(mine):])
            print(f"step {len(losses)}: loss {statistics.fmean(losses[-1]):.4f}, {speed:,.0f} tokens/s", flush=True)
        compressions = states_of_compression(trainer) if path else []
        if rank == 0 and path:
            state = model.state_dict(), optimizer.state_dict(), losses, compressions
            write_whole(path, lambda file: torch.save(state, file))
    return losses, seconds


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["banyan", "gloo"], default="banyan")
    for name, default in {"--steps": 200, "--layers": 2, "--width": 128, "--batch": 2, "--seed": 1}.items():
        parser.add_argument(name, type=int, default=default, help=f"default {default}")
    parser.add_argument("--checkpoint", metavar="FILE", help=f"goes on from there; written every {REPORT_EVERY} steps")
    parser.add_argument("--losses", metavar="FILE", help="all losses in full precision, as JSON")
    parser.add_argument("--die-at", type=int, metavar="STEP", help="the last rank kills itself there, unless restarted")
    parser.add_argument("--shared-memory", action="store_true", help="tensors that all ranks of a host see (Banyan)")
    parser.add_argument("--compress", metavar="CODEC",
                        help="of gradients between hosts, such as int8 or powersgd:4 (Banyan)")
    parser.add_argument("--fabric", metavar="FILE", help="the network to plan for (Banyan)")
    arguments = parser.parse_args()
    if arguments.compress and arguments.backend != "banyan":
        parser.error("--compress is of the backend banyan")
    return arguments


def main():
    arguments, options, compress = parse_arguments(), None, None
    if arguments.backend == "banyan":
        import banyan_torch  # makes the backend known
        banyan_torch.use_shared_memory(arguments.shared_memory)
        options = banyan_torch.Options(fabric=arguments.fabric) if arguments.fabric else None
        if arguments.compress:
            compress = functools.partial(banyan_torch.compress, codec=arguments.compress)
    torch.set_num_threads(1)  # as under torchrun
    dist.init_process_group(arguments.backend, pg_options=options)
    trainer = Trainer(arguments.layers, arguments.width, arguments.batch, arguments.seed, compress=compress)
    losses, seconds = train(trainer, arguments)
    exchange = describe_exchange(trainer)
    if dist.get_rank() == 0:
        print(f"mean step: {statistics.fmean(seconds or [0]) * 1e3:.2f} ms over {len(seconds)} steps\n{exchange}")
        if arguments.losses:
            write_whole(arguments.losses, lambda file: file.write(json.dumps(losses).encode()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
