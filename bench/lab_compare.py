#!/usr/bin/env python3
"""Ourselves, Gloo and Open MPI over TCP inside emulated clusters (banyan lab), beside what the fabric allows.

For each fabric the lab is set up, every way of using a peer (Gloo's algorithms, several settings of Open MPI's tuned
collectives) is tried once, and then the rounds alternate between ourselves and those ways that were best at some size.
Rates are algbw: the larger of what a rank sends and receives over the median time. `bound` is the best that any
schedule can reach and `plan` the rate of our plan, both from `banyan plan`; `reached` is our rate over the bound;
`ratio` over the better peer. Needs root. Writes lab.json and a lab-FABRIC.csv each into the output folder.

Ends with status 1 when a lab cannot be set up, a contestant fails or any result is wrong.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import contest

COLLECTIVES = ["allgather", "reduce-scatter", "broadcast", "allreduce"]
FABRICS = ["two-boxes", "torus", "leaf-spine", "mi250-like", "slow-ring"]
SIZES = [8 << 20, 64 << 20]
TUNED_NAMES = {"allgather": "allgather", "reduce-scatter": "reduce_scatter_block", "broadcast": "bcast",
               "allreduce": "allreduce"}
# One setting of each collective of Open MPI's tuned component per launch; names are those of ompi_info. The first entry
# leaves the choice to Open MPI.
TUNED = [
    {},
    {"allreduce": "ring", "allgather": "ring", "reduce_scatter_block": "recursive_halving", "bcast": "pipeline"},
    {"allreduce": "segmented_ring", "allgather": "neighbor", "reduce_scatter_block": "butterfly", "bcast": "chain"},
    {"allreduce": "rabenseifner", "allgather": "recursive_doubling", "reduce_scatter_block": "recursive_doubling",
     "bcast": "scatter_allgather_ring"},
    {"allreduce": "recursive_doubling", "allgather": "bruck", "reduce_scatter_block": "basic_linear",
     "bcast": "scatter_allgather"},
    {"bcast": "split_binary_tree"},
]
OPEN_MPI_INTERFACE = "openmpi"
SEGMENT = str(128 << 10)  # bytes of a broadcast's pipeline, where the algorithm has one


class Lab:
    """An emulated cluster, up between __enter__ and __exit__. `ranks` are the entries of its description.
    ranks_per_host: of each host of the fabric; None: its hosts are the ranks."""

    def __init__(self, banyan, fabric, scale, name, ranks_per_host=None):
        self.banyan, self.fabric, self.scale, self.name = str(banyan), fabric, scale, name
        self.ranks_per_host = ranks_per_host

    @property
    def title(self):
        """What it emulates: the name of the file without its ending, or a generator as it was given."""
        path = pathlib.Path(self.fabric)
        return path.stem if path.exists() else str(self.fabric)

    def command(self, verb, *words):
        return [self.banyan, "lab", verb, "--name", self.name, *words]

    def __enter__(self):
        try:
            self.must("up", str(self.fabric), *(["--scale", self.scale] if self.scale else []),
                      *(["--ranks-per-host", str(self.ranks_per_host)] if self.ranks_per_host else []))
            self.scaled_fabric = self.variable("BANYAN_FABRIC")
            self.ranks = json.loads(pathlib.Path(self.variable("BANYAN_LAB")).read_text(encoding="utf-8"))["ranks"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run(self.command("down"), capture_output=True, check=False)

    def must(self, verb, *words):
        status, output, errors = contest.run_to_end(self.command(verb, *words), timeout=120)
        if status != 0:
            raise RuntimeError(f"banyan lab {verb}: {errors.strip() or output.strip() or 'took longer than 120 s'}")
        return output

    def variable(self, name):
        """A variable of the environment that programs in the lab get."""
        return self.must("run", "--no-prefix", "--rank", "0", "--", "printenv", name).strip()

    def addresses(self):
        """The primary address of each rank, without its prefix length."""
        by_number = sorted(self.ranks, key=lambda rank: rank["number"])
        return [rank["address"].split("/")[0] for rank in by_number]


def bound_and_plan(banyan, collective, fabric):
    """Bytes per second that any schedule can reach at best, and that ours promises."""
    status, output, errors = contest.run_to_end([str(banyan), "plan", collective, str(fabric), "--json"], timeout=600)
    if status != 0:
        raise RuntimeError(f"banyan plan {collective} {fabric}: {errors.strip()}")
    plan = json.loads(output)
    return plan["bound"]["algbw_GBps"] * 1e9, plan["schedule"]["algbw_GBps"] * 1e9


def on_every_rank(lab, build, name):
    program = build / f"{name}_peer"

    def command(_ranks, meet):
        return lab.command("run", "--no-prefix", "--", str(program), *(["--meet", meet] if name == "gloo" else []))

    return contest.Launch(name, program, command, printed=name)


def show_addresses_to_open_mpi(lab):
    """Open MPI sees only the first address of an interface, and the loopback, where hosts have their primary one, has
    another before it. A bridge without ports shows it the primary address as well."""
    script = ('shift "$RANK" && ip link add "$0" type bridge && ip address add "$1/32" dev "$0" && '
              'ip link set "$0" up')
    lab.must("run", "--no-prefix", "--", "sh", "-c", script, OPEN_MPI_INTERFACE, *lab.addresses())


def write_agent(lab, folder):
    """What Open MPI starts its daemons with, instead of ssh: `agent ADDRESS COMMAND...` runs a command in the namespace
    of the rank that has the address, under a host name of its own, since Open MPI takes hosts of one name for one."""
    agent = pathlib.Path(folder) / "agent"
    cases = "\n".join(f"  {address}) rank={rank} ;;" for rank, address in enumerate(lab.addresses()))
    run = " ".join(map(shlex.quote, lab.command("run", "--no-prefix", "--rank")))
    agent.write_text(f"""#!/bin/sh
case "$1" in
{cases}
  *) echo "agent: $1 is no rank of the lab" >&2; exit 1 ;;
esac
shift
exec {run} "$rank" -- unshare --uts sh -c "hostname rank$rank; exec sh -c \\"\\$0\\"" "$*"
""", encoding="utf-8")
    agent.chmod(0o755)
    return agent


def open_mpi(lab, build, number, setting, agent):
    """One Open MPI job over all hosts, started in the namespace of rank 0."""
    program = build / "mpi_peer_openmpi"
    addresses = lab.addresses()
    mca = {"plm_rsh_agent": str(agent), "plm_rsh_no_tree_spawn": "1", "routed": "direct", "pml": "ob1",
           "btl": "self,tcp", "btl_tcp_if_include": OPEN_MPI_INTERFACE, "oob_tcp_if_include": OPEN_MPI_INTERFACE,
           # It knows that each host has one rank, not that all hosts share our few cores.
           "mpi_yield_when_idle": "1"}
    if setting:
        mca["coll_tuned_use_dynamic_rules"] = "1"
    for collective, algorithm in setting.items():
        mca[f"coll_tuned_{collective}_algorithm"] = algorithm
    if "bcast" in setting:
        mca["coll_tuned_bcast_algorithm_segmentsize"] = SEGMENT
    words = [word for name, value in mca.items() for word in ("--mca", name, value)]

    start = ["mpirun.openmpi", "--allow-run-as-root", "--leave-session-attached", "--bind-to", "none",
             "-H", ",".join(addresses), "-np", str(len(addresses)), *words, str(program)]

    def command(_ranks, _meet):
        return lab.command("run", "--no-prefix", "--rank", "0", "--", "unshare", "--uts", "sh", "-c",
                           'hostname rank0; exec "$@"', "sh", *start)

    return contest.Launch(f"openmpi:{number}", program, command, printed="openmpi")


def best_only(launches, pilot, keys):
    """{launch name: options} of the launches that were best of their family at some key, told to do only that."""
    won = {}
    for key in keys:
        for family in ("gloo", "openmpi"):
            series, _ = pilot.best(key, [family])
            if series:
                won.setdefault(series, set()).add(key.collective)
    chosen = []
    for launch in launches:
        for series, collectives in sorted(won.items()):
            if series == launch.name or (launch.name == "gloo" and series.split(":")[0] == "gloo"):
                contest_option = ["--contest", series] if launch.name == "gloo" else []
                chosen.append((launch, [*contest_option, "--collective", ",".join(sorted(collectives))]))
    return chosen


def measure_fabric(lab, arguments, results):
    """Adds one fabric's times; gives the rows' keys."""
    ranks = len(lab.ranks)
    sizes = ["--sizes", ",".join(map(str, arguments.sizes)), "--calls", str(arguments.calls)]
    everything = ["--collective", ",".join(arguments.collective)]
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory(prefix="banyan-agent-") as folder:
        show_addresses_to_open_mpi(lab)
        agent = write_agent(lab, folder)
        peers = [on_every_rank(lab, build, "gloo"),
                 *(open_mpi(lab, build, number, setting, agent) for number, setting in enumerate(TUNED))]
        peers = [launch for launch in peers if launch.program.exists()]
        pilot = contest.Results()
        for launch in peers:
            lines = contest.run_launch(launch, ranks, [*everything, *sizes], arguments.timeout, pilot)
            print(f"{lab.fabric.stem}: tried {launch.name}, {lines} figures", file=sys.stderr, flush=True)
        results.failures += pilot.failures
        chosen = best_only(peers, pilot, pilot.times)
        own = on_every_rank(lab, build, "banyan")
        if own.program.exists():
            chosen.insert(0, (own, [*everything, "--contest", "banyan:ordinary"]))
        if not chosen:
            raise RuntimeError("no contestant is left")

        def run(entry, number):
            launch, options = entry
            contest.run_launch(launch, ranks, [*options, *sizes], arguments.timeout, results)
            print(f"{lab.fabric.stem}, round {number + 1}: {launch.name}", file=sys.stderr, flush=True)

        contest.alternate(chosen, arguments.rounds, run)


def rate_text(bytes_per_second):
    return "-" if not bytes_per_second else f"{bytes_per_second / 1e6:.2f}"


def algorithm_of(series, collective):
    """What a table says of how a peer did it: Gloo's variant, or Open MPI's setting of that collective."""
    family, _, variant = (series or "-").partition(":")
    if family == "openmpi":
        return TUNED[int(variant)].get(TUNED_NAMES[collective], "default")
    return variant or "-"


def report(fabric, results, limits):
    head = ["collective", "bytes", "bound, MB/s", "plan", "ours", "reached", "Gloo", "which", "Open MPI", "which",
            "ratio", "wrong"]
    rows, ratios = [], []
    for key in sorted(results.times, key=lambda key: (COLLECTIVES.index(key.collective), key.bytes)):
        bound, plan = limits[key.collective]
        time_of = {family: results.best(key, [family]) for family in ("banyan", "gloo", "openmpi")}
        rate = {family: key.bytes / us * 1e6 if us else None for family, (_, us) in time_of.items()}
        peer = max(filter(None, (rate["gloo"], rate["openmpi"])), default=None)
        ratio = rate["banyan"] / peer if rate["banyan"] and peer else None
        ratios += [ratio] if ratio else []
        names = {family: algorithm_of(series, key.collective) for family, (series, _) in time_of.items()}
        reached = f"{100 * rate['banyan'] / bound:.1f} %" if rate["banyan"] else "-"
        rows.append([key.collective, contest.size_text(key.bytes), rate_text(bound), rate_text(plan),
                     rate_text(rate["banyan"]), reached, rate_text(rate["gloo"]), names["gloo"],
                     rate_text(rate["openmpi"]), names["openmpi"], contest.ratio_text(ratio),
                     str(sum(results.wrong[key].values()))])
    print(f"### {fabric}\n\n{contest.markdown_table(head, rows)}\n")
    if ratios:
        print(f"geometric mean of the ratios: {contest.geometric_mean(ratios):.2f}\n", flush=True)
    return ratios


def words(text):
    return text.split(",")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder with banyan and the peers")
    parser.add_argument("--fabric", type=words, default=FABRICS, help=f"of {', '.join(FABRICS)}, or files")
    parser.add_argument("--collective", type=words, default=COLLECTIVES)
    parser.add_argument("--sizes", type=lambda text: [int(word) for word in words(text)], default=SIZES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2, help="timed calls per figure and round; default 2")
    parser.add_argument("--scale", help="of all bandwidths, such as 1/2; default: as the files say")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one launch; default 1800")
    parser.add_argument("--quick", action="store_true", help="8 MiB, 1 round, 1 call: an impression, no result")
    parser.add_argument("--output", type=pathlib.Path, help="default BUILD/compare")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.collective if name not in COLLECTIVES]
    if unknown:
        parser.error(f"unknown collective '{unknown[0]}' (known: {', '.join(COLLECTIVES)})")
    if arguments.quick:
        arguments.sizes, arguments.rounds, arguments.calls = [8 << 20], 1, 1
    arguments.output = arguments.output or arguments.build / "compare"
    return arguments


def compare_fabric(path, arguments):
    """(results, limits, ratios) of one fabric."""
    banyan = arguments.build.resolve() / "banyan"
    results = contest.Results()
    with Lab(banyan, path, arguments.scale, f"compare{os.getpid()}") as lab:
        limits = {name: bound_and_plan(banyan, name, lab.scaled_fabric) for name in arguments.collective}
        measure_fabric(lab, arguments, results)
    return results, limits, report(path.stem, results, limits)


def main():
    arguments = parse_arguments()
    here = pathlib.Path(__file__).resolve().parent
    arguments.output.mkdir(parents=True, exist_ok=True)
    machine = contest.describe_machine(here)
    everything, records, failures, wrong = [], {}, [], 0
    for name in arguments.fabric:
        path = here / "fabrics" / f"{name}.txt" if name in FABRICS else pathlib.Path(name)
        try:
            results, limits, ratios = compare_fabric(path, arguments)
        except RuntimeError as error:
            failures.append(f"{name}: {error}")
            continue
        everything += ratios
        failures += [f"{name}: {failure}" for failure in results.failures]
        wrong += sum(count for counts in results.wrong.values() for count in counts.values())
        records[path.stem] = {"limits_bytes_per_second": limits, "records": contest.records_of(results)}
        contest.write_csv(arguments.output / f"lab-{path.stem}.csv", results)
    document = {"format": "banyan-lab-compare/1", "machine": machine, "tuned": TUNED, "failures": failures,
                "fabrics": records}
    contest.write_json(arguments.output / "lab.json", document)
    if everything:
        print(f"all: {contest.geometric_mean(everything):.2f} times the better peer in geometric mean over "
              f"{len(everything)} figures; least {min(everything):.2f}")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    print(f"written to {arguments.output}: lab.json, lab-*.csv; wrong elements: {wrong}")
    return 1 if failures or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
