#!/usr/bin/env python3
"""Training steps of examples/torch/train_ddp.py over Gloo and over Banyan, side by side in the same processes.

  PYTHONPATH=build/python python3 bench/torch_ddp_bench.py                  # 2 and 4 ranks here, some ten minutes
  PYTHONPATH=build/python python3 bench/torch_ddp_bench.py --json ddp.json --models 4x256x1 --steps 50
  python3 bench/torch_ddp_bench.py --series gloo --ranks 2

Timing: every series has a replica of the model in each process. Rounds alternate between the series; a round is a block
of whole steps with gradients exchanged and one under no_sync(), each after a barrier, each timed by the slowest rank.
Figures are medians of the rounds. communication = (step - step under no_sync) of a round: what the backward pass does
not hide of the exchange, and waiting for the slowest rank; its share is that of a step. banyan:meet is the floor: the
ranks reduce one number for each bucket and leave the gradients alone, so that all it costs is to wait for each other.

Losses: the same training in processes of its own, once in each series and once more for each backend. All runs over
Banyan must agree bit for bit. With Gloo they must agree to rounding: from 3 ranks on Gloo adds in another order, and
training makes more of that (two orders over Gloo alone: 6e-8 after 10 steps, 0.2 % after 200).

Ends with status 1 when losses do not agree. Nothing else should run meanwhile.
"""

import argparse
import contextlib
import dataclasses
import math
import pathlib
import statistics
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

import torch_common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "torch"))
import contest  # noqa: E402
import exchange_time  # noqa: E402
import train_ddp  # noqa: E402

MEET = "banyan:meet"
SERIES = [*torch_common.SERIES, MEET]
SEED = 1
WARM_UP_STEPS = 3  # DistributedDataParallel makes its buckets anew after the first
DENSE_STEPS = 2  # before PowerSGD, PyTorch's and ours: the least that PyTorch's allows
# Greatest difference of losses between Gloo and Banyan, of the loss: in the first steps, and in all.
FIRST_STEPS, FIRST_TOLERANCE, TOLERANCE = 10, 1e-5, 1e-2


@dataclasses.dataclass(frozen=True)
class Size:
    """Of a model, and how many sequences each rank trains with in a step: "2x128x2"."""

    layers: int
    width: int
    sequences: int

    @staticmethod
    def parse(text):
        try:
            size = Size(*map(int, text.split("x")))
        except (TypeError, ValueError):
            raise argparse.ArgumentTypeError(f"'{text}' is not LAYERSxWIDTHxSEQUENCES, such as 2x128x2") from None
        if min(dataclasses.astuple(size)) < 1 or size.width % max(1, size.width // 64):
            raise argparse.ArgumentTypeError(f"'{text}': the width is to be a multiple of 64, or less than 128")
        return size

    def __str__(self):
        return f"{self.layers}x{self.width}x{self.sequences}"

    def trainer(self, group=None, meets_only=False, series=""):
        """series: of torch_common, whose gradients are compressed."""
        codec, peer = torch_common.codec_of(series), torch_common.peer_of(series)
        codec, options = torch_common.boxes_of(codec) if codec else (None, {})
        if codec and codec.startswith("powersgd"):
            options["dense_steps"] = DENSE_STEPS
        compress = (lambda model: compress_by_banyan(model, codec, options)) if codec else None
        if peer:
            compress = lambda model: compress_by_pytorch(model, group, peer)  # noqa: E731
        trainer = train_ddp.Trainer(self.layers, self.width, self.sequences, SEED, group, compress)
        if meets_only:
            trainer.model.register_comm_hook((group, torch.zeros(1)), meet)
        return trainer


def compress_by_banyan(model, codec, options):
    import banyan_torch

    return banyan_torch.compress(model, codec, **options)


def compress_by_pytorch(model, group, rank):
    state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=rank, start_powerSGD_iter=DENSE_STEPS)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def meet(state, bucket):
    """A communication hook of DistributedDataParallel that exchanges one number in place of a bucket."""
    group, number = state
    exchange = dist.all_reduce(number.zero_(), group=group, async_op=True)
    return exchange.get_future().then(lambda _: bucket.buffer())


def time_steps(groups, all_series, arguments):
    """Per model {"parameters": numbers, "seconds": {series: [[step, step under no_sync] per round]}}."""
    rows = []
    for size in arguments.models:
        trainers, seconds = {}, {series: [] for series in all_series}
        for series in all_series:
            with torch_common.memory_of(series):
                trainers[series] = size.trainer(groups[series], series == MEET, series)
                exchange_time.seconds_per_step(trainers[series], WARM_UP_STEPS, synced=True)

        def run(series, _round, trainers=trainers, seconds=seconds):
            with torch_common.memory_of(series):
                seconds[series].append([exchange_time.seconds_per_step(trainers[series], arguments.block, synced)
                                        for synced in (True, False)])

        contest.alternate(all_series, arguments.rounds, run)
        parameters = sum(parameter.numel() for parameter in trainers[all_series[0]].model.parameters())
        rows.append({"parameters": parameters,  # of the slowest rank:
                     "seconds": {series: torch_common.agree(rounds) for series, rounds in seconds.items()}})
    return rows


def train_once(_groups, all_series, arguments):
    """The losses of a training over the one series: [[of each rank] of each step]."""
    plan = argparse.Namespace(steps=arguments.steps, checkpoint=None, die_at=None)
    with contextlib.redirect_stdout(sys.stderr), torch_common.memory_of(all_series[0]):
        return train_ddp.train(arguments.models[0].trainer(), plan)[0]


def train_all(ranks, arguments):
    """{series: losses}, and those of the second runs as "series again"."""
    losses = {}
    for series in arguments.series:
        if series == MEET:
            continue
        again = [f"{series} again"] if series == torch_common.backend_of(series) else []
        for name in [series, *again]:
            print(f"{ranks} ranks: training over {name}", file=sys.stderr, flush=True)
            losses[name] = torch_common.run_ranks(train_once, [series], ranks, arguments)
    return losses


def difference(losses, others):
    """The greatest difference of any rank's loss at any step, relative to that loss; NaN where there is any."""
    apart = [abs(one - other) / abs(one) for row, row2 in zip(losses, others, strict=True)
             for one, other in zip(row, row2, strict=True)]
    return math.nan if any(map(math.isnan, apart)) else max(apart, default=0.0)


def compare_losses(losses):
    """[what is compared, what was found, whether that is as it must be (None: as it may be)], from train_all's."""
    rows = []
    for name in losses:
        first = torch_common.backend_of(name).removesuffix(" again")
        if name == first or first not in losses:
            continue
        same = losses[name] == losses[first]
        rows.append([f"{first} and {name}", "bit for bit" if same else "differ", None if first == "gloo" else same])
    if "gloo" in losses and "banyan" in losses:
        early = difference(losses["gloo"][:FIRST_STEPS], losses["banyan"][:FIRST_STEPS])
        whole = difference(losses["gloo"], losses["banyan"])
        rows.append(["gloo and banyan", f"within {early:.1e} in {FIRST_STEPS} steps, {whole:.1e} in all",
                     early <= FIRST_TOLERANCE and whole <= TOLERANCE])
    return rows


def medians(rounds):
    """(step, communication, share) in seconds and as a fraction."""
    step = statistics.median(synced for synced, _ in rounds)
    communication = statistics.median(synced - alone for synced, alone in rounds)
    return step, communication, communication / step


def timing_table(sizes, rows, ranks):
    head = ["model", "gradients", "series", "step, ms", "communication, ms", "share", "step ratio",
            "communication ratio"]
    lines = []
    for size, row in zip(sizes, rows):
        gloo = medians(row["seconds"]["gloo"]) if "gloo" in row["seconds"] else None
        for series, rounds in row["seconds"].items():
            step, communication, share = medians(rounds)
            ours = gloo and series != "gloo"
            lines.append([str(size), f"{row['parameters'] * 4 / 1e6:.1f} MB", series, f"{step * 1e3:.2f}",
                          f"{communication * 1e3:.2f}", f"{share:.1%}",
                          contest.ratio_text(gloo[0] / step if ours else None),
                          contest.ratio_text(gloo[1] / communication if ours and communication > 0 else None)])
    return f"### {ranks} ranks, time of a step\n\n{contest.markdown_table(head, lines)}\n"


def losses_table(comparisons, ranks, steps):
    verdicts = {None: "-", True: "yes", False: "NO"}
    rows = [[what, found, verdicts[right]] for what, found, right in comparisons]
    return (f"### {ranks} ranks, losses of {steps} steps\n\n"
            f"{contest.markdown_table(['runs', 'they agree', 'as they must'], rows)}\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    torch_common.add_common_arguments(parser, SERIES)
    parser.add_argument("--models", type=lambda text: list(map(Size.parse, text.split(","))),
                        default=[Size(2, 128, 2), Size(4, 256, 1)],
                        help="LAYERSxWIDTHxSEQUENCES; default 2x128x2,4x256x1; losses are those of the first")
    parser.add_argument("--rounds", type=int, default=7, help="default 7")
    parser.add_argument("--block", type=int, default=10, help="steps timed at once; default 10")
    parser.add_argument("--steps", type=int, default=200, help="whose losses are compared; 0: none; default 200")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.block) < 1 or arguments.steps < 0:
        parser.error("--rounds and --block are to be positive, --steps not negative")
    torch_common.check_common_arguments(parser, arguments, SERIES)
    return arguments


def main():
    arguments = parse_arguments()
    machine, timings, all_losses, wrong = torch_common.describe_machine(), [], [], 0
    print(f"{torch_common.headline(machine)}; medians of {arguments.rounds} rounds, seed {SEED}\n", flush=True)
    for ranks in arguments.ranks:
        rows = torch_common.run_ranks(time_steps, arguments.series, ranks, arguments)
        print(timing_table(arguments.models, rows, ranks), flush=True)
        timings += [{"ranks": ranks, **dataclasses.asdict(size), **row,
                     "medians": {series: dict(zip(["step", "communication", "share"], medians(rounds)))
                                 for series, rounds in row["seconds"].items()}}
                    for size, row in zip(arguments.models, rows)]
        if arguments.steps == 0:
            continue
        losses = train_all(ranks, arguments)
        comparisons = compare_losses(losses)
        wrong += sum(right is False for _, _, right in comparisons)
        print(losses_table(comparisons, ranks, arguments.steps), flush=True)
        all_losses.append({"ranks": ranks, **dataclasses.asdict(arguments.models[0]), "losses": losses,
                           "comparisons": [dict(zip(["runs", "found", "right"], row)) for row in comparisons]})
    print(f"comparisons of losses that failed: {wrong}")
    if arguments.json:
        contest.write_json(arguments.json, {"format": "banyan-torch-ddp-bench/1", "machine": machine, "seed": SEED,
                                                 "timings": timings, "losses": all_losses})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
