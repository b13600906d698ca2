"""Training that exchanges parameters every so many steps; see LocalSteps."""

import dataclasses
import math
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from . import _C
from ._alike import expect_alike
from ._compress import expect_numbers, expect_residuals


@dataclasses.dataclass
class _Fragment:
    """Some parameters, which are exchanged together; vectors hold them one after the other."""

    names: List[str]
    parameters: List[torch.Tensor]
    last: torch.Tensor  # what all ranks had after the last exchange
    velocity: torch.Tensor  # of the outer optimizer

    def vector(self) -> torch.Tensor:
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])

    def take(self, vector: torch.Tensor) -> None:
        at = 0
        for parameter in self.parameters:
            parameter.detach().copy_(vector[at:at + parameter.numel()].view(parameter.shape))
            at += parameter.numel()


@dataclasses.dataclass
class _UnderWay:
    number: int  # of the fragment
    due: int  # the step that takes the result
    change: torch.Tensor  # becomes the average
    future: Any


def _split(named: List[Tuple[str, torch.Tensor]], fragments: int) -> List[List[Tuple[str, torch.Tensor]]]:
    """Whole parameters in their order, about as many values each, none without any: a parameter may be larger than a
    fragment would be."""
    total = sum(tensor.numel() for _, tensor in named)
    parts: List[List[Tuple[str, torch.Tensor]]] = [[]]
    before = 0
    for i, (name, tensor) in enumerate(named):
        left = len(named) - i
        is_full = before + tensor.numel() / 2 > total * len(parts) / fragments
        if parts[-1] and len(parts) < fragments and (is_full or left == fragments - len(parts)):
            parts.append([])
        parts[-1].append((name, tensor))
        before += tensor.numel()
    return parts


def _size(group: Any) -> int:
    return dist.get_world_size(group)


class LocalSteps:
    """Ranks train by themselves and exchange how their parameters have changed every so many steps (DiLoCo): `every`
    times fewer bytes than gradients of each step take.

        outer = banyan_torch.LocalSteps(model, every=100)
        for batch in batches:
            ...                                        # backward pass and optimizer.step(), of this rank alone
            outer.step()

    At an exchange the mean over all ranks of (parameters after the last exchange - parameters now) is the gradient of
    an outer optimizer, SGD with Nesterov momentum, from the parameters after the last exchange. All ranks have the same
    parameters then. What the inner optimizer keeps stays on its rank, and so do buffers such as those of batch
    normalisation.

    model:      parameters of float32; those of rank 0 become those of all
    every:      steps between two exchanges of a parameter
    group:      of the backend "banyan"; by default the default group
    lr, momentum: of the outer optimizer
    fragments:  the parameters are exchanged in so many parts, one every `every / fragments` steps, in turn: as many
                bytes in all, but that much less at a time
    delay:      the result of an exchange is used so many steps after it was begun, and training goes on meanwhile;
                less than every / fragments. With it, gradients of the steps between are not lost: see keep_local
    keep_local: parameters become keep_local * their own + (1 - keep_local) * those of all
    codec:      changes go in this code: one of those of compress(), such as "int4"; what it loses is kept and added to
                the next ones. "powersgd:4" does without `box`, and each exchange is a step to it: its dense_steps=10
                are 10 exchanges
    options:    of the codec, as compress() takes them
    box:        a group of ranks that have equal parameters at every step, since DistributedDataParallel averages their
                gradients; `group` then holds one rank of each box, the same place of all. Each rank exchanges its part
                of the changes and gathers the rest in its box. two_level_groups() makes both

    Collective, as step() is where an exchange begins or ends: all ranks make the same calls. Raises MismatchError when
    options or models differ between ranks. Sources: Douillard et al., "DiLoCo", 2023, and "Streaming DiLoCo with
    overlapping communication", 2025.
    """

    def __init__(self, model: nn.Module, *, every: int, group: Any = None, lr: float = 0.7, momentum: float = 0.9,
                 fragments: int = 1, delay: int = 0, keep_local: float = 0.0, codec: str = "none", box: Any = None,
                 **options: float) -> None:
        from . import _backend  # the package is not complete while it imports this file

        if isinstance(model, DistributedDataParallel):
            model = model.module
        self.every, self.fragments, self.delay = int(every), int(fragments), int(delay)
        self.lr, self.momentum, self.keep_local, self.codec = float(lr), float(momentum), float(keep_local), codec
        self.steps = 0
        self._group = dist.group.WORLD if group is None else group
        self._box = box
        named = [(name, tensor) for name, tensor in model.named_parameters() if tensor.requires_grad]
        expect_numbers(options)
        self._expect_alike(named, options)
        self._expect_valid(named)
        self._period = self.every // self.fragments
        self._under_way: Optional[_UnderWay] = None
        with torch.no_grad():
            self._parts = [self._fragment(part) for part in _split(named, self.fragments)]
        # By parameter, so that matrices are matrices to a codec; where a box shares a fragment, by part.
        self._own = [dict(zip(part.names, part.parameters)) if box is None else {str(number): self._own_part(part.last)}
                     for number, part in enumerate(self._parts)]
        self._kept_for = {name: tensor for own in self._own for name, tensor in own.items()}
        self._compression = _C.Compression(_backend(self._group), codec, options, codec != "none",
                                           list(self._kept_for.items()))

    def step(self) -> None:
        """After each step of the inner optimizer."""
        self.steps += 1
        if self._under_way is not None and self.steps >= self._under_way.due:
            self.finish()
        if self.steps % self._period == 0:
            self._begin((self.steps // self._period - 1) % self.fragments)
            if self.delay == 0:
                self.finish()

    def finish(self) -> None:
        """Ends an exchange that is under way now and uses its result, before its time: on all ranks or none. To be
        called at the end of training, and before parameters are saved, if there is a delay."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        part = self._parts[under_way.number]
        under_way.future.wait()
        change = self._gathered(under_way.change, part.last.numel())
        with torch.no_grad():
            part.velocity.mul_(self.momentum).add_(change)
            part.last.sub_(change.add_(part.velocity, alpha=self.momentum), alpha=self.lr)
            if self.keep_local == 0:
                part.take(part.last)
            else:
                part.take(part.vector().mul_(self.keep_local).add_(part.last, alpha=1 - self.keep_local))

    def state_dict(self) -> Dict[str, Any]:
        """What this rank is to save beside its parameters and its inner optimizer's state. Not during an exchange."""
        if self._under_way is not None:
            raise RuntimeError(f"an exchange is under way until step {self._under_way.due}, and this is step "
                               f"{self.steps}: save then, or call finish() first on all ranks")
        return {"steps": self.steps, "names": [part.names for part in self._parts], "codec": self.codec,
                "last": [part.last.clone() for part in self._parts],
                "momentum": [part.velocity.clone() for part in self._parts], "exchange": self._compression.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Of the same rank and model, with the same fragments, codec and box."""
        for key in ("steps", "names", "codec", "last", "momentum", "exchange"):
            if key not in state:
                raise ValueError(f"the state has no '{key}': it is not of LocalSteps.state_dict()")
        for name, own in (("names", [part.names for part in self._parts]), ("codec", self.codec)):
            if state[name] != own:
                what = "parameters or fragments" if name == "names" else "codec"
                raise ValueError(f"the state is of other {what}: {state[name]} instead of {own}")
        vectors = {str(number): part.last for number, part in enumerate(self._parts)}
        for what, key in (("parameters", "last"), ("momentum", "momentum")):
            expect_residuals({str(number): vector for number, vector in enumerate(state[key])}, vectors,
                             f"{what} of a fragment")
        expect_residuals(state["exchange"].get("residuals", {}), self._kept_for)
        self._compression.set_state(state["exchange"])
        self._under_way, self.steps = None, int(state["steps"])
        for part, last, velocity in zip(self._parts, state["last"], state["momentum"]):
            part.last.copy_(last)
            part.velocity.copy_(velocity)

    def residual_norms(self) -> List[float]:
        """Euclidean norm of what the codec has lost so far of each fragment on this rank."""
        norms = self._compression.residual_norms()
        return [math.hypot(*(norms.get(name, 0.0) for name in own)) for own in self._own]

    def __repr__(self) -> str:
        values = sum(part.last.numel() for part in self._parts)
        return (f"LocalSteps(every={self.every}, fragments={self.fragments}, delay={self.delay}, codec={self.codec!r}, "
                f"{values} values)")

    def _expect_alike(self, named: List[Tuple[str, torch.Tensor]], of_codec: Dict[str, float]) -> None:
        """Before anything is exchanged whose size would follow from what differs."""
        options = {name: getattr(self, name) for name in ("every", "fragments", "delay", "lr", "momentum", "keep_local",
                                                          "codec")}
        options.update(of_codec)
        options["parameters"] = len(named)
        options["values"] = sum(tensor.numel() for _, tensor in named)
        options["shapes"] = str([(name, tuple(tensor.shape)) for name, tensor in named])
        for group in [self._group] + ([] if self._box is None else [self._box]):
            expect_alike("LocalSteps", options, group)

    def _expect_valid(self, named: List[Tuple[str, torch.Tensor]]) -> None:
        if not named:
            raise ValueError("the model has no parameters to train")
        for name, tensor in named:
            if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
                raise ValueError(f"LocalSteps takes parameters of float32 on the CPU; '{name}' is {tensor.dtype} on "
                                 f"{tensor.device}")
        if not 1 <= self.fragments <= len(named):
            raise ValueError(f"fragments is to be 1 to {len(named)}, the number of parameters, not {self.fragments}")
        if self.every < 1 or self.every % self.fragments:
            raise ValueError(f"every is to be a multiple of fragments, {self.fragments}, not {self.every}")
        if not 0 <= self.delay < self.every // self.fragments:
            raise ValueError(f"delay is to be less than every / fragments, {self.every // self.fragments}, not "
                             f"{self.delay}")
        if not (0 <= self.keep_local < 1 and self.lr > 0 and 0 <= self.momentum < 1):
            raise ValueError("keep_local and momentum are to be from 0 to below 1, lr above 0")
        if self.codec == "auto":
            raise ValueError('LocalSteps takes a code by its name, such as "int4": "auto" measures steps of gradients')
        if self._box is not None and self.codec.startswith("powersgd"):
            raise ValueError(f"{self.codec} codes matrices, and in a box each rank has a part that is none; "
                             'give another codec, such as "int4", or leave box out')

    def _fragment(self, part: List[Tuple[str, torch.Tensor]]) -> _Fragment:
        names, parameters = [name for name, _ in part], [tensor for _, tensor in part]
        fragment = _Fragment(names, parameters, torch.empty(0), torch.empty(0))
        vector = fragment.vector()
        for group in ([] if self._box is None else [self._box]) + [self._group]:
            dist.broadcast(vector, dist.get_global_rank(group, 0), group=group)
        fragment.take(vector)
        fragment.last, fragment.velocity = vector, torch.zeros_like(vector)
        return fragment

    def _part_size(self, values: int) -> int:
        """Of each rank of the box."""
        ranks = 1 if self._box is None else _size(self._box)
        return -(-values // ranks)

    def _own_part(self, vector: torch.Tensor) -> torch.Tensor:
        """What this rank of its box exchanges, filled up with zeros; the vector itself where there is no box."""
        if self._box is None:
            return vector
        size = self._part_size(vector.numel())
        begin = min(dist.get_rank(self._box) * size, vector.numel())
        own = vector.new_zeros(size)
        end = min(begin + size, vector.numel())
        own[:end - begin] = vector[begin:end]
        return own

    def _begin(self, number: int) -> None:
        part = self._parts[number]
        with torch.no_grad():
            change = self._own_part(part.last - part.vector())
        future = self._compression.average_of(change, list(self._own[number].values()))
        self._under_way = _UnderWay(number, self.steps + self.delay, change, future)

    def _gathered(self, own: torch.Tensor, values: int) -> torch.Tensor:
        if self._box is None:
            return own
        parts = [torch.empty_like(own) for _ in range(_size(self._box))]
        dist.all_gather(parts, own, group=self._box)
        return torch.cat(parts)[:values]


def two_level_groups(box_ranks: int, **options: Any) -> Tuple[Any, Any]:
    """(box, across): of this rank, the group of its box and that of the same place in all boxes, where each `box_ranks`
    ranks in order are a box. For

        model = DistributedDataParallel(model, process_group=box)                 # in the box, at each step
        outer = LocalSteps(model, every=100, group=across, box=box)               # between boxes

    Collective over the default group. options: of torch.distributed.new_group()."""
    world, rank = dist.get_world_size(), dist.get_rank()
    if box_ranks < 1 or world % box_ranks:
        raise ValueError(f"box_ranks is to divide the number of ranks, {world}; {box_ranks} does not")
    boxes = [list(range(first, first + box_ranks)) for first in range(0, world, box_ranks)]
    places = [list(range(place, world, box_ranks)) for place in range(box_ranks)]
    found = [None, None]
    for i, lists in enumerate((boxes, places)):
        for ranks in lists:
            group = dist.new_group(ranks, **options)
            if rank in ranks:
                found[i] = group
    return found[0], found[1]
