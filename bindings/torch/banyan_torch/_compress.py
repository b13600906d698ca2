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
              fp8 to mxfp4 round at random, so that the mean of many is right; "none" sends float32. "topk:1%" sends the
              hundredth part of the values that is largest, "topk:1%+int8" in a code; the rest waits in the residual
    group:    of the backend "banyan"; by default that of the model if it is in DistributedDataParallel, else the
              default group
    residual: False forgets what is lost. Else it takes 8 bytes a parameter, in gradient units: nothing is to be done
              when the learning rate changes
    momentum: of "topk", its factor, as Deep Gradient Compression has it: what is sent late would else have missed the
              optimizer's momentum, which must be 0 then. Takes 8 bytes more a parameter
    clip:     with momentum, the largest Euclidean norm of a bucket's average gradient, clipped on each rank; 0: any

    Only gradients of float32 are coded; those of other types, and sparse ones, are averaged as they are.
    """

    def __init__(self, model: nn.Module, codec: str, *, group: Any = None, residual: bool = True,
                 momentum: float = 0.0, clip: float = 0.0) -> None:
        self.codec = _C.codec_name(codec)
        self.residual = bool(residual) and self.codec != "none"
        self.momentum, self.clip = float(momentum), float(clip)
        if not (0 <= self.momentum < 1 and 0 <= self.clip < math.inf):
            raise ValueError(f"momentum is from 0 to below 1 and clip 0 or more, not {momentum} and {clip}")
        if self.momentum and not (self.codec.startswith("topk") and self.residual):
            raise ValueError(f"momentum is for topk with residuals, not for {self.codec}; give it to the optimizer")
        if self.clip and not self.momentum:
            raise ValueError("clip goes with momentum; else clip gradients after the backward pass")
        if isinstance(model, DistributedDataParallel):
            group = model.process_group if group is None else group
            model = model.module
        self._parameters = dict(model.named_parameters())
        self._inside = _C.Compression(_backend(group), self.codec, self.residual, list(self._parameters.items()),
                                      self.momentum, self.clip)

    def state_dict(self) -> Dict[str, Any]:
        """The codec's name, and the residuals by the parameters' names. They are those of this rank: save one of each.
        Between steps only, as all that follows."""
        state = {"codec": self.codec, "residuals": self._inside.residuals()}
        if self.momentum:
            state["momenta"] = self._inside.momenta()
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Takes the residuals of a state_dict() of the same rank, codec and model. Others become zero."""
        if state["codec"] != self.codec:
            raise ValueError(f"the state is of codec {state['codec']}, and this is of {self.codec}")
        residuals = state["residuals"]
        if residuals and not self.residual:
            raise ValueError("the state has residuals, and this keeps none")
        momenta = state.get("momenta", {})
        if momenta and not self.momentum:
            raise ValueError("the state has momenta, and this keeps none")
        for name, values in (*residuals.items(), *momenta.items()):
            if name not in self._parameters:
                raise ValueError(f"the state has a residual of '{name}', which is no parameter of the model")
            expected = tuple(self._parameters[name].shape)
            if tuple(values.shape) != expected:
                raise ValueError(f"the residual of '{name}' has shape {tuple(values.shape)} instead of {expected}")
        self._inside.set_residuals(residuals)
        self._inside.set_momenta(momenta)

    def residual_norms(self) -> Dict[str, float]:
        """Euclidean norm of each parameter's residual, by name; without those that no bucket has held yet."""
        return self._inside.residual_norms()

    def scale_(self, factor: float) -> None:
        """Multiplies the residuals: when the loss scale of mixed precision changes by this factor. 0 forgets them."""
        factor = float(factor)
        if not (math.isfinite(factor) and factor >= 0):
            raise ValueError(f"residuals are scaled by a factor of 0 or more, not {factor}")
        self._inside.scale(factor)

    def __repr__(self) -> str:
        values = sum(tensor.numel() for tensor in self._parameters.values())
        kept = "with residuals" if self.residual else "without residuals"
        return f"Compression({self.codec!r}, {kept}, {len(self._parameters)} parameters of {values} values)"


def compress(ddp: DistributedDataParallel, codec: str, *, residual: bool = True, momentum: float = 0.0,
             clip: float = 0.0) -> Compression:
    """Has a model in DistributedDataParallel send its gradients in fewer bits from now on: before the first backward
    pass, once, alike on all ranks. See Compression for the arguments.

        ddp = DistributedDataParallel(model)
        compression = banyan_torch.compress(ddp, "int8")

    The average is always over all ranks of the group, as with join(divide_by_initial_world_size=True). Between ranks of
    one host, which exchange through shared memory, nothing is coded, but topk sends the same there. Runs in C++,
    without Python in the backward pass.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(f"compress() takes a model in DistributedDataParallel, not a {type(ddp).__name__}")
    compression = Compression(ddp, codec, residual=residual, momentum=momentum, clip=clip)
    compression._inside.install(ddp.reducer)
    ddp.logger._set_comm_hook_name(f"banyan_torch.compress({compression.codec})")
    return compression


def compress_hook(state: Compression, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The same as a hook in Python, for those who compose hooks:

    ddp.register_comm_hook(banyan_torch.Compression(ddp, "int8"), banyan_torch.compress_hook)
    """
    return state._inside.average(bucket).then(lambda future: future.value())
