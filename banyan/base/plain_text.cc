#include "banyan/base/plain_text.h"

#include <algorithm>
#include <utility>

#include "banyan/base/file.h"
#include "banyan/base/gzip.h"
#include "banyan/base/text.h"

namespace banyan {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

void append_utf8(uint32_t character, std::string& out) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (character < 0x80) return put(character);
  if (character < 0x800) {
    put(0xc0 | character >> 6);
  } else if (character < 0x10000) {
    put(0xe0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3f));
  } else {
    put(0xf0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3f));
    put(0x80 | (character >> 6 & 0x3f));
  }
  put(0x80 | (character & 0x3f));
}

// `low` is the place of the low byte in a pair: 0 little-endian, 1 big-endian. Halves of pairs become U+FFFD.
std::string from_utf16(std::string_view bytes, size_t low) {
  std::string out;
  const auto unit = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(bytes[i + low])) |
           static_cast<uint32_t>(static_cast<unsigned char>(bytes[i + 1 - low])) << 8;
  };
  for (size_t i = 2; i + 1 < bytes.size(); i += 2) {
    uint32_t character = unit(i);
    if (character >= 0xd800 && character < 0xe000) {
      const uint32_t second = character < 0xdc00 && i + 3 < bytes.size() ? unit(i + 2) : 0;
      const bool is_pair = second >= 0xdc00 && second < 0xe000;
      character = is_pair ? 0x10000 + ((character - 0xd800) << 10) + (second - 0xdc00) : 0xfffd;
      i += is_pair ? 2 : 0;
    }
    append_utf8(character, out);
  }
  return out;
}

// Where the escape that begins at `at` ends; `at` where none does. "\x1b[4m", and what is left of it: "[4m".
size_t end_of_escape(std::string_view line, size_t at) {
  const bool is_whole = line[at] == '\x1b';
  size_t i = at + (is_whole ? 1 : 0);
  if (i >= line.size() || line[i] != '[') return is_whole ? i : at;
  for (++i; i < line.size() && (is_digit(line[i]) || line[i] == ';' || (is_whole && line[i] == '?')); ++i) {
  }
  if (i >= line.size()) return is_whole ? i : at;
  // "[m" without its first byte could be anything.
  if (!is_whole && (line[i] != 'm' || line[i - 1] == '[' || i - at > 9)) return at;
  return i + 1;
}

std::string without_escapes(std::string_view line) {
  std::string plain;
  for (size_t i = 0; i < line.size();) {
    const size_t end = line[i] == '\x1b' || line[i] == '[' ? end_of_escape(line, i) : i;
    if (end == i) plain += line[i++];
    i = std::max(i, end);
  }
  return plain;
}

// "[1,0]<stdout>:" of Open MPI, also with a job's name or a time before the bracket's end; its length, or 0.
size_t mpi_tag(std::string_view line) {
  if (!line.starts_with('[')) return 0;
  for (const std::string_view stream : {"<stdout>:", "<stderr>:", "<stddiag>:"}) {
    const size_t at = line.substr(0, 160).find(stream);
    if (at != std::string_view::npos && line[at - 1] == ']') return at + stream.size();
  }
  return 0;
}

// "$ command", "+ command", "user@host:~$ command", "[user@host dir]# command", "(env) user@host:~$ command".
bool is_prompt(std::string_view line) {
  line = trim(line);
  if (line.starts_with("$ ") || line.starts_with("+ ") || line == "$") return true;
  const size_t at = line.find('@');
  if (at == 0 || at == std::string_view::npos) return false;
  const size_t end = line.find_first_of("$#%>", at);
  if (end == std::string_view::npos || end + 1 >= line.size() || line[end + 1] != ' ') return false;
  // "x@h1 <-> y 400Gb/s" is a link of ours.
  if (line[end - 1] == '-' ||
      (!line.starts_with('[') && line.substr(at, end - at).find(' ') != std::string_view::npos)) {
    return false;
  }
  // What stands before is one word, perhaps behind a bracketed one: prose with an address has blanks.
  std::string_view before = line.substr(0, at);
  if (before.starts_with('(')) before = trim(before.substr(std::min(before.find(')'), before.size() - 1) + 1));
  return before.find_first_of(" \t=,\"") == std::string_view::npos &&
         line.substr(at, end - at).find_first_of("=,\"") == std::string_view::npos;
}

// What all lines that are not empty begin with, when it is what a launcher writes: it ends in ": " or "] ", and is one
// word that has a letter or a digit. A text of our own has no such lines.
size_t common_tag(const std::vector<std::string_view>& lines) {
  std::string_view common;
  size_t count = 0;
  for (const std::string_view line : lines) {
    if (trim(line).empty()) continue;
    if (count++ == 0) common = line;
    const size_t most = std::min(common.size(), line.size());
    size_t same = 0;
    while (same < most && common[same] == line[same]) ++same;
    common = common.substr(0, same);
  }
  if (count < 2) return 0;
  size_t end = 0;
  for (size_t i = 1; i < common.size(); ++i) {
    if (common[i] == ' ' && (common[i - 1] == ':' || common[i - 1] == ']')) {
      end = i + 1;
      break;
    }
  }
  const std::string_view tag = common.substr(0, end);
  const bool names_something = std::any_of(tag.begin(), tag.end(), [](char c) { return is_digit(c) || is_letter(c); });
  const bool is_word = tag.find_first_of(" \t=\"'") + 1 >= tag.size() && tag.find("->") == std::string_view::npos;
  return names_something && is_word ? end : 0;
}

void note(size_t count, const std::string& what, std::vector<std::string>& notes) {
  if (count > 0) notes.push_back(what + plural(count, "line"));
}

PlainText cleaned(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  size_t tagged = 0, prompts = 0, coloured = 0;
  std::string tag;
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t own = mpi_tag(line);
    if (own == 0) continue;
    if (tagged++ == 0) tag = line.substr(0, own);
    line.remove_prefix(own);
  }
  if (const size_t common = common_tag(lines); common > 0) {
    for (std::string_view& line : lines) {
      if (line.size() < common) continue;
      if (tagged++ == 0) tag = line.substr(0, common);
      line.remove_prefix(common);
    }
  }
  PlainText plain;
  plain.text.reserve(text.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) plain.text += '\n';
    if (is_prompt(lines[i])) {
      ++prompts;
      continue;
    }
    if (lines[i].find_first_of("\x1b[") == std::string_view::npos) {
      plain.text += lines[i];
      continue;
    }
    const std::string own = without_escapes(lines[i]);
    coloured += own.size() < lines[i].size();
    plain.text += own;
  }
  note(tagged, "what a launcher writes before each line ('" + tag + "') was taken off ", plain.notes);
  note(coloured, "escapes that colour a terminal were taken off ", plain.notes);
  note(prompts, "prompts of a shell were passed over: ", plain.notes);
  return plain;
}

}  // namespace

void PlainText::empty_above(size_t end) {
  size_t passed = 0;
  std::string empty;
  for (const std::string_view line : split(std::string_view(text).substr(0, end), '\n')) {
    passed += !trim(line).empty() && !trim(line).starts_with('#');
  }
  if (passed == 0) return;
  empty.assign(static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(end), '\n')), '\n');
  text.replace(0, end, empty);
  notes.push_back(plural(passed, "line") + " above what is read " + (passed == 1 ? "was" : "were") + " passed over");
}

PlainText plain_text(std::string bytes, const std::string& name, uint64_t limit) {
  bytes = unpacked(std::move(bytes), name, limit);
  if (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff")) {
    bytes = from_utf16(bytes, bytes.starts_with("\xff\xfe") ? 0 : 1);
  }
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.erase(0, 3);
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  const std::string_view begin = first == std::string::npos ? "" : std::string_view(bytes).substr(first, 16);
  // "[1,0]<stdout>:" and "[4m" begin like lists.
  const bool is_tagged =
      begin.starts_with('[') && (mpi_tag(std::string_view(bytes).substr(first, 200)) > 0 ||
                                 end_of_escape(begin, 0) > 0 || (begin.size() > 1 && is_letter(begin[1])));
  const bool is_xml = begin.starts_with('<') && !begin.starts_with("<->");
  if (begin.starts_with('{') || (begin.starts_with('[') && !is_tagged) || is_xml) return {.text = std::move(bytes)};
  return cleaned(bytes);
}

PlainText read_plain_text(const std::string& path, uint64_t limit) {
  return plain_text(read_file(path, limit), path, limit);
}

}  // namespace banyan
