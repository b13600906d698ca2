#!/usr/bin/env python3
"""Training steps of examples/torch/train_ddp.py over Gloo and over Banyan inside an emulated cluster (banyan lab).

  python3 bench/torch_lab.py build                               # two boxes of four ranks, a slow cable between them
  python3 bench/torch_lab.py build --fabric cluster.txt --model 2x128x2 --json lab.json
  python3 bench/torch_lab.py build --compress int8 int4          # the same with gradients in these codes, too
  python3 bench/torch_lab.py build --compress int8 int8+boxes:4  # the second between boxes of four ranks only
  python3 bench/torch_lab.py build --compress powersgd:4 --train-steps 300      # beside PyTorch's own hook over Gloo

Timing: as torch_ddp_bench.py does, both backends in the same processes, one in each host of the lab; rounds alternate
between them, and a round is --steps whole steps with gradients exchanged and as many under no_sync(). Figures are
medians of the rounds, of the slowest rank. communication = (step - step under no_sync). All hosts share the cores of
this machine, so a model is to be small enough that the network is what a step waits for.

Losses: the same training in processes of its own, once over each backend; they must agree to rounding, as in
torch_ddp_bench.py. Meanwhile the kernel counts what each link carries, headers and acknowledgements included.
`busiest` is the link that its bytes keep busy for longest, and `of the bound` that time over the bound of `banyan plan
allreduce`. What Banyan's log says of the plans that it followed is told, too.

Needs root. Ends with status 1 when the lab cannot be set up, a run fails, losses do not agree, or Banyan followed no
plan; with --strict also when the target is missed. Nothing else should run meanwhile.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile

import contest
import lab_compare
import torch_common
import torch_ddp_bench

HERE = pathlib.Path(__file__).resolve().parent
FABRIC, MODEL = HERE / "fabrics" / "two-boxes-slow-uplink.txt", "1x128x1"
SERIES = ["gloo", "banyan"]
TARGET = 1.5  # times quicker than Gloo with this fabric and model
GLOO_INTERFACE = "gloo"
# What Banyan logs (BANYAN_LOG=debug) of each size of each collective when it takes up a plan for it.
PLAN_LINE = re.compile(r"rank 0 debug: (allreduce of [^:]+: .*)$", re.MULTILINE)


def show_addresses_to_gloo(lab):
    """PyTorch's Gloo can be told an interface, not an address, and takes the first address of it. A bridge without
    ports shows it the primary one, which leads to every rank by the shortest way, by whatever cable."""
    lab.must("run", "--no-prefix", "--", "sh", "-c",
             'ip link add "$0" type bridge && ip address add "$BANYAN_ADDRESS/32" dev "$0" && ip link set "$0" up',
             GLOO_INTERFACE)


def run_in_lab(lab, worker, series, arguments, **environment):
    """(what rank 0's worker of torch_lab_rank.py returned, all that the ranks wrote). Raises RuntimeError when a rank
    fails or the time is over."""
    print(f"{lab.title}: {worker} {', '.join(series)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "PYTHONPATH": str(arguments.build.resolve() / "python"),
                   "PYTHONDONTWRITEBYTECODE": "1", "GLOO_SOCKET_IFNAME": GLOO_INTERFACE, **environment}
    job = {"worker": worker, "series": series, "model": str(arguments.model),
           "arguments": {"rounds": arguments.rounds, "block": arguments.steps, "steps": arguments.train_steps,
                         "timeout": arguments.timeout, "round_seconds": getattr(arguments, "round_seconds", 0)}}
    with tempfile.TemporaryDirectory(prefix="banyan-torch-lab-") as meet:
        pathlib.Path(meet, "job.json").write_text(json.dumps(job), encoding="utf-8")
        command = lab.command("run", "--no-prefix", "--", sys.executable, str(HERE / "torch_lab_rank.py"), meet)
        status, output, errors = contest.run_to_end(command, arguments.timeout, environment)
        if status != 0:
            why = f"took longer than {arguments.timeout:.0f} s" if status is None else f"ended with status {status}"
            raise RuntimeError(f"{worker} {', '.join(series)} {why}: {errors.strip()[-2000:]}")
        return json.loads(pathlib.Path(meet, "result").read_text(encoding="utf-8")), output + errors


def busiest_link(sent, rates):
    """(link, its bytes, seconds for which they keep it busy), of the link for which that is longest. sent: {link:
    bytes}; rates: {link: bits per second}."""
    link = max(sent, key=lambda name: sent[name] / rates[name])
    return link, sent[link], sent[link] * 8 / rates[link]


def rates_of(lab):
    """{"swa -> swb": bits per second}; links of the same name count as one."""
    rates = {}
    for cable in json.loads(pathlib.Path(lab.variable("BANYAN_LAB")).read_text(encoding="utf-8"))["cables"]:
        for end, other in (cable["ends"], cable["ends"][::-1]):
            name = f"{end['host']} -> {other['host']}"
            rates[name] = rates.get(name, 0) + end["rate_bits_per_second"]
    return rates


def compressed_series(codecs):
    """Ours, and beside PowerSGD PyTorch's own over Gloo."""
    found = []
    for codec in codecs:
        found.append(torch_common.CODED + codec)
        if codec.startswith("powersgd:"):
            found.append(torch_common.PEER + codec.removeprefix("powersgd:"))
    return found


def measure(lab, arguments):
    """All figures of one lab, as they go into the JSON."""
    show_addresses_to_gloo(lab)
    rates, (bound, _) = rates_of(lab), lab_compare.bound_and_plan(lab.banyan, "allreduce", lab.scaled_fabric)
    every_series = SERIES + compressed_series(arguments.compress)
    (row,), _ = run_in_lab(lab, "time", every_series, arguments)
    losses, traffic, plans = {}, {}, []
    for series in every_series:
        trained, told = run_in_lab(lab, "train", [series], arguments, BANYAN_LOG="debug", BANYAN_LOG_FILE="")
        losses[series] = trained["losses"]
        link, sent, busy = busiest_link(trained["bytes"], rates)
        gradients = row["parameters"] * 4
        traffic[series] = {"bytes": trained["bytes"], "busiest": link,
                           "gradients": sent / arguments.train_steps / gradients,
                           "bound": busy / arguments.train_steps / (gradients / bound)}
        if series == "banyan":
            plans = PLAN_LINE.findall(told)
    return {"ranks": len(lab.ranks), "parameters": row["parameters"], "bound_bytes_per_second": bound,
            "seconds": row["seconds"], "losses": losses, "traffic": traffic, "plans": plans}


def verdict(figures, target):
    """(how many times quicker than Gloo, whether that is what we want or None where we want nothing)."""
    gloo, own = (torch_ddp_bench.medians(figures["seconds"][series])[0] for series in SERIES)
    return gloo / own, None if target is None else gloo / own >= target


def timing_table(figures, target):
    ratio, met = verdict(figures, target)
    gloo_step = torch_ddp_bench.medians(figures["seconds"]["gloo"])[0]
    rows = []
    for series in figures["seconds"]:
        step, communication, share = torch_ddp_bench.medians(figures["seconds"][series])
        ours = [contest.ratio_text(ratio), str(target or "-"), {None: "-", True: "yes", False: "NO"}[met]]
        if series not in SERIES:
            ours = [contest.ratio_text(gloo_step / step), "-", "-"]
        rows.append([series, f"{step * 1e3:.1f}", f"{(step - communication) * 1e3:.1f}", f"{communication * 1e3:.1f}",
                     f"{share:.1%}", *(["-"] * 3 if series == "gloo" else ours)])
    head = ["series", "step, ms", "under no_sync, ms", "communication, ms", "share", "ratio", "target", "met"]
    return contest.markdown_table(head, rows)


def traffic_table(traffic):
    rows = [[series, found["busiest"], f"{found['gradients']:.2f}", f"{found['bound']:.2f}"]
            for series, found in traffic.items()]
    return contest.markdown_table(["series", "busiest link", "bytes per byte of gradients", "of the bound"], rows)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder, with banyan and the package banyan_torch")
    parser.add_argument("--fabric", type=pathlib.Path, metavar="FILE", default=FABRIC, help=f"default {FABRIC.name}")
    parser.add_argument("--model", type=torch_ddp_bench.Size.parse, default=torch_ddp_bench.Size.parse(MODEL),
                        help=f"LAYERSxWIDTHxSEQUENCES; default {MODEL}")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--compress", nargs="+", default=[], metavar="CODEC",
                        help="series with gradients in these codes, such as int8, or as powersgd:4 sends them")
    parser.add_argument("--steps", type=int, default=10, help="timed at once; default 10")
    parser.add_argument("--train-steps", type=int, help="of the trainings whose losses are told; default as --steps")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one launch; default 900")
    parser.add_argument("--strict", action="store_true", help="a missed target is a failure")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every figure, the machine and the verdicts")
    arguments = parser.parse_args()
    arguments.train_steps = arguments.train_steps or arguments.steps
    if min(arguments.rounds, arguments.steps, arguments.train_steps) < 1:
        parser.error("--rounds and --steps are to be positive")
    if not (arguments.build / "banyan").exists():
        parser.error(f"there is no {arguments.build / 'banyan'}; give the build folder")
    sys.path.insert(0, str(arguments.build.resolve() / "python"))
    torch_common.expect_backends(SERIES)
    return arguments


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))  # by way of what takes the lab down
    arguments, machine = parse_arguments(), torch_common.describe_machine()
    as_wanted = (arguments.fabric.resolve(), str(arguments.model)) == (FABRIC, MODEL)
    target = TARGET if as_wanted else None
    print(f"{torch_common.headline(machine)}; medians of {arguments.rounds} rounds of {arguments.steps} steps, seed "
          f"{torch_ddp_bench.SEED}\n", flush=True)
    try:
        banyan = arguments.build.resolve() / "banyan"
        with lab_compare.Lab(banyan, arguments.fabric, None, f"torch{os.getpid()}") as lab:
            figures = measure(lab, arguments)
    except RuntimeError as error:
        sys.exit(f"torch_lab.py: {error}")
    comparisons = torch_ddp_bench.compare_losses({series: figures["losses"][series] for series in SERIES})
    ranks, ratio, met = figures["ranks"], *verdict(figures, target)
    print(f"### {arguments.fabric.stem}, {ranks} ranks, model {arguments.model}, {figures['parameters'] * 4 / 1e6:.2f} "
          f"MB of gradients\n\n{timing_table(figures, target)}\n\n{traffic_table(figures['traffic'])}\n\n"
          f"{torch_ddp_bench.losses_table(comparisons, ranks, arguments.train_steps)}")
    for series in figures["losses"]:
        if series not in SERIES:
            last, dense = (statistics.fmean(figures["losses"][name][-1]) for name in (series, "banyan"))
            print(f"{series}: loss of the last step {last:.5f}, {last / dense - 1:+.3%} of Banyan's without a code")
    print("plans of Banyan's rank 0:", *figures["plans"] or ["NONE: the log names no plan of an allreduce"], sep="\n- ")
    if arguments.json:
        contest.write_json(arguments.json, {
            "format": "banyan-torch-lab/1", "machine": machine, "seed": torch_ddp_bench.SEED,
            "fabric": arguments.fabric.stem, "model": str(arguments.model), "ratio": ratio, "target": target,
            "met": met, **figures,
            "comparisons": [dict(zip(["runs", "found", "right"], row)) for row in comparisons]})
    wrong = not figures["plans"] or any(right is False for _, _, right in comparisons)
    return 1 if wrong or (arguments.strict and met is False) else 0


if __name__ == "__main__":
    sys.exit(main())
