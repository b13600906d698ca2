"""What the benchmarks of the PyTorch backend share: processes with Gloo and Banyan side by side, and timing.

All series run in the same processes, each backend in a process group of its own over all ranks. A *series* is what a
column shows: "gloo", "banyan", and "banyan:shared", where tensors are made with banyan_torch.use_shared_memory().
"""

import contextlib
import datetime
import json
import os
import pathlib
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

import contest

SERIES = ["gloo", "banyan", "banyan:shared"]
SHARED_FROM = 64 << 10  # bytes: smaller tensors are never in shared memory


CODED = "banyan:coded:"  # and the scheme by which gradients go, such as int8, int8+boxes:4 or powersgd:4
BOXES = "+boxes:"  # and the ranks of a box, where a code is for what goes between boxes only
PEER = "gloo:powersgd:"  # and the rank of PyTorch's own powerSGD_hook


def backend_of(series):
    return series.split(":")[0]


def codec_of(series):
    return series.removeprefix(CODED) if series.startswith(CODED) else None


def boxes_of(codec):
    """(the codec, its options) of "int8+boxes:4" or "int8"."""
    name, _, box_ranks = codec.partition(BOXES)
    return name, {"box_ranks": int(box_ranks)} if box_ranks else {}


def peer_of(series):
    """The rank of PyTorch's own hook."""
    return int(series.removeprefix(PEER)) if series.startswith(PEER) else None


def exchange_of(series):
    """(kind, every so many steps, codec) of a series of torch_local_lab.py, such as "banyan:local:16:int4". kind is
    "accumulate", "local" or "levels" (local steps between boxes alone); "gradients" of any other series."""
    _, kind, *words = [*series.split(":"), ""]
    if kind not in ("accumulate", "local", "levels"):
        return "gradients", 1, "none"
    return kind, int(words[0]), words[1] or "none"


def expect_backends(series):
    """Ends the program unless all backends are here."""
    if any(backend_of(name) == "banyan" for name in series):
        try:
            import banyan_torch  # noqa: F401
        except ImportError as error:
            sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}; put the build's folder python into PYTHONPATH, "
                     "or measure with --series gloo")


class Groups:
    """One process group per backend over all ranks; groups[series] is that of a series."""

    def __init__(self, series, rank, ranks, meet, timeout):
        backends = list(dict.fromkeys(map(backend_of, series)))
        if "banyan" in backends:
            import banyan_torch  # noqa: F401, makes the backend known
        limit = datetime.timedelta(seconds=timeout)
        dist.init_process_group(backends[0], init_method=f"file://{meet}/store", rank=rank, world_size=ranks,
                                timeout=limit)
        self.groups = {backends[0]: dist.group.WORLD}
        for backend in backends[1:]:
            self.groups[backend] = dist.new_group(backend=backend, timeout=limit)

    def __getitem__(self, series):
        return self.groups[backend_of(series)]


@contextlib.contextmanager
def memory_of(series):
    """Inside, large tensors are made in the memory that the series is about."""
    if series != "banyan:shared":
        yield
        return
    import banyan_torch

    banyan_torch.use_shared_memory(True)
    try:
        yield
    finally:
        banyan_torch.use_shared_memory(False)


def agree(value, op=dist.ReduceOp.MAX):
    """The greatest of all ranks' numbers, or their sum."""
    tensor = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(tensor, op)
    return tensor.tolist()


def seconds_per_call(call, calls, group):
    """On this rank, of calls back to back after a barrier."""
    dist.barrier(group=group)
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls


def be_rank(rank, worker, series, ranks, meet, arguments):
    """Is one of the processes of run_ranks, and ends it; rank 0 leaves what `worker` returned in the folder `meet`, as
    "result"."""
    torch.set_num_threads(1)
    groups = Groups(series, rank, ranks, meet, arguments.timeout)
    result = worker(groups, series, arguments)
    if rank == 0:
        pathlib.Path(meet, "result").write_text(json.dumps(result), encoding="utf-8")
    dist.barrier()
    sys.stdout.flush()
    # Not by destroy_process_group(): Gloo's destructor waits, with Python's lock, for a thread of its own that may want
    # that lock, to free the last tensor (seen with PyTorch 2.6).
    os._exit(0)


def run_ranks(worker, series, ranks, arguments):
    """Calls worker(groups, series, arguments) in new processes, one per rank, and gives what rank 0's returns (data for
    JSON). Raises what a rank raised, or TimeoutError after arguments.timeout seconds; no process is left behind."""
    with tempfile.TemporaryDirectory(prefix="banyan-torch-bench-") as meet:
        started = torch.multiprocessing.spawn(be_rank, (worker, series, ranks, meet, arguments), ranks, join=False)
        deadline = time.monotonic() + arguments.timeout
        try:
            while not started.join(timeout=1):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{ranks} ranks took longer than {arguments.timeout:.0f} s (--timeout)")
        finally:
            for process in started.processes:
                if process.is_alive():
                    process.kill()
        return json.loads(pathlib.Path(meet, "result").read_text(encoding="utf-8"))


def words(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in words(text)]


def add_common_arguments(parser, all_series=SERIES):
    parser.add_argument("--ranks", type=numbers, default=[2, 4], help="numbers of ranks; default 2,4")
    parser.add_argument("--series", type=words, default=all_series, help=f"default {','.join(all_series)}")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one number of ranks; default 900")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every figure, the machine and the verdicts")


def check_common_arguments(parser, arguments, all_series=SERIES):
    for name in arguments.series:
        if name not in all_series:
            parser.error(f"unknown series '{name}' (known: {', '.join(all_series)})")
    if min(arguments.ranks) < 1:
        parser.error("--ranks: at least 1")
    expect_backends(arguments.series)


def describe_machine():
    machine = contest.describe_machine(pathlib.Path(__file__).resolve().parent)
    machine["peers"]["torch"] = torch.__version__
    if machine["load_average_before"] > 0.5:
        print(f"warning: something else is running here (load {machine['load_average_before']})", file=sys.stderr)
    return machine


def headline(machine):
    return (f"{machine['processor']} ({machine['processor_numbers']}), {machine['cores']} cores, kernel "
            f"{machine['kernel']}, torch {machine['peers']['torch']}, commit {machine['commit']}, {machine['date']}, "
            f"load {machine['load_average_before']}")
