"""Predictions: plans simulated on their fabric."""
import os
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union, overload

from . import _core, _words
from ._core import Prediction as CorePrediction
from ._error import Error
from ._fabric import Fabric, as_fabric
from ._plan import AnyFabric, Plan, Progress, Rank, Traffic, words_of
from ._words import Bytes, Path, Seconds

What = Union[str, Plan, Path, Iterable[Union[Plan, Path]]]
"""A collective, whose plans on a fabric are compared, or plans, or paths of plan files."""


class BusyLink(NamedTuple):
    """A link and how busy it was over the whole time."""

    source: str
    target: str
    full: float
    """The part of the time for which it was a bottleneck, from 0 to 1."""
    load: float
    """The part of what it could have carried, from 0 to 1."""
    bytes: float
    """That crossed it."""


class PredictedPlan(NamedTuple):
    """One plan for one size."""

    plan: str
    """The planner, or of several plans their names."""
    bytes: int
    time: float
    """Seconds."""
    throughput: float
    """Bytes of the whole buffer per second: algbw."""
    bus_throughput: float
    """busbw, as nccl-tests count it, in bytes per second."""
    slice: int
    """The piece that moves at once along a tree, in bytes."""
    messages: int


class _Report:
    """What predictions of one size and sweeps have in common."""

    def __init__(self, core: CorePrediction, points: List[Tuple[int, int, List[PredictedPlan]]],
                 plans: List[Plan]) -> None:
        self._core = core
        self._points = points
        self._plans = plans

    @property
    def title(self) -> str:
        """What was simulated on what."""
        return self._core.title

    @property
    def summary(self) -> str:
        """The result in a few sentences."""
        return self._core.summary

    def busiest_links(self, most: int = 5) -> List[BusyLink]:
        """The links that were a bottleneck longest; of plans under the best one, of a sweep for the largest size."""
        return self._core.busiest_links(most)

    def to_json(self) -> str:
        """All of it in the form "banyan": "prediction/1"."""
        return self._core.to_json()

    def to_html(self) -> str:
        """A page with pictures, such as the fabric with its links coloured by load; it needs no other file."""
        return self._core.to_html()

    def save(self, path: Path) -> None:
        """Writes to_html() to a file that ends in .html, to_json() to any other."""
        text = os.fspath(path)
        _words.write(text, self.to_html() if text.endswith((".html", ".htm")) else self.to_json())


class Prediction(_Report):
    """How long a collective takes for one size, under the best of some plans.

        >>> import banyan
        >>> prediction = banyan.predict("allreduce", "dgx-a100:2", bytes="64MiB")
        >>> prediction.plan.planner
        'forest'
    """

    @property
    def bytes(self) -> int:
        """The whole buffer, gathered or reduced."""
        return self._points[0][0]

    @property
    def plans(self) -> List[PredictedPlan]:
        """All plans that were simulated."""
        return self._points[0][2]

    @property
    def best(self) -> PredictedPlan:
        """The quickest of them."""
        return self._points[0][2][self._points[0][1]]

    @property
    def plan(self) -> Plan:
        """The quickest, as a Plan."""
        return self._plans[self._points[0][1]]

    @property
    def time(self) -> float:
        """Seconds, with the best plan."""
        return self.best.time

    @property
    def throughput(self) -> float:
        """Bytes of the whole buffer per second (algbw), with the best plan."""
        return self.best.throughput

    @property
    def bus_throughput(self) -> float:
        """busbw as nccl-tests count it, in bytes per second, with the best plan."""
        return self.best.bus_throughput

    def _repr_html_(self) -> str:
        return _words.html_table(self.title, _HEADS, [_row(plan) for plan in self.plans])

    def __str__(self) -> str:
        return f"{self.title}\n{_words.table(_HEADS, [_row(plan) for plan in self.plans])}"

    def __repr__(self) -> str:
        return f"<banyan.Prediction {self.title}: {_words.time(self.time)}, {_words.rate(self.throughput)}>"


class Sweep(_Report, Sequence[PredictedPlan]):
    """Predictions over sizes: a sequence of the best plan for each size; print() shows a table."""

    @property
    def sizes(self) -> List[int]:
        """In bytes."""
        return [size for size, _, _ in self._points]

    @property
    def plans(self) -> List[List[PredictedPlan]]:
        """All plans that were simulated, by size."""
        return [timed for _, _, timed in self._points]

    def __len__(self) -> int:
        return len(self._points)

    @overload
    def __getitem__(self, number: int) -> PredictedPlan: ...
    @overload
    def __getitem__(self, number: slice) -> List[PredictedPlan]: ...

    def __getitem__(self, number: Union[int, slice]) -> Union[PredictedPlan, List[PredictedPlan]]:
        return self._bests()[number]

    def __iter__(self) -> Iterator[PredictedPlan]:
        return iter(self._bests())

    def _bests(self) -> List[PredictedPlan]:
        return [timed[best] for _, best, timed in self._points]

    def _repr_html_(self) -> str:
        return _words.html_table(self.title, _HEADS, [_row(plan) for plan in self])

    def __str__(self) -> str:
        return _words.table(_HEADS, [_row(plan) for plan in self])

    def __repr__(self) -> str:
        sizes = self.sizes
        return (f"<banyan.Sweep of {_words.counted(len(sizes), 'size')}: {self._plans[0]._title()}, "
                f"{_words.size(sizes[0])} to {_words.size(sizes[-1])}>")


_HEADS = ["plan", "size", "time", "algbw", "busbw"]


def _row(plan: PredictedPlan) -> List[str]:
    return [plan.plan, _words.size(plan.bytes), _words.time(plan.time), _words.rate(plan.throughput),
            _words.rate(plan.bus_throughput)]


def _simulate(what: What, fabric: Optional[AnyFabric], sizes: List[int], *, root: Optional[Rank],
              ranks: Union[None, str, Iterable[Rank]], weights: Optional[Iterable[int]],
              traffic: Optional[Traffic], slice: Optional[Bytes], alpha: Optional[Seconds],
              window: Optional[Seconds], fold: bool,
              progress: Optional[Progress]) -> Tuple[
                  CorePrediction, List[Tuple[int, int, List[PredictedPlan]]], List[Plan]]:
    plans: List[Plan] = []
    if isinstance(what, str) and _core.is_collective(what):
        if fabric is None:
            raise Error("invalid_input", f"{what!r} is a collective; give its fabric, too", "fabric")
        on = as_fabric(fabric)
        words = words_of(what, on, ranks, root, weights, traffic)
        plans = [Plan(core, on.name) for core in _core.candidates(on._core, words, progress)]
        names, title = [plan.planner for plan in plans], on.name
    else:
        if any(each is not None for each in (root, ranks, weights, traffic)):
            raise Error("invalid_input", "a plan has its root, ranks, weights and traffic already; leave them out")
        given = [what] if isinstance(what, (str, Plan, os.PathLike)) else list(what)
        if not given:
            raise Error("invalid_input", "no plan is given", "what")
        plans = [each if isinstance(each, Plan) else _loaded(each) for each in given]
        _require_one_question(plans, None if fabric is None else as_fabric(fabric))
        names, title = _names(plans, given), plans[0].fabric.name
    options: Dict[str, Union[bool, int, str]] = {"fabric": title, "fold": _words.to_truth(fold, "fold")}
    if slice is not None:
        options["slice"] = _words.to_bytes(slice, "slice")
    for name, time in (("alpha", alpha), ("window", window)):
        if time is not None:
            options[name] = _words.to_duration(time, name)
    made, points = _core.predict([(name, plan._core) for name, plan in zip(names, plans)], sizes, options, progress)
    return made, points, plans


def _loaded(path: Path) -> Plan:
    text = os.fspath(path)
    if not os.path.exists(text) and "." not in text and "/" not in text:
        raise Error("invalid_input", f"{text!r} is neither a plan file nor a collective; collectives are allgather, "
                    "reduce-scatter, allreduce, broadcast, reduce and all-to-all", "what")
    return Plan.load(path)


def _require_one_question(plans: List[Plan], fabric: Optional[Fabric]) -> None:
    first = plans[0]
    for number, plan in enumerate(plans):
        if any(getattr(plan, each) != getattr(first, each)
               for each in ("collective", "ranks", "root", "weights", "traffic")):
            raise Error("mismatch", "is a plan for another collective than the first", f"plan {number}")
        if plan.fabric != (fabric or first.fabric):
            raise Error("mismatch", "was planned for another fabric; plan again for this one", f"plan {number}")


def _names(plans: List[Plan], given: Sequence[Any]) -> List[str]:
    """The planners where they differ, else the names of files or numbers."""
    names = [plan.planner for plan in plans]
    if len(set(names)) == len(names):
        return names
    return [f"{plan.planner} {number}" if isinstance(each, Plan) else os.fspath(each)
            for number, (plan, each) in enumerate(zip(plans, given))]


def predict(what: What, fabric: Optional[AnyFabric] = None, bytes: Bytes = "1GiB", *, root: Optional[Rank] = None,
            ranks: Union[None, str, Iterable[Rank]] = None, weights: Optional[Iterable[int]] = None,
            traffic: Optional[Traffic] = None, slice: Optional[Bytes] = None, alpha: Optional[Seconds] = None,
            window: Optional[Seconds] = None, fold: bool = True, progress: Optional[Progress] = None) -> Prediction:
    """Simulates plans for one size: slices that move along all trees at once, over links shared fairly.

    what
        A collective, whose plans on `fabric` are compared; or a Plan or the path of a plan file, or several.
    bytes
        The size of the whole buffer, gathered or reduced.
    root, ranks, weights, traffic
        Of a collective, as of plan().
    slice
        The piece that moves at once along a tree; by default the best of three.
    alpha
        What a message costs besides its bytes, by default 5 us.
    window
        Messages that end within this time of each other end together: faster, less exact.
    fold
        Whether messages that are alike are simulated once.
    progress
        Called with what is being done and how much of it is done.

    Other threads of Python go on meanwhile, and Ctrl-C ends it.
    """
    return Prediction(*_simulate(what, fabric, [_words.to_bytes(bytes, "bytes")], root=root, ranks=ranks,
                                 weights=weights, traffic=traffic, slice=slice, alpha=alpha, window=window,
                                 fold=fold, progress=progress))


def sweep(what: What, fabric: Optional[AnyFabric] = None, sizes: Union[str, Iterable[Bytes]] = "1KiB:4GiB", *,
          root: Optional[Rank] = None, ranks: Union[None, str, Iterable[Rank]] = None,
          weights: Optional[Iterable[int]] = None, traffic: Optional[Traffic] = None, slice: Optional[Bytes] = None,
          alpha: Optional[Seconds] = None, window: Optional[Seconds] = None, fold: bool = True,
          progress: Optional[Progress] = None) -> Sweep:
    """The same over sizes: "1KiB:4GiB", where each is twice the one before, or a list. Others as of predict()."""
    if isinstance(sizes, str):
        first, colon, last = sizes.partition(":")
        if not colon:
            raise Error("invalid_input", f"{sizes!r} has no ':'; write it as '1KiB:4GiB'", "sizes")
        wanted = _core.doubling_sizes(_words.to_bytes(first, "sizes"), _words.to_bytes(last, "sizes"))
    else:
        wanted = [_words.to_bytes(size, "sizes") for size in sizes]
        if not wanted:
            raise Error("invalid_input", "is empty; give sizes such as '1KiB:4GiB'", "sizes")
    return Sweep(*_simulate(what, fabric, wanted, root=root, ranks=ranks, weights=weights, traffic=traffic,
                            slice=slice, alpha=alpha, window=window, fold=fold, progress=progress))
