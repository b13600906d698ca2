#!/usr/bin/env python3
"""No two headers define a class or struct of the same name in the same namespace: linked together, each would use the
other's functions, and nobody is told."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("banyan", "apps", "bindings", "lab", "bench")


def definitions(text):
    """Names that are defined at the beginning of a line, after the namespaces they stand in."""
    namespaces = re.findall(r"^namespace ([\w:]*)\s*\{", text, re.MULTILINE)
    scope = "::".join(namespaces[:1])
    for match in re.finditer(r"^(?:class|struct|enum class) (?:alignas\([^)]*\) )?(\w+(?:::\w+)*)(?: final)?\s*(?::(?!:)[^;{]*)?\{",
                             text, re.MULTILINE):
        before = text[: match.start()]
        inner = re.findall(r"^namespace ([\w:]*)\s*\{", before, re.MULTILINE)
        if "" in inner:
            continue  # of one file alone
        yield (inner[-1] if inner else scope) + "::" + match.group(1)


class OneDefinition(unittest.TestCase):
    def test_every_name_is_defined_in_one_header(self):
        seen = {}
        for folder in FOLDERS:
            for header in sorted((ROOT / folder).rglob("*.h")):
                if "node_modules" in header.parts:
                    continue
                for name in definitions(header.read_text()):
                    seen.setdefault(name, []).append(str(header.relative_to(ROOT)))
        self.assertGreater(len(seen), 300)
        twice = {name: headers for name, headers in seen.items() if len(headers) > 1}
        self.assertEqual(twice, {})


if __name__ == "__main__":
    sys.exit(unittest.main())
