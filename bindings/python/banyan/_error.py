"""The one exception of the package."""


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
        self.message = _with_arguments(message)
        self.where = _with_arguments(where)
        super().__init__(f"{self.where}: {self.message}" if self.where else self.message)

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, str]]:
        return type(self), (self.code, self.message, self.where)


# The library speaks to users of the command line, too, whose options have the names of the arguments here.
_OPTIONS = ("alpha", "boxes", "bytes", "degrade", "fail", "gpu", "max-height", "nic", "ranks", "remove", "root",
            "slice", "trees", "weights", "window")


def _with_arguments(text: str) -> str:
    for option in _OPTIONS:
        text = text.replace(f"--{option}", option.replace("-", "_"))
    return text
