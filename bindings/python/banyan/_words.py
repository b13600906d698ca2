"""Arguments as the library reads them, and figures as people read them. Whatever is wrong is told as it was given."""
import html
import math
import operator
import os
from fractions import Fraction
from typing import Any, Callable, Optional, Union

from . import _core
from ._error import Error

Bytes = Union[int, str]
"""A number of bytes: 65536, or "64KiB", "1 MB", "1G" (binary, as in nccl-tests)."""
Seconds = Union[float, str]
"""A time: 5e-6, or "5us"."""
Path = Union[str, "os.PathLike[str]"]


def to_bytes(size: Bytes, where: str, least: int = 1) -> int:
    """The number of bytes."""
    try:
        count = _core.parse_bytes(size) if isinstance(size, str) else to_whole(size, where)
    except Error as error:
        raise Error(error.code, error.message, where) from None
    if not least <= count < 1 << 64:
        raise Error("invalid_input", f"{size!r} is no size; give a number of bytes or a text such as '64MiB'", where)
    return count


def to_duration(time: Seconds, where: str) -> Union[int, str]:
    """Picoseconds, or the text."""
    if isinstance(time, str):
        return time
    if isinstance(time, bool) or not isinstance(time, (int, float, Fraction)) or not math.isfinite(time):
        raise Error("invalid_input", f"{time!r} is no time; give seconds or a text such as '5us'", where)
    if not 0 <= time <= 1000:
        raise Error("invalid_input", f"{time!r} is no time from 0 to 1000 s", where)
    return math.floor(Fraction(time).limit_denominator(10**12) * 10**12)


def to_rate(bandwidth: Union[str, int, float], where: str) -> str:
    """A text that the library reads."""
    if isinstance(bandwidth, str):
        return bandwidth
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, (int, float)) or not 1 <= bandwidth < 1 << 63:
        raise Error("invalid_input", f"{bandwidth!r} is no bandwidth; give bytes per second or '100GB/s'", where)
    return f"{math.floor(bandwidth)} B/s"


def to_whole(number: Any, where: str) -> int:
    """A whole number, of whichever type: 8, 8.0, one of numpy."""
    whole = None
    if not isinstance(number, bool):
        try:
            whole = int(number) if isinstance(number, float) and number == int(number) else operator.index(number)
        except (TypeError, ValueError, OverflowError):
            whole = None
    if whole is None:
        raise Error("invalid_input", f"{number!r} is not a whole number", where)
    return whole


def to_truth(value: Any, where: str) -> bool:
    """A switch: True or False, and nothing that Python would take for one of them."""
    if not isinstance(value, bool):
        raise Error("invalid_input", f"{value!r} is not True or False", where)
    return value


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


def html_table(title: str, heads: "list[str]", rows: "list[list[str]]") -> str:
    """The same for notebooks, under a title."""
    lines = [f"<tr>{''.join(f'<th>{html.escape(head)}</th>' for head in heads)}</tr>"]
    for row in rows:
        cells = [f"<td>{html.escape(cell)}</td>" for cell in row]
        if len(row) < len(heads):
            cells[-1] = f'<td colspan="{len(heads) - len(row) + 1}">{html.escape(row[-1])}</td>'
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<p>{html.escape(title)}</p><table>{''.join(lines)}</table>"


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
