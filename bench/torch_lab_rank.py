"""One rank of torch_lab.py inside an emulated cluster, where `banyan lab run` starts it: torch_lab_rank.py FOLDER

FOLDER/job.json says what is to be done; rank 0 leaves what came out in FOLDER/result. All ranks see the same folder.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import contest
import torch_common
import torch_ddp_bench  # it shows the way to the next two
import exchange_time
import train_ddp

STEPS_TO_SETTLE = 22  # of each series, before those that count
BOXES = 2  # of torch_local_lab.py, with equally many ranks, in order


def bytes_sent(lab):
    """{"swa -> swb": bytes that have left by this link so far}, of every link of the lab (what lab.json says of it)."""
    namespaces = {node["name"]: node["namespace"] for node in [*lab["ranks"], *lab["switches"]]}
    counted = {}
    for host, namespace in namespaces.items():
        told = subprocess.run(["ip", "-n", namespace, "-s", "-j", "link", "show"], capture_output=True, check=True)
        for interface in json.loads(told.stdout):
            counted[host, interface["ifname"]] = interface["stats64"]["tx"]["bytes"]
    links = {}
    for cable in lab["cables"]:
        for end, other in (cable["ends"], cable["ends"][::-1]):
            name = f"{end['host']} -> {other['host']}"
            links[name] = links.get(name, 0) + counted[end["host"], end["interface"]]
    return links


def train(_groups, all_series, arguments):
    """{"losses": [[of each rank] of each step], "bytes": {link: sent meanwhile}} of a training over the one series."""
    lab = json.loads(pathlib.Path(os.environ["BANYAN_LAB"]).read_text(encoding="utf-8"))
    plan = argparse.Namespace(steps=arguments.steps, checkpoint=None, die_at=None)
    with torch_common.memory_of(all_series[0]), contextlib.redirect_stdout(sys.stderr):
        trainer = arguments.models[0].trainer(series=all_series[0])
        dist.barrier()  # so that nobody trains yet
        before = bytes_sent(lab) if dist.get_rank() == 0 else None
        dist.barrier()
        losses = train_ddp.train(trainer, plan)[0]
        dist.barrier()
        after = bytes_sent(lab) if dist.get_rank() == 0 else None
        dist.barrier()
    return after and {"losses": losses, "bytes": {link: after[link] - before[link] for link in after}}


def train_locally(_groups, all_series, arguments):
    """{"seconds": a step takes, "loss": afterwards} of one of the series of torch_local_lab.py. Each stretch of
    arguments.block steps has as many exchanges as the next; the median of them, of the slowest rank, is told."""
    import banyan_torch

    kind, every, codec = torch_common.exchange_of(all_series[0])
    box, across = banyan_torch.two_level_groups(dist.get_world_size() // BOXES) if kind == "levels" else (None, None)
    trainer = arguments.models[0].trainer(box, series=all_series[0])
    outer = None
    if kind in ("local", "levels"):
        outer = banyan_torch.LocalSteps(trainer.model, every=every, codec=codec, group=across, box=box)
    dist.barrier()
    begin, stretches = time.perf_counter(), []
    for number in range(arguments.steps):
        is_used = kind != "accumulate" or (number + 1) % every == 0
        with contextlib.nullcontext() if is_used and kind != "local" else trainer.model.no_sync():
            loss_of(trainer, number, dist.get_rank()).div(every if kind == "accumulate" else 1).backward()
        if is_used:
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()
        if outer is not None:
            outer.step()
        if (number + 1) % arguments.block == 0:
            stretches.append((time.perf_counter() - begin) / arguments.block)
            begin = time.perf_counter()
    dist.barrier()
    seconds = statistics.median(torch_common.agree(stretches))
    with torch.no_grad():
        losses = [loss_of(trainer, arguments.steps + i, dist.get_rank()).item() for i in range(16)]
    loss = torch_common.agree(statistics.fmean(losses), dist.ReduceOp.SUM) / dist.get_world_size()
    return {"seconds": seconds, "loss": loss}


def time_choice(groups, all_series, arguments):
    """{"seconds": {series: [a step, per round]}, "report": auto's} of the series of choice_lab.py."""
    trainers = {}
    for series in all_series:
        trainers[series] = arguments.models[0].trainer(groups[series], series=series)
        exchange_time.seconds_per_step(trainers[series], STEPS_TO_SETTLE, synced=True)
    auto = trainers[all_series[-1]]
    while " being " in auto.compression.report().splitlines()[-1]:  # on all ranks, or on none
        exchange_time.seconds_per_step(auto, arguments.block, synced=True)
    seconds = {series: [] for series in all_series}
    step = torch_common.agree(exchange_time.seconds_per_step(auto, arguments.block, synced=True))
    steps = max(arguments.block, math.ceil(arguments.round_seconds / step))

    def run(series, _round):
        seconds[series].append(exchange_time.seconds_per_step(trainers[series], steps, synced=True))

    contest.alternate(all_series, arguments.rounds, run)
    return {"seconds": {series: torch_common.agree(rounds) for series, rounds in seconds.items()},
            "report": auto.compression.report()}


def loss_of(trainer, number, rank):
    model = trainer.model if torch.is_grad_enabled() else trainer.model.module
    return model(*train_ddp.make_batch(trainer.seed, number, trainer.sequences, dist.get_world_size(), rank))


WORKERS = {"time": torch_ddp_bench.time_steps, "choose": time_choice, "train": train, "local": train_locally}


def main():
    folder = sys.argv[1]
    job = json.loads(pathlib.Path(folder, "job.json").read_text(encoding="utf-8"))
    arguments = argparse.Namespace(**{**job["arguments"], "models": [torch_ddp_bench.Size.parse(job["model"])]})
    torch_common.be_rank(int(os.environ["RANK"]), WORKERS[job["worker"]], job["series"], int(os.environ["WORLD_SIZE"]),
                         folder, arguments)


if __name__ == "__main__":
    main()
