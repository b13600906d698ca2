"""Fabrics: ranks, switches and the links between them."""
import json
import os
from typing import Any, List, Mapping, NamedTuple, Optional, Union

from . import _core, _words
from ._core import Fabric as CoreFabric
from ._error import Error
from ._words import Path


class Node(NamedTuple):
    """A rank or a switch of a fabric."""

    name: str
    is_rank: bool
    multicast: bool
    """A switch that can copy one stream to many outputs."""
    reduce: bool
    """A switch that can sum many inputs into one stream."""


class Link(NamedTuple):
    """One direction of a cable."""

    source: str
    target: str
    bandwidth: int
    """Bytes per second."""
    latency: float
    """Seconds."""
    loss: float
    """The fraction of packets that are lost."""
    assumed: bool = False
    """Whether the bandwidth is a guess: no description said it, and nobody gave it."""

    def __repr__(self) -> str:
        return f"Link({self.source} -> {self.target}, {_words.rate(self.bandwidth)})"


class FabricSpec(NamedTuple):
    """A fabric that has a name."""

    spec: str
    """How it is written: 'torus:8x8x8[@BANDWIDTH]'."""
    description: str


class Fabric:
    """The network that collectives are planned on: ranks, switches, links with their bandwidths.

    A fabric is never changed; edits make another one.

        >>> import banyan
        >>> fabric = banyan.Fabric("dgx-h100:2")
        >>> fabric
        <banyan.Fabric dgx-h100:2: 16 ranks, 3 switches, 64 links>
        >>> fabric.fail("gpu3-ib0")
        <banyan.Fabric dgx-h100:2 --fail gpu3-ib0: 16 ranks, 3 switches, 62 links>
    """

    _core: CoreFabric
    _name: str

    def __init__(self, source: Union[Path, Mapping[str, Any], "Fabric"], *, boxes: int = 1, gpu: Optional[str] = None,
                 nic: Optional[str] = None, nics: Optional[str] = None, nvlink: Optional[str] = None,
                 cpu_link: Optional[str] = None, name: Optional[str] = None) -> None:
        """Reads a fabric.

        source
            A name such as "dgx-h100:8" (see list_fabrics), the path of a file (JSON, text, NCCL topology XML), a text
            such as "a <-> b 400Gb/s; b <-> c 100Gb/s", or a dict in the form of the JSON files ("banyan": "fabric/1").
        boxes, gpu, nic
            Of a file that describes one server: the number of such boxes that one switch joins, and the GPU ("h100")
            and the speed of NICs ("400Gb/s") where the file leaves them out.
        nics, nvlink, cpu_link
            Of the same: the NICs that join boxes ("NIC0,NIC1", or all but "^NIC2"), and the speeds of one link between
            GPUs ("14GB/s") and of the links between CPUs ("64GB/s"), which are assumed else.
        name
            How the fabric is called in titles; by default as `source` is written.
        """
        if isinstance(source, Fabric):
            self._core, self._name = source._core, source._name if name is None else name
            return
        if isinstance(source, Mapping):
            where = name or "dict"
            self._core = _core.Fabric.parse(json.dumps(source), where)
            self._name = where
            return
        if not 1 <= _words.to_whole(boxes, "boxes") < 1 << 32:
            raise Error("invalid_input", f"{boxes} is no number of boxes", "boxes")
        text = os.fspath(source)
        self._core = _core.Fabric.load(text, boxes, gpu or "", nic or "", nics or "", nvlink or "", cpu_link or "")
        if name is None:  # with all that makes it another fabric, as the command line has it
            name = text
            for option, value in (("boxes", "" if boxes == 1 else str(boxes)), ("gpu", gpu), ("nic", nic),
                                  ("nics", nics), ("nvlink", nvlink), ("cpu-link", cpu_link)):
                name += f" --{option} {value}" if value else ""
        self._name = name

    @classmethod
    def _of(cls, core: CoreFabric, name: str) -> "Fabric":
        made = cls.__new__(cls)
        made._core, made._name = core, name
        return made

    @classmethod
    def from_json(cls, text: str, *, name: str = "JSON") -> "Fabric":
        """The fabric of a text that to_json has made."""
        return cls._of(_core.Fabric.parse(text, name), name)

    @property
    def name(self) -> str:
        """How the fabric is called in titles, edits included."""
        return self._name

    @property
    def nodes(self) -> List[Node]:
        """Ranks and switches in the order of their numbers."""
        return self._core.nodes()

    @property
    def ranks(self) -> List[str]:
        """The names of the ranks, in their order."""
        return [node.name for node in self.nodes if node.is_rank]

    @property
    def switches(self) -> List[str]:
        """The names of the switches."""
        return [node.name for node in self.nodes if not node.is_rank]

    @property
    def links(self) -> List[Link]:
        """All links in the order of their numbers. A cable is two of them."""
        return self._core.links()

    @property
    def warnings(self) -> List[str]:
        """What looks wrong though it is legal, a line each: slow ranks, cables that differ by direction, and so on."""
        return self._core.warnings()

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that depend on nodes, links and their order. A plan fits fabrics with the same one."""
        return self._core.fingerprint()

    def fail(self, what: str) -> "Fabric":
        """The fabric without the links between two nodes ("gpu3-ib0") or without all links of one ("ib0")."""
        return self._edited("fail", what)

    def degrade(self, what: str, bandwidth: Union[str, int]) -> "Fabric":
        """The fabric with another bandwidth between two nodes ("gpu0-nvsw0"): "100GB/s", or bytes per second."""
        return self._edited("degrade", f"{what}={_words.to_rate(bandwidth, 'bandwidth')}")

    def remove(self, node: str) -> "Fabric":
        """The fabric without a node and its links, or without several ("n[01-16],login", "n*")."""
        return self._edited("remove", node)

    def in_network(self, switch: str, powers: str = "both") -> "Fabric":
        """The fabric with other powers of a switch, or of all whose names begin as in "nvsw*": "multicast", "reduce",
        "both" or "none"."""
        return self._edited("in-network", switch if powers == "both" else f"{switch}={powers}")

    def _edited(self, verb: str, what: str) -> "Fabric":
        return Fabric._of(self._core.edit(verb, what), f"{self._name} --{verb} {what}")

    def to_json(self) -> str:
        """The fabric in the form "banyan": "fabric/1", which `banyan` and Fabric read."""
        return self._core.to_json()

    def to_dict(self) -> "dict[str, Any]":
        """The same as a dict."""
        made: "dict[str, Any]" = json.loads(self.to_json())
        return made

    def save(self, path: Path) -> None:
        """Writes to_json() to a file, whole or not at all."""
        _words.write(path, self.to_json())

    def svg(self) -> str:
        """A drawing as SVG."""
        return self._core.draw(True, self._name)

    def dot(self) -> str:
        """A drawing for Graphviz."""
        return self._core.draw(False, self._name)

    def _repr_svg_(self) -> Optional[str]:
        return _words.picture_or_none(self.svg)

    def __repr__(self) -> str:
        return f"<banyan.Fabric {self._name}: {self._core.describe()}>"

    def __eq__(self, other: object) -> bool:
        """Whether both have the same nodes and links in the same order."""
        return isinstance(other, Fabric) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> Any:
        return _unpickled, (self.to_json(), self._name)


def _unpickled(text: str, name: str) -> Fabric:
    return Fabric.from_json(text, name=name)


def as_fabric(fabric: Union[Fabric, Path, Mapping[str, Any]]) -> Fabric:
    """What functions take for a fabric."""
    return fabric if isinstance(fabric, Fabric) else Fabric(fabric)


def list_fabrics() -> List[FabricSpec]:
    """The fabrics that have a name: vendors' boxes, tori, fat-trees and others."""
    return _core.list_fabrics()
