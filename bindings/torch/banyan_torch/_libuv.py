"""PyTorch's TCPStore where PyTorch was built without libuv, as Debian's is.

From 2.4 on, TCPStore wants libuv unless it is told otherwise, and then fails: in init_process_group with env:// or
tcp://, whatever the backend, and in torchrun. USE_LIBUV=0 in the environment tells the former, nothing the latter.
"""

import functools
import os

import torch.distributed as dist


@functools.lru_cache(maxsize=None)
def is_missing():
    """Whether TCPStore wants a libuv that is not there. Tries, since PyTorch has no word for it."""
    try:
        dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    except RuntimeError as error:
        return "without libuv" in str(error)
    return False


def do_without():
    """Has init_process_group do without libuv where there is none: in this process and those it starts."""
    if "USE_LIBUV" not in os.environ and is_missing():
        os.environ["USE_LIBUV"] = "0"


def do_without_in_torchrun():
    """The same for torchrun, whose stores ask nobody, and for the processes it starts."""
    do_without()
    if not is_missing():
        return
    from torch.distributed.elastic.rendezvous import api, c10d_rendezvous_backend, static_tcp_rendezvous
    from torch.distributed.launcher import api as launcher

    class TCPStore(dist.TCPStore):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **{"use_libuv": False, **options})

    for module in (dist, c10d_rendezvous_backend, static_tcp_rendezvous):
        module.TCPStore = TCPStore
    # Processes would ask the store of their agent by a TCPStore that wants libuv. So they make one of their own, for
    # which USE_LIBUV counts, at a place that their agents agree on: this is for dynamic meetings, the rest for static.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    static = static_tcp_rendezvous.StaticTCPRendezvous
    meet = static.next_rendezvous

    def meet_apart(self):
        info = meet(self)
        place = api.RendezvousStoreInfo.build(info.rank, info.store, local_addr=self.master_addr)
        return api.RendezvousInfo(info.store, info.rank, info.world_size, place)

    static.use_agent_store = property(lambda self: False)
    static.next_rendezvous = meet_apart
    launcher._get_addr_and_port = lambda parameters: (None, None)  # for processes: not the place of their agents
