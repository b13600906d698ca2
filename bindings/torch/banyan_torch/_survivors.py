"""Going on without ranks that died: who is left, their new ranks, and a place where they meet again."""

import dataclasses
import datetime
from typing import Any, List, Union

import torch
import torch.distributed as dist

from . import _C, _libuv


@dataclasses.dataclass
class Survivors:
    """What a process that lives needs for going on: arguments of init_process_group.

    rank, world_size: of the group to be made
    lost:             ranks of the group that was whose processes are gone, or did not call in time
    store:            a new one, of the process that has rank 0 now; that of before may have died with its process
    """

    rank: int
    world_size: int
    lost: List[int]
    store: Any = dataclasses.field(repr=False)


def survivors(group: Any = None, timeout: Union[float, datetime.timedelta] = 60.0) -> Survivors:
    """Tells all that live of a group (the default group) who they are now. Each of them calls it, after an operation has
    raised banyan_torch.Error and before the group is destroyed; the group is of no use after that:

        except banyan_torch.Error:
            left = banyan_torch.survivors()
            dist.destroy_process_group()
            dist.init_process_group("banyan", store=left.store, rank=left.rank, world_size=left.world_size)

    Ranks keep their order. Who has not called `timeout` (seconds, or a timedelta) after the first is left out, and gets
    PeerLostError. Raises TimedOutError when the survivors do not agree within twice that and ten seconds.
    """
    seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else float(timeout)
    group = dist.group.WORLD if group is None else group
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    left = _C.survivors(backend, seconds)
    options = {"use_libuv": False} if _libuv.is_missing() else {}
    if left.rank == 0:
        store = dist.TCPStore(left.own_address(), 0, is_master=True, wait_for_workers=False, **options)
        left.spread(f"{left.own_address()} {store.port}")
    else:
        host, port = left.spread("").split()
        store = dist.TCPStore(host, int(port), is_master=False, wait_for_workers=False, **options)
    return Survivors(left.rank, left.size, left.lost, store)
