"""A few collectives between processes of this host: whether banyan_torch works here."""

from __future__ import annotations

import datetime
import sys
import tempfile
import time
from typing import Callable, List, Optional, Tuple

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import banyan_torch

RANKS = 2


def _all_reduce(rank: int, ranks: int) -> None:
    mine = torch.arange(100_000, dtype=torch.float32) * (rank + 1)
    dist.all_reduce(mine)
    expected = torch.arange(100_000, dtype=torch.float32) * sum(range(1, ranks + 1))
    assert torch.equal(mine, expected), "the sum is wrong"


def _all_gather(rank: int, ranks: int) -> None:
    parts = [torch.empty(1000, dtype=torch.int64) for _ in range(ranks)]
    dist.all_gather(parts, torch.full((1000,), rank, dtype=torch.int64))
    for source, part in enumerate(parts):
        assert bool((part == source).all()), f"what came from rank {source} is wrong"


def _all_to_all(rank: int, ranks: int) -> None:
    given = torch.arange(ranks * 3) + 100 * rank
    taken = torch.empty_like(given)
    dist.all_to_all_single(taken, given)
    expected = torch.cat([torch.arange(rank * 3, rank * 3 + 3) + 100 * source for source in range(ranks)])
    assert torch.equal(taken, expected), "what came is wrong"


def _send_and_receive(rank: int, ranks: int) -> None:
    incoming = torch.zeros(5)
    receiving = dist.irecv(incoming, (rank - 1) % ranks, tag=7)
    dist.isend(torch.full((5,), float(rank)), (rank + 1) % ranks, tag=7).wait()
    receiving.wait()
    assert bool((incoming == (rank - 1) % ranks).all()), "what came is wrong"


def _shared_tensors(rank: int, ranks: int) -> None:
    banyan_torch.use_shared_memory()
    mine = torch.full((1 << 20,), float(rank + 1))
    assert banyan_torch.shared_memory_usage()[0] >= mine.numel() * 4, "the tensor is not in shared memory"
    dist.all_reduce(mine)
    assert bool((mine == sum(range(1, ranks + 1))).all()), "the sum is wrong"


def _latency(rank: int, ranks: int) -> str:
    tiny = torch.zeros(16)
    times = []
    for _ in range(5):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(200):
            dist.all_reduce(tiny)
        times.append((time.perf_counter() - begin) / 200)
    return f"{sorted(times)[2] * 1e6:.1f} us for an allreduce of 64 bytes"


CHECKS: List[Tuple[str, Callable[[int, int], Optional[str]]]] = [
    ("all_reduce", _all_reduce),
    ("all_gather", _all_gather),
    ("all_to_all_single", _all_to_all),
    ("send and receive", _send_and_receive),
    ("tensors in shared memory", _shared_tensors),
    ("latency", _latency),
]


def _be_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "banyan", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS,
        timeout=datetime.timedelta(seconds=60),
    )
    for name, check in CHECKS:
        said = check(rank, RANKS)
        if rank == 0:
            print(f"  ok  {name}" + (f": {said}" if said else ""), flush=True)
    dist.destroy_process_group()


def run() -> bool:
    """True when all is well; prints a line per check."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            mp.spawn(_be_rank, args=(folder,), nprocs=RANKS)
        except Exception as error:  # of a rank: with its traceback
            print(f"  FAILED  {error}", file=sys.stderr)
            return False
    return True
