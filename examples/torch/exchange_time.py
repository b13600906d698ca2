"""How much of a training step goes into exchanging gradients, as the program feels it."""

import contextlib
import statistics
import time

import torch
import torch.distributed as dist


def seconds_per_step(trainer, steps, synced):
    """Mean of whole steps (forward, backward, update) on this rank. If not synced, they are made under no_sync: no
    gradients are exchanged, and the replicas drift apart."""
    dist.barrier(group=trainer.group)
    begin = time.perf_counter()
    with contextlib.nullcontext() if synced else trainer.model.no_sync():
        for number in range(steps):
            trainer.step(number)
    return (time.perf_counter() - begin) / steps


def measure_exchange(trainer, rounds=7, steps=5):
    """Seconds of a step [with gradients exchanged, under no_sync]: medians of rounds that alternate, greatest of all
    ranks. They differ by what the backward pass does not hide of the exchange, and by waiting for the slowest rank."""
    rows = [[seconds_per_step(trainer, steps, synced) for synced in (True, False)] for _ in range(rounds)]
    seconds = torch.tensor([statistics.median(column) for column in zip(*rows)])
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    dist.barrier()  # PyTorch 1.13's Gloo may hang when it is destroyed while it still lets go of a tensor of Python's
    return seconds.tolist()


def describe_seconds(synced, alone):
    share = f"{(synced - alone) / synced:.1%} of a step" if synced > alone else "not measurable, other work disturbs it"
    return (f"exposed communication: {share} (medians of the slowest rank: "
            f"{synced * 1e3:.2f} ms with gradients exchanged, {alone * 1e3:.2f} ms under no_sync)")


def describe_exchange(trainer):
    """To be called on all ranks."""
    return describe_seconds(*measure_exchange(trainer))
