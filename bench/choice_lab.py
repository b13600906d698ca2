#!/usr/bin/env python3
"""Whether banyan_torch.compress(ddp, "auto") chooses rightly: training steps in emulated clusters (banyan lab), without a
code, in each code that auto may take, and as auto has it.

  python3 bench/choice_lab.py build                                        # 20 pairs of fabric and model, 20 minutes
  python3 bench/choice_lab.py build --fabrics star:4@100Mb/s --models 1x64x1 --json choice.json
  python3 bench/choice_lab.py build --fabrics star:2@25Mb/s --ranks-per-host 4 --codes int8 int8+boxes:4

All series run in the same processes, a replica of the model each; rounds alternate between them, and figures are
medians of the rounds, of the slowest rank. Auto has chosen before the first round: its table says what it predicted
and measured. Right is a choice whose steps are at most 5 % longer than those of the best series, and at most 3 % longer
than those without a code. What is predicted of a code is compared with its median here: within 10 %.

Needs root. Ends with status 1 when the lab cannot be set up or a run fails; with --strict also when a target is missed.
Nothing else should run meanwhile.
"""

import argparse
import os
import pathlib
import re
import signal
import statistics
import sys

import contest
import lab_compare
import torch_common
import torch_ddp_bench
import torch_lab

FABRICS = [str(torch_lab.FABRIC), "star:4@50Mb/s", "star:4@200Mb/s", "star:4@1Gb/s", "ring:4@500Mb/s"]
MODELS = ["1x64x1", "1x128x1", "2x128x2", "1x128x4"]
CODES = ["float16", "bfloat16", "fp8", "mxfp8", "int8"]
DENSE, AUTO = "banyan", torch_common.CODED + "auto"
MOST_BEHIND_BEST, MOST_BEHIND_DENSE, MOST_OFF = 0.05, 0.03, 0.10
ROW = re.compile(r"^ *(\S.*?) +(?:-|[\d.]+ %) +([\d.]+) +(-|[\d.]+)$", re.MULTILINE)


def predictions_of(report):
    """{name of the code: milliseconds of a step that auto predicts}, from its report."""
    return {name: float(predicted) for name, predicted, _ in ROW.findall(report)}


def judge(seconds, report):
    """Of one pair. seconds: {series: medians}, and auto's report: what was chosen, how far that is behind, and
    {code: how far the prediction is off}. own_behind_best: the same of the series of what auto took, which sends the
    same; None if there is none."""
    best = min(seconds, key=seconds.get)
    predicted = predictions_of(report)
    series = {"none": DENSE}
    for each in seconds:
        name, options = torch_common.boxes_of(torch_common.codec_of(each) or "none")
        series[name + " between boxes" if options else name] = each
    measured = {name: seconds[series[name]] * 1e3 for name in predicted if name in series}
    off = {name: predicted[name] / measured[name] - 1 for name in measured}
    verdict = report.strip().splitlines()[-1]
    name = verdict.split(":")[0]
    own = seconds.get(series.get("none" if name == "no code" else name))
    best_without_auto = min(value for each, value in seconds.items() if each != AUTO)
    return {"chosen": verdict, "best": best, "behind_best": seconds[AUTO] / seconds[best] - 1,
            "own_behind_best": own and own / best_without_auto - 1,
            "behind_dense": seconds[AUTO] / seconds[DENSE] - 1, "off": off}


def is_right(row):
    return row["behind_best"] <= MOST_BEHIND_BEST and row["behind_dense"] <= MOST_BEHIND_DENSE


def table_of(rows):
    lines = []
    for row in rows:
        steps = [f"{row['seconds'][series] * 1e3:.1f}" for series in row["seconds"]]
        off = {name: f"{share:+.0%}" for name, share in row["off"].items()}
        lines.append([row["fabric"], row["model"], *steps, row["chosen"], f"{row['behind_best']:+.1%}",
                      "-" if row["own_behind_best"] is None else f"{row['own_behind_best']:+.1%}",
                      f"{row['behind_dense']:+.1%}", "yes" if is_right(row) else "NO", off.get("int8", "-")])
    names = [torch_common.codec_of(series) or "none" for series in rows[0]["seconds"]]
    return contest.markdown_table(["fabric", "model", *names, "auto says", "behind the best", "its own",
                                   "behind none", "right", "int8 predicted"], lines)


def measure(arguments, fabric, model):
    """A row of the table."""
    series = [DENSE, *(torch_common.CODED + code for code in arguments.codes), AUTO]
    banyan = arguments.build.resolve() / "banyan"
    pair = argparse.Namespace(build=arguments.build, model=torch_ddp_bench.Size.parse(model), rounds=arguments.rounds,
                              steps=arguments.steps, train_steps=arguments.steps, timeout=arguments.timeout,
                              round_seconds=arguments.round_seconds)
    with lab_compare.Lab(banyan, fabric, None, f"choice{os.getpid()}",
                         arguments.ranks_per_host) as lab:
        found, _ = torch_lab.run_in_lab(lab, "choose", series, pair)
    seconds = {each: statistics.median(rounds) for each, rounds in found["seconds"].items()}
    return {"fabric": lab.title, "model": model, "seconds": seconds, "report": found["report"],
            **judge(seconds, found["report"])}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder, with banyan and the package banyan_torch")
    parser.add_argument("--fabrics", nargs="+", default=FABRICS, help=f"default {' '.join(FABRICS[1:])} and "
                        f"{torch_lab.FABRIC.name}")
    parser.add_argument("--models", nargs="+", default=MODELS,
                        help=f"LAYERSxWIDTHxSEQUENCES; default {' '.join(MODELS)}")
    parser.add_argument("--codes", nargs="+", default=CODES, help=f"default {' '.join(CODES)}")
    parser.add_argument("--ranks-per-host", type=int, help="by default each host of a fabric is a rank")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--steps", type=int, default=5, help="timed at once, at least; default 5")
    parser.add_argument("--round-seconds", type=float, default=0.5,
                        help="as many steps are timed at once as auto takes in that time; default 0.5")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one pair; default 600")
    parser.add_argument("--strict", action="store_true", help="a missed target is a failure")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every figure, and auto's tables")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.build.resolve() / "python"))
    torch_common.expect_backends([DENSE])
    return arguments


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))  # by way of what takes the lab down
    arguments, machine, rows = parse_arguments(), torch_common.describe_machine(), []
    for fabric in arguments.fabrics:
        for model in arguments.models:
            try:
                rows.append(measure(arguments, fabric, model))
            except RuntimeError as error:
                sys.exit(f"choice_lab.py: {fabric}, {model}: {error}")
            print(f"{fabric}, {model}:\n{rows[-1]['report']}", file=sys.stderr, flush=True)
    right = sum(map(is_right, rows))
    off = [abs(share) for row in rows for share in row["off"].values()]
    within = sum(share <= MOST_OFF for share in off)
    print(f"{torch_common.headline(machine)}; ms of a step, medians of {arguments.rounds} rounds of {arguments.steps} "
          f"steps and {arguments.round_seconds} s at least\n\n{table_of(rows)}\n\nright: {right} of {len(rows)} "
          f"(within {MOST_BEHIND_BEST:.0%} of the best, at most {MOST_BEHIND_DENSE:.0%} behind none); predictions "
          f"within {MOST_OFF:.0%}: {within} of {len(off)}, median {statistics.median(off):.1%}")
    if arguments.json:
        contest.write_json(arguments.json, {"format": "banyan-choice-lab/1", "machine": machine, "rows": rows})
    return 1 if arguments.strict and (right < len(rows) or within < len(off)) else 0


if __name__ == "__main__":
    sys.exit(main())
