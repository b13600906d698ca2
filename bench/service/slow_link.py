#!/usr/bin/env python3
"""How long it takes until the service names a link of an emulated cluster that has become slow.

    bench/service/slow_link.py build                 # five times each link of a few; needs root, as `banyan lab` does
    bench/service/slow_link.py build --times 1 --part 0.25

Two leaves, two spines, four hosts, with a daemon on each host and the tenants of bench/service/tenant.cc: t0 always
sends, t1 (weight 3) computes and sends by turns, t2 may have a twentieth of a link and always sends. Polls the view of
the cluster (GET /v1/cluster) of one daemon. First all links are as the fabric says, for --healthy seconds: every
finding "slow link" then is a false alarm. Then a link gets a tenth of its rate, by tc, until it is named or 3 s have
passed, and all of it again until nothing is named. Prints the times, and the words; writes slow_link.json into
BUILD/compare. Ends with status 1 on a false alarm, and for a link that was not named within a second.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import common

FABRIC = "leaf-spine:leaves=2,hosts=2,spines=2@{rate}"
TENANTS = ["--bytes 4194304", "--bytes 2097152 --compute 0.2", "--bytes 1048576"]
GRANTS = [{"weight": 1}, {"weight": 3}]
SLOWED = ["leaf0->spine1", "spine0->leaf1", "gpu0->leaf0", "leaf1->gpu3"]


def rank_script(lab, begin, seconds):
    count = len(TENANTS)
    lines = [
        f"R=$RANK; T=$((R % {count})); export RANK=$((R / {count})) WORLD_SIZE=$((WORLD_SIZE / {count}))",
        *common.environment(lab, True),
        "case $T in " + " ".join(f"{i}) A='{each}';;" for i, each in enumerate(TENANTS)) + " esac",
        f"exec {lab.build / 'service_tenant'} --begin {begin:f} --seconds {seconds} $A "
        f">{lab.folder}/steps$T.$RANK 2>{lab.folder}/errors$T.$RANK",
    ]
    return "\n".join(lines) + "\n"


def slow_links(path):
    return [each["words"] for each in common.ask(path, "GET", "/v1/cluster")["findings"] if each["kind"] == "slow link"]


class Link:
    """A link of a lab, whose rate can be changed while it carries."""

    def __init__(self, lab, name):
        source, target = name.split("->")
        status = json.loads((lab.files / "lab.json").read_text())
        self._space = f"banyan-{lab.name}.{source}"
        ends = [end for cable in status["cables"] if {end["host"] for end in cable["ends"]} == {source, target}
                for end in cable["ends"]]
        self._device = next(end["interface"] for end in ends if end["host"] == source)
        shown = subprocess.run(self._tc("-j", "qdisc", "show", "dev", self._device), check=True, capture_output=True)
        options = next(each for each in json.loads(shown.stdout) if each["kind"] == "tbf")["options"]
        self._rate, self._burst = options["rate"], options["burst"]

    def _tc(self, *words):
        return ["ip", "netns", "exec", self._space, "tc", *words]

    def carry(self, part):
        """This part of its rate, from now on."""
        rate = str(round(self._rate * 8 * part))
        subprocess.run(self._tc("qdisc", "change", "dev", self._device, "root", "tbf", "rate", f"{rate}bit", "burst",
                                str(self._burst), "latency", "50ms"), check=True)


def poll(path, is_enough, seconds):
    """The words that were enough, and when; None after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        words = slow_links(path)
        if is_enough(words):
            return words, time.monotonic()
        time.sleep(0.02)
    return None


def measure(lab, operators, options):
    false_alarms, looks = [], 0
    end = time.monotonic() + options.healthy
    while time.monotonic() < end:
        false_alarms += slow_links(operators)
        looks += 1
        time.sleep(0.05)
    print(f"{looks} looks in {options.healthy} s while all links are well: {len(false_alarms)} false alarms")
    for words in sorted(set(false_alarms))[:5]:
        print("  ", words)
    rows = []
    for _ in range(options.times):
        for name in options.links:
            link = Link(lab, name)
            link.carry(options.part)
            slowed = time.monotonic()
            first = poll(operators, bool, 3)
            exact = poll(operators, lambda words: any(name in each for each in words), 3)
            wrong = [words for words in (exact or first or [[]])[0] if name not in words]
            link.carry(1)
            mended = time.monotonic()
            over = poll(operators, lambda words: not words, 5)
            rows.append({"link": name, "finding": first and first[1] - slowed, "named": exact and exact[1] - slowed,
                         "over": over and over[1] - mended, "words": (exact or first or [[]])[0], "wrong": wrong})
            shown = {key: f"{rows[-1][key]:.2f} s" if rows[-1][key] else "-" for key in ("finding", "named", "over")}
            print(f"{name:15} finding {shown['finding']:7} named {shown['named']:7} over {shown['over']:7} "
                  + "; ".join(rows[-1]["words"]))
            time.sleep(0.5)
    return {"false_alarms": false_alarms, "looks": looks, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rate", default="100Mb/s")
    parser.add_argument("--part", type=float, default=0.1)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--healthy", type=float, default=10)
    parser.add_argument("--links", nargs="*", default=SLOWED)
    options = parser.parse_args()
    build = options.build.resolve()
    seconds = options.healthy + options.times * len(options.links) * 9 + 3
    with common.Lab(build, FABRIC.format(rate=options.rate), len(TENANTS), len(TENANTS)) as lab:
        lab.write_rules(GRANTS + [{"cap": f"{float(options.rate.removesuffix('Mb/s')) / 8 / 20}MB/s"}])
        daemon = lab.daemon("--fabric", f"'{FABRIC.format(rate=options.rate)}'", "--node", "$BANYAN_LAB_HOST",
                            "--routes", str(common.host_routes(lab)), "--rules", f"{lab.folder}/rules.json")
        operators = lab.folder / "gpu0-operator.sock"
        begin = time.time() + common.START
        script = rank_script(lab, begin, seconds)
        ranks = threading.Thread(target=lab.run, args=(script, daemon, "slow link"), daemon=True)
        ranks.start()
        time.sleep(common.START + 2)
        report = measure(lab, operators, options)
    (build / "compare").mkdir(exist_ok=True)
    (build / "compare" / "slow_link.json").write_text(json.dumps(report, indent=1))
    named = [row["finding"] for row in report["rows"] if row["finding"]]
    if named:
        print(f"until a finding: median {statistics.median(named):.2f} s, longest {max(named):.2f} s")
    late = [row for row in report["rows"] if row["finding"] is None or row["finding"] > 1 or row["wrong"]]
    sys.exit(1 if report["false_alarms"] or late else 0)


if __name__ == "__main__":
    main()
