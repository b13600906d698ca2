"""banyan_torch: torch.distributed over Banyan.

    import banyan_torch                               # PyTorch 2.5 and later find it by themselves
    torch.distributed.init_process_group("banyan")

From then on everything that works with Gloo on CPUs works, faster: ranks of one host exchange through shared memory,
ranks of several hosts by schedules that are planned for the network between them.

- `Options(...)` goes to `init_process_group(..., pg_options=...)` and `new_group(..., pg_options=...)`.
- `use_shared_memory()` makes large tensors in memory that the ranks of a host read directly.
- `compress(ddp, "int8")` sends the gradients of DistributedDataParallel in fewer bits.
- `LocalSteps(model, every=100)` exchanges how parameters have changed every so many steps.
- `survivors()` tells those who live, after a death, their new ranks and where they meet again.
- `Error` is what failed communication raises; its `code` says how, as do its subclasses, such as `PeerLostError`.
- `python3 -m banyan_torch` prints versions and tests itself; `python3 -m banyan_torch.run` is torchrun.

Environment: BANYAN_FABRIC, BANYAN_PLAN, BANYAN_ROUTES, BANYAN_TRANSPORT, BANYAN_TIMEOUT, BANYAN_SECRET, BANYAN_ADDRESS
and others mean what they mean to every program of Banyan.
"""

from __future__ import annotations

import atexit
import dataclasses
import datetime
import functools
import inspect
from typing import Any, Optional, Union

import torch  # (the module below needs its libraries, too)
import torch.distributed as dist

from . import _built_for

_built_for.check(torch.__version__)  # before the module below fails with words that nobody understands

from . import _C, _libuv  # noqa: E402
from ._compress import Compression, compress, compress_hook  # noqa: E402
from ._local_steps import LocalSteps, two_level_groups  # noqa: E402
from ._survivors import Survivors, survivors  # noqa: E402
from ._C import (  # noqa: E402
    AbortedError,
    Error,
    InvalidInputError,
    InvalidUsageError,
    MismatchError,
    NotFoundError,
    PeerLostError,
    SystemCallError,
    TimedOutError,
    UnsupportedError,
)

__all__ = [
    "AbortedError",
    "Compression",
    "Error",
    "InvalidInputError",
    "InvalidUsageError",
    "LocalSteps",
    "MismatchError",
    "NotFoundError",
    "Options",
    "PeerLostError",
    "Survivors",
    "SystemCallError",
    "TimedOutError",
    "UnsupportedError",
    "abort",
    "compress",
    "compress_hook",
    "is_on_one_host",
    "monitored_barrier",
    "reroutes",
    "shared_memory_usage",
    "survivors",
    "trim_shared_memory",
    "two_level_groups",
    "use_shared_memory",
    "uses_shared_memory",
]
__version__ = _C.version


def __dir__() -> "list[str]":
    """What completion in a notebook shows: not what this file imports for itself."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


Seconds = Union[float, datetime.timedelta]


@dataclasses.dataclass
class Options:
    """What a group asks for. What is left None, the environment says, and else a default.

    fabric:       file of a cluster's graph, or a generator such as "dgx-a100:2"; its ranks are those of the default
                  group (BANYAN_FABRIC)
    plan:         file of a schedule to follow (BANYAN_PLAN)
    routes:       file of the addresses that lead over each link (BANYAN_ROUTES)
    transport:    "auto", "shm", "tcp" or "ucx" (BANYAN_TRANSPORT)
    timeout:      seconds or timedelta for an operation to make no progress; otherwise that of the group, 30 minutes
    join_timeout: the same for ranks to come together
    checksums:    check what travels over TCP (BANYAN_CHECKSUMS)
    zero_copy:    let the kernel send out of tensors themselves (BANYAN_ZERO_COPY)
    connections:  TCP connections with each peer, 1 to 16 (BANYAN_CONNECTIONS)
    encryption:   "off", "auth" or "full", of what travels over TCP; that of the default group holds for all
                  (BANYAN_ENCRYPTION)
    """

    fabric: Optional[str] = None
    plan: Optional[str] = None
    routes: Optional[str] = None
    transport: Optional[str] = None
    timeout: Optional[Seconds] = None
    join_timeout: Optional[Seconds] = None
    checksums: Optional[bool] = None
    zero_copy: Optional[bool] = None
    connections: Optional[int] = None
    encryption: Optional[str] = None


def _seconds(time: Seconds) -> float:
    return time.total_seconds() if isinstance(time, datetime.timedelta) else float(time)


def _create(asked: Any, options: Optional[Options]) -> Any:
    """Makes a group: what torch.distributed calls for the backend "banyan"."""
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise TypeError(f"pg_options is to be a banyan_torch.Options, not a {type(options).__name__}")
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    for name in ("timeout", "join_timeout"):
        fields[name] = _seconds(fields[name] if fields[name] is not None else asked.timeout)
    for name in ("fabric", "plan", "routes"):
        if fields[name] is not None:
            fields[name] = str(fields[name])
    return _C.create(
        asked.store, asked.group_rank, asked.group_size, asked.group_id, list(asked.global_ranks_in_group), fields
    )


def _backend(group: Any) -> Any:
    """The object that the C++ side knows; since PyTorch 2 a group holds one per device."""
    group = dist.group.WORLD if group is None else group
    if hasattr(group, "_get_backend"):
        return group._get_backend(torch.device("cpu"))
    return group


def _is_banyan(group: Any) -> bool:
    """Whether the group's CPU tensors are ours. By name alone this cannot be told: the backend of a group may be called
    "cpu:banyan,cuda:gloo", and with TORCH_DISTRIBUTED_DEBUG=DETAIL our group is within another."""
    if dist.get_backend(group).lower() == "banyan":
        return True
    try:
        return _C.is_banyan(_backend(group))
    except RuntimeError:  # it has none for CPU tensors
        return False


def abort(group: Any = None, why: str = "abort() was called") -> None:
    """Ends everything under way with an Error, at all ranks of the group. The group is of no use after that."""
    _C.abort(_backend(group), why)


def is_on_one_host(group: Any = None) -> bool:
    """Whether all ranks exchange through shared memory."""
    return _C.is_on_one_host(_backend(group))


def reroutes(group: Any = None) -> int:
    """How often calls went on without a link that was lost."""
    return _C.reroutes(_backend(group))


def monitored_barrier(group: Any = None, timeout: Optional[datetime.timedelta] = None,
                      wait_all_ranks: bool = False) -> None:
    """torch.distributed.monitored_barrier for groups of Banyan: rank 0 raises an Error that names who has not come
    within `timeout`, the first such rank or, with `wait_all_ranks`, all. The others raise what rank 0 has found; they
    wait for it twice as long and five seconds more, since rank 0 may have come late itself. A timeout below a
    millisecond is over at once."""
    if timeout is None:
        timeout = dist.default_pg_timeout if hasattr(dist, "default_pg_timeout") else datetime.timedelta(minutes=30)
    _backend(group).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


def use_shared_memory(use: bool = True) -> None:
    """Makes CPU tensors of 64 KiB and more in shared memory from now on, or no longer.

    Call it before the model and DistributedDataParallel are made: then parameters and gradient buckets are read by the
    other ranks of the host directly, without copies in between. Memory of tensors that are gone is kept for the next
    ones (see trim_shared_memory). In a process that was forked, tensors of before are shared with its parent.
    """
    _C.use_shared_memory(use)


def uses_shared_memory() -> bool:
    """Whether use_shared_memory() is in effect."""
    return _C.uses_shared_memory()


def trim_shared_memory() -> None:
    """Gives shared memory that no tensor uses back to the system."""
    _C.trim_shared_memory()


def shared_memory_usage() -> "tuple[int, int]":
    """Bytes of shared memory that tensors use, and that are kept for the next ones."""
    return _C.shared_memory_usage()


def _register() -> None:
    if not hasattr(dist.Backend, "BANYAN"):  # not by banyan_torch_autoload
        arguments = {"extended_api": True}
        if "devices" in inspect.signature(dist.Backend.register_backend).parameters:  # since PyTorch 2.0
            arguments["devices"] = ["cpu"]
        dist.Backend.register_backend("banyan", _create, **arguments)

    # PyTorch knows by name which backends have a monitored barrier.
    for_others = dist.monitored_barrier

    @functools.wraps(for_others)
    def for_all(group: Any = dist.group.WORLD, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        if dist.distributed_c10d._rank_not_in_group(group) or not _is_banyan(group):
            return for_others(group, timeout, wait_all_ranks)
        return monitored_barrier(group, timeout, wait_all_ranks)

    dist.monitored_barrier = for_all
    dist.distributed_c10d.monitored_barrier = for_all

    # Threads of ours must not call into an interpreter that is gone.
    atexit.register(_C.finish_all_groups)


_register()
_libuv.do_without()
