"""Prints what CMake must know of this interpreter's PyTorch, between semicolons: its version, how modules are called,
the directory with its libraries, and those with the headers of PyTorch, pybind11 and Python."""
import os
import sys
import sysconfig

try:
    import pybind11
    import torch
except ImportError as error:
    sys.exit(str(error))

# PyTorch's own wheels have libraries and headers in the package, Debian has them in /usr.
package = os.path.dirname(torch.__file__)
for root in (os.path.join(package, "include"), "/usr/include"):
    if os.path.exists(os.path.join(root, "torch/csrc/distributed/c10d/Work.hpp")):
        break
else:
    sys.exit("the headers of PyTorch are missing (Debian: libtorch-dev)")
includes = [os.path.join(root, "torch/csrc/api/include"), pybind11.get_include(), sysconfig.get_path("include")]
if root != "/usr/include":  # where the compiler looks by itself
    includes.insert(0, root)
if not os.path.exists(os.path.join(includes[-1], "Python.h")):
    sys.exit("the headers of Python are missing (Debian: python3-dev)")
print(";".join([torch.__version__, sysconfig.get_config_var("EXT_SUFFIX"), os.path.join(package, "lib"), *includes]))
