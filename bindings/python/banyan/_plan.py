"""Plans: trees that carry out a collective, with the proof of how good they are."""
import os
from fractions import Fraction
from typing import (Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple,
                    Union, overload)

from . import _core, _words
from ._bound import Bound, Paced
from ._core import Plan as CorePlan
from ._error import Error
from ._fabric import Fabric, as_fabric
from ._words import Bytes, Path

AnyFabric = Union[Fabric, Path, Mapping[str, Any]]
"""A Fabric, or what Fabric() reads: "dgx-h100:8", a path, a dict."""
Rank = Union[int, str]
"""The name of a rank, or its number among the ranks of the fabric."""
Traffic = Iterable[Iterable[int]]
"""What each rank sends each: a row for each sender, a cell for each receiver; lists, or an array of numpy."""
Progress = Callable[[str, float], object]
"""Called with what is being done ("packing trees") and how much of that is done, from 0 to 1, some times a second."""


class Hop(NamedTuple):
    """One edge of a tree: data that goes from one rank to the next."""

    source: str
    target: str
    links: List[int]
    """The links it crosses, as numbers in Fabric.links; between them are switches only."""


class Tree(NamedTuple):
    """A part of the buffer, and the way that it takes. Of an all-to-all: a part of what the root has for one other
    rank, to which `spread` is a path."""

    root: str
    share: Fraction
    """Of the buffer; of an all-to-all, of all that ranks send to others."""
    reduce: List[Hop]
    """The hops by which the part is reduced towards the root, in an order in which they can be carried out."""
    spread: List[Hop]
    """The hops by which it is spread from the root, likewise."""

    def __repr__(self) -> str:
        return f"<banyan.Tree of {self.root}: {self.share} of the buffer>"


class _Trees(Sequence[Tree]):
    """Made one by one when they are looked at: a large plan has millions of hops."""

    def __init__(self, core: _core.Plan) -> None:
        self._core = core

    def __len__(self) -> int:
        return self._core.tree_count()

    @overload
    def __getitem__(self, number: int) -> Tree: ...
    @overload
    def __getitem__(self, number: slice) -> List[Tree]: ...

    def __getitem__(self, number: Union[int, slice]) -> Union[Tree, List[Tree]]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"there is no tree {number}; the plan has {len(self)}")
        return self._core.tree(place)

    def __repr__(self) -> str:
        return f"<{_words.counted(len(self), 'tree')}>"


class Limit(NamedTuple):
    """What an exported plan needs of the runtime, and what the runtime has."""

    limit: str
    needed: int
    allowed: int


class Export(str):
    """The text of a plan for a GPU runtime, with what one should know about it."""

    limits: List[Limit]
    """What the text needs of the runtime; it always fits."""
    sizes: str
    """The sizes that the runtime takes it for, in words."""
    loss: float
    """What the rounding of shares costs, as a part of the throughput."""

    def save(self, path: Path) -> None:
        """Writes the text to a file, whole or not at all."""
        _words.write(path, str(self))


class Verdict:
    """Whether a plan does what it promises. True or false by itself: `if plan.verify(): ...`."""

    def __init__(self, valid: bool, reason: str, busiest_link: Optional[int], bound: Optional[Bound]) -> None:
        self.valid = valid
        self.reason = reason
        """Of a plan that is not valid: the first thing that is wrong."""
        self.busiest_link = busiest_link
        """The number of the link that decides the throughput."""
        self.bound = bound
        """Computed anew, whatever the plan claims."""

    def __bool__(self) -> bool:
        return self.valid

    def __repr__(self) -> str:
        return "<banyan.Verdict valid>" if self.valid else f"<banyan.Verdict not valid: {self.reason}>"


class Plan(Paced):
    """Trees that carry out a collective on a fabric. Made by plan(), or read by Plan.load().

        >>> import banyan
        >>> plan = banyan.plan("allgather", "dgx-a100:2")
        >>> plan
        <banyan.Plan allgather on dgx-a100:2 by forest: 346.67 GB/s, optimal>
        >>> plan.throughput
        Fraction(1040000000000, 3)
        >>> plan.bound.witness
        'rank gpu0 must receive 15 of 16 shards over 325 GB/s'
    """

    _core: CorePlan

    def __init__(self, core: CorePlan, name: str) -> None:
        self._core = core
        self._fabric_name = name

    @classmethod
    def load(cls, path: Path, *, check: bool = True) -> "Plan":
        """Reads a plan file, as `banyan plan -o` and save() write it.

        The verifier looks at it, and a plan that does not do what it promises is an Error. Without `check` it is read
        nevertheless; verify() then says what is wrong.
        """
        return cls(CorePlan.read(os.fspath(path), _words.to_truth(check, "check")), os.path.basename(os.fspath(path)))

    @classmethod
    def from_json(cls, text: str, *, name: str = "JSON", check: bool = True) -> "Plan":
        """The plan of a text that to_json() has made; `check` as of load()."""
        return cls(CorePlan.parse(text, name, _words.to_truth(check, "check")), name)

    @property
    def collective(self) -> str:
        """"allgather", "reduce-scatter", "allreduce", "broadcast", "reduce" or "all-to-all"."""
        return self._core.collective()

    @property
    def fabric(self) -> Fabric:
        """The fabric that it was made for, edits applied."""
        return Fabric._of(self._core.fabric(), self._fabric_name)

    @property
    def ranks(self) -> List[str]:
        """The ranks that take part, in the order of their shards."""
        return self._core.ranks()

    @property
    def root(self) -> Optional[str]:
        """Of a broadcast or reduce."""
        return self._core.root()

    @property
    def weights(self) -> List[int]:
        """One for each rank that takes part: its part of the buffer is its weight over their sum."""
        return self._core.weights()

    @property
    def traffic(self) -> Optional[List[List[int]]]:
        """Of an all-to-all: what each rank sends each other, a row for each sender, in least whole numbers; None where
        all pairs are alike."""
        return self._core.traffic()

    @property
    def planner(self) -> str:
        """Who made it: "forest", "ring", or another name of list_planners()."""
        return self._core.planner()

    @property
    def bound(self) -> Bound:
        """The best that any plan can reach. Of a plan from a file it is computed when it is first asked for."""
        return Bound(self._core.bound(None))

    @property
    def is_optimal(self) -> bool:
        """Whether no plan is faster for large buffers: the throughput is the bound's, compared exactly. """
        bound = self.bound
        return self.seconds_per_byte <= bound.seconds_per_byte

    @property
    def trees(self) -> Sequence[Tree]:
        """The parts of the buffer and the ways that they take."""
        return _Trees(self._core)

    @property
    def height(self) -> int:
        """The hops of the highest tree; of an allreduce, up and down together."""
        return self._core.heights()[0]

    @property
    def mean_height(self) -> float:
        """The mean over all trees, weighted by their shares."""
        return self._core.heights()[1]

    def estimate(self, bytes: Bytes) -> float:
        """Seconds for a buffer of that size, by a formula: height x (5 us + latency of the links) + bytes /
        throughput. predict() simulates it, which is more exact."""
        return self._core.estimate(_words.to_bytes(bytes, "bytes"))

    def verify(self, fabric: Optional[AnyFabric] = None, *, progress: Optional[Progress] = None) -> Verdict:
        """Proves that the plan delivers what it promises, as fast as it claims, or says what is wrong.

        With a fabric, an Error is raised where the plan was made for another one.
        """
        other = None if fabric is None else as_fabric(fabric)
        valid, reason, busiest, bound = self._core.verify(other._core if other else None, other.name if other else "",
                                                          self._fabric_name, progress)
        return Verdict(valid, reason, busiest, Bound(bound) if bound else None)

    def repair(self, fabric: AnyFabric, *, progress: Optional[Progress] = None) -> "Repair":
        """A plan for a fabric that has changed: links failed, slowed down or came back, or ranks are lost. What the
        change does not touch stays as it is, as far as that costs at most 2 % of the bound.

            >>> import banyan
            >>> old = banyan.plan("allgather", "dgx-a100:4")
            >>> repair = old.repair(banyan.Fabric("dgx-a100:4").fail("gpu3-ib0"))
            >>> repair.plan.is_optimal, repair.trees_kept > 0
            (True, True)
        """
        on = as_fabric(fabric)
        core, fields = self._core.repair(on._core, progress)
        return Repair(Plan(core, on.name), **fields)

    def export(self, format: str, *, name: str = "banyan", in_place: bool = False,
               min_bytes: Optional[Bytes] = None, max_bytes: Optional[Bytes] = None, exact: bool = False) -> Export:
        """The plan for a GPU runtime: "msccl" (XML) or "mscclpp" (JSON).

        The runtimes take a file only for counts of elements that its number of chunks divides. Shares are therefore
        rounded to a power of two of chunks; `exact` keeps them as they are. An Error says how many trees would fit
        where the plan needs more than the runtime has.
        """
        text, limits, sizes, loss = self._core.export(
            format, name, _words.to_truth(in_place, "in_place"),
            0 if min_bytes is None else _words.to_bytes(min_bytes, "min_bytes"),
            0 if max_bytes is None else _words.to_bytes(max_bytes, "max_bytes"),
            _words.to_truth(exact, "exact"))
        export = Export(text)
        export.limits, export.sizes, export.loss = limits, sizes, loss
        return export

    def to_json(self) -> str:
        """The plan in the form "banyan": "schedule/1"."""
        return self._core.to_json()

    def save(self, path: Path) -> None:
        """Writes the plan for `banyan verify`, `export`, `show` and `run`, whole or not at all."""
        self._core.save(os.fspath(path))

    def svg(self, *, root: Optional[Rank] = None, trees: int = 4) -> str:
        """A drawing of some trees as SVG: of one root, at most `trees` of them."""
        return self._core.draw(True, self._title(), rank_name(root, self.fabric, "root"), trees)

    def dot(self, *, root: Optional[Rank] = None, trees: int = 4) -> str:
        """The same for Graphviz."""
        return self._core.draw(False, self._title(), rank_name(root, self.fabric, "root"), trees)

    def _title(self) -> str:
        return f"{self.collective} on {self._fabric_name}"

    def _repr_svg_(self) -> Optional[str]:
        return _words.picture_or_none(self.svg)

    def __repr__(self) -> str:
        words = f"{self._title()} by {self.planner}: {_words.rate(self.throughput)}"
        if self._core.knows_bound():  # to compute it may take long
            words += f", {distance(self.seconds_per_byte, self.bound)}"
        return f"<banyan.Plan {words}>"

    def __reduce__(self) -> Any:
        return _unpickled, (self.to_json(), self._fabric_name)


class LinkChange(NamedTuple):
    """A link that was lost or added, or whose bandwidth is another one."""

    source: str
    target: str
    before: Optional[int]
    """Bytes per second; None: there was none."""
    after: Optional[int]
    """Bytes per second; None: there is none any more."""


class Repair(NamedTuple):
    """A repaired plan, and what is different in it. Counts are of the old plan's trees; a tree of an allreduce counts
    as two."""

    plan: Plan
    links: List[LinkChange]
    lost_ranks: List[str]
    trees_kept: int
    trees_patched: int
    """Of which some edges are replaced,"""
    trees_moved: int
    """and those in whose place there are others."""
    edges_of_patched: int
    edges_replaced: int
    seconds_per_byte_before: Fraction
    """Of the old plan, on the fabric that it was made for."""
    kept_from: List[Optional[int]]
    """By tree of the plan: the number of the old tree that it is."""

    @property
    def planned_anew(self) -> bool:
        """Whether nothing of the old plan is left."""
        return self.trees_kept + self.trees_patched == 0


def _unpickled(text: str, name: str) -> Plan:
    return Plan.from_json(text, name=name)


def distance(seconds_per_byte: Fraction, bound: Bound) -> str:
    """'optimal', '98.4 % of the bound'."""
    if seconds_per_byte <= bound.seconds_per_byte:
        return "optimal"
    return f"{_words.percent(float(bound.seconds_per_byte / seconds_per_byte))} of the bound"


def rank_name(rank: Optional[Rank], fabric: Fabric, where: str) -> str:
    """The name of a rank; "" for None. Names are looked up by the library."""
    if rank is None or isinstance(rank, str):
        return rank or ""
    ranks = fabric.ranks
    if not 0 <= _words.to_whole(rank, where) < len(ranks):
        raise Error("not_found", f"there is no rank {rank}; the fabric has ranks 0 to {len(ranks) - 1}", where)
    return ranks[rank]


def words_of(collective: str, fabric: Fabric, ranks: Union[None, str, Iterable[Rank]], root: Optional[Rank],
             weights: Optional[Iterable[int]], traffic: Optional[Traffic] = None) -> _core.CollectiveWords:
    """The collective that the arguments of plan() describe."""
    names: List[str] = []
    if ranks is not None and not isinstance(ranks, str):
        names = [rank_name(rank, fabric, "ranks") for rank in ranks]
        if not names:
            raise Error("invalid_input", "is empty; leave it out to mean all ranks", "ranks")
    if ranks == "":
        raise Error("invalid_input", "is empty; leave it out to mean all ranks", "ranks")
    numbers = [] if weights is None else [_words.to_whole(weight, "weights") for weight in weights]
    if any(number < 0 for number in numbers):
        raise Error("invalid_input", "a weight is negative", "weights")
    return _core.CollectiveWords(collective, ranks if isinstance(ranks, str) else "", names,
                                 rank_name(root, fabric, "root"), numbers, _flat(traffic))


def _flat(traffic: Optional[Traffic]) -> List[int]:
    """One row after the other."""
    if traffic is None:
        return []
    flat: List[int] = []
    rows = [list(row) for row in traffic]
    if not rows:
        raise Error("invalid_input", "is empty; leave it out where all pairs are alike", "traffic")
    for sender, row in enumerate(rows):
        if len(row) != len(rows):
            raise Error("invalid_input", f"is not square: it has {_words.counted(len(rows), 'row')}, of which number "
                        f"{sender} has {_words.counted(len(row), 'cell')}", "traffic")
        for receiver, amount in enumerate(row):
            number = int(amount)
            if number != amount or not 0 <= number < 1 << 63:
                raise Error("invalid_input", f"what rank {sender} sends to rank {receiver} is {amount}; it must be a "
                            "whole number that is not negative", "traffic")
            flat.append(number)
    return flat


def plan(collective: str, fabric: AnyFabric, *, trees: Optional[int] = None, max_height: Optional[int] = None,
         root: Optional[Rank] = None, ranks: Union[None, str, Iterable[Rank]] = None,
         weights: Optional[Iterable[int]] = None, traffic: Optional[Traffic] = None, bytes: Optional[Bytes] = None,
         lower: bool = True, progress: Optional[Progress] = None) -> Plan:
    """Plans a collective and proves how good the plan is.

        >>> import banyan
        >>> banyan.plan("broadcast", "torus:4x4@25GB/s", root="x0y0").is_optimal
        True

    collective
        "allgather", "reduce-scatter", "allreduce", "broadcast", "reduce" or "all-to-all", in any usual spelling.
    fabric
        A Fabric, or what Fabric() reads: "dgx-h100:8", a path, a dict.
    trees
        So many trees per rank, instead of as many as the optimum needs.
    max_height
        The best throughput with no tree higher than this.
    root
        Of a broadcast or reduce, a name or a number; by default the first rank.
    ranks
        Who takes part, in the order of the shards: names or numbers, or a text such as "0-3,8" or "gpu0-gpu3,gpu8".
    weights
        Uneven shards of an allgather or reduce-scatter, one number for each rank.
    traffic
        Of an all-to-all: how much each rank sends each, as a square matrix with a row for each sender; lists, or an
        array of numpy. Throughput and `bytes` are then about the mean over the ranks of what one sends.
    bytes
        Instead of the forest, the plan that is quickest for this size in a simulation: low trees for small buffers.
    lower
        Whether tall trees are grown anew, lower, which takes time on irregular fabrics.
    progress
        Called with what is being done and how much of it is done.

    Other threads of Python go on meanwhile, and Ctrl-C ends it.
    """
    on = as_fabric(fabric)
    if bytes is not None and (trees is not None or max_height is not None):
        raise Error("invalid_input", "bytes chooses among all planners; leave trees and max_height out", "bytes")
    size = "" if bytes is None else f"{_words.to_bytes(bytes, 'bytes')}"
    words = words_of(collective, on, ranks, root, weights, traffic)
    return Plan(_core.plan(on._core, words, _count(trees, "trees"), _count(max_height, "max_height"),
                           _words.to_truth(lower, "lower"), size, progress), on.name)


def _count(number: Optional[int], where: str) -> Optional[int]:
    if number is None:
        return None
    count = _words.to_whole(number, where)
    if not 1 <= count <= 1_000_000:
        raise Error("invalid_input", f"{number} is not between 1 and 1000000", where)
    return count


def bound(collective: str, fabric: AnyFabric, *, root: Optional[Rank] = None,
          ranks: Union[None, str, Iterable[Rank]] = None, weights: Optional[Iterable[int]] = None,
          traffic: Optional[Traffic] = None, progress: Optional[Progress] = None) -> Bound:
    """The best that any plan can reach, without a plan. Arguments as of plan()."""
    on = as_fabric(fabric)
    return Bound(_core.bound(on._core, words_of(collective, on, ranks, root, weights, traffic), progress))


def verify(plan: Union[Plan, Path], fabric: Optional[AnyFabric] = None) -> Verdict:
    """Proves that a plan, or the plan in a file, delivers what it promises, or says what is wrong."""
    return (plan if isinstance(plan, Plan) else Plan.load(plan, check=False)).verify(fabric)


class ComparedPlanner(NamedTuple):
    """One planner of a Comparison. Where `why_not` is not "", it has no plan here and the figures mean nothing."""

    planner: str
    why_not: str
    seconds_per_byte: Optional[Fraction]
    times_bound: float
    """Its time over that of the bound: 1 is optimal."""
    height: int
    mean_height: float
    trees: int
    estimates: Dict[int, float]
    """Seconds by size in bytes, by the formula of Plan.estimate()."""

    @property
    def throughput(self) -> Optional[Fraction]:
        """Bytes of the whole buffer per second."""
        return None if self.seconds_per_byte is None else 1 / self.seconds_per_byte


class Comparison(Sequence[ComparedPlanner]):
    """The planners of a collective side by side, the default one first. A sequence of ComparedPlanner; print() shows a table."""

    def __init__(self, title: str, bound: Bound, rows: List[ComparedPlanner]) -> None:
        self.title = title
        self.bound = bound
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, number: int) -> ComparedPlanner: ...
    @overload
    def __getitem__(self, number: slice) -> List[ComparedPlanner]: ...

    def __getitem__(self, number: Union[int, slice]) -> Union[ComparedPlanner, List[ComparedPlanner]]:
        return self._rows[number]

    def __iter__(self) -> Iterator[ComparedPlanner]:
        return iter(self._rows)

    def __str__(self) -> str:
        return f"{self.title}\n{_words.table(*self._table())}"

    def _repr_html_(self) -> str:
        return _words.html_table(self.title, *self._table())

    def _table(self) -> Tuple[List[str], List[List[str]]]:
        sizes = list(self._rows[0].estimates)
        heads = ["planner", "algbw", "of bound", "height", "mean",
                 "trees", *(_words.size(size) for size in sizes)]
        rows = []
        for row in self._rows:
            if row.throughput is None:
                rows.append([row.planner, f"not here: {row.why_not}"])
                continue
            rows.append([row.planner, _words.rate(row.throughput), _words.percent(1 / row.times_bound), str(row.height),
                         f"{row.mean_height:.1f}", str(row.trees),
                         *(_words.time(row.estimates[size]) for size in sizes)])
        return heads, rows

    def __repr__(self) -> str:
        return f"<banyan.Comparison of {_words.counted(len(self), 'planner')}: {self.title}>"


def compare(collective: str, fabric: AnyFabric, sizes: Iterable[Bytes] = ("1MiB", "64MiB", "1GiB"), *,
            root: Optional[Rank] = None, ranks: Union[None, str, Iterable[Rank]] = None,
            weights: Optional[Iterable[int]] = None, traffic: Optional[Traffic] = None,
            progress: Optional[Progress] = None) -> Comparison:
    """Plans with every planner and puts them side by side, with estimated times for `sizes`.

    Other arguments as of plan().
    """
    forest = plan(collective, fabric, root=root, ranks=ranks, weights=weights, traffic=traffic, progress=progress)
    wanted = [_words.to_bytes(size, "sizes") for size in sizes]
    return Comparison(forest._title(), forest.bound, forest._core.compare(wanted, progress))


class Planner(NamedTuple):
    """Who makes plans."""

    name: str
    summary: str


def list_planners(collective: Optional[str] = None) -> List[Planner]:
    """The planners that compare() shows, of one collective or of all."""
    return _core.list_planners(collective)
