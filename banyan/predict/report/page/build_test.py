#!/usr/bin/env python3
"""build_test.py [FOLDER]: that the page in FOLDER/dist is what the sources in FOLDER make: built anew from
package-lock.json, byte for byte. Without FOLDER, of this one.

Ends with 77, which ctest calls skipped, where there is no npm or its packages cannot be fetched.
"""
import os
import shutil
import subprocess
import sys
import tempfile

here = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(__file__))
npm = shutil.which("npm")
if npm is None:
    print("skipped: this machine has no npm (tools/deps page)")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    copy = os.path.join(folder, "page")
    shutil.copytree(here, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    command = [npm, "ci", "--prefer-offline", "--no-audit", "--no-fund"]
    fetched = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    if fetched.returncode != 0:
        # A lock file that does not fit its package.json is our own mistake; no network is not.
        ours = any(code in fetched.stderr for code in ("EUSAGE", "EINTEGRITY", "EJSONPARSE", "E404"))
        print(("npm ci fails" if ours else "skipped: the packages cannot be fetched") + ":\n" + fetched.stderr)
        sys.exit(1 if ours else 77)
    subprocess.run([npm, "run", "build"], cwd=copy, check=True)
    pages = []
    for root in (copy, here):
        dist = os.path.join(root, "dist")
        pages.append({name: open(os.path.join(dist, name), "rb").read() for name in sorted(os.listdir(dist))})
    if pages[0] != pages[1]:
        print(f"{here}/dist is not what the sources make: run npm ci && npm run build in {here}")
        sys.exit(1)
print(f"dist/{', '.join(pages[0])} is what the sources make")
