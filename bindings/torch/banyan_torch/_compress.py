"""Compression of DistributedDataParallel's gradients; see compress()."""

import math
import warnings
from typing import Any, Dict, List, Mapping, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from . import _C
from ._alike import expect_alike


def _backend(group: Any) -> Any:
    from . import _backend as backend_of  # the package is not complete while it imports this file

    return backend_of(group)


def _not_coded(parameters: Mapping[str, torch.Tensor]) -> str:
    """"torch.bfloat16 (87.5 % of the values that are trained)" of types that no code takes, or "" for none."""
    counts: Dict[str, int] = {}
    for tensor in parameters.values():
        if tensor.requires_grad:
            counts[str(tensor.dtype)] = counts.get(str(tensor.dtype), 0) + tensor.numel()
    total = sum(counts.values())
    shares: List[Tuple[str, float]] = [(name, 100 * count / total) for name, count in counts.items()
                                       if name != str(torch.float32) and count]
    return ", ".join(f"{name} ({share:.3g} % of the values that are trained)" for name, share in shares)


def expect_numbers(options: Mapping[str, Any]) -> None:
    """Raises TypeError that names an option which is none."""
    for name, value in options.items():
        if not isinstance(value, (int, float)):
            raise TypeError(f"the option {name} of a codec is a number, not {value!r}")


def expect_residuals(given: Any, parameters: Mapping[str, torch.Tensor], what: str = "residual") -> None:
    """Raises ValueError, naming the parameter, for what is no residual of it: another shape or type, values that are
    not finite. These would stay for ever, since a step with them is skipped and leaves its residual as it was."""
    if not isinstance(given, Mapping):
        raise ValueError(f"the state's {what}s are a {type(given).__name__} instead of tensors by name")
    for name, values in given.items():
        if name not in parameters:
            raise ValueError(f"the state has a {what} of '{name}', which is no parameter of the model")
        if not isinstance(values, torch.Tensor):
            raise ValueError(f"the {what} of '{name}' is a {type(values).__name__} instead of a tensor")
        expected = tuple(parameters[name].shape)
        if tuple(values.shape) != expected:
            raise ValueError(f"the {what} of '{name}' has shape {tuple(values.shape)} instead of {expected}")
        if values.dtype != torch.float32 or values.device.type != "cpu":
            raise ValueError(f"the {what} of '{name}' is {values.dtype} on {values.device} instead of torch.float32 on "
                             "the CPU")
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"the {what} of '{name}' has values that are not finite; take a state from before them")


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

    Only gradients of float32 are coded; those of other types are averaged as they are, and rank 0 warns of them. Sparse
    ones go by rows: in the codes from "bfloat16" to "sign", between all ranks, and else as they are.

    Collective: all ranks of the group make equal ones. Raises MismatchError when their codecs or options differ, which
    says who has what.
    """

    def __init__(self, model: nn.Module, codec: str, *, group: Any = None, residual: bool = True,
                 **options: float) -> None:
        if isinstance(model, DistributedDataParallel):
            group = model.process_group if group is None else group
            model = model.module
        self._parameters = dict(model.named_parameters())
        expect_numbers(options)
        group = dist.group.WORLD if group is None else group
        expect_alike("compress", {"codec": codec, "residual": bool(residual), **options}, group)
        self._inside = _C.Compression(_backend(group), codec, options, bool(residual), list(self._parameters.items()))
        self.codec = self._inside.scheme
        self.residual = self._inside.keeps_residuals
        as_it_is = _not_coded(self._parameters)
        if as_it_is and self.codec != "none" and dist.get_rank(group) == 0:
            warnings.warn(f"banyan_torch.compress: gradients of {as_it_is} go as they are: codes are of float32",
                          stacklevel=3)

    def state_dict(self) -> Dict[str, Any]:
        """The codec's name, the residuals by the parameters' names, and what the codec keeps beside them. They are those
        of this rank: save one of each. Between steps only, as all that follows."""
        return {"codec": self.codec, **self._inside.state()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Takes a state_dict() of the same rank, codec and model. What it does not have of a parameter becomes zero.
        Raises ValueError, and changes nothing, for what does not fit, and for values that are not finite."""
        for key in ("codec", "residuals"):
            if not isinstance(state, Mapping) or key not in state:
                raise ValueError(f"the state has no '{key}': it is not of Compression.state_dict()")
        if state["codec"] != self.codec:
            raise ValueError(f"the state is of codec {state['codec']}, and this is of {self.codec}")
        if state["residuals"] and not self.residual:
            raise ValueError("the state has residuals, and this keeps none")
        expect_residuals(state["residuals"], self._parameters)
        for kind, values in state.items():
            if kind not in ("codec", "residuals") and not (isinstance(values, Mapping) and all(
                    isinstance(tensor, torch.Tensor) for tensor in values.values())):
                raise ValueError(f"the state's '{kind}' are not tensors by name")
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
    """Has a model in DistributedDataParallel send its gradients in fewer bits from now on: once, alike on all ranks,
    before the first backward pass or between two steps, the same ones on all ranks. See Compression for the arguments.

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
