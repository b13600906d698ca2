#!/usr/bin/env python3
"""Prints a header as Doxygen wants it; the Doxyfile calls it for each. Usage: docs/reference/filter.py FILE

The comments of our headers are plain text. A comment before a declaration becomes its description, one after a value or
a field on the same line as well; the first comment of a file is that of the file; "---- Title ----" begins a group of
declarations. In a comment, lines that are indented further and are no list stay as they are, such as lines of code.
"""
import pathlib
import re
import sys


def escaped(text):
    """Prose in which nothing is a tag or a command of Doxygen, and functions of the C interface are links."""
    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([<>@#\\])", r"\\\1", parts[i])
        parts[i] = re.sub(r"\b(banyan_(?!torch)[a-z_]*[a-z])\b(?<!_t)(?!\(|\.)", r"\1()", parts[i])
        parts[i] = re.sub(r"(?m)^([A-Z]{2}[A-Z ]*)\. ", lambda title: f"**{title.group(1).capitalize()}.** ", parts[i])
    return "".join(parts)


def as_markdown(lines):
    """The text of one comment: prose, and code or tables, which are the lines that are indented and no list."""
    text, prose, code, in_list = [], [], [], False

    def flush():
        if prose:
            text.append(escaped("\n".join(prose)))
        if code:
            text.append("@verbatim\n" + "\n".join(code) + "\n@endverbatim")
        prose.clear()
        code.clear()

    for line in lines:
        in_list = bool(re.match(r"\s*(- |\d+\. )", line)) or (in_list and line.startswith("  "))
        is_code = line.startswith("  ") and not in_list
        if is_code and prose or code and line.strip() and not is_code:
            flush()
        (code if is_code or code else prose).append(line)
    flush()
    return "\n".join(text)


class Groups:
    """What "---- Title ----" opens, and where it ends."""

    def __init__(self, stem):
        self.stem, self.open = stem, None

    def title(self, indent, title, text):
        closing = self.close()
        self.open = "class" if indent else "file"
        name = re.sub(r"\W+", "_", f"{self.stem}_{title}").lower()
        what = f"@name {title}" if indent else f"@defgroup {name} {title} ({self.stem})"
        return f"{closing}/** {what}\n{text}\n@{{ */"

    def close(self):
        was, self.open = self.open, None
        return "/** @} */\n" if was else ""


def mark(text, path):
    # What is said to the standard library is nothing to read, and Doxygen does not know its templates.
    text = re.sub(r"template <.*>\ninline constexpr bool std::.*\n", "", text)
    lines, out, groups, i, is_first = text.splitlines(), [], Groups(path.name), 0, True
    while i < len(lines):
        line = lines[i]
        title = re.match(r"(\s*)(?://|/\*) -{4,} (.*?) -{4,}\s*(?:\*/)?$", line)
        if title:
            text, i = read_comment(lines, i + 1) if lines[i + 1].strip() == "//" else ([], i + 1)
            out.append(groups.title(title.group(1), title.group(2), as_markdown(text)))
            continue
        comment, end = read_comment(lines, i)
        if comment is not None:
            indent = re.match(r"\s*", line).group(0)
            head = "@file\n" if is_first else ""
            out.append(f"{indent}/** {head}{as_markdown(comment)} */")
            is_first, i = False, end
            continue
        if groups.open == "class" and re.match(r"(};| private:)", line):
            line = groups.close() + line
        if groups.open == "file" and re.match(r"#if defined\(__GNUC__\)|}  // namespace", line):
            line = "/** @} */\n" + line
            groups.open = None
        if re.match(r"inline namespace \w+ \{|}  // namespace v\d", line):
            line = ""  # a version of the binary interface, which users do not write
        line = re.sub(r"(?<=[;,}\w)]) +// (.*)$", lambda match: f" /**< {escaped(match.group(1))} */", line)
        line = re.sub(r"(?<=[;,\w}]) +/\* (.*) \*/$", lambda match: f" /**< {escaped(match.group(1))} */", line)
        out.append(line)
        i += 1
    return "\n".join(out) + "\n"


def read_comment(lines, i):
    """The text of a comment that stands alone from line i on, and the line after it; or None."""
    if re.match(r"\s*//", lines[i]):
        end = i
        while end < len(lines) and re.match(r"\s*//(?! -{4,} )", lines[end]):
            end += 1
        return [re.sub(r"^\s*// ?", "", line) for line in lines[i:end]], end
    if re.match(r"\s*/\*(?! -{4,})", lines[i]):
        end = i
        while "*/" not in lines[end]:
            end += 1
        end += 1
        body = [re.sub(r"^\s*(/\*| \*(?!/)) ?|\s*\*/\s*$", "", line) for line in lines[i:end]]
        return body, end
    return None, i


if __name__ == "__main__":
    source = pathlib.Path(sys.argv[1])
    contents = source.read_text(encoding="utf-8")
    sys.stdout.write(mark(contents, source) if source.suffix == ".h" else contents)
