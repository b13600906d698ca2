"""The build backend of bindings/python, found from here: pip lets a backend lie in the tree that it builds only."""
import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from wheels import *  # noqa: E402, F401, F403
