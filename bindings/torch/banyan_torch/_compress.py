"""Compression of DistributedDataParallel's gradients; see compress()."""

import math
from typing import Any, Dict

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from . import _C


def _backend(group: Any) -> Any:
    from . import _backend as backend_of  # the package is not complete while it imports this file

    return backend_of(group)


class Compression:
    """How the gradients of a model go over the wire, and what that has lost so far on this rank: the residual, which is
    added to the next gradients (error feedback). Made by compress(), or for compress_hook().

    model:    its parameters are those of the buckets; of DistributedDataParallel, the module in it
    codec:    "bfloat16", "float16", "fp8", "mxfp8", "int8", "int4", "mxfp4" or "sign"; with ":stochastic" those from
              fp8 to mxfp4 round at random, so that the mean of many is right; "powersgd:4" sends matrices as products
              of two with 4 columns; "topk:1%" sends the hundredth part of the values that is largest, "topk:1%+int8"
              in a code, and the rest waits in the residual; "none" sends float32; "auto" finds out which of the codes
              gains, if any, from the first steps: see compress()
    group:    of the backend "banyan"; by default that of the model if it is in DistributedDataParallel, else the
              default group
    residual: False forgets what is lost. Else it takes 8 bytes a parameter, in gradient units. Nothing has to be done
              when the learning rate changes; scale_(before / after) gives what has waited the rate it waited under

    options:  of codes, from "bfloat16" to "sign": box_ranks=4 makes each 4 ranks in their order a box, as the ranks of
              one host are, and codes only what goes between boxes: sums of a box, of which each rank encodes its share.
              Of "powersgd:4": dense_steps=10, the first steps that send all as it is; least_ratio=2, by how much a
              matrix is to become smaller, else it goes as it is; seed=0 of the first directions.
              Of "topk:1%": momentum=0, as Deep Gradient Compression has it: what is sent late would else have missed
              the optimizer's momentum, which must be 0 then, and it takes 8 bytes more a parameter; clip=0, with
              momentum, the largest Euclidean norm of a bucket's average gradient, clipped on each rank (0: any);
              masking=1, with momentum, which then starts anew where it was sent; 0 lets it go on, as dense training
              does; warm_up=0, the first steps over which the share falls from 25 % to its own

    Only gradients of float32 are coded; those of other types, and sparse ones, are averaged as they are.
    """

    def __init__(self, model: nn.Module, codec: str, *, group: Any = None, residual: bool = True,
                 **options: float) -> None:
        if isinstance(model, DistributedDataParallel):
            group = model.process_group if group is None else group
            model = model.module
        self._parameters = dict(model.named_parameters())
        self._inside = _C.Compression(_backend(group), codec, options, bool(residual), list(self._parameters.items()))
        self.codec = self._inside.scheme
        self.residual = self._inside.keeps_residuals

    def state_dict(self) -> Dict[str, Any]:
        """The codec's name, the residuals by the parameters' names, and what the codec keeps beside them. They are those
        of this rank: save one of each. Between steps only, as all that follows."""
        return {"codec": self.codec, **self._inside.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Takes a state_dict() of the same rank, codec and model. What it does not have becomes zero."""
        if state["codec"] != self.codec:
            raise ValueError(f"the state is of codec {state['codec']}, and this is of {self.codec}")
        residuals = state["residuals"]
        if residuals and not self.residual:
            raise ValueError("the state has residuals, and this keeps none")
        for name, values in residuals.items():
            if name not in self._parameters:
                raise ValueError(f"the state has a residual of '{name}', which is no parameter of the model")
            expected = tuple(self._parameters[name].shape)
            if tuple(values.shape) != expected:
                raise ValueError(f"the residual of '{name}' has shape {tuple(values.shape)} instead of {expected}")
        self._inside.set_state({kind: values for kind, values in state.items() if kind != "codec"})

    def residual_norms(self) -> Dict[str, float]:
        """Euclidean norm of each parameter's residual, by name; without those that no bucket has held yet."""
        return self._inside.residual_norms()

    def scale_(self, factor: float) -> None:
        """Multiplies the residuals: when the loss scale of mixed precision changes by this factor. 0 forgets them."""
        factor = float(factor)
        if not (math.isfinite(factor) and factor >= 0):
            raise ValueError(f"residuals are scaled by a factor of 0 or more, not {factor}")
        self._inside.scale(factor)

    def report(self) -> str:
        """What "auto" has predicted, measured and decided so far, as a table; empty for other codecs."""
        return self._inside.report()

    def __repr__(self) -> str:
        values = sum(tensor.numel() for tensor in self._parameters.values())
        kept = "with residuals" if self.residual else "without residuals"
        return f"Compression({self.codec!r}, {kept}, {len(self._parameters)} parameters of {values} values)"


def compress(ddp: DistributedDataParallel, codec: str, *, residual: bool = True,
             **options: float) -> Compression:
    """Has a model in DistributedDataParallel send its gradients in fewer bits from now on: before the first backward
    pass, once, alike on all ranks. See Compression for the arguments.

        ddp = DistributedDataParallel(model)
        compression = banyan_torch.compress(ddp, "int8")

    The average is always over all ranks of the group, as with join(divide_by_initial_world_size=True). Between ranks of
    one host, which exchange through shared memory, nothing is coded, but topk sends the same there. Runs in C++,
    without Python in the backward pass.

    "auto" measures some steps without a code, predicts from them what a step would take with each code that loses
    little, and tries the one that gains most, if any gains enough. Where ranks are boxes of so many, as box_ranks says
    or else the hosts show, each code for what goes between boxes only is among them; box_ranks=0 forbids that. Where
    the measured gain is less than 3 %, gradients go without a code again, and what was lost until then goes with them.
    Rank 0 prints the table. The choice is part of state_dict(), so that a training that goes on from it sends what it
    sent before.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(f"compress() takes a model in DistributedDataParallel, not a {type(ddp).__name__}")
    compression = Compression(ddp, codec, residual=residual, **options)
    compression._inside.install(ddp.reducer)
    ddp.logger._set_comm_hook_name(f"banyan_torch.compress({compression.codec})")
    return compression


def compress_hook(state: Compression, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The same as a hook in Python, for those who compose hooks:

    ddp.register_comm_hook(banyan_torch.Compression(ddp, "int8"), banyan_torch.compress_hook)
    """
    return state._inside.average(bucket).then(lambda future: future.value())
