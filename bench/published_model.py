"""Workloads, step times and laws of bytes of published_ratios.py: pure arithmetic, without any program.

A step is a forward pass, a third of the compute, and then a backward pass, in which gradients are there one after the
other, the last layer's first. Links carry one bucket after the other. Before a bucket goes in a code, kernels are
launched in the stream that computes, `launch` seconds for each bucket; what encoding takes besides is in the time of
the bucket's collective, slice by slice, as `banyan plan --codec` simulates it.
"""

import bisect
import dataclasses

FORWARD = 1 / 3


@dataclasses.dataclass(frozen=True)
class Tensor:
    values: int
    work: float  # of its part of the backward pass, in any unit


@dataclasses.dataclass(frozen=True)
class Bucket:
    bytes: float  # of float32
    backward: float  # seconds of the backward pass from the bucket before until this one is there
    code: str = "none"


# ---- Tensors of published workloads, in the order of the forward pass ----


def vgg16():
    tensors, channels, side = [], 3, 224
    for width in [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512]:
        if width == 0:
            side //= 2
            continue
        tensors += [Tensor(9 * channels * width, 9.0 * channels * width * side * side), Tensor(width, 0.0)]
        channels = width
    for inputs, outputs in [(512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)]:
        tensors += [Tensor(inputs * outputs, float(inputs * outputs)), Tensor(outputs, 0.0)]
    return tensors


def resnet101():
    def convolution(inputs, outputs, side, area):
        values = inputs * outputs * area
        return [Tensor(values, float(values * side * side)), Tensor(outputs, 0.0), Tensor(outputs, 0.0)]  # and its norm

    tensors, channels, side = convolution(3, 64, 112, 49), 64, 56
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (23, 256), (3, 512)]):
        for block in range(blocks):
            before = side
            if stage > 0 and block == 0:
                side //= 2
            tensors += convolution(channels, width, before, 1) + convolution(width, width, side, 9)
            tensors += convolution(width, 4 * width, side, 1)
            if block == 0:
                tensors += convolution(channels, 4 * width, side, 1)
            channels = 4 * width
    return tensors + [Tensor(2048 * 1000, 2048.0 * 1000), Tensor(1000, 0.0)]


def gpt2():
    width, words = 768, 50257

    def matrix(inputs, outputs):
        return [Tensor(inputs * outputs, float(inputs * outputs)), Tensor(outputs, 0.0)]

    norm = [Tensor(width, 0.0), Tensor(width, 0.0)]
    # The table of words is the last matrix, too: its gradient is there at the very end, its work is done at the start.
    tensors = [Tensor(words * width, 0.0), Tensor(1024 * width, 0.0)]
    for _ in range(12):
        tensors += norm + matrix(width, 3 * width) + matrix(width, width)
        tensors += norm + matrix(width, 4 * width) + matrix(4 * width, width)
    return tensors + [Tensor(width, 0.0), Tensor(width, float(words * width))]


WORKLOADS = {"VGG16": vgg16, "ResNet101": resnet101, "GPT2": gpt2}


# ---- Buckets ----


def layer_wise(tensors, compute):
    """A bucket for each tensor, in the order of the backward pass, of a step with `compute` seconds of it."""
    all_work = sum(tensor.work for tensor in tensors)
    return [Bucket(4.0 * tensor.values, (1 - FORWARD) * compute * tensor.work / all_work)
            for tensor in reversed(tensors)]


def joined(buckets, sizes, codes=None):
    """Buckets of `sizes` consecutive ones each."""
    told, at = [], 0
    for i, size in enumerate(sizes):
        part = buckets[at:at + size]
        at += size
        told.append(Bucket(sum(each.bytes for each in part), sum(each.backward for each in part),
                           codes[i] if codes else part[0].code))
    if at != len(buckets):
        raise ValueError(f"{sum(sizes)} tensors are in the cuts of {len(buckets)}")
    return told


def sizes_up_to(buckets, limit):
    """Cuts as DistributedDataParallel makes them: a bucket is full when it has `limit` bytes."""
    sizes, size, held = [], 0, 0.0
    for bucket in buckets:
        size, held = size + 1, held + bucket.bytes
        if held >= limit:
            sizes.append(size)
            size, held = 0, 0.0
    return sizes + [size] if size else sizes


def step_seconds(compute, buckets, link, launch):
    """Of a whole step. link(bytes, code): seconds of a collective; launch: {code: seconds}, none of those left out."""
    now, free = FORWARD * compute, 0.0
    for bucket in buckets:
        now += bucket.backward + launch.get(bucket.code, 0.0)
        free = max(now, free) + link(bucket.bytes, bucket.code)
    return max(now, free)


class Curve:
    """Seconds by bytes, linear between points and beyond them."""

    def __init__(self, points):
        self.points = sorted(points)
        if len(self.points) < 2:
            raise ValueError("a curve has two points at least")

    def __call__(self, size):
        at = min(max(bisect.bisect_left(self.points, (size,)), 1), len(self.points) - 1)
        (x0, y0), (x1, y1) = self.points[at - 1], self.points[at]
        return max(0.0, y0 + (y1 - y0) * (size - x0) / (x1 - x0))

    def line(self, smallest, largest):
        """(seconds of no bytes, seconds of one more) of the line through two of its points."""
        slope = (self(largest) - self(smallest)) / (largest - smallest)
        return max(0.0, self(smallest) - slope * smallest), slope


def solve(function, target, low, high, steps=40):
    """Where a function that falls or rises from low to high has the value `target`; None where it has it nowhere in
    between. By halves, of positive arguments on a logarithmic scale."""
    at_low, at_high = function(low) - target, function(high) - target
    if at_low * at_high > 0:
        return None
    for _ in range(steps):
        middle = (low * high) ** 0.5
        if (function(middle) - target) * at_low > 0:
            low = middle
        else:
            high = middle
    return (low * high) ** 0.5


# ---- Bytes ----

BITS = {"none": 32, "float16": 16, "int8": 8 * 260 / 256, "int4": 8 * 136 / 256, "sign": 8 * 36 / 256}


def gathered(share, ranks, value=4.0, position=4.0, width=1):
    """Bytes that all together give to an all-gather of COO, for a value of the table: its buffer."""
    return ranks * share * (value + position / width)


def pushed(share, value=4.0, position=4.0, width=1):
    """Bytes that a rank gives to an all-to-all, for a value of the table (banyan/sparse/cost.h, permuted_shards)."""
    return share * (value + position / width)


def pulled(union_share, value=4.0, width=1):
    """Bytes of the sums that all get from their owners, with bitmaps."""
    return union_share * value + 1 / (8 * width)


def union_of_random(share, ranks):
    """The share that any rank has, where each has its own at random."""
    return 1 - (1 - share) ** ranks


# ---- Judging ----


MOST_BEYOND = 1.05


def verdict(published, ratio, bound):
    """At the two decimals of what is published. A ratio that is beyond what bytes and compute allow says that something
    else slowed the baseline, in the lab its latency, and is no evidence."""
    if ratio is None:
        return "-"
    if round(ratio, 2) < published:
        return "NO"
    return "met" if ratio <= MOST_BEYOND * bound else "latency"
