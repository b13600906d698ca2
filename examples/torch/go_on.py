"""DistributedDataParallel that goes on when a rank dies: the others go on without it, in the same processes.

    banyan run -n 4 --keep-going -- python3 examples/torch/go_on.py --die 2:10

Rank 2 is killed in step 10. The others catch banyan_torch.Error, learn their new ranks from banyan_torch.survivors(),
make a new group, take the state of the new rank 0, and train on. A launcher that ends all ranks when one has failed
(`banyan run` without --keep-going, torchrun, srun with --kill-on-bad-exit) must be told not to.
"""

import argparse
import gc
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import banyan_torch


def parse_arguments():
    parser = argparse.ArgumentParser(description="trains on when a rank dies")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--die", default="", metavar="RANK:STEP", help="rank RANK is killed in step STEP")
    parser.add_argument("--backend", default="banyan", choices=["banyan"], help="no other has survivors()")
    return parser.parse_args()


class Training:
    """A model, its optimizer, and how far it has come. All ranks have the same after each step."""

    def __init__(self):
        torch.manual_seed(1)
        self.module = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.05, momentum=0.9)
        self.steps = 0
        self.model = None

    def begin(self):
        """In a group that has just been made: all take the state of rank 0."""
        state = [(self.steps, self.optimizer.state_dict())]
        dist.broadcast_object_list(state, 0)
        self.steps, optimizer = state[0]
        self.optimizer.load_state_dict(optimizer)
        self.model = DistributedDataParallel(self.module)  # which sends the parameters of rank 0 to all

    def step(self):
        """One step, each rank with samples of its own. What raises has changed nothing that begin() does not mend."""
        samples = torch.Generator().manual_seed(1000 * self.steps + dist.get_rank())
        inputs = torch.randn(32, 16, generator=samples)
        loss = torch.nn.functional.mse_loss(self.model(inputs), inputs.sum(1, keepdim=True).sin())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.item()

    def end(self):
        """Before the group goes: DistributedDataParallel belongs to it."""
        self.model = None
        gc.collect()


def go_on(training):
    """Makes a group of those who live, and tells who does not."""
    while True:
        try:
            left = banyan_torch.survivors()
            training.end()
            dist.destroy_process_group()
            dist.init_process_group("banyan", store=left.store, rank=left.rank, world_size=left.world_size)
            training.begin()
            return left
        except banyan_torch.Error as error:  # one more has died meanwhile
            print(f"once more: {error}", flush=True)


def main():
    arguments = parse_arguments()
    victim, last = map(int, arguments.die.split(":")) if arguments.die else (-1, -1)
    dist.init_process_group("banyan")
    first_rank = dist.get_rank()
    training = Training()
    training.begin()
    while training.steps < arguments.steps:
        if (first_rank, training.steps) == (victim, last):
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            loss = training.step()
        except banyan_torch.Error as error:
            print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {error}", flush=True)
            left = go_on(training)
            print(f"rank {first_rank} is rank {left.rank} of {left.world_size} now, and goes on at step "
                  f"{training.steps} without ranks {left.lost}", flush=True)
            continue
        if dist.get_rank() == 0 and training.steps % 10 == 0:
            print(f"step {training.steps}: loss {loss:.4f}", flush=True)
    own = torch.cat([parameter.detach().flatten() for parameter in training.module.parameters()])
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, own)
    if dist.get_rank() == 0:
        same = all(torch.equal(each, own) for each in everyone)
        print(f"{training.steps} steps; {len(everyone)} ranks have {'equal' if same else 'DIFFERENT'} parameters")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
