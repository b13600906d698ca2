"""What all ranks of a group must say alike, compared before anything depends on it."""

from typing import Any, Dict, List, Mapping

import torch.distributed as dist

from . import _C


def _ranks_by(values: List[Any]) -> str:
    """"100 on ranks 0, 2; 50 on rank 1"."""
    groups: Dict[str, List[str]] = {}
    for rank, value in enumerate(values):
        groups.setdefault(str(value), []).append(str(rank))
    return "; ".join(f"{value} on rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"
                     for value, ranks in groups.items())


def expect_alike(who: str, options: Mapping[str, Any], group: Any) -> None:
    """Collective over the group. Raises MismatchError that names the first option which differs, and who has what; one
    that a rank has not given is "left out" there."""
    everyone: List[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, dict(options), group=group)
    for name in dict.fromkeys(name for one in everyone for name in one):
        values = [one.get(name, "left out") for one in everyone]
        if any(value != values[0] and str(value) != str(values[0]) for value in values):  # (NaN is not equal to NaN)
            raise _C.MismatchError(f"{who}: the ranks of a group differ in {name}: {_ranks_by(values)}")
