"""Predictions of training steps: where their time goes, and whether they fit into memory."""
import os
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _core, _words
from ._core import Step as CoreStep
from ._error import Error, with_arguments
from ._fabric import as_fabric
from ._plan import AnyFabric, Progress
from ._predict import Simulated
from ._words import Bytes, Path, Seconds

Model = Union[str, Path, Mapping[str, Any]]
"""The name of a model, the path of a file of jobs with one training step, or the options of such a step as a dict."""
StepOption = Union[None, bool, int, str, Path]
"""The value of an option of predict_step(): a truth value, a whole number or a text, as list_train_options() says."""


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


class TriedCompression(NamedTuple):
    """One way for the gradients of a step, and what the whole step takes with it."""

    name: str
    """"none", "int8", "int8, between boxes", "by bucket", "int8, buckets of 12 MiB"."""
    time: float
    """Seconds."""


class CompressedBucket(NamedTuple):
    """Gradients that are reduced together, and how they go."""

    stage: int
    ranks: int
    """That reduce them together."""
    bytes: int
    """As they are."""
    code: str
    """ "none" where they go as they are."""
    between_boxes: bool
    """Whether they are coded between boxes only."""
    wire_bytes: int
    """In the code."""
    dense_seconds: float
    """Their collectives alone, without the code,"""
    coded_seconds: float
    """and with it, encoding and decoding included."""


class StepCompression(NamedTuple):
    """Which code the gradients of a step take, and why."""

    choice: str
    """As the best of `tried` is called: "int8"."""
    why: str
    tried: List[TriedCompression]
    """The first: none."""
    buckets: List[CompressedBucket]
    """By stage, in their order."""


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
        """What is trained and how, in words; with the code of the gradients, where one was asked for."""
        found = self.compression
        return self._core.training() + ("" if found is None else f", gradients as {found.choice}")

    @property
    def compression(self) -> Optional[StepCompression]:
        """The code of the gradients, with what was tried and the table of buckets; None where none was asked for
        (compress="int8", compress="auto")."""
        found = self._core.compression()
        if found is None:
            return None
        choice, why, tried, buckets = found
        return StepCompression(choice, why, [TriedCompression(*each) for each in tried],
                               [CompressedBucket(*bucket) for bucket in buckets])

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
        found = self.compression
        return (f"<banyan.StepPrediction {self.title}: {_words.time(self.time)}, "
                f"{_words.percent(self.utilisation)} of the peak"
                f"{'' if found is None else f', gradients as {found.choice}'}>")


class TrainOption(NamedTuple):
    """An option of predict_step()."""

    name: str
    """As predict_step() takes it: "global_batch"."""
    value: str
    """What stands for its value: "N", "SIZE", "NAME"; "" of one that is True or False."""
    meaning: str


def list_train_options() -> List[TrainOption]:
    """The options of a training step, which are those of `banyan predict train`."""
    return [TrainOption(_argument(name), value, with_arguments(text))
            for _, name, value, text in _core.list_train_options()]


def predict_step(model: Optional[Model], fabric: AnyFabric, *, placement: str = "packed", seed: int = 1,
                 events: Iterable[str] = (), on_failure: str = "stop", eager: Optional[Bytes] = None,
                 costs: Optional[Path] = None, algorithm: str = "rings", collectives: str = "flow",
                 window: Optional[Seconds] = None, fold: bool = True, what_if: bool = False,
                 progress: Optional[Progress] = None, **options: StepOption) -> StepPrediction:
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
    options
        Options of the step itself, by name: list_train_options() lists all, with their meaning. An option whose name
        begins with "no-" is the same without it, and false: scatter_gather=False. None is as if left out. A step that
        does not fit into memory is an Error that says what would help, unless ignore_memory is true.
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
    file, of_model = _model_options(model)
    words = _core.JobWords(placement, str(seed), _words.to_duration(window, "window"),
                           "" if costs is None else os.fspath(costs), algorithm, collectives,
                           [events] if isinstance(events, str) else list(events), on_failure, _eager(eager),
                           _words.to_truth(what_if, "what_if"), _words.to_truth(fold, "fold"))
    of_step = [(_option(name), value) for name, value in options.items() if value is not None]
    texts = [(name, _text(value, name)) for name, value in of_model + [_without_no(*each) for each in of_step]]
    on = as_fabric(fabric)
    return StepPrediction(_core.predict_step(on._core, on.name, file, texts, words, progress))


_OWN = ("placement", "seed", "events", "on_failure", "eager", "costs", "algorithm", "collectives", "window", "fold",
        "what_if", "progress")
_IS_SWITCH = {name: value == "" for _, name, value, _ in _core.list_train_options()}


def _argument(name: str) -> str:
    """The argument of predict_step() for an option: "no-scatter-gather" is scatter_gather=False."""
    return (name[3:] if name.startswith("no-") else name).replace("-", "_")


_OPTIONS: Dict[str, str] = {_argument(name): name for name in _IS_SWITCH}


def _option(argument: str) -> str:
    """The option that an argument is for."""
    if argument not in _OPTIONS:
        hint = _core.nearest_name(argument, [*_OPTIONS, *_OWN])
        raise Error("invalid_input", f"predict_step() has no option '{argument}'"
                    + (f" (did you mean '{hint}'?)" if hint else "; list_train_options() lists them"))
    return _OPTIONS[argument]


def _without_no(name: str, value: StepOption) -> Tuple[str, StepOption]:
    """The value of the option, where the argument's is its opposite."""
    if not name.startswith("no-"):
        return name, value
    return name, not _words.to_truth(value, _argument(name))


def _model_options(model: Optional[Model]) -> Tuple[str, List[Tuple[str, Any]]]:
    """The file of jobs, "" for none, and the options that the model says."""
    if model is None:
        return "", []
    if isinstance(model, Mapping):
        return "", list(model.items())
    text = os.fspath(model)
    if not isinstance(model, str) or "/" in text or text.endswith(".json"):
        return text, []
    return "", [("model", text)]


def _eager(size: Optional[Bytes]) -> str:
    if size is None or isinstance(size, str):
        return size or ""
    return str(_words.to_bytes(size, "eager")) if size != 0 else "0"


def _text(value: Any, name: str) -> str:
    """A value as the library reads it."""
    where = name.replace("-", "_")
    if _IS_SWITCH.get(name, False):
        return "true" if _words.to_truth(value, where) else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return str(_words.to_whole(value, where))
