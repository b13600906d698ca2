"""Prints what CMake must know of this interpreter and its PyTorch, between semicolons: the versions of PyTorch and of
Python, how modules are called, whether strings are of the new C++ ABI (1 or 0), the definitions by which a module of
another compiler shares PyTorch's types (between commas), the directory with PyTorch's libraries, and those with the
headers of PyTorch, pybind11 and Python."""
import os
import sys
import sysconfig

try:
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
includes = [os.path.join(root, "torch/csrc/api/include"), sysconfig.get_path("include")]
if not os.path.exists(os.path.join(includes[-1], "Python.h")):
    sys.exit("the headers of Python are missing (Debian: python3-dev)")
# The pybind11 that PyTorch was built with lies beside its headers; objects of another one are strangers to it.
if not os.path.exists(os.path.join(root, "pybind11/pybind11.h")):
    try:
        import pybind11
    except ImportError:
        sys.exit("the headers of pybind11 are missing (Debian: pybind11-dev)")
    includes.insert(0, pybind11.get_include())
if root != "/usr/include":  # where the compiler looks by itself
    includes.insert(0, root)
python = f"{sys.version_info.major}.{sys.version_info.minor}"
abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
# Modules share types where pybind11 has the same names for their compilers. Later releases of PyTorch say none: the
# pybind11 of those knows compilers that fit by one name.
names = [(name, getattr(torch._C, f"_PYBIND11_{name}", None)) for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")]
definitions = ",".join(f'PYBIND11_{name}="{value}"' for name, value in names if value)
print(";".join(map(str, [torch.__version__, python, sysconfig.get_config_var("EXT_SUFFIX"), abi, definitions,
                         os.path.join(package, "lib"), *includes])))
