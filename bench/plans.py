#!/usr/bin/env python3
"""Times `banyan plan` on the fabrics of docs/performance.md: user CPU seconds, peak memory and what was planned.

Usage: bench/plans.py [--build DIR] [--runs N] [--only WORD] [--list]

Prints a table in Markdown; of several runs the median time and the largest memory. Fabrics without a name of their own
come from bench/fabrics/clusters.py. A plan that is not verified, or not as good as its row asks, ends the program.
"""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Of each: the part of the table, the arguments of `banyan plan`, the least part of the bound, and the seconds (and
# megabytes) that are to be reached.
ROWS = [
    ("scale", "allgather clusters:boxes --ranks 128", 1, 0.5, None),
    ("scale", "allgather clusters:boxes --ranks 128 --uneven", 1, 0.5, None),
    ("scale", "allgather clusters:boxes --ranks 256", 1, 2, None),
    ("scale", "allgather clusters:boxes --ranks 256 --uneven", 1, 2, None),
    ("scale", "allgather clusters:boxes --ranks 512", 1, 4, None),
    ("scale", "allgather clusters:boxes --ranks 512 --uneven", 1, 4, None),
    ("scale", "allgather clusters:boxes --ranks 1000", 1, 10, None),
    ("scale", "allgather clusters:boxes --ranks 1000 --uneven", 1, 10, None),
    ("scale", "allgather clusters:rails --boxes 125 --pods 5 --spines 5 --failed 1", 1, 5, None),
    ("scale", "allgather clusters:rails --boxes 125 --pods 5 --spines 5 --failed 3 --uplinks", 1, 5, None),
    ("scale", "allgather clusters:rails --boxes 125 --pods 5 --spines 5 --failed 1 --narrower 4", 1, 5, None),
    ("scale", "allgather leaf-spine:leaves=32,hosts=32,spines=16", 1, None, None),
    ("scale", "allgather rail:boxes=128,gpus=8", 1, None, None),
    ("scale", "allgather dragonfly:groups=33,routers=8,hosts=4", 1, None, None),
    ("scale", "allgather hypercube:10", 1, None, None),
    ("scale", "allgather random:n=512,links=2048", 1, None, None),
    ("scale", "allgather fat-tree:k=16", 1, None, None),
    ("scale", "allgather fat-tree:k=32", 1, 20, 2000),
    ("scale", "broadcast fat-tree:k=32", 1, 20, 2000),
    ("scale", "allgather dgx-h100:128", 1, None, None),
    ("scale", "allgather dgx-h100:512", 1, 1, None),
    ("scale", "broadcast dgx-h100:512", 1, None, None),
    ("scale", "allgather dgx-h100:2048", 1, 10, None),
    ("scale", "allgather torus:16x16x16", 1, 3, 300),
    ("scale", "broadcast torus:16x16x16", 1, None, None),
    ("scale", "allgather mi250:4", 1, 0.1, None),
    ("scale", "broadcast mi250:4", 1, None, None),
    ("scale", "allgather mi250:16", 1, None, None),
    ("scale", "allgather mi250:4 --max-height 8", 0.8, None, None),
    ("allreduce", "allreduce mesh:4@10GB/s", 1, None, None),
    ("allreduce", "allreduce dgx-h100:8", 1, None, None),
    ("allreduce", "allreduce dgx-h100:8 --fail gpu3-ib0", 0.98, 10, None),
    ("allreduce", "allreduce dgx-h100:8 --fail gpu3-ib0 --degrade gpu10-ib0=25GB/s --degrade gpu17-nvsw2=200GB/s",
     0.98, 10, None),
    ("allreduce", "allreduce mesh:8x8", 1, 10, None),
    ("allreduce", "allreduce random:n=64,links=150", 1, 10, None),
    ("allreduce", "allreduce clusters:boxes --ranks 512 --uneven", 0.98, None, None),
    ("switches", "allreduce dgx-a100:1", 1, None, None),
    ("switches", "allreduce dgx-a100:1+nvls", 1, None, None),
    ("switches", "allreduce dgx-h100:2", 1, None, None),
    ("switches", "allreduce dgx-h100:2+nvls", 1, None, None),
    ("switches", "allreduce dgx-h100:8+nvls", 1, None, None),
    ("switches", "broadcast dgx-h100:2+nvls", 1, None, None),
    ("switches", "allreduce fat-tree:k=8", 1, None, None),
    ("switches", "allreduce fat-tree:k=8+sharp", 1, None, None),
    ("all-to-all", "all-to-all torus:8x8", 0.99, 2, None),
    ("all-to-all", "all-to-all hypercube:6", 0.99, 2, None),
    ("all-to-all", "all-to-all kautz:n=64,d=4", 0.99, 2, None),
    ("all-to-all", "all-to-all torus:8x8x8", 0.99, 30, None),
    ("all-to-all", "all-to-all kautz:n=1024,d=4", 0.95, 120, None),
    ("all-to-all", "all-to-all dgx-h100:128", 0.99, None, None),
]


def fabric_file(spec, folder):
    """clusters:KIND OPTION... as a file; the options of clusters.py end where those of banyan would begin."""
    path = folder / (spec.replace(" ", "_").replace(":", "_") + ".txt")
    made = subprocess.run([sys.executable, ROOT / "bench/fabrics/clusters.py", *spec.removeprefix("clusters:").split()],
                          check=True, capture_output=True, text=True)
    path.write_text(made.stdout)
    return str(path)


def arguments_of(row, folder):
    collective, rest = row.split(" ", 1)
    if rest.startswith("clusters:"):
        return [collective, fabric_file(rest, folder)]
    return [collective, *rest.split()]


def measure(program, arguments):
    """User seconds, peak megabytes, the report of one plan."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([program, "plan", *arguments, "--json"], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            sys.exit(f"banyan plan {' '.join(arguments)}: exit status {status}")
        out.seek(0)
        return usage.ru_utime, usage.ru_maxrss / 1024, json.load(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="rows that have this word in them")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    rows = [row for row in ROWS if options.only in f"{row[0]} {row[1]}"]
    if options.list:
        print("\n".join(row[1] for row in rows))
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("| plan | GB/s | of the bound | height, most / mean | s to reach | **s** | MB |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for _, row, least, seconds, megabytes in rows:
            runs = [measure(options.build / "banyan", arguments_of(row, pathlib.Path(folder)))
                    for _ in range(options.runs)]
            report = runs[0][2]
            schedule, bound = report["schedule"], report["bound"]
            part = 1 if schedule["optimal"] else schedule["algbw_GBps"] / bound["algbw_GBps"]
            if part < least:
                sys.exit(f"{row}: {part:.4f} of the bound, less than {least}")
            goal = "–" if seconds is None else f"{seconds:g}" + (f", {megabytes} MB" if megabytes else "")
            of_bound = "optimal" if schedule["optimal"] else f"{math.floor(part * 1000) / 10:.1f} %"
            time, memory = statistics.median(run[0] for run in runs), max(run[1] for run in runs)
            print(f"| `{row}` | {schedule['algbw_GBps']:.2f} | {of_bound} | {schedule['height_max']} / "
                  f"{schedule['height_mean']:.1f} | {goal} | **{time:.2f}** | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
