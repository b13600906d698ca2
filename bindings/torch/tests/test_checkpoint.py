"""Checkpoints that all ranks write and read together (torch.distributed.checkpoint). Of PyTorch 2."""

import os
import tempfile

import torch
import torch.distributed as dist

from data import tensor_of
from ranks import RankTest, kTorch, on_ranks, run_on_ranks, since

if kTorch >= (2, 5):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

kShape = (10, 6)


def whole(salt):
    return tensor_of(5, kShape, salt=salt)


def state_of(mesh, value, placement=None):
    """Sharded, whole, and plain entries."""
    return {
        "sharded": distribute_tensor(value(1), mesh, [placement or Shard(0)]),
        "whole": distribute_tensor(value(2), mesh, [Replicate()]),
        "plain": value(3),
        "step": 17 if value is whole else 0,
    }


def zeros(_):
    return torch.zeros(kShape)


def write(job, folder):
    dcp.save(state_of(init_device_mesh("cpu", (job.world,)), whole), checkpoint_id=folder)


def read(job, folder):
    """As another number of ranks may, and in other shards."""
    for placement in (Shard(0), Shard(1), Replicate()):
        state = state_of(init_device_mesh("cpu", (job.world,)), zeros, placement)
        dcp.load(state, checkpoint_id=folder)
        job.same(state["sharded"].full_tensor().contiguous(), whole(1))
        job.same(state["whole"].full_tensor(), whole(2))
        job.same(state["plain"], whole(3))
        job.assertEqual(state["step"], 17)


def write_meanwhile(job, folder):
    """While the program goes on: with other collectives, and changes of what is being written. (PyTorch 2.6 writes
    tensors of the CPU from where they lie, so there the program changes none.)"""
    mesh = init_device_mesh("cpu", (job.world,))
    # The one that writes has a group of its own, or its calls would meet those of the program.
    group = dist.new_group(backend=dist.get_backend())
    state = state_of(mesh, whole)
    future = dcp.async_save(state, checkpoint_id=folder, process_group=group)
    if kTorch > (2, 6):
        with torch.no_grad():
            state["plain"] += 1
            state["sharded"].to_local().mul_(2)
    for salt in range(20):
        mine = tensor_of(job.rank, 100, salt=salt)
        dist.all_reduce(mine)
    future.result()
    dist.barrier()


@since(2, 5, "distributed checkpoints as they are today")
class Checkpoints(RankTest):
    def passes(self, world, function, folder):
        for outcome in run_on_ranks(world, function, folder, limit=60):
            self.assertEqual(outcome.how, "returned", outcome.text)

    def test_another_number_of_ranks_reads_what_was_written(self):
        for write_it in (write, write_meanwhile):
            with self.case(write_it.__name__), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "state")
                self.passes(3, write_it, path)
                for world in (3, 2):
                    self.passes(world, read, path)
