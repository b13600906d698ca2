#!/usr/bin/env python3
"""The testbed of MCCS (SIGCOMM'24) in an emulated cluster: 4 hosts, 2 leaves, 2 spines, two ranks on each host.

    bench/service/mccs.py build                         # all of it, three rounds, alternating
    bench/service/mccs.py build setup1 setup3 --rounds 5
    bench/service/mccs.py build training --part 0.25

A host has 400 Mb/s, of which each of its two ranks has 200, as by a network card of its own; each leaf has 200 Mb/s to
each spine. These rates and all sizes are those of the paper divided by 250, so that times are the paper's.

setup1 to setup4: two or three tenants sum buffers of 536,870 bytes back to back. The figure is the sum of their bus
bandwidths (2 (n - 1) / n of the buffer, over the time of a call), of which rings can have 50 MB/s, twice 200 Mb/s; and
Jain's index over the tenants. Ways:
  random   programs with connections of their own follow rings of two channels, each of which takes a path by chance in
           each round, as equal-cost multipath deals them out
  service  through daemons that do not know the network
  rings    through daemons that do, by rings
  forests  the same, by the plans that Banyan makes; a tenant has the cards of all of its ranks together, so that the
           sum can be above what rings can have

training: A trains VGG on 4 ranks, B and C train GPT on 2 ranks each, with weights and classes by rules. The figure is
the seconds until each has made its steps; with --part, of so many of them, scaled.

Every sum is checked. Needs root, and nothing else running. Writes mccs.json into BUILD/compare. Ends with status 1 when
a program fails or a sum is wrong.
"""

import argparse
import fractions
import json
import os
import pathlib
import random
import statistics
import time

import common

FABRIC = "leaf-spine:leaves=2,hosts=2,spines=2,uplink=200Mb/s@400Mb/s"
CARD = 25e6  # bytes per second of a rank, and of a leaf to a spine
SETTLE = 1.0  # of the measured time, until daemons know of the calls
BUFFER = 536_870

# By tenant: the hosts of its ranks. Hosts 0 and 1 are at one leaf, 2 and 3 at the other.
SETUPS = {
    "setup1": [[0, 0, 2, 2], [1, 1, 3, 3]],
    "setup2": [[0, 1, 2, 3], [0, 2], [1, 3]],
    "setup3": [[0, 0, 2, 2], [1, 3], [1, 3]],
    "setup4": [[0, 1, 2, 3], [0, 1, 2, 3]],
}
WAYS = ["random", "service", "rings", "forests"]

# VGG, GPT, GPT: bytes of a sum, seconds of computing, steps
JOBS = [(2_298_676, 0.160, 101), (335_544, 0.006, 1501), (335_544, 0.006, 3001)]
TERMS = {
    "equal": [{}, {}, {}],
    "weights 4:2:1": [{"weight": 4}, {"weight": 2}, {"weight": 1}],
    "classes A>B>C": [{"class": "high"}, {"class": "normal"}, {"class": "low"}],
    "classes B>A>C": [{"class": "normal"}, {"class": "high"}, {"class": "low"}],
}


def seats(tenants):
    """By rank of the lab, two on each host: (tenant, rank in it), or None."""
    found = [None] * 8
    for t, hosts in enumerate(tenants):
        for rank, host in enumerate(hosts):
            found[2 * host if found[2 * host] is None else 2 * host + 1] = (t, rank)
    return found


def rank_script(lab, tenants, by_daemons, begin, work):
    """What a rank of the lab does. `work`: by tenant, options of the program and further lines."""
    lines = ["case $RANK in"]
    for number, seat in enumerate(seats(tenants)):
        if seat is None:
            lines.append(f"{number}) exit 0;;")
            continue
        t, rank = seat
        lines.append(f"{number}) T={t}; export RANK={rank} WORLD_SIZE={len(tenants[t])} "
                     f"MASTER_ADDR=10.0.0.{1 + tenants[t][0]};;")
    lines += ["esac", *common.environment(lab, by_daemons), "case $T in"]
    for t, (options, more) in enumerate(work):
        lines.append(f"{t}) A='{options}'; {more}:;;")
    lines += ["esac", f"exec {lab.build / 'service_tenant'} --begin {begin:f} $A >{lab.folder}/steps$T.$RANK "
                      f"2>{lab.folder}/errors$T.$RANK"]
    return "\n".join(lines) + "\n"


# ---- Daemons that know the network ----

def cap_of(hosts, rings, payload):
    """A ring goes by one card of a host, a forest by all that the tenant has there."""
    cards = 1 if rings else max(hosts.count(host) for host in hosts)
    return f"{round(CARD * cards * payload)} B/s"


def knowing_daemon(lab, tenants, terms, rings, payload):
    grants = []
    for hosts, each in zip(tenants, terms):
        grants.append({**each, "cap": cap_of(hosts, rings, payload), **({"plan": "ring"} if rings else {})})
    lab.write_rules(grants)
    return lab.daemon("--fabric", f"'{FABRIC}'", "--node", "$BANYAN_LAB_HOST", "--routes", str(common.host_routes(lab)),
                      "--rules", f"{lab.folder}/rules.json", "--payload", str(payload))


# ---- Rings of two channels over paths by chance ----

def tenant_files(lab, t, names):
    """The lab's fabric and routes with the ranks of one tenant alone. A ring goes by one card of a host."""
    whole = json.loads((lab.files / "fabric.json").read_text())
    nodes = [{"name": name, "kind": "rank"} for name in names]
    nodes += [node for node in whole["nodes"] if node["kind"] == "switch"]
    known = {node["name"] for node in nodes}
    hosts = {name.split(".")[0] for name in names}
    links = []
    for link in whole["links"]:
        ends = {link["from"], link["to"]}
        if ends <= known:
            is_card = ends & hosts and not ends & set(names)
            links.append({**link, "bandwidth": f"{round(CARD)} B/s"} if is_card else link)
    routes = [route for route in json.loads((lab.files / "routes.json").read_text())["routes"]
              if {route["path"][0], route["path"][-1]} <= known]
    (lab.folder / f"routes{t}.json").write_text(json.dumps({"banyan": "routes/1", "routes": routes}))
    return {**whole, "nodes": nodes, "links": links}, [route["path"] for route in routes]


def random_ring(lab, t, tenants, chance):
    """Writes the routes and the plan of a tenant; shell commands that have its ranks follow it."""
    names = [f"gpu{number // 2}.{number % 2}" for number, seat in enumerate(seats(tenants))
             if seat is not None and seat[0] == t]
    fabric, paths = tenant_files(lab, t, names)
    number_of = {(link["from"], link["to"]): number for number, link in enumerate(fabric["links"])}
    size = len(names)
    routes = []  # of a place in the ring to the next, by both channels
    for place in range(size):
        ends = [names[place], names[(place + 1) % size]]
        choice = [path if path[0] == ends[0] else path[::-1] for path in paths if {path[0], path[-1]} == set(ends)]
        for _ in range(2):
            path = chance.choice(choice) if choice else [ends[0], ends[0].split(".")[0], ends[1]]
            routes.append([number_of[step] for step in zip(path, path[1:])])
    chunks = [{"root": names[root], "units": 1,
               "in": [(root + 1 + i) % size * 2 + channel for i in range(size - 1)],
               "out": [(root + i) % size * 2 + channel for i in range(size - 1)]}
              for channel in range(2) for root in range(size)]
    loads = [0] * len(fabric["links"])
    for chunk in chunks:
        for route in chunk["in"] + chunk["out"]:
            for link in routes[route]:
                loads[link] += 1
    plan = {"banyan": "schedule/1", "planner": "ring of two channels",
            "collective": {"kind": "allreduce", "ranks": names}, "total_units": len(chunks),
            "seconds_per_byte": str(max(fractions.Fraction(load, len(chunks) * bytes_per_second(link))
                                        for load, link in zip(loads, fabric["links"]))),
            "fabric": fabric, "routes": routes, "chunks": chunks}
    (lab.folder / f"plan{t}.json").write_text(json.dumps(plan))
    return (f"unset BANYAN_TRANSPORT; export BANYAN_ROUTES={lab.folder}/routes{t}.json "
            f"BANYAN_PLAN={lab.folder}/plan{t}.json; ")


def bytes_per_second(link):
    number, unit = link["bandwidth"].split()
    return int(number) * {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9}[unit]


# ---- Experiments ----

def run_once(build, tenants, way, options, plan):
    """The steps of each tenant, and when they began. `plan`: of the run; see main()."""
    with common.Lab(build, FABRIC, 2, len(tenants)) as lab:
        more = [""] * len(tenants)
        daemon = None
        if way == "random":
            more = [random_ring(lab, t, tenants, plan["chance"]) for t in range(len(tenants))]
        elif way == "service":
            daemon = lab.daemon()
        else:
            daemon = knowing_daemon(lab, tenants, plan["terms"], way == "rings", options.payload)
        begin = time.time() + common.START
        script = rank_script(lab, tenants, way != "random", begin, list(zip(plan["work"], more)))
        return lab.run(script, daemon, way), begin


def bandwidths(options, setup, way, chance):
    """Bus bandwidths of tenants that sum all the time."""
    tenants = SETUPS[setup]
    steps, begin = run_once(options.build, tenants, way, options, {
        "chance": chance, "terms": [{}] * len(tenants),
        "work": [f"--bytes {BUFFER} --seconds {options.seconds}"] * len(tenants)})
    window = (begin + SETTLE, begin + options.seconds)
    rates = [common.moved(each, BUFFER, window) / (window[1] - window[0]) * 2 * (len(hosts) - 1) / len(hosts)
             for hosts, each in zip(tenants, steps)]
    result = {"MB/s": round(sum(rates) / 1e6, 2), "of 50": round(sum(rates) / (2 * CARD), 4),
              "jain": round(common.jain(rates), 4)}
    for name, rate in zip("ABC", rates):
        result[name] = round(rate / 1e6, 2)
    return result


def training(options, way, terms, chance):
    """Seconds of VGG, GPT and GPT."""
    tenants = SETUPS["setup3"]
    counts = [max(2, round(steps * options.part)) for _, _, steps in JOBS]
    steps, begin = run_once(options.build, tenants, way, options, {
        "chance": chance, "terms": TERMS.get(terms, [{}] * 3),
        "work": [f"--bytes {size} --compute {compute} --steps {count}"
                 for (size, compute, _), count in zip(JOBS, counts)]})
    return {name: round((each[-1][1] - begin) * whole / count, 2)
            for name, each, (_, _, whole), count in zip("ABC", steps, JOBS, counts)}


def report(title, rounds):
    print(f"\n{title}")
    for way, runs in rounds.items():
        cells = []
        for figure in runs[0]:
            values = sorted(each[figure] for each in runs)
            cells.append(f"{figure} {statistics.median(values):g} ({values[0]:g} to {values[-1]:g})")
        print(f"  {way:24}" + "; ".join(cells), flush=True)


def main():
    experiments = [*SETUPS, "training"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder")
    parser.add_argument("experiments", nargs="*", help=f"of {', '.join(experiments)}; without: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="of each run of a set-up")
    parser.add_argument("--part", type=float, default=1, help="of the steps of training")
    parser.add_argument("--ways", default=",".join(WAYS), help="comma-separated (default: all)")
    parser.add_argument("--terms", default=",".join(TERMS), help="of training by rules, comma-separated (default: all)")
    parser.add_argument("--payload", type=float, default=0.985, help="of the links' bandwidth, as banyand takes it")
    parser.add_argument("--seed", type=int, default=1, help="of the paths by chance")
    options = parser.parse_args()
    options.build = options.build.resolve()
    unknown = set(options.experiments) - set(experiments) | set(options.ways.split(",")) - set(WAYS)
    unknown |= set(options.terms.split(",")) - set(TERMS)
    if unknown:
        parser.error(f"nothing is called {', '.join(sorted(unknown))}")
    chance = random.Random(options.seed)
    results = {}
    for name in options.experiments or experiments:
        ways = options.ways.split(",")
        if name == "training":
            ways = [(way, terms) for way in ways
                    for terms in (options.terms.split(",") if way in ("rings", "forests") else [""])]
        rounds = {" ".join(way) if isinstance(way, tuple) else way: [] for way in ways}
        labelled = list(zip(rounds, ways))
        for number in range(options.rounds):
            first = number % len(ways)
            for label, way in labelled[first:] + labelled[:first]:
                rounds[label].append(training(options, *way, chance) if name == "training"
                                     else bandwidths(options, name, way, chance))
        results[name] = rounds
        report(f"{name}, {options.rounds} rounds, seed {options.seed}", rounds)
    folder = options.build / "compare"
    folder.mkdir(exist_ok=True)
    (folder / "mccs.json").write_text(json.dumps({"banyan": "mccs/1", "load": os.getloadavg(), "part": options.part,
                                                  "seed": options.seed, "results": results}, indent=1))


if __name__ == "__main__":
    main()
