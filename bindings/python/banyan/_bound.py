"""Bounds: the best that any plan can reach, with what proves it."""
from fractions import Fraction
from typing import List, NamedTuple, Optional, Union

from . import _words
from ._core import Bound as CoreBound, Plan as CorePlan
from ._fabric import Link


class Cut(NamedTuple):
    """A proof by one cut: what must cross it, and how fast it can."""

    inside: List[str]
    """The nodes on one side."""
    gathering: bool
    """False: they must send out; True: they must receive."""
    crossing_weight: int
    total_weight: int
    """crossing_weight / total_weight of the buffer must cross,"""
    bytes_per_second: int
    """over so much bandwidth."""
    words: str


class WeightedCut(NamedTuple):
    """One of several cuts that prove the bound of an allreduce together."""

    inside: List[str]
    """The nodes on one side."""
    gathering: bool
    """False: pieces rooted inside are spread out over it; True: they are summed in over it."""
    times: int
    """How often it counts."""


class Potential(NamedTuple):
    """What a link into a switch costs more in such a proof, and a link out of it less."""

    switch: str
    gathering: bool
    height: int


class LinkLengths(NamedTuple):
    """A proof by lengths: whatever ways bytes take, they cross at least the distances between ranks."""

    lengths: List[int]
    """By the number of the link in Fabric.links."""
    crossed: int
    """Over all pairs of ranks, their distance times their traffic, in the parts of the least whole numbers."""
    carried: int
    """What all links together carry in a second: bandwidth times length."""


class Paced:
    """What plans and bounds have in common: a time for each byte, and the throughput that follows from it."""

    _core: Union[CoreBound, CorePlan]

    @property
    def seconds_per_byte(self) -> Fraction:
        """The time for each byte of the whole buffer: of a plan by the link that has most to carry, of a bound the
        least that any plan can take."""
        return self._core.seconds_per_byte()

    @property
    def throughput(self) -> Fraction:
        """Bytes of the whole buffer per second (algbw): what large buffers come near to, and of a bound no plan
        exceeds."""
        return 1 / self.seconds_per_byte


class Bound(Paced):
    """The best that any plan of a collective can reach on a fabric, exact, with what proves it: one cut, of an
    allreduce cuts that count together, of an all-to-all lengths of links."""

    _core: CoreBound

    def __init__(self, core: CoreBound) -> None:
        self._core = core

    @property
    def cuts(self) -> List[Cut]:
        """The proof; none of an allreduce, which has `weighted_cuts`, and of an all-to-all, which has
        `link_lengths`."""
        return self._core.cuts()

    @property
    def weighted_cuts(self) -> List[WeightedCut]:
        """The proof of an allreduce, with `potentials`; `over_images` says whether it is averaged over all that is
        alike."""
        return self._core.weighted_cuts()[0]

    @property
    def potentials(self) -> List[Potential]:
        """What switches add to the costs of links in that proof."""
        return self._core.weighted_cuts()[1]

    @property
    def over_images(self) -> bool:
        """Whether that proof counts the mean over links that are alike, and over both directions."""
        return self._core.weighted_cuts()[2]

    @property
    def link_lengths(self) -> Optional[LinkLengths]:
        """The proof of an all-to-all; None of other collectives."""
        return self._core.link_lengths()

    @property
    def assumed(self) -> List[Link]:
        """The links of the proof whose bandwidth is assumed: while there are any, the bound holds as far as is known.
        Fabric.degrade, or Fabric's `cpu_link` and `nvlink`, say what they have."""
        return self._core.assumed()

    @property
    def witness(self) -> str:
        """The proof in words: 'rank gpu0 must receive 15 of 16 shards over 325 GB/s'."""
        return self._core.witness()

    def __repr__(self) -> str:
        return f"<banyan.Bound {_words.rate(self.throughput)}: {self.witness}>"
