#!/usr/bin/env python3
"""The price of a change: calls of one build of ours beside those of another, in the same rounds.

  bench/price.py build --beside OTHER_BUILD     # the 108 rows of results/price.json

Two ranks on this machine: allreduce, allgather and broadcast of nine sizes from 4 B to 256 MiB, in ordinary buffers and
in registered ones, over shared memory and over TCP. Every figure is the median of rounds that alternate between both
builds; times_beside is ours over that of the other. Writes price.json, in the form of bench/results, into
BUILD/compare. Needs banyan_peer in both builds (ninja peers), and nothing else running.

Ends with status 1 when a contestant fails or any result is wrong.
"""

import argparse
import os
import pathlib
import shlex
import sys

import compare
import contest

TRANSPORTS = ["shm", "tcp"]
COLLECTIVES = ["allreduce", "allgather", "broadcast"]
BUFFERS = ["ordinary", "registered"]


def rows_of(results, transport):
    """A row for each collective, size and kind of buffers that both builds have a figure of."""
    rows = []
    for key in sorted(results.times, key=lambda key: (COLLECTIVES.index(key.collective), key.bytes)):
        for buffers in BUFFERS:
            own, other = (results.median(key, f"{name}:{buffers}") for name in ("banyan", compare.BESIDE))
            if own and other:
                rows.append({"what": f"{key.collective}, {buffers} buffers, {transport}", "bytes": key.bytes, "us": own,
                             "beside_us": other, "times_beside": round(own / other, 4)})
    return rows


def means_of(rows):
    """Geometric means of times_beside: of all rows, and of each kind of buffers over each transport."""
    kinds = {"": rows}
    for row in rows:
        kinds.setdefault(row["what"].partition(", ")[2], []).append(row)
    return [{"what": "geometric mean" + (kind and f", {kind}"), "rows": len(found),
             "times_beside": round(contest.geometric_mean([row["times_beside"] for row in found]), 4)}
            for kind, found in kinds.items() if found]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder")
    parser.add_argument("--beside", type=pathlib.Path, metavar="BUILD", required=True,
                        help="the build folder of another commit")
    parser.add_argument("--sizes", type=compare.numbers, default=compare.SIZES, help="bytes; default: nine sizes")
    parser.add_argument("--rounds", type=int, default=7, help="default 7")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one launch; default 900")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="default BUILD/compare/price.json")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    launches = [compare.self_starting(arguments.build.resolve(), "banyan", bind=True),
                compare.self_starting(arguments.beside.resolve(), "banyan", bind=True, named=compare.BESIDE)]
    output = arguments.output or arguments.build / "compare" / "price.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    machine = contest.describe_machine(pathlib.Path(__file__).resolve().parent)
    options = ["--collective", ",".join(COLLECTIVES), "--sizes", ",".join(map(str, arguments.sizes)),
               "--min-seconds", "0.05"]
    rows, wrong = [], 0
    for transport in TRANSPORTS:
        os.environ["BANYAN_TRANSPORT"] = transport
        results = contest.Results()
        contest.alternate(launches, arguments.rounds, lambda launch, _, into=results: contest.run_launch(
            launch, 2, options, arguments.timeout, into))
        if results.failures:
            sys.exit("price: " + "\n".join(results.failures))
        wrong += sum(count for counts in results.wrong.values() for count in counts.values())
        rows += rows_of(results, transport)
    rows += means_of(rows)
    contest.write_results(output, "the price of a change: this build beside another", machine,
                          shlex.join(["bench/price.py", *sys.argv[1:]]), rows)
    for row in rows:
        print(f"{row['times_beside']:.3f}  {row['what']}" + (f", {row['bytes']} B" if "bytes" in row else ""))
    print(f"written to {output}; wrong elements: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
