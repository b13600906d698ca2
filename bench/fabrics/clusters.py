#!/usr/bin/env python3
"""Prints a cluster without any symmetry that a planner could be told of, as a fabric in text form.

rails: boxes of 8 GPUs on an NVSwitch (450 GB/s each); GPU g of every box of a pod has its NIC (50 GB/s) on rail g of
the pod, and spines join all rails. The uplinks of a rail together carry one `narrower`-th of its NICs. `--failed` is
the percentage of NICs, or with `--uplinks` of uplinks, that are not there.

boxes: boxes of 4 or 8 GPUs with 300 or 450 GB/s inside and NICs of 25 or 50 GB/s, the same in a box, at random, on one
switch. With `--uneven` every NIC has 25, 50 or 100 GB/s of its own.

Same arguments, same fabric: clusters.py rails --boxes 128 --narrower 4 | banyan plan allgather /dev/stdin
"""
import argparse
import random


def rails(args):
    rng = random.Random(args.seed)
    nic_failed = lambda: not args.uplinks and rng.random() * 100 < args.failed
    uplink_failed = lambda: args.uplinks and rng.random() * 100 < args.failed
    boxes_per_pod = -(-args.boxes // args.pods)
    uplink = 50 * boxes_per_pod / args.spines / args.narrower
    for gpu in range(8 * args.boxes):
        box = gpu // 8
        yield f"gpu{gpu} <-> nvsw{box} 450 GB/s"
        if not nic_failed():
            yield f"gpu{gpu} <-> swleaf{box // boxes_per_pod}_{gpu % 8} 50 GB/s"
    for rail in range(8 * args.pods):
        for spine in range(args.spines):
            if not uplink_failed():
                yield f"swleaf{rail // 8}_{rail % 8} <-> swspine{spine} {uplink:g} GB/s"


def boxes(args):
    rng = random.Random(args.seed)
    gpu = box = 0
    while gpu < args.ranks:
        size, inside, nic = rng.choice([4, 8]), rng.choice([300, 450]), rng.choice([25, 50])
        for gpu in range(gpu, min(gpu + size, args.ranks)):
            if args.uneven:
                nic = rng.choice([25, 50, 100])
            yield f"gpu{gpu} <-> nvsw{box} {inside} GB/s"
            yield f"gpu{gpu} <-> sw {nic} GB/s"
        gpu, box = gpu + 1, box + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    kind = kinds.add_parser("rails")
    kind.set_defaults(make=rails)
    kind.add_argument("--boxes", type=int, default=128)
    kind.add_argument("--pods", type=int, default=4)
    kind.add_argument("--spines", type=int, default=8)
    kind.add_argument("--narrower", type=float, default=1)
    kind.add_argument("--failed", type=float, default=0)
    kind.add_argument("--uplinks", action="store_true")
    kind.add_argument("--seed", type=int, default=1)
    kind = kinds.add_parser("boxes")
    kind.set_defaults(make=boxes)
    kind.add_argument("--ranks", type=int, default=1000)
    kind.add_argument("--uneven", action="store_true")
    kind.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print("\n".join(args.make(args)))


if __name__ == "__main__":
    main()
