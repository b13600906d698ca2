"""A program that joins a job as users' programs do, sums on all ranks, and says so.

    sums.py          joins by the environment, as torchrun and others set it, and just ends
    sums.py N PORT   starts N ranks itself by torch.multiprocessing.spawn, which meet by TCP and destroy their group

Every rank prints `rank R of N: sum S`.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

kBackend = os.environ.get("BANYAN_TEST_BACKEND", "banyan")


def work():
    mine = torch.full((1000,), float(dist.get_rank() + 1))
    dist.all_reduce(mine)
    dist.barrier()
    sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(mine[-1])}\n")  # one write: a pipe
    sys.stdout.flush()


def join(rank, world, port):
    register()
    dist.init_process_group(kBackend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    work()
    dist.destroy_process_group()


def register():
    if kBackend == "banyan":
        import banyan_torch  # noqa: F401


def main():
    if len(sys.argv) > 1:
        world, port = int(sys.argv[1]), int(sys.argv[2])
        torch.multiprocessing.spawn(join, args=(world, port), nprocs=world)
    else:
        register()
        dist.init_process_group(kBackend)
        work()


if __name__ == "__main__":
    main()
