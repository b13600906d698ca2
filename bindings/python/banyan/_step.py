"""Predictions of training steps: where their time goes, and whether they fit into memory."""
import os
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _core, _words
from ._core import Step as CoreStep
from ._error import Error
from ._fabric import as_fabric
from ._plan import AnyFabric, Progress
from ._predict import Simulated
from ._words import Bytes, Path, Seconds

Model = Union[str, Path, Mapping[str, Any]]
"""The name of a model, the path of a file of jobs with one training step, or the options of such a step as a dict."""


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


class StageMemory(NamedTuple):
    """Bytes on each rank of one pipeline stage."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        """All four together."""
        return sum(self)


class WhatIf(NamedTuple):
    """The same step with one resource doubled."""

    resource: str
    time: float
    """Seconds."""
    gain: float
    """The part of the time that it saves: 0.2 is a fifth."""


class StepPrediction(Simulated):
    """How long a training step takes on a fabric, where the time goes, and what memory it needs. It cannot be changed.

        >>> import banyan
        >>> step = banyan.predict_step("gpt3-13b", "dgx-a100:8", tp=8, dp=8, global_batch=64)
        >>> round(step.time, 1), step.fits, len(step.ranks)
        (2.0, True, 64)
    """

    _core: CoreStep

    def __init__(self, core: CoreStep) -> None:
        self._core = core

    @property
    def time(self) -> float:
        """Seconds of a step."""
        return self._core.time()

    @property
    def compute(self) -> float:
        """Seconds of it in which ranks compute, the mean over all. This and the next four add up to the time."""
        return self._core.parts()[0]

    @property
    def exposed(self) -> float:
        """Seconds in which they move data that no computation hides."""
        return self._core.parts()[1]

    @property
    def waiting(self) -> float:
        """Seconds in which they wait for other ranks."""
        return self._core.parts()[2]

    @property
    def host(self) -> float:
        """Seconds in which their hosts hold them up, besides the launches that count as computing."""
        return self._core.parts()[3]

    @property
    def bubble(self) -> float:
        """Seconds in which they have nothing to do."""
        return self._core.parts()[4]

    @property
    def ranks(self) -> List[StepParts]:
        """The same for each rank, in the order of the job's ranks."""
        return [StepParts(*rank) for rank in self._core.ranks()]

    @property
    def memory(self) -> List[StageMemory]:
        """What each rank of a pipeline stage needs, by stage."""
        return [StageMemory(*stage) for stage in self._core.stages()]

    @property
    def memory_available(self) -> int:
        """Bytes that a device has for it."""
        return self._core.available()

    @property
    def fits(self) -> bool:
        """Whether it fits into the memory of the devices; false is possible with ignore_memory only."""
        return self._core.fits()

    @property
    def utilisation(self) -> float:
        """The model's FLOPs, recomputation not counted, over what the devices could do in that time (MFU): 0 to 1."""
        return self._core.rates()[1]

    @property
    def flops_per_device(self) -> float:
        """The model's FLOPs on each device per second."""
        return self._core.rates()[0]

    @property
    def tokens_per_second(self) -> float:
        """Of all devices together."""
        return self._core.rates()[2]

    @property
    def model_flop(self) -> float:
        """The FLOPs that the model needs for a step."""
        return self._core.model_flop()

    @property
    def launches(self) -> float:
        """The part of the computing that are launches and gaps between kernels, which no faster device shortens."""
        return self._core.launches()

    @property
    def training(self) -> str:
        """What is trained and how, in words."""
        return self._core.training()

    @property
    def device(self) -> str:
        """The name of the device."""
        return self._core.device()

    @property
    def notes(self) -> List[str]:
        """What one should know besides, a line each."""
        return self._core.notes()

    @property
    def what_if(self) -> List[WhatIf]:
        """What would help: a row for each resource, where predict_step() was asked for it."""
        return [WhatIf(*row) for row in self._core.what_if()]

    @property
    def alone(self) -> Optional[float]:
        """With events: the seconds that the step takes without them."""
        return self._core.alone()

    @property
    def failed_at(self) -> Optional[float]:
        """With events and on_failure="fail": when a failed link ended the step, or None."""
        return self._core.failed_at()

    def to_json(self, *, spans: bool = True) -> str:
        """All of it in the form "banyan": "prediction/1". Without `spans` it leaves the timeline out, which is the
        most of it: that is what `banyan predict train --json` prints."""
        return self._core.to_json(spans)

    def to_trace(self) -> str:
        """The timeline for Perfetto or chrome://tracing."""
        return self._core.to_trace()

    def save(self, path: Path) -> None:
        """Writes to_html() to a file that ends in .html, to_trace() to one that ends in .trace, to_json() to any
        other."""
        if os.fspath(path).endswith(".trace"):
            _words.write(path, self.to_trace())
        else:
            super().save(path)

    def __str__(self) -> str:
        return f"{self.title}\n{self.summary}"

    def __repr__(self) -> str:
        return (f"<banyan.StepPrediction {self.title}: {_words.time(self.time)}, "
                f"{_words.percent(self.utilisation)} of the peak>")


def predict_step(model: Optional[Model], fabric: AnyFabric, *, layers: Optional[int] = None,
                 hidden: Optional[int] = None, heads: Optional[int] = None, kv_heads: Optional[int] = None,
                 ffn: Optional[int] = None, seq: Optional[int] = None, vocab: Optional[int] = None,
                 pad_vocab: Optional[int] = None, experts: Optional[int] = None, top_k: Optional[int] = None,
                 gpu: Optional[str] = None, devices: Optional[Path] = None, tp: Optional[int] = None,
                 pp: Optional[int] = None, dp: Optional[int] = None, ep: Optional[int] = None,
                 interleave: Optional[int] = None, sequence_parallel: Optional[bool] = None,
                 micro_batch: Optional[int] = None, global_batch: Optional[int] = None,
                 accumulate: Optional[int] = None, recompute: Optional[str] = None, zero: Optional[int] = None,
                 precision: Optional[str] = None, fused_attention: Optional[bool] = None,
                 ignore_memory: Optional[bool] = None, gradients_fp32: Optional[bool] = None,
                 bucket: Optional[Bytes] = None, overlap_gradients: Optional[bool] = None,
                 scatter_gather: Optional[bool] = None, placement: str = "packed", seed: int = 1,
                 events: Iterable[str] = (), on_failure: str = "stop", eager: Optional[Bytes] = None,
                 costs: Optional[Path] = None, algorithm: str = "rings", collectives: str = "flow",
                 window: Optional[Seconds] = None, fold: bool = True, what_if: bool = False,
                 progress: Optional[Progress] = None) -> StepPrediction:
    """Predicts a training step of a transformer, as `banyan predict train` does, whose options these are.

        >>> import banyan
        >>> options = {"model": "gpt3-13b", "tp": 8, "global-batch": 64}
        >>> banyan.predict_step(options, "dgx-a100:8", dp=8).training
        'gpt3-13b, 64 ranks: tp 8, pp 1, dp 8; micro-batch 1, global batch 64 (8 micro-batches)'

    model
        A name such as "gpt3-175b" ('banyan predict --list' shows them), or None for a GPT of `layers` and `hidden`. Or
        a dict of options, as "train" of a file of jobs has them, or the path of such a file with one training step,
        where "ranks", "placement" and "seed" count, too; a name, a tenant, a weight and a priority make no difference
        to a step that is alone. Arguments win over what these say.
    fabric
        A Fabric, or what Fabric() reads.
    layers, hidden, heads, kv_heads, ffn, seq, vocab, pad_vocab, experts, top_k
        The shape of the model: what a named model has otherwise, or a model of free shape.
    gpu, devices
        The device, by default that in the fabric's name, as h100 in "dgx-h100:8", or "a100-80g"; a file of devices that
        adds to those built in.
    tp, pp, dp, ep, interleave, sequence_parallel
        How the model is spread over ranks: tensor, pipeline, data and expert parallel; model chunks per stage.
    micro_batch, global_batch, accumulate
        Sequences at once in a replica and in a step; or micro-batches in a step.
    recompute, zero, precision, fused_attention, ignore_memory, gradients_fp32
        What memory holds: "none", "selective" or "full" recomputation; what is sharded over dp, 0 to 3; "bf16" and
        others. A step that does not fit is an Error that says what would, or is predicted anyway with ignore_memory.
    bucket, overlap_gradients, scatter_gather
        How gradients and activations travel.
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
    arguments = {
        "layers": layers, "hidden": hidden, "heads": heads, "kv-heads": kv_heads, "ffn": ffn, "seq": seq,
        "vocab": vocab, "pad-vocab": pad_vocab, "experts": experts, "top-k": top_k, "gpu": gpu, "devices": devices,
        "tp": tp, "pp": pp, "dp": dp, "ep": ep, "interleave": interleave, "sequence-parallel": sequence_parallel,
        "micro-batch": micro_batch, "global-batch": global_batch, "accumulate": accumulate, "recompute": recompute,
        "zero": zero, "precision": precision, "fused-attention": fused_attention, "ignore-memory": ignore_memory,
        "gradients-fp32": gradients_fp32, "bucket": bucket, "overlap-gradients": overlap_gradients,
        "no-scatter-gather": None if scatter_gather is None else not scatter_gather}
    file, options = _model_options(model)
    options += [(name, _word(value, name)) for name, value in arguments.items() if value is not None]
    words = _core.JobWords(placement, str(seed), _words.to_duration(window), "" if costs is None else os.fspath(costs),
                           algorithm, collectives, [events] if isinstance(events, str) else list(events), on_failure,
                           "" if eager is None else str(eager), what_if, fold)
    on = as_fabric(fabric)
    return StepPrediction(_core.predict_step(on._core, on.name, file, options, words, progress))


def _model_options(model: Optional[Model]) -> Tuple[str, List[Tuple[str, str]]]:
    """The file of jobs, "" for none, and the options that the model says."""
    if model is None:
        return "", []
    if isinstance(model, Mapping):
        return "", [(name, _word(value, name)) for name, value in model.items()]
    text = os.fspath(model)
    if not isinstance(model, str) or "/" in text or text.endswith(".json"):
        return text, []
    return "", [("model", text)]


def _word(value: Any, name: str) -> str:
    """How a value stands on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str, os.PathLike)):
        return str(value)
    raise Error("invalid_input", f"{value!r} is not a text, a number, true or false", name.replace("-", "_"))
