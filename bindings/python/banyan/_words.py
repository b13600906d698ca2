"""Arguments as texts, and figures as people read them."""
import os
from fractions import Fraction
from typing import Callable, Optional, Union

from . import _core
from ._error import Error

Bytes = Union[int, str]
"""A number of bytes: 65536, or "64KiB", "1 MB", "1G" (binary, as in nccl-tests)."""
Seconds = Union[float, str]
"""A time: 5e-6, or "5us"."""
Path = Union[str, "os.PathLike[str]"]


def to_bytes(size: Bytes, where: str) -> int:
    """The number of bytes, at least one."""
    try:
        count = _core.parse_bytes(size) if isinstance(size, str) else int(size)
    except Error as error:
        raise Error(error.code, error.message, where) from None
    if count <= 0:
        raise Error("invalid_input", f"{size!r} is no size; give a number of bytes or a text such as '64MiB'", where)
    return count


def to_duration(time: Optional[Seconds]) -> str:
    """A text that the library reads; "" for None."""
    if time is None or isinstance(time, str):
        return time or ""
    return f"{Fraction(time).limit_denominator(10**12) * 10**12 // 1} ps"


def rate(bytes_per_second: Union[float, Fraction]) -> str:
    """'457.14 GB/s'."""
    return _core.format_rate(float(bytes_per_second))


def time(seconds: float) -> str:
    """'1.23 ms'."""
    return _core.format_seconds(seconds)


def size(count: int) -> str:
    """'64 MiB'."""
    return _core.format_bytes(count)


def percent(ratio: float) -> str:
    """'98.4 %'; never '100.0 %' for less than all."""
    return _core.format_percent(ratio)


def counted(count: int, noun: str) -> str:
    """'1 tree', '2 trees'."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(heads: "list[str]", rows: "list[list[str]]") -> str:
    """Columns as wide as their widest cell: the first at the left, others at the right. A short row runs on."""
    widths = [max(len(row[i]) for row in [heads, *rows] if i < len(row) and (len(row) == len(heads) or i == 0))
              for i in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = [cell.ljust(widths[0]) if i == 0 or len(row) < len(heads) else cell.rjust(widths[i])
                 for i, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def picture_or_none(draw: Callable[[], str]) -> Optional[str]:
    """For notebooks, which show a text where a fabric is too large for a picture."""
    try:
        return draw()
    except Error as error:
        if error.code != "unsupported":
            raise
        return None


def write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    try:
        _core.write_file(os.fspath(path), text)
    except UnicodeEncodeError as error:
        raise Error("invalid_input", str(error), "path") from None
