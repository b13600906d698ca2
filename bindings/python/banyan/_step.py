"""Predictions of training steps: where their time goes, and whether they fit into memory."""
import os
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _core
from ._core import StepPrediction
from ._fabric import as_fabric
from ._options import STEP, Given, Option, Value, list_options
from ._plan import AnyFabric, Progress
from ._words import Path

Model = Union[str, Path, Mapping[str, Any]]
"""The name of a model, the path of a file of jobs with one training step, or the options of such a step as a dict."""


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


def list_train_options() -> List[Option]:
    """The options of a training step, which are those of `banyan predict train`. predict_step() takes those of the
    simulation, too, which list_job_options() lists."""
    return list_options(_core.list_train_options())


def predict_step(model: Optional[Model], fabric: AnyFabric, *, progress: Optional[Progress] = None,
                 **options: Value) -> StepPrediction:
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
    placement, seed, events, on_failure, eager, costs, algorithm, collectives, window, fold, what_if
        Options of the simulation, as those of predict_job().
    progress
        Called with what is being done and how much of it is done.

    Other threads of Python go on meanwhile, and Ctrl-C ends it.
    """
    file, of_model = _model_options(model)
    on = as_fabric(fabric)
    return _core.predict_step((on._core, on.name), file, of_model + STEP.given("predict_step()", options), progress)


def _model_options(model: Optional[Model]) -> Tuple[str, List[Given]]:
    """The file of jobs, "" for none, and the options that the model says."""
    if model is None:
        return "", []
    if isinstance(model, Mapping):
        return "", [(name, STEP.value(name, value)) for name, value in model.items()]
    text = os.fspath(model)
    if not isinstance(model, str) or "/" in text or text.endswith(".json"):
        return text, []
    return "", [("model", text)]
