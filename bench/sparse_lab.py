#!/usr/bin/env python3
"""Sums of an embedding's gradients inside an emulated cluster (banyan lab): ours, all-gather of COO, owners of
neighbouring rows, and dense.

  python3 bench/sparse_lab.py build                                   # 8 and 16 ranks, 100 and 200 Mb/s each
  python3 bench/sparse_lab.py build --ranks 8 --rate 100Mb/s --json sparse.json

The text is Python's own library, word by word, whose words have a real Zipf law: their numbers are those of the
vocabulary by frequency, and each rank has --tokens words of it in each step, in sequences of --sequence words that are
drawn at random, as samplers of training do. A row of the table is a word; all ranks are joined by one switch.

Figures are medians of the rounds, which alternate between all series: seconds of the slowest rank, and bytes that the
kernel counted on a rank's link, headers and acknowledgements included. Every way must give the same sums, bit for bit,
but for int8.

Needs root, and the programs `banyan` and `sparse_rank` in the build folder. Ends with status 1 when the lab cannot be
set up, or sums differ; with --strict, also when a target is missed. Nothing else should run meanwhile.
"""

import argparse
import array
import collections
import os
import pathlib
import random
import re
import statistics
import sys
import sysconfig
import tempfile

import contest
import lab_compare

# What `automatic` is to reach: times quicker than each of these, by the number of ranks; and the busiest link over the
# mean of all.
TARGETS = {"coo": {8: 1.3, 16: 1.8}, "contiguous": {8: 5, 16: 5}, "dense": {8: 20, 16: 20}}
BALANCE = 1.15
SEED = 17
WAYS = ["automatic", "dense", "gather", "shards"]


def words_of_text(limit):
    """The words of Python's library, and their numbers by frequency."""
    words = []
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        words += re.findall(r"[A-Za-z_]+|[0-9]+|[^\sA-Za-z_0-9]", path.read_text(encoding="utf-8", errors="replace"))
        if len(words) >= limit:
            break
    frequencies = collections.Counter(words[:limit])
    number = {word: i for i, (word, _) in enumerate(frequencies.most_common())}
    return [number[word] for word in words[:limit]], len(number)


def write_steps(path, numbers, vocabulary, ranks, arguments):
    """For sparse_rank. Gives the mean shares of a rank and of all together."""
    steps, draw = arguments.steps, random.Random(SEED)
    words = array.array("I", [vocabulary, ranks, steps])
    own, union = [], []
    for _ in range(steps):
        used = set()
        for _ in range(ranks):
            begins = [draw.randrange(len(numbers) - arguments.sequence)
                      for _ in range(arguments.tokens // arguments.sequence)]
            batch = [number for begin in begins for number in numbers[begin:begin + arguments.sequence]]
            words.append(len(batch))
            words.extend(batch)
            used.update(batch)
            own.append(len(set(batch)) / vocabulary)
        union.append(len(used) / vocabulary)
    path.write_bytes(words.tobytes())
    return statistics.fmean(own), statistics.fmean(union)


def measure(lab, arguments, steps_file):
    """{series: [(seconds, mean bytes, busiest bytes)]}, and the way that `automatic` went."""
    command = lab.command("run", "--no-prefix", "--", str(arguments.build.resolve() / "sparse_rank"), str(steps_file),
                          str(arguments.width), str(arguments.rounds))
    status, output, errors = contest.run_to_end(command, arguments.timeout, {**os.environ})
    if status != 0:
        why = f"took longer than {arguments.timeout:.0f} s" if status is None else f"ended with status {status}"
        raise RuntimeError(f"sparse_rank {why}: {errors.strip()[-2000:]}")
    figures, way = {}, None
    for line in output.splitlines():
        name, *numbers = line.split()
        if name == "way":
            way = WAYS[int(numbers[0])]
        else:
            figures.setdefault(name, []).append([float(number) for number in numbers])
    return figures, way


def table_of(figures, ranks):
    """Rows of the table, and whether all targets are met."""
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in figures.items()}
    ours, rows, met = medians["automatic"][0], [], True
    for name, (seconds, mean, busiest) in medians.items():
        ratio, target = seconds / ours, TARGETS.get(name, {}).get(ranks)
        verdict = "-"
        if target is not None:
            verdict, met = ("yes", met) if ratio >= target else ("NO", False)
        if name == "automatic":
            verdict, met = ("yes", met) if busiest / mean <= BALANCE else ("NO", False)
            target = f"balance {BALANCE}"
        rows.append([name, f"{seconds * 1e3:.1f}", contest.ratio_text(ratio), f"{mean / 1e3:.0f}",
                     f"{busiest / mean:.2f}", str(target or "-"), verdict])
    return rows, met


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder, with banyan and sparse_rank")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 16], help="default 8 16")
    parser.add_argument("--rate", nargs="+", default=["100Mb/s", "200Mb/s"], help="default 100Mb/s 200Mb/s")
    parser.add_argument("--width", type=int, default=64, help="values of a row; default 64")
    parser.add_argument("--tokens", type=int, default=2048, help="of a rank in a step; default 2048")
    parser.add_argument("--sequence", type=int, default=64, help="words that follow one another; default 64")
    parser.add_argument("--words", type=int, default=2_500_000, help="of the text; default 2500000")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--steps", type=int, default=3, help="of a round; default 3")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one lab; default 900")
    parser.add_argument("--strict", action="store_true", help="a missed target is a failure")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every figure")
    arguments = parser.parse_args()
    for program in ("banyan", "sparse_rank"):
        if not (arguments.build / program).exists():
            parser.error(f"there is no {arguments.build / program}; give the build folder")
    return arguments


def main():
    arguments, told, met_all = parse_arguments(), [], True
    numbers, vocabulary = words_of_text(arguments.words)
    for ranks in arguments.ranks:
        for rate in arguments.rate:
            with tempfile.TemporaryDirectory(prefix="banyan-sparse-lab-") as folder:
                steps_file = pathlib.Path(folder, "steps")
                own, union = write_steps(steps_file, numbers, vocabulary, ranks, arguments)
                try:
                    banyan, name = arguments.build.resolve() / "banyan", f"sparse{os.getpid()}"
                    with lab_compare.Lab(banyan, f"star:{ranks}@{rate}", None, name) as lab:
                        figures, way = measure(lab, arguments, steps_file)
                except RuntimeError as error:
                    sys.exit(f"sparse_lab.py: {error}")
            rows, met = table_of(figures, ranks)
            met_all = met_all and met
            head = ["series", "ms", "over ours", "KB of a link", "busiest / mean", "target", "met"]
            print(f"### {ranks} ranks at {rate}, {vocabulary} rows of {arguments.width}: a rank has {own:.2%}, all "
                  f"{union:.2%}; automatic went by {way}\n\n{contest.markdown_table(head, rows)}\n", flush=True)
            told.append({"ranks": ranks, "rate": rate, "rows": vocabulary, "width": arguments.width, "rank_share": own,
                         "union_share": union, "way": way, "met": met, "figures": figures})
    if arguments.json:
        contest.write_json(arguments.json, {"format": "banyan-sparse-lab/1", "labs": told})
    return 1 if arguments.strict and not met_all else 0


if __name__ == "__main__":
    sys.exit(main())
