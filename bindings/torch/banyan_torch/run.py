"""python3 -m banyan_torch.run: torchrun, with all of its options.

It differs where PyTorch was built without libuv, as Debian's is: there torchrun fails with "use_libuv was requested",
and this does without. Processes that it starts need not import banyan_torch for that.
"""

from __future__ import annotations

import torch.distributed.run

from banyan_torch import _libuv


def main() -> None:
    _libuv.do_without_in_torchrun()
    torch.distributed.run.main()


if __name__ == "__main__":
    main()
