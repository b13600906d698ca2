#!/usr/bin/env python3
"""Ourselves, Open MPI, MPICH, Gloo and the floors of the machine, side by side on this machine in one session.

Every round launches every contestant once, each round beginning with another one; every figure is the median of the
rounds. A ratio says how many times quicker we are than the best of the peers at that size. Prints tables, and writes
results.csv, results.json and one SVG per collective and number of ranks into the output folder.

With --roots change, broadcasts, reduces, gathers and scatters have another root at every call, so that no rank can run
ahead of the others; without, they follow each other from and to rank 0, and the times are rates.

Ends with status 1 when a contestant fails or any result is wrong.
"""

import argparse
import os
import pathlib
import sys

import contest

MPI = ["openmpi-copy", "openmpi-cma", "openmpi-ucx", "openmpi-coll-sm", "openmpi-han", "mpich"]
SIZES = [4, 64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20]
QUICK_SIZES = [4, 8 << 10, 512 << 10, 4 << 20]
OB1 = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
BESIDE = "beside"  # the name of the other build of ours
COPY = ["--mca", "btl_vader_single_copy_mechanism", "none"]
OPEN_MPI_MODES = {
    "openmpi-copy": [*OB1, *COPY],
    "openmpi-cma": [*OB1, "--mca", "btl_vader_single_copy_mechanism", "cma"],
    # Without these two, Open MPI uses UCX only where there is RDMA hardware.
    "openmpi-ucx": ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"],
}
MORE_OPEN_MPI_MODES = {
    "openmpi-coll-sm": [*OB1, *COPY, "--mca", "coll_sm_priority", "100"],
    "openmpi-han": [*OB1, "--mca", "coll_han_priority", "100", "--mca", "coll_adapt_priority", "80"],
}


def open_mpi(build, name, mode):
    program = build / "mpi_peer_openmpi"

    def command(ranks, _meet):
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        bind = "core" if ranks <= os.cpu_count() else "none"
        start = ["mpirun.openmpi", *as_root, "--oversubscribe", "--bind-to", bind, "-np", str(ranks)]
        return [*start, *mode, str(program)]

    return contest.Launch(name, program, command, printed="openmpi")


def mpich(build):
    program = build / "mpi_peer_mpich"

    def command(ranks, _meet):
        bind = ["-bind-to", "core"] if ranks <= os.cpu_count() else []
        return ["mpiexec.mpich", *bind, "-n", str(ranks), str(program)]

    return contest.Launch("mpich", program, command, printed="mpich")


def self_starting(build, name, bind, named=None):
    """`bind`: to a core per rank, where there are enough, as the MPIs are. Gloo has two threads in each rank.

    With the library of this build, also where the folder was copied: the program would look where it was built."""
    program = build / f"{name}_peer"

    def command(ranks, meet):
        binding = "core" if bind and ranks <= os.cpu_count() else "none"
        return ["env", f"LD_LIBRARY_PATH={build / 'bindings/c'}", str(program), "--ranks", str(ranks), "--meet", meet,
                "--bind", binding]

    return contest.Launch(named or name, program, command, printed=name)


def all_launches(build, more):
    modes = {**OPEN_MPI_MODES, **(MORE_OPEN_MPI_MODES if more else {})}
    return [*(open_mpi(build, name, mode) for name, mode in modes.items()), mpich(build),
            self_starting(build, "gloo", bind=False), self_starting(build, "banyan", bind=True),
            self_starting(build, "floor", bind=True)]


def ratio(peer, own):
    return peer / own if peer and own else None


def table(results, ranks, collective):
    """The lines of one collective as text, and the ratios of its rows: {"ordinary": [...], "registered": [...]}."""
    head = ["bytes", "best MPI, us", "which", "Gloo", "ordinary", "ratio", "registered", "ratio", "in place", "floor",
            "wrong"]
    rows, ratios = [], {"ordinary": [], "registered": []}
    keys = [key for key in results.times if (key.ranks, key.collective) == (ranks, collective)]
    for key in sorted(keys, key=lambda key: key.bytes):
        which, mpi = results.best(key, MPI)
        _, gloo = results.best(key, ["gloo"])
        peer = min(filter(None, (mpi, gloo)), default=None)
        own = {name: results.median(key, f"banyan:{name}") for name in ("ordinary", "registered", "in-place")}
        for name, found in ratios.items():
            if ratio(peer, own[name]):
                found.append(ratio(peer, own[name]))
        rows.append([contest.size_text(key.bytes), contest.time_text(mpi), which or "-", contest.time_text(gloo),
                     contest.time_text(own["ordinary"]), contest.ratio_text(ratio(peer, own["ordinary"])),
                     contest.time_text(own["registered"]), contest.ratio_text(ratio(peer, own["registered"])),
                     contest.time_text(own["in-place"]), contest.time_text(results.best(key, ["floor"])[1]),
                     str(sum(results.wrong[key].values()))])
    means = [f"{name} {contest.ratio_text(contest.geometric_mean(found))}" for name, found in ratios.items() if found]
    text = f"### {collective}, {ranks} ranks\n\n{contest.markdown_table(head, rows)}\n"
    return text + (f"\ngeometric means of the ratios: {', '.join(means)}\n" if means else ""), ratios


def beside_table(results):
    """How long our calls take against those of the build beside, as text: a row for each kind of buffers."""
    ratios = {}
    for key, times in results.times.items():
        for series in times:
            own, before = results.median(key, series), results.median(key, series.replace("banyan", BESIDE, 1))
            if series.startswith("banyan") and ratio(own, before):
                ratios.setdefault(series, []).append((ratio(own, before), key))
    rows = []
    for series, found in sorted(ratios.items()):
        most, key = max(found, key=lambda each: each[0])
        mean = contest.geometric_mean([each for each, _ in found])
        rows.append([series, str(len(found)), f"{mean:.3f}", f"{most:.3f}",
                     f"{key.collective} of {contest.size_text(key.bytes)}, {key.ranks} ranks"])
    head = ["buffers", "rows", "time against the build beside, geometric mean", "slowest", "which"]
    return contest.markdown_table(head, rows) if rows else ""


def curves_of(results, ranks, collective):
    """{series: [(bytes, microseconds)]}: each way of using MPI and ourselves; of Gloo and of the floors the best."""
    curves = {}
    for key in results.times:
        if (key.ranks, key.collective) != (ranks, collective) or key.bytes == 0:
            continue
        for series in results.times[key]:
            if series.split(":")[0] not in ("gloo", "floor"):
                curves.setdefault(series, []).append((key.bytes, results.median(key, series)))
        for family in ("gloo", "floor"):
            best = results.best(key, [family])[1]
            if best:
                curves.setdefault(family, []).append((key.bytes, best))
    return curves


def words(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in words(text)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder with the peers (make bench-peers)")
    parser.add_argument("--ranks", type=numbers, default=[2, 4], help="numbers of ranks; default 2,4")
    parser.add_argument("--collective", type=words, default=contest.COLLECTIVES)
    parser.add_argument("--roots", choices=["stay", "change"], default="stay")
    parser.add_argument("--sizes", type=numbers, help="bytes; default: nine sizes from 4 B to 256 MiB")
    parser.add_argument("--rounds", type=int, help="default 7")
    parser.add_argument("--min-seconds", type=float, help="of timed calls per figure and round; default 0.05")
    parser.add_argument("--only", type=words, help="names of contestants, as in the tables")
    parser.add_argument("--beside", type=pathlib.Path, metavar="BUILD",
                        help="the build folder of another commit, whose banyan_peer takes part as 'beside'")
    parser.add_argument("--more-modes", action="store_true", help="also Open MPI's coll/sm and coll/han")
    parser.add_argument("--quick", action="store_true", help="4 sizes, 3 rounds: an impression, no result")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one launch; default 900")
    parser.add_argument("--output", type=pathlib.Path, help="default BUILD/compare")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.collective if name not in contest.COLLECTIVES]
    if unknown:
        parser.error(f"unknown collective '{unknown[0]}' (known: {', '.join(contest.COLLECTIVES)})")
    if arguments.roots == "change":
        arguments.collective = [name for name in arguments.collective if name in contest.ROOTED]
    arguments.sizes = arguments.sizes or (QUICK_SIZES if arguments.quick else SIZES)
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 7)
    arguments.min_seconds = arguments.min_seconds or (0.02 if arguments.quick else 0.05)
    arguments.output = arguments.output or arguments.build / "compare"
    return arguments


def choose_launches(arguments):
    launches = all_launches(arguments.build.resolve(), arguments.more_modes)
    if arguments.beside:
        launches.append(self_starting(arguments.beside.resolve(), "banyan", bind=True, named=BESIDE))
    names = [launch.name for launch in launches]
    for name in arguments.only or []:
        if name not in names:
            sys.exit(f"compare: unknown contestant '{name}' (known: {', '.join(names)})")
    fixed = ["gloo", "floor"] if arguments.roots == "change" else []  # their root is always rank 0
    chosen = [launch for launch in launches if launch.name in (arguments.only or names) and launch.name not in fixed]
    for launch in chosen:
        if not launch.program.exists():
            print(f"left out: {launch.name} ({launch.program.name} is not built)", flush=True)
    present = [launch for launch in chosen if launch.program.exists()]
    return present or sys.exit(f"compare: no peer is built in {arguments.build}; run make bench-peers")


def measure(arguments, launches):
    results = contest.Results()
    options = ["--collective", ",".join(arguments.collective), "--sizes", ",".join(map(str, arguments.sizes)),
               "--min-seconds", str(arguments.min_seconds)]
    options += ["--roots", "change"] if arguments.roots == "change" else []
    for ranks in arguments.ranks:
        def run(launch, number, ranks=ranks):
            lines = contest.run_launch(launch, ranks, options, arguments.timeout, results)
            print(f"{ranks} ranks, round {number + 1} of {arguments.rounds}: {launch.name}, {lines} figures",
                  file=sys.stderr, flush=True)

        contest.alternate(launches, arguments.rounds, run)
    return results


def measure_floors(build):
    """What the machine can do, as {what: "value unit"}: flags between cores, and bandwidths."""
    program = build.resolve() / "floors"
    if not program.exists():
        return {}
    status, output, errors = contest.run_to_end([str(program)], timeout=120)
    if status != 0:
        sys.exit(f"compare: {program} ended with status {status}: {errors.strip()}")
    return {what: f"{value} {unit}" for what, value, unit in (line.split(",") for line in output.splitlines()[1:])}


def report(arguments, machine, results):
    for what, value in machine["floors"].items():
        print(f"{what}: {value}")
    print(f"\n{machine['processor']} ({machine['processor_numbers']}), {machine['cores']} cores, "
          f"kernel {machine['kernel']}, commit {machine['commit']}, {machine['date']}; "
          f"medians of {arguments.rounds} rounds, microseconds\n")
    everything = {"ordinary": [], "registered": []}
    for ranks in arguments.ranks:
        for plain_name in arguments.collective:
            collective = plain_name + (contest.CHANGING if arguments.roots == "change" else "")
            text, ratios = table(results, ranks, collective)
            print(text, flush=True)
            for name, found in ratios.items():
                everything[name] += found
            curves = curves_of(results, ranks, collective)
            contest.write_plot(arguments.output / f"{collective}-{ranks}.svg", f"{collective}, {ranks} ranks", curves)
    for name, found in everything.items():
        if found:
            print(f"{name} buffers: {contest.geometric_mean(found):.2f} times the best peer in geometric mean over "
                  f"{len(found)} sizes; least {min(found):.2f}")
    if arguments.beside:
        print(f"\n{beside_table(results)}")


def main():
    arguments = parse_arguments()
    launches = choose_launches(arguments)
    arguments.output.mkdir(parents=True, exist_ok=True)
    machine = contest.describe_machine(pathlib.Path(__file__).resolve().parent)
    machine["floors"] = measure_floors(arguments.build)
    if machine["load_average_before"] > 0.5:
        print(f"warning: something else is running here (load {machine['load_average_before']})", file=sys.stderr)
    results = measure(arguments, launches)
    machine["load_average_after"] = round(os.getloadavg()[0], 2)
    contest.write_csv(arguments.output / "results.csv", results)
    contest.write_json(arguments.output / "results.json",
                       {"format": "banyan-compare/1", "machine": machine, "failures": results.failures,
                        "records": contest.records_of(results)})
    report(arguments, machine, results)
    for failure in results.failures:
        print(f"FAILED {failure}", file=sys.stderr)
    wrong = sum(count for counts in results.wrong.values() for count in counts.values())
    print(f"written to {arguments.output}: results.csv, results.json, plots; wrong elements: {wrong}")
    return 1 if wrong or results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
