"""Data that depends on rank and position, and what a serial computation makes of it.

Floating values are few powers of two and threes, so that sums and products of up to five ranks are exact in every type
(bfloat16 has eight bits) and whatever the order: answers are compared bit for bit. Integers take their whole range, and
wrap. The seed of the run goes into all of it.
"""

import functools

import torch
import torch.distributed as dist

import ranks

kIntegers = (torch.uint8, torch.int8, torch.int32, torch.int64)
kFloats = (torch.float16, torch.float32, torch.float64)
kComplex = (torch.complex64, torch.complex128)
kBeyondGloo = (torch.bfloat16, torch.int16, torch.bool)  # types that Gloo cannot even move

kArithmetic = {"SUM": dist.ReduceOp.SUM, "PRODUCT": dist.ReduceOp.PRODUCT, "MIN": dist.ReduceOp.MIN,
               "MAX": dist.ReduceOp.MAX}
kBitwise = {"BAND": dist.ReduceOp.BAND, "BOR": dist.ReduceOp.BOR, "BXOR": dist.ReduceOp.BXOR}

kBlock = 100_003  # elements of a block of large_of; a prime: what is misplaced by any round number differs

_kValues = (0.5, 1.0, 2.0, 3.0, -0.5, -1.0, -2.0, -3.0)


def types():
    """The real types that the backend under test moves and reduces."""
    return kIntegers + kFloats + (() if ranks.backend() == "gloo" else kBeyondGloo)


def operations(dtype):
    """Names and operations that reduce this type to a value of its own."""
    integral = not (dtype.is_floating_point or dtype.is_complex)
    return {**kArithmetic, **kBitwise} if integral else kArithmetic


def random_bits(rank, count, salt=0):
    """`count` numbers of 31 bits: a hash of position, rank, salt and seed."""
    x = torch.arange(count, dtype=torch.int64) * 0x9E3779B1
    x += rank * 0x85EBCA6B + salt * 0xC2B2AE35 + ranks.seed() * 0x27D4EB2F
    x ^= x >> 15
    x *= 0x2545F491
    x ^= x >> 13
    return x & 0x7FFFFFFF


def tensor_of(rank, shape, dtype=torch.float32, salt=0):
    """The contiguous tensor that this rank has. Another `salt` gives another one."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = torch.Size(shape).numel()
    bits = random_bits(rank, count, salt)
    if dtype == torch.bool:
        return (bits % 3 == 0).reshape(shape)
    if dtype.is_complex:
        values = torch.tensor(_kValues, dtype=torch.float64)
        return torch.complex(values[bits % 8], values[(bits >> 3) % 8]).to(dtype).reshape(shape)
    if dtype.is_floating_point:
        return torch.tensor(_kValues, dtype=torch.float64)[bits % 8].to(dtype).reshape(shape)
    wide = bits if dtype != torch.int64 else bits * 0x100000001
    low = torch.iinfo(dtype).min
    return (wide % (torch.iinfo(dtype).max - low + 1) + low if dtype != torch.int64 else wide).to(dtype).reshape(shape)


def reduced(tensors, name="SUM"):
    """What reducing these tensors must give, computed here and now. `name`: of the operation, as in ReduceOp."""
    dtype = tensors[0].dtype
    if name == "AVG":
        total = reduced(tensors, "SUM")
        if dtype.is_floating_point:
            return (total.double() / len(tensors)).to(dtype)
        return torch.div(total, len(tensors), rounding_mode="trunc")
    if dtype == torch.bool:
        name = {"SUM": "BOR", "MAX": "BOR", "PRODUCT": "BAND", "MIN": "BAND"}.get(name, name)
    combine = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
               "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}[name]
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else dtype
    return functools.reduce(combine, (tensor.to(wide) for tensor in tensors)).to(dtype)


def all_of(world, shape, dtype=torch.float32, salt=0):
    """What all ranks have, by rank."""
    return [tensor_of(rank, shape, dtype, salt) for rank in range(world)]


def large_of(rank, count, dtype=torch.float32, salt=0):
    """A tensor of many elements, quickly: a block whose length is prime, over and over."""
    return repeated(tensor_of(rank, kBlock, dtype, salt), count)


def repeated(block, count):
    """`count` elements: `block` over and over."""
    result = torch.empty(count, dtype=block.dtype)
    for at in range(0, count, block.numel()):
        part = result[at:at + block.numel()]
        part.copy_(block[:part.numel()])
    return result
