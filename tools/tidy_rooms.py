"""The checks of tools/tidy against tools/rooms.md: layers, lines by room, large classes and functions, plain sentences."""
import collections
import functools
import json
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = "tools/rooms.md"
MOST_PARAMETERS = 4
CODE = (".h", ".cc", ".c")
# Supports of tests: they may know more than the code beside them.
TEST_SUPPORT = re.compile(r"(_test|_fuzz|(?<!/command)_bench)\.(cc|c|h)$|(^|/)(test_|fuzz_)[^/]*\.(cc|h)$|^bench/")
LITERAL_OR_COMMENT = re.compile(r'R"([^ ()\\\t\v\f\n]{0,16})\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                                r"'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*(?:.|\n)*?\*/")
RELATIVE = re.compile(r"(?:What|Of|Where|By|How|Whether|Who|Whoever|Which|Whose|When)\b")


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def code_lines(text):
    """Lines that hold more than a comment."""
    bare = LITERAL_OR_COMMENT.sub(
        lambda found: "\n" * found.group().count("\n") if found.group().startswith("/") else found.group(), text)
    return sum(1 for line in bare.split("\n") if line.strip())


def rows(heading):
    """The cells of the table under a heading of rooms.md."""
    part = text_of(TABLES).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in line.strip("| ").split(" | ")] for line in lines[1:]]


class Rooms:
    """The rooms of the house, which others each may include, and how many lines of code it may have."""

    def __init__(self):
        self.knows, self.most, self.closure = {}, {}, {}
        for room, _, known, code, tests in rows("Rooms"):
            self.knows[room] = [other for other in re.findall(r"[\w/]+", known) if other != "nobody"]
            self.most[room] = (int(code.replace(",", "")), int(tests.replace(",", "")))

    def room_of(self, name):
        folder = str(pathlib.PurePosixPath(name).parent)
        while folder != "." and folder.removeprefix("banyan/") not in self.knows:
            folder = str(pathlib.PurePosixPath(folder).parent)
        return None if folder == "." else folder.removeprefix("banyan/")

    def all_known(self, room, path=()):
        """Every room that `room` may include, directly or through others. Raises ValueError with a circle."""
        if room in path:
            raise ValueError(" -> ".join((*path[path.index(room):], room)))
        if room not in self.closure:
            known = {room}
            for other in self.knows.get(room, []):
                known |= self.all_known(other, (*path, room))
            self.closure[room] = known
        return self.closure[room]

    def lines(self, names):
        """By room: lines of the product, and of tests."""
        counts = collections.defaultdict(lambda: [0, 0])
        for name in names:
            room = self.room_of(name)
            if name.endswith(CODE) and room:
                counts[room][bool(TEST_SUPPORT.search(name)) or room.startswith("testing")] += code_lines(text_of(name))
        return counts


def check_layers(names):
    layers = Rooms()
    for room, known in layers.knows.items():
        for other in known:
            if other not in layers.knows:
                yield f"{TABLES}: '{room}' knows '{other}', which is no room of the table"
        try:
            layers.all_known(room)
        except ValueError as circle:
            yield f"{TABLES}: rooms know each other in a circle: {circle}"
            return
    for name in names:
        if not name.endswith((".h", ".cc")) or not name.startswith(("banyan/", "apps/", "bindings/", "lab/")):
            continue
        room = layers.room_of(name)
        if room is None:
            yield f"{name}: its folder is missing in the table of {TABLES}"
            continue
        if TEST_SUPPORT.search(name) or room == "testing":
            continue
        for number, line in enumerate(text_of(name).splitlines(), 1):
            include = re.match(r'#include "((?:banyan|apps|bindings|lab)/[^"]+)"', line)
            other = include and layers.room_of(include.group(1))
            if other and other not in layers.all_known(room):
                yield f"{name}:{number}: '{room}' may not include '{other}' ({TABLES})"


def check_lines(names):
    rooms = Rooms()
    for room, counts in sorted(rooms.lines(names).items()):
        for count, most, what in zip(counts, rooms.most[room], ("code", "tests")):
            if count > most:
                yield (f"{TABLES}: '{room}' has {count:,} lines of {what}, {most:,} are its budget: take some away, or "
                       "raise it, lower another one, and say in the commit what users get for it")


@functools.lru_cache(maxsize=None)
def tags(names):
    program = shutil.which("ctags")
    version = program and subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if not version or "Universal" not in version:
        print("tools/tidy: universal-ctags is not installed, so sizes of classes and functions were not checked "
              "('tools/deps tidy' installs it)")
        return []
    told = subprocess.run([program, "--languages=C++", "--langmap=C++:+.h", "--kinds-C++=fpmcsn", "--fields=+neSsZ",
                           "--output-format=json", "-L", "-", "-f", "-"], cwd=ROOT, check=True, capture_output=True,
                          text=True, input="\n".join(names)).stdout
    return [json.loads(line) for line in told.splitlines()]


def product_tags(names):
    return tags(tuple(name for name in names if name.endswith((".h", ".cc")) and not TEST_SUPPORT.search(name) and
                      not name.startswith(("banyan/testing/", "examples/"))))


def plain(scope):
    """A scope without namespaces that have no name."""
    return re.sub(r"(__anon\w+::|::__anon\w+$|^__anon\w+$|^banyan::)", "", scope)


def parameters_of(signature):
    depth, count = 0, 0
    for character in signature[1:-1]:
        depth += {"(": 1, "<": 1, "[": 1, "{": 1, ")": -1, ">": -1, "]": -1, "}": -1}.get(character, 0)
        count += character == "," and depth == 0
    return count + 1 if len(signature) > 2 else 0


def check_allowed(heading, found, most, what):
    """`found`: how many there are, by name; each above `most` must stand in the table, with no less and no more."""
    allowed = {name: int(number) for name, number, *_ in rows(heading)}
    for name in sorted({*found, *allowed}):
        number, limit = found[name], max(allowed.get(name, most), most)
        if number > limit:
            yield f"{TABLES}: '{name}' has {number} {what}, {limit} are allowed"
        elif name in allowed and number < limit:
            yield f"{TABLES}: '{name}' has {number} {what} now: lower its row ('tools/tidy --fix' does)"


def members(names):
    """Of each class, how many. Classes of one name may stand in several files, each in a namespace without a name."""
    by_file = collections.Counter()
    for tag in product_tags(names):
        is_member = tag["kind"] == "member" and not re.search(r"\bstatic\b|\bconstexpr\b", tag["pattern"])
        if is_member and plain(tag["scope"]):
            by_file[plain(tag["scope"]), tag["path"]] += 1
    found = collections.Counter()
    for (name, _), number in by_file.items():
        found[name] = max(found[name], number)
    return found


def functions(names):
    for tag in product_tags(names):
        if tag["kind"] == "function" and not tag["name"].startswith("__anon"):
            yield f"{plain(tag.get('scope', '') + '::' if 'scope' in tag else '')}{tag['name']}".lstrip(":"), tag


def lines_of_functions(names):
    found = collections.Counter()
    for name, tag in functions(names):
        found[name] = max(found[name], tag.get("end", tag["line"]) - tag["line"] + 1)
    return found


def many_parameters(names):
    rooms = Rooms()
    return collections.Counter(rooms.room_of(tag["path"]) for _, tag in functions(names)
                               if parameters_of(tag.get("signature", "")) > MOST_PARAMETERS)


NAME = re.compile(r"[A-Za-z_]\w*")
# Names that others call: the start of a program, nlohmann's reader of JSON, pybind11, users of the interfaces. ctags
# takes a static_assert for one more declaration.
CALLED_FROM_OUTSIDE = re.compile(r"^(main|PYBIND11_MODULE|~.*|operator.*|__anon.*|number_\w+|"
                                 r"(start|end)_(object|array)|parse_error|binary|table_is_in_order)$")
FROM_OUTSIDE = ("include/", "bindings/c/", "bindings/torch/")


def names_in(files):
    """How often each name stands in the code of these files, comments and literals left out."""
    found = collections.Counter()
    for name in files:
        found.update(NAME.findall(LITERAL_OR_COMMENT.sub(" ", text_of(name))))
    return found


def functions_without_callers(names):
    """Of product code, by name: whether tests call them."""
    code = [name for name in names if name.endswith((".h", ".cc")) and not name.startswith("examples/")]
    product = [name for name in code if not TEST_SUPPORT.search(name) and not name.startswith("banyan/testing/")]
    in_product, in_tests = names_in(product), names_in(set(code) - set(product))
    declared, scopes = collections.Counter(), {}
    for tag in tags(tuple(product)):
        if tag["kind"] in ("function", "prototype"):
            declared[tag["name"]] += 1
            if not tag["path"].startswith(FROM_OUTSIDE):
                scopes.setdefault(tag["name"], plain(tag.get("scope", "")))
    for name, scope in sorted(scopes.items()):
        if in_product[name] <= declared[name] and not CALLED_FROM_OUTSIDE.match(name) and scope.split("::")[-1] != name:
            yield name, in_tests[name] > 0


def check_unused(names):
    """A function that only tests call stands in the table with its reason."""
    if not product_tags(names):
        return
    allowed = {name for name, _ in rows("Functions that only tests call")}
    found = dict(functions_without_callers(names))
    for name, is_in_tests in found.items():
        if not is_in_tests:
            yield f"nothing calls {name}(): take it away"
        elif name not in allowed:
            yield f"only tests call {name}(): take it away, or give the reason in {TABLES}"
    for name in allowed - set(found):
        yield f"{TABLES}: product code calls {name}(), or it is gone: take its row away"


def relative_sentences(names):
    """Sentences of comments in headers, and of messages, that begin with a relative word: file, line and words."""
    for name in names:
        if not name.endswith((".h", ".cc")) or TEST_SUPPORT.search(name) or name.startswith("banyan/testing/"):
            continue
        if name.endswith(".h"):
            blocks, last = [], -2
            for number, line in enumerate(text_of(name).splitlines(), 1):
                comment = re.match(r"\s*//+ ?(.*)$", line) or re.match(r".*\S\s+// ?(.*)$", line)
                if not comment:
                    continue
                if number == last + 1 and re.match(r"\s*//", line):
                    blocks[-1][1].append(comment.group(1))
                else:
                    blocks.append((number, [comment.group(1)]))
                last = number if re.match(r"\s*//", line) else -2
            for number, block in blocks:
                for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z])", " ".join(block).strip()):
                    if RELATIVE.match(sentence):
                        yield name, number, sentence
        for found in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text_of(name)):
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", found.group(1)):
                if RELATIVE.match(sentence) and " " in sentence:
                    yield name, text_of(name).count("\n", 0, found.start()) + 1, sentence


def relative_by_room(names):
    rooms = Rooms()
    return collections.Counter(rooms.room_of(name) or "elsewhere" for name, _, _ in relative_sentences(names))


# Heading of a table; what it counts, by name; what needs no row; in words.
TABLE_OF = {
    "classes": ("Classes above 20 members", members, 20, "members"),
    "functions": ("Functions above 70 lines", lines_of_functions, 70, "lines"),
    "parameters": ("Functions of more than four parameters", many_parameters, 0,
                   "functions of more than four parameters"),
    "sentences": ("Sentences that begin with a relative word", relative_by_room, 0,
                  "sentences that begin with What, Of, Where and their like"),
}


def check_sizes(names):
    yield from check_lines(names)
    if not product_tags(names):
        return
    for kind in ("classes", "functions", "parameters"):
        heading, count, most, what = TABLE_OF[kind]
        yield from check_allowed(heading, count(names), most, what)


def check_sentences(names):
    heading, count, most, what = TABLE_OF["sentences"]
    yield from check_allowed(heading, count(names), most, what)


def lower_rows(names):
    """Writes what is there into rooms.md, where it is less than what is allowed."""
    if not product_tags(names):
        return
    text = text_of(TABLES)
    for room, counts in Rooms().lines(names).items():
        row = re.search(rf"^(\| `{re.escape(room)}` \|.* \|) ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE)
        least = [min(count, int(most.replace(",", ""))) for count, most in zip(counts, row.groups()[1:])]
        text = text.replace(row.group(), f"{row.group(1)} {least[0]:,} | {least[1]:,} |")
    for heading, count, most, _ in TABLE_OF.values():
        found = count(names)
        start = text.index(f"\n## {heading}\n")
        end = text.find("\n## ", start + 1) % (len(text) + 1)
        part = re.sub(r"^(\| `([^`]+)` \|) (\d+) (\|.*\n)",
                      lambda row: "" if found[row.group(2)] <= most else
                      f"{row.group(1)} {min(int(row.group(3)), found[row.group(2)])} {row.group(4)}",
                      text[start:end], flags=re.MULTILINE)
        text = text[:start] + part + text[end:]
    (ROOT / TABLES).write_text(text)


def print_figures(names):
    """The figures of rooms.md as they are now."""
    rooms = Rooms()
    counts = rooms.lines(names)
    for room in rooms.knows:
        code, tests = counts[room]
        print(f"{room:24} {code:7,} {tests:7,}   of {rooms.most[room][0]:,} {rooms.most[room][1]:,}")
    print(f"{'all':24} {sum(count[0] for count in counts.values()):7,} {sum(count[1] for count in counts.values()):7,}")
    print(f"all tracked lines: {sum(text_of(name).count(chr(10)) for name in names):,} in {len(names):,} files")
    print(f"sentences that begin with a relative word: {sum(1 for _ in relative_sentences(names)):,}")
