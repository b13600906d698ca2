#!/usr/bin/env python3
"""Collectives of torch.distributed over Gloo and over Banyan, side by side in the same processes.

  PYTHONPATH=build/python python3 bench/torch_bench.py                      # 2 and 4 ranks here, a few minutes
  PYTHONPATH=build/python python3 bench/torch_bench.py --json result.json --strict
  python3 bench/torch_bench.py --series gloo --ranks 2 --collectives allreduce --sizes 1024,4194304

Every collective and size is checked once in every series, each element, on data that depend on rank and position; then
rounds alternate between the series. A round is calls back to back after a barrier, and its time that of the slowest
rank; a figure is the median of the rounds. Bytes are the larger of what a rank sends and receives, so an allgather of
4 MiB on 4 ranks gathers 1 MiB of each. Allreduces are in place. "shared": tensors made with use_shared_memory().

A ratio says how many times quicker Banyan is than Gloo. Ends with status 1 when any element is wrong, and with --strict
also when a target is missed. Nothing else should run meanwhile.
"""

import argparse
import dataclasses
import math
import sys

import torch
import torch.distributed as dist

import contest
import torch_common
from contest import Key

SIZES = {"allreduce": [64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 64 << 20], "barrier": [0]}
OTHER_SIZES = [4 << 20]
# How many times quicker than Gloo we want to be: by collective and bytes, {series: ratio}.
TARGETS = {
    **{("allreduce", size): {"banyan": 15} for size in (64, 1 << 10, 8 << 10, 64 << 10)},
    ("allreduce", 4 << 20): {"banyan": 5},
    ("allreduce", 64 << 20): {"banyan": 3, "banyan:shared": 5},
    ("allgather", 4 << 20): {"banyan": 8},
    ("alltoall", 4 << 20): {"banyan": 3},
    ("broadcast", 4 << 20): {"banyan": 3},
}


def numbers_of(rank, count, first=0):
    """float32 whole numbers that depend on rank and position; sums over up to a thousand ranks are exact."""
    return (torch.arange(first, first + count, dtype=torch.int64) * 7 + rank * 31).remainder(1009).float()


@dataclasses.dataclass
class Case:
    """One call on tensors of its own. `fill` sets them as before a first call; `wrong` counts wrong elements after it;
    `settle` leaves values that any number of calls keeps harmless."""

    call: object
    fill: object = lambda: None
    wrong: object = lambda: 0
    settle: object = lambda: None


def differing(tensor, expected):
    return int((tensor != expected).sum())


def allreduce(group, rank, ranks, count):
    buffer = torch.empty(count)

    def wrong():
        return differing(buffer, sum(numbers_of(other, count) for other in range(ranks)))

    return Case(lambda: dist.all_reduce(buffer, group=group), lambda: buffer.copy_(numbers_of(rank, count)), wrong,
                buffer.zero_)


def allgather(group, rank, ranks, count):
    part = count // ranks
    given, taken = torch.empty(part), [torch.empty(part) for _ in range(ranks)]

    def fill():
        given.copy_(numbers_of(rank, part))
        for tensor in taken:
            tensor.fill_(-1)

    def wrong():
        return sum(differing(tensor, numbers_of(other, part)) for other, tensor in enumerate(taken))

    return Case(lambda: dist.all_gather(taken, given, group=group), fill, wrong)


def allgather_tensor(group, rank, ranks, count):
    part = count // ranks
    given, taken = torch.empty(part), torch.empty(part * ranks)

    def fill():
        given.copy_(numbers_of(rank, part))
        taken.fill_(-1)

    def wrong():
        return differing(taken, torch.cat([numbers_of(other, part) for other in range(ranks)]))

    return Case(lambda: dist.all_gather_into_tensor(taken, given, group=group), fill, wrong)


def alltoall(group, rank, ranks, count):
    part = count // ranks
    given, taken = torch.empty(part * ranks), torch.empty(part * ranks)

    def fill():
        given.copy_(numbers_of(rank, part * ranks))
        taken.fill_(-1)

    def wrong():
        return differing(taken, torch.cat([numbers_of(other, part, rank * part) for other in range(ranks)]))

    return Case(lambda: dist.all_to_all_single(taken, given, group=group), fill, wrong)


def broadcast(group, rank, _ranks, count):
    buffer = torch.empty(count)

    def fill():
        buffer.copy_(numbers_of(3, count)) if rank == 0 else buffer.fill_(-1)

    return Case(lambda: dist.broadcast(buffer, 0, group=group), fill, lambda: differing(buffer, numbers_of(3, count)))


def reduce_scatter(group, rank, ranks, count):
    part = count // ranks
    given, taken = [torch.empty(part) for _ in range(ranks)], torch.empty(part)

    def fill():
        for place, tensor in enumerate(given):
            tensor.copy_(numbers_of(rank, part, place * part))
        taken.fill_(-1)

    def wrong():
        return differing(taken, sum(numbers_of(other, part, rank * part) for other in range(ranks)))

    return Case(lambda: dist.reduce_scatter(taken, given, group=group), fill, wrong)


def reduce_scatter_tensor(group, rank, ranks, count):
    part = count // ranks
    given, taken = torch.empty(part * ranks), torch.empty(part)

    def fill():
        given.copy_(numbers_of(rank, part * ranks))
        taken.fill_(-1)

    def wrong():
        return differing(taken, sum(numbers_of(other, part, rank * part) for other in range(ranks)))

    return Case(lambda: dist.reduce_scatter_tensor(taken, given, group=group), fill, wrong)


def barrier(group, _rank, _ranks, _count):
    return Case(lambda: dist.barrier(group=group))


COLLECTIVES = {"allreduce": allreduce, "allgather": allgather, "allgather-tensor": allgather_tensor,
               "alltoall": alltoall, "broadcast": broadcast, "reduce-scatter": reduce_scatter,
               "reduce-scatter-tensor": reduce_scatter_tensor, "barrier": barrier}


def make_checked(make, series, group, count):
    """(case, wrong elements over all ranks), or (None, why) where the backend says that it does not do this."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with torch_common.memory_of(series):
        case = make(group, rank, ranks, count)
    case.fill()
    try:
        with torch_common.memory_of(series):
            case.call()
    except RuntimeError as error:
        if "support" not in str(error):
            raise
        return None, str(error).splitlines()[0]
    wrong = int(torch_common.agree(float(case.wrong()), dist.ReduceOp.SUM))
    case.settle()
    return case, wrong


def time_batch(case, series, group, calls):
    with torch_common.memory_of(series):  # what the calls allocate comes from there, too
        return torch_common.seconds_per_call(case.call, calls, group)


def calls_for(case, series, group, least_seconds):
    """As many as take about so long; the same on all ranks."""
    calls, seconds = 2, 0.0
    while calls < 20_000:
        seconds = torch_common.agree(time_batch(case, series, group, calls) * calls)
        if seconds >= least_seconds / 4:
            break
        calls *= 4
    return max(3, min(20_000, math.ceil(calls * least_seconds / max(seconds, 1e-9))))


def measure_row(groups, all_series, collective, size, arguments):
    """Records of one collective and size: {series, microseconds per round, wrong}, or {series, refused: why}."""
    records, cases = [], {}
    for series in all_series:
        if series == "banyan:shared" and size < torch_common.SHARED_FROM:
            continue
        case, found = make_checked(COLLECTIVES[collective], series, groups[series], size // 4)
        if case is None:
            records.append({"series": series, "refused": found})
            continue
        records.append({"series": series, "wrong": found})
        cases[series] = case, calls_for(case, series, groups[series], arguments.min_seconds)
    times = {series: [] for series in cases}

    def run(series, _round):
        case, calls = cases[series]
        times[series].append(time_batch(case, series, groups[series], calls))

    if cases:
        contest.alternate(list(cases), arguments.rounds, run)
    for record in records:
        if record["series"] in times:
            slowest = torch_common.agree(times[record["series"]])
            record["microseconds"] = [round(seconds * 1e6, 3) for seconds in slowest]
    return records


def worker(groups, all_series, arguments):
    """Every row on this rank: [[collective, bytes, records], ...]."""
    rows = []
    for collective in arguments.collectives:
        for size in arguments.sizes or SIZES.get(collective, OTHER_SIZES):
            size = 0 if collective == "barrier" else size
            rows.append([collective, size, measure_row(groups, all_series, collective, size, arguments)])
            if dist.get_rank() == 0:
                print(f"{dist.get_world_size()} ranks: {collective}, {contest.size_text(size)}", file=sys.stderr,
                      flush=True)
            if collective == "barrier":
                break
    return rows


def ratios(results, key):
    """{series: how many times quicker than Gloo}."""
    gloo = results.median(key, "gloo")
    own = {series: results.median(key, series) for series in ("banyan", "banyan:shared")}
    return {series: gloo / time for series, time in own.items() if gloo and time}


def verdict(results, key):
    """None where there is no target or nothing to compare; else whether all ratios reach their targets."""
    targets, found = TARGETS.get((key.collective, key.bytes)), ratios(results, key)
    if not targets or not any(series in found for series in targets):
        return None
    return all(found[series] >= wanted for series, wanted in targets.items() if series in found)


def table(results, ranks):
    head = ["collective", "bytes", "Gloo, us", "Banyan, us", "ratio", "shared, us", "ratio", "target", "met", "wrong"]
    rows = []
    for key in results.times:
        if key.ranks != ranks:
            continue
        found, targets = ratios(results, key), TARGETS.get((key.collective, key.bytes), {})
        wanted = " / ".join(f"{ratio}" + (" shared" if series == "banyan:shared" else "")
                            for series, ratio in targets.items())
        rows.append([key.collective, contest.size_text(key.bytes), contest.time_text(results.median(key, "gloo")),
                     contest.time_text(results.median(key, "banyan")), contest.ratio_text(found.get("banyan")),
                     contest.time_text(results.median(key, "banyan:shared")),
                     contest.ratio_text(found.get("banyan:shared")), wanted or "-",
                     {None: "-", True: "yes", False: "NO"}[verdict(results, key)],
                     str(sum(results.wrong[key].values()))])
    return f"### {ranks} ranks\n\n{contest.markdown_table(head, rows)}\n"


def collect(results, refused, ranks, rows):
    for collective, size, records in rows:
        for record in records:
            if "refused" in record:
                refused[f"{torch_common.backend_of(record['series'])}, {collective}"] = record["refused"]
            for microseconds in record.get("microseconds", []):
                results.add(Key(ranks, collective, size), record["series"], microseconds, record["wrong"])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    torch_common.add_common_arguments(parser)
    parser.add_argument("--collectives", type=torch_common.words, default=list(COLLECTIVES))
    parser.add_argument("--sizes", type=torch_common.numbers, help="bytes, for all collectives")
    parser.add_argument("--rounds", type=int, default=7, help="default 7")
    parser.add_argument("--min-seconds", type=float, default=0.05, help="of calls per figure and round; default 0.05")
    parser.add_argument("--strict", action="store_true", help="missed targets are failures")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.collectives if name not in COLLECTIVES]
    if unknown:
        parser.error(f"unknown collective '{unknown[0]}' (known: {', '.join(COLLECTIVES)})")
    if arguments.rounds < 1 or arguments.min_seconds <= 0:
        parser.error("--rounds and --min-seconds are to be positive")
    for size in arguments.sizes or []:
        if size < 4 * max(arguments.ranks):
            parser.error(f"--sizes: {size} bytes are less than a float32 for each of {max(arguments.ranks)} ranks")
    torch_common.check_common_arguments(parser, arguments)
    return arguments


def main():
    arguments = parse_arguments()
    machine, results, refused = torch_common.describe_machine(), contest.Results(), {}
    print(f"{torch_common.headline(machine)}; medians of {arguments.rounds} rounds\n", flush=True)
    for ranks in arguments.ranks:
        collect(results, refused, ranks, torch_common.run_ranks(worker, arguments.series, ranks, arguments))
        print(table(results, ranks), flush=True)
    for what, why in refused.items():
        print(f"left out: {what}: {why}")
    verdicts = {key: verdict(results, key) for key in results.times}
    missed = [key for key, value in verdicts.items() if value is False]
    wrong = sum(count for counts in results.wrong.values() for count in counts.values())
    met = sum(value is True for value in verdicts.values())
    print(f"targets: {met} met, {len(missed)} missed; wrong elements: {wrong}")
    if arguments.json:
        comparisons = [{**dataclasses.asdict(key), "ratios": ratios(results, key),
                        "targets": TARGETS.get((key.collective, key.bytes), {}), "met": verdicts[key]}
                       for key in results.times]
        contest.write_json(arguments.json, {
            "format": "banyan-torch-bench/1", "machine": machine, "records": contest.records_of(results),
            "comparisons": comparisons, "refused": refused})
    return 1 if wrong or (arguments.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
