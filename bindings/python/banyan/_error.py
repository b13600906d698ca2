"""The one exception of the package."""
import re

from . import _core


class Error(RuntimeError):
    """A wrong argument or file, or something that cannot be done; the message says how to mend it.

    code
        What kind of mistake: "invalid_input", "mismatch", "unsupported", "not_found", "io" or "aborted".
    message
        What is wrong and how to mend it, in one line.
    where
        The argument, file or line in which it was found; "" where there is none.
    """

    code: str
    message: str
    where: str

    def __init__(self, code: str, message: str, where: str = "") -> None:
        self.code = code
        self.message = with_arguments(message)
        self.where = with_arguments(where)
        super().__init__(f"{self.where}: {self.message}" if self.where else self.message)

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, str]]:
        return type(self), (self.code, self.message, self.where)


# The library speaks to users of the command line, too, whose options have the names of the arguments here.
_ARGUMENTS = {name: name.replace("-", "_") for name in (
    "alpha", "boxes", "bytes", "degrade", "fail", "max-height", "nic", "ranks", "remove", "root", "slice", "traffic",
    "trees", "weights",
    *(option[0] for option in _core.list_train_options() + _core.list_job_options() + _core.list_source_options()))}
_ARGUMENTS.update({name: f"{name[3:].replace('-', '_')}=False" for name in _ARGUMENTS if name.startswith("no-")})
_ARGUMENTS.update({"event": "events", "unfused-attention": "fused_attention=False", "unfolded": "fold=False"})


def with_arguments(text: str) -> str:
    """The options in a text of the library as Python calls them."""
    return re.sub("--([a-z][a-z0-9-]*)", lambda option: _ARGUMENTS.get(option.group(1), option.group(0)), text)
