"""python3 -m banyan_torch: versions, what this machine offers, and a self-test."""

from __future__ import annotations

import argparse
import sys

import torch

import banyan_torch
from banyan_torch import _C, self_test


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m banyan_torch",
        description="Prints the versions of banyan_torch and what it was built for, its transports, and tests it "
        f"between {self_test.RANKS} processes of this host.",
        epilog="Exit code: 0 all is well, 1 a check has failed.",
    )
    parser.add_argument("--no-test", action="store_true", help="print only")
    arguments = parser.parse_args()
    print(f"banyan_torch {banyan_torch.__version__} in {banyan_torch.__path__[0]}")
    print(f"PyTorch      {torch.__version__} (built for {_C.torch_version})")
    print(f"Python       {sys.version.split()[0]}")
    print(f"processor    {_C.processor()}")
    for name, why_not in _C.transports():
        print(f"transport    {name}" + (f": {why_not}" if why_not else ""))
    if arguments.no_test:
        return 0
    print(f"self-test with {self_test.RANKS} processes:", flush=True)
    return 0 if self_test.run() else 1


if __name__ == "__main__":
    sys.exit(main())
