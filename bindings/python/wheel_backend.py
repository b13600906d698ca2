"""The build backend that pyproject.toml names."""
import pathlib
import sys

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent))
from wheels import *  # noqa: E402, F401, F403
