#!/usr/bin/env python3
"""Steps per second and losses of training that exchanges less, inside an emulated cluster: every step, every step in a
code, accumulated gradients, and local steps (banyan_torch.LocalSteps) of all ranks or of boxes, at equal numbers of
samples.

  python3 bench/torch_local_lab.py build                             # two boxes of four, cables of 25 and 100 Mb/s
  python3 bench/torch_local_lab.py build --rates 25 --every 4,16,64 --train-steps 640 --json local.json

A step is one batch of each rank, forward and backward. Accumulated gradients are exchanged and used every so many
steps, local steps exchange parameters as often and use gradients at each; with two levels (`levels`) gradients are
averaged in a box at each step, and parameters are exchanged between the boxes. Times are medians of stretches of the
greatest --every, of the slowest rank: series come one after the other, so another program disturbs one and not the
next. The loss is that of batches which were not trained with, after --train-steps steps, the mean of all ranks, with
the parameters that all ranks then have. Needs root; nothing else should run meanwhile. Ends with status 1 when a run
fails; the lab goes however the program is stopped, but by SIGKILL.
"""

import argparse
import os
import pathlib
import signal
import sys
import tempfile

import contest
import lab_compare
import torch_common
import torch_ddp_bench
import torch_lab


def all_series(every):
    found = ["banyan", f"{torch_common.CODED}int8"]
    for steps in every:
        found += [f"banyan:accumulate:{steps}", f"banyan:local:{steps}", f"banyan:local:{steps}:int4",
                  f"banyan:levels:{steps}", f"banyan:levels:{steps}:int4"]
    return found


def with_cable(fabric, rate, folder):
    """A copy of the two boxes with another cable between them."""
    text = fabric.read_text(encoding="utf-8")
    path = pathlib.Path(folder, f"two-boxes-{rate}.txt")
    path.write_text(text.replace("swa <-> swb 25Mb/s", f"swa <-> swb {rate}Mb/s"), encoding="utf-8")
    return path


def measure(arguments, rate):
    """{series: {"seconds": a step takes, "loss": at the end}}"""
    found = {}
    with tempfile.TemporaryDirectory(prefix="banyan-local-lab-") as folder:
        fabric = with_cable(torch_lab.FABRIC, rate, folder)
        with lab_compare.Lab(arguments.build.resolve() / "banyan", fabric, None, f"local{os.getpid()}") as lab:
            torch_lab.show_addresses_to_gloo(lab)
            for series in all_series(arguments.every):
                found[series], _ = torch_lab.run_in_lab(lab, "local", [series], arguments)
    return found


def table(found):
    dense = found["banyan"]
    rows = [[series, f"{1 / one['seconds']:.2f}", contest.ratio_text(dense["seconds"] / one["seconds"]),
             f"{one['loss']:.4f}", f"{one['loss'] / dense['loss'] - 1:+.2%}"] for series, one in found.items()]
    return contest.markdown_table(["series", "steps a second", "ratio", "loss", "of dense"], rows)


def parse_arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder, with banyan and the package banyan_torch")
    parser.add_argument("--rates", type=torch_common.numbers, default=[25, 100], help="of the cable; default 25,100")
    parser.add_argument("--model", type=torch_ddp_bench.Size.parse, default=torch_ddp_bench.Size.parse(torch_lab.MODEL),
                        help=f"LAYERSxWIDTHxSEQUENCES; default {torch_lab.MODEL}")
    parser.add_argument("--every", type=torch_common.numbers, default=[16], metavar="STEPS,...",
                        help="steps between exchanges; default 16; the greatest is a multiple of each")
    parser.add_argument("--train-steps", type=int, default=160, help="default 160; a multiple of each of --every")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one launch; default 900")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every figure and the machine")
    arguments = parser.parse_args(words)
    longest = max(arguments.every)
    if min(*arguments.every, arguments.train_steps) < 1 or arguments.train_steps % longest:
        parser.error("--train-steps is to be a multiple of --every, and both positive")
    if any(longest % steps for steps in arguments.every):
        parser.error("--every: the greatest is to be a multiple of each")
    arguments.rounds, arguments.steps = 1, longest  # the steps that are timed at once
    return arguments


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))  # by way of what takes the lab down
    arguments, machine, figures = parse_arguments(), torch_common.describe_machine(), {}
    print(f"{torch_common.headline(machine)}; {arguments.train_steps} steps, seed {torch_ddp_bench.SEED}\n", flush=True)
    for rate in arguments.rates:
        try:
            figures[rate] = measure(arguments, rate)
        except RuntimeError as error:
            sys.exit(f"torch_local_lab.py: {error}")
        print(f"### cable of {rate} Mb/s, model {arguments.model}\n\n{table(figures[rate])}\n", flush=True)
    if arguments.json:
        contest.write_json(arguments.json, {"format": "banyan-torch-local-lab/2", "machine": machine,
                                                 "seed": torch_ddp_bench.SEED, "model": str(arguments.model),
                                                 "every": arguments.every, "rates": figures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
