"""Predictions of jobs: traces, and files of several jobs, on one fabric."""
import os
from typing import List, NamedTuple, Optional

from . import _core
from ._core import JobPrediction
from ._fabric import as_fabric
from ._options import JOB, Option, Value, list_options
from ._plan import AnyFabric, Progress
from ._words import Path


class StepParts(NamedTuple):
    """Where the time of one rank went: seconds that add up to the time of the step."""

    rank: str
    compute: float
    """At least one stream computes or moves memory."""
    exposed: float
    """None does, and its bytes are on the way: communication that no computation hides."""
    waiting: float
    """Waiting for other ranks."""
    host: float
    """Held up by its host."""
    bubble: float
    """Nothing to do."""


class PredictedJob(NamedTuple):
    """One of the jobs, and when it ran."""

    name: str
    tenant: str
    """Whose it is; "" where nobody says it."""
    begin: float
    """Seconds, from the beginning of all."""
    end: float
    alone: Optional[float]
    """Seconds that it takes with the fabric to itself and without events; None of a single job without events."""
    failed_at: Optional[float]
    """With on_failure="fail": when a failed link ended it, or None."""


class WhatIf(NamedTuple):
    """The same with one resource doubled."""

    resource: str
    time: float
    """Seconds."""
    gain: float
    """The part of the time that it saves: 0.2 is a fifth."""


def list_job_options() -> List[Option]:
    """The options of predict_job(), which are those of `banyan predict job`."""
    return list_options(_core.list_source_options() + _core.list_job_options())


def predict_job(trace: Optional[Path], fabric: AnyFabric, *, progress: Optional[Progress] = None,
                **options: Value) -> JobPrediction:
    """Predicts a job that a trace tells, or several jobs at once, as `banyan predict job` does, whose options these
    are.

        >>> import banyan
        >>> with open("pair.goal", "w") as file:
        ...     _ = file.write("num_ranks 2\\nrank 0 { send 1000000b to 1 }\\nrank 1 { recv 1000000b from 0 }\\n")
        >>> job = banyan.predict_job("pair.goal", "star:2@1GB/s")
        >>> job, [rank.rank for rank in job.ranks]
        (<banyan.JobPrediction pair.goal on star:2@1GB/s: 1.01 ms>, ['gpu0', 'gpu1'])

    trace
        The path of a job in GOAL, or None where one of the next three is given.
    chakra, kineto, jobs
        The prefix of Chakra traces, "run" for run.0.et, run.1.et, ...; a list of PyTorch traces (Kineto), one for each
        rank; a file of jobs with their places, times and tenants.
    fabric
        A Fabric, or what Fabric() reads.
    groups, data_dependencies_only, gathered_total, flops, memory_bandwidth, dimensions
        Of Chakra traces: a file of process groups; whether control dependencies are left out; whether sizes of
        allgathers are of all shards together; FLOP and bytes per second for nodes without a duration; the sizes of the
        logical dimensions of old traces.
    host
        PyTorch host traces beside those of kineto, in the same order.
    gpu, devices
        A device whose link efficiency and message cost count (without it: full bandwidth, 5 us); a file with more of
        them.
    check
        False: simulates without looking for mismatches first.
    placement, seed
        "packed", "random" (with a seed) or "round-robin" over boxes.
    events, on_failure
        What happens to cables, such as "10ms gpu0-ib0 fail"; and what transfers on a failed one do: "stop" until it
        returns, "move", or "fail".
    eager, costs, algorithm, collectives
        Messages up to this size need no receive; a file of measured collectives; "rings" or a planner; "flow" or
        "messages".
    window, fold
        As of predict().
    what_if
        Simulates again with each resource doubled.
    progress
        Called with what is being done and how much of it is done.

    Other threads of Python go on meanwhile, and Ctrl-C ends it.
    """
    on = as_fabric(fabric)
    return _core.predict_job((on._core, on.name), "" if trace is None else os.fspath(trace),
                             JOB.given("predict_job()", options), progress)
