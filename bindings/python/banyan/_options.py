"""Options of predictions: the library's tables of them, with the names and values of Python."""
import os
from typing import Any, Iterable, List, Mapping, NamedTuple, Tuple, Union

from . import _core, _words
from ._error import Error, with_arguments
from ._words import Path

Value = Union[None, bool, int, float, str, Path, Iterable[Any]]
"""The value of an option: a truth, a number, a text or several of them, as the lists of options say. None is as if it
were left out."""
Given = Tuple[str, Union[bool, int, str, List[str]]]
"""The name of an option on the command line, and its value."""


class Option(NamedTuple):
    """An option of predict_step() or predict_job()."""

    name: str
    """As the function takes it: "global_batch"."""
    value: str
    """What stands for its value: "N", "SIZE", "NAME"; "" of one that is True or False."""
    meaning: str


def _argument(name: str) -> str:
    """The argument for an option: "no-scatter-gather" is scatter_gather=False."""
    other = {"event": "events", "unfolded": "fold"}.get(name, name)
    return (other[3:] if other.startswith("no-") else other).replace("-", "_")


def _is_opposite(name: str) -> bool:
    """True of an option that the argument means by False."""
    return name == "unfolded" or name.startswith("no-")


def list_options(rows: List[Tuple[str, str, str]]) -> List[Option]:
    """The rows of the library as users see them."""
    return [Option(_argument(name), kind, ("False: " if _is_opposite(name) else "") + with_arguments(text))
            for name, kind, text in rows]


class Table:
    """The options of one function."""

    def __init__(self, rows: List[Tuple[str, str, str]]) -> None:
        self._kinds = {name: kind for name, kind, _ in rows}
        self.names = {_argument(name): name for name in self._kinds}
        """The option by its argument."""

    def value(self, name: str, value: Any) -> Union[bool, int, str, List[str]]:
        """The value of an option as the library takes it: times in picoseconds, sizes in bytes."""
        where, kind = _argument(name), self._kinds.get(name)
        if kind == "":
            return _words.to_truth(value, where)
        if isinstance(value, (str, os.PathLike)):
            is_one = kind == "EVENT" or (kind == "LIST" and isinstance(value, os.PathLike))
            return [os.fspath(value)] if is_one else os.fspath(value)
        if kind == "TIME":
            return _words.to_duration(value, where)
        if kind == "SIZE":
            return _words.to_bytes(value, where, least=0)
        if kind in ("EVENT", "LIST"):
            if not isinstance(value, Iterable):
                raise Error("invalid_input", f"{value!r} is not a list", where)
            return [os.fspath(each) if isinstance(each, (str, os.PathLike)) else str(_words.to_whole(each, where))
                    for each in value]
        number = _words.to_whole(value, where)
        return number if 0 <= number < 1 << 64 else str(number)

    def _given(self, argument: str, value: Value) -> Given:
        """The option of an argument, whose value may be the opposite."""
        name = self.names[argument]
        if _is_opposite(name):
            return name, not _words.to_truth(value, argument)
        return name, self.value(name, value)

    def given(self, function: str, options: Mapping[str, Value]) -> List[Given]:
        """The options that are given to a function."""
        known = [*self.names, "progress"]
        for argument in options:
            if argument not in known:
                hint = _core.nearest_name(argument, known)
                lists = "list_train_options()" if self is STEP else "list_job_options()"
                raise Error("invalid_input", f"{function} has no option '{argument}'"
                            + (f" (did you mean '{hint}'?)" if hint else f"; {lists} lists them"))
        return [self._given(argument, value) for argument, value in options.items() if value is not None]


STEP = Table(_core.list_train_options() + _core.list_job_options())
JOB = Table(_core.list_source_options() + _core.list_job_options())
