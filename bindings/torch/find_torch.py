"""Prints what CMake must know of this interpreter's PyTorch, between semicolons: its version, how modules are called,
and the directories with libraries of PyTorch and with headers of PyTorch, pybind11 and Python."""
import os
import sys
import sysconfig

try:
    import pybind11
    import torch
    from torch.utils.cpp_extension import include_paths
except ImportError as error:
    sys.exit(str(error))

candidates = include_paths() + ["/usr/include", "/usr/include/torch/csrc/api/include"]
with_headers = [d for d in candidates if os.path.exists(os.path.join(d, "torch/csrc/distributed/c10d/Work.hpp"))]
if not with_headers:
    sys.exit("the headers of PyTorch are missing (Debian: libtorch-dev)")
includes = [d for d in candidates if os.path.exists(os.path.join(d, "torch")) and d != "/usr/include"]
includes += [pybind11.get_include(), sysconfig.get_path("include")]
if not os.path.exists(os.path.join(includes[-1], "Python.h")):
    sys.exit("the headers of Python are missing (Debian: python3-dev)")
libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
suffix = sysconfig.get_config_var("EXT_SUFFIX")
print(";".join([torch.__version__, suffix, libraries, *dict.fromkeys(includes)]))
