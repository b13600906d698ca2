#!/usr/bin/env python3
"""How tenants of banyand share links in an emulated cluster: by TCP alone, through daemons, and by shares.

    bench/service/share.py build                        # all experiments, three rounds, alternating
    bench/service/share.py build weights --rounds 5

Each experiment is run in three ways: `direct` (each program its own connections), `service` (through daemons that do
not know the network) and `shared` (through daemons that do). Every host has a rank of each tenant and a daemon. The
tenants are bench/service/tenant.cc, which checks every sum. Rates are of the buffers that are summed (algbw), from the
times at rank 0; of a call that begins before a window, the part counts that lies in it. Medians of the rounds, with the
least and the largest. Needs root, and nothing else running. Writes share.json into BUILD/compare.

Ends with status 1 when a program fails or a sum is wrong.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import time

import common

SETTLE = 1.0  # of the measured time, until daemons know of the calls
WAYS = ["direct", "service", "shared"]

# fabric, rules by tenant, what each tenant does, seconds
EXPERIMENTS = {
    # Weights 1:2:4; 1, 3 and 5 communicators, so three times as many connections ask for less.
    "weights": ("star:3@200Mb/s", [1, 2, 4],
                ["--bytes 262144", "--bytes 262144 --communicators 3", "--bytes 262144 --communicators 5"], 20),
    # Two equal training jobs on one link: 160 ms of computing, 138 ms of sending at 200 Mb/s.
    "jobs": ("star:2@200Mb/s", [1, 1], ["--bytes 3460000 --compute 0.16"] * 2, 15),
    # All tenants equal and always sending, over two leaves and two spines.
    "equals": ("leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s", [1, 1, 1], ["--bytes 1048576"] * 3, 15),
}


def rank_script(lab, way, tenants, begin, seconds):
    """What a rank of the lab does: it is rank R / K of tenant R % K."""
    count = len(tenants)
    lines = [
        f"T=$((RANK % {count})) WORLD_SIZE=$((WORLD_SIZE / {count}))",
        f"export WORLD_SIZE RANK=$((RANK / {count}))",
        *common.environment(lab, way != "direct"),
        "case $T in " + " ".join(f"{i}) A='{each}';;" for i, each in enumerate(tenants)) + " esac",
        f"exec {lab.build / 'service_tenant'} --begin {begin:f} --seconds {seconds} $A "
        f">{lab.folder}/steps$T.$RANK 2>{lab.folder}/errors$T.$RANK",
    ]
    return "\n".join(lines) + "\n"


def run_once(build, experiment, way, payload):
    """The steps of each tenant as (begin, end), and the window that counts."""
    fabric, weights, tenants, seconds = experiment
    with common.Lab(build, fabric, len(tenants), len(tenants)) as lab:
        lab.write_rules([{"weight": weight} for weight in weights])
        daemon = None if way == "direct" else lab.daemon()
        if way == "shared":
            daemon = lab.daemon("--fabric", f"'{fabric}'", "--node", "$BANYAN_LAB_HOST", "--rules",
                                f"{lab.folder}/rules.json", "--payload", str(payload))
        begin = time.time() + common.START
        steps = lab.run(rank_script(lab, way, tenants, begin, seconds), daemon, way)
    return steps, (begin + SETTLE, begin + seconds)


def size_of(tenant):
    words = shlex.split(tenant)
    return int(words[words.index("--bytes") + 1])


def worst_share_error(experiment, steps, window, length):
    """How far a tenant's part of all bytes is from its weight's part, in the worst window of this length."""
    _, weights, tenants, _ = experiment
    worst, at = 0.0, window[0]
    while at + length <= window[1]:
        part = [common.moved(each, size_of(tenant), (at, at + length)) for each, tenant in zip(steps, tenants)]
        if sum(part) > 0:
            worst = max(worst, max(abs(p / sum(part) - w / sum(weights)) for p, w in zip(part, weights)))
        at += length
    return worst


def figures(experiment, steps, window):
    _, _, tenants, _ = experiment
    length = window[1] - window[0]
    rates = [common.moved(each, size_of(tenant), window) / length for each, tenant in zip(steps, tenants)]
    result = {"MB/s": round(sum(rates) / 1e6, 2)}
    for i, rate in enumerate(rates):
        result[f"part t{i}"] = round(rate / sum(rates), 4)
    result["jain"] = round(common.jain(rates), 4)
    for name, seconds in (("1 s", 1.0), ("100 ms", 0.1)):
        result[f"worst error in {name}"] = round(worst_share_error(experiment, steps, window, seconds), 4)
    gaps = [later[0] - earlier[0] for each in steps for earlier, later in list(zip(each, each[1:]))[9:]]
    if gaps:
        result["step ms, from the 10th on"] = round(1e3 * statistics.median(gaps), 1)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder")
    parser.add_argument("experiments", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; without: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--payload", type=float, default=0.94, help="of the links' bandwidth, as banyand takes it")
    chosen = parser.parse_args()
    unknown = set(chosen.experiments) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"no experiment is called {', '.join(sorted(unknown))}")
    build = chosen.build.resolve()
    results = {}
    for name in chosen.experiments or EXPERIMENTS:
        rounds = {way: [] for way in WAYS}
        for number in range(chosen.rounds):
            for way in WAYS[number % 3:] + WAYS[:number % 3]:
                rounds[way].append(figures(EXPERIMENTS[name], *run_once(build, EXPERIMENTS[name], way, chosen.payload)))
        results[name] = rounds
        print(f"\n{name}: {EXPERIMENTS[name][0]}, weights {EXPERIMENTS[name][1]}, {EXPERIMENTS[name][3]} s")
        for way in WAYS:
            cells = []
            for figure in rounds[way][0]:
                values = sorted(each[figure] for each in rounds[way])
                cells.append(f"{figure} {statistics.median(values):g} ({values[0]:g} to {values[-1]:g})")
            print(f"  {way:8}" + "; ".join(cells), flush=True)
    folder = build / "compare"
    folder.mkdir(exist_ok=True)
    (folder / "share.json").write_text(json.dumps({"banyan": "share/1", "load": os.getloadavg(), "results": results},
                                                  indent=1))


if __name__ == "__main__":
    main()
