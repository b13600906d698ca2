"""Local steps (DiLoCo) that lose a rank and go on: ranks train by themselves, exchange every so many steps how their
parameters have changed, and those who live go on when one dies.

    banyan run -n 4 --keep-going -- python3 examples/torch/local_steps.py --die 2:25

Rank 2 is killed in step 25. The others notice at the next exchange, learn their new ranks from
banyan_torch.survivors(), make a new group, and reload what LocalSteps.state_dict() has kept: the parameters of the last
exchange, the outer momentum, and what the code has lost. Nobody who lives loses a step. A launcher that ends all ranks
when one has failed must be told not to, as go_on.py says.
"""

import argparse
import gc
import os
import signal

import torch
import torch.distributed as dist

import banyan_torch

SAMPLES = 32  # of a rank in a step


def parse_arguments():
    parser = argparse.ArgumentParser(description="local steps that go on when a rank dies")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--every", type=int, default=10, help="steps between two exchanges; default 10")
    parser.add_argument("--codec", default="none", help="of what is exchanged, such as int4")
    parser.add_argument("--die", default="", metavar="RANK:STEP", help="rank RANK is killed in step STEP")
    parser.add_argument("--backend", default="banyan", choices=["banyan"], help="no other has local steps")
    return parser.parse_args()


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=3e-3)


def loss_of(model, rank, step):
    """On the samples of a rank in a step. A rank of -1 has samples that nobody trains with."""
    samples = torch.Generator().manual_seed(1000 * step + rank + 1)
    inputs = torch.randn(SAMPLES if rank >= 0 else 1000, 16, generator=samples)
    return torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True).sin())


class Training:
    """A model and its inner optimizer, which are this rank's alone, and the outer one, which all have alike."""

    def __init__(self, arguments):
        self.every, self.codec, self.first_rank = arguments.every, arguments.codec, dist.get_rank()
        self.model = make_model()
        self.optimizer = make_optimizer(self.model)
        self.state = None  # of the outer optimizer, between two groups
        self.begin()

    def begin(self):
        """In a group that has just been made."""
        own = torch.nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()
        self.outer = banyan_torch.LocalSteps(self.model, every=self.every, codec=self.codec)
        if self.state is None:
            return
        # A rank may have missed the last exchange of the others: it takes what came of that.
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, self.state)
        newest = max(states, key=lambda state: state["steps"])
        if self.state["steps"] < newest["steps"]:
            own = newest["last"][0]
        torch.nn.utils.vector_to_parameters(own, self.model.parameters())
        # What the code has lost is this rank's. The exchange that has failed is made at the next step.
        self.outer.load_state_dict({**newest, "exchange": self.state["exchange"], "steps": newest["steps"] - 1})

    def step(self):
        """Gives the loss. What raises has changed nothing but this rank's own parameters, by one more step."""
        loss = loss_of(self.model, self.first_rank, self.steps)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.outer.step()
        return loss.item()

    @property
    def steps(self):
        return self.outer.steps

    def end(self):
        """Before the group goes: the outer optimizer belongs to it."""
        if self.outer is not None:
            self.state = self.outer.state_dict()
        self.outer = None
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
    training = Training(arguments)
    rank = training.first_rank
    while training.steps < arguments.steps:
        if (rank, training.steps) == (victim, last):
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            loss = training.step()
        except banyan_torch.Error as error:
            print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {error}", flush=True)
            left = go_on(training)
            print(f"rank {rank} is rank {left.rank} of {left.world_size} now, and goes on at step {training.steps} "
                  f"without ranks {left.lost}", flush=True)
            continue
        if dist.get_rank() == 0 and training.steps % arguments.every == 0:
            print(f"step {training.steps}: loss {loss:.4f}", flush=True)
    own = torch.nn.utils.parameters_to_vector(training.model.parameters()).detach()
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, own)
    if dist.get_rank() == 0:
        same = all(torch.equal(each, own) for each in everyone)
        with torch.no_grad():
            held_out = loss_of(training.model, -1, 0).item()
        print(f"{training.steps} steps; {len(everyone)} ranks have {'equal' if same else 'DIFFERENT'} parameters, "
              f"whose loss is {held_out:.9f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
