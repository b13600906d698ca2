// The first pass over a text that people or programs have handed on, before any reader of lines sees it.
//
// It takes off what belongs to no format:
//   - gzip, and UTF-16 (what PowerShell writes): the text inside, in UTF-8;
//   - the byte order mark, and carriage returns before ends of lines;
//   - escapes that colour a terminal, also those that have lost their first byte on the way through a web form ("[4m");
//   - what launchers put before every line: "[1,0]<stdout>:", "3: ", "node7: ", "[pod/x/y] ";
//   - lines with a shell's prompt and a command ("$ nvidia-smi topo -m", "user@host:~$ ...").
// Lines keep their numbers: what is taken off leaves an empty line. JSON and XML have rules of their own for what
// stands inside: of them only gzip, UTF-16 and the byte order mark are taken off. Text that was taken off and that a
// reader might have wanted is counted in `notes`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

struct PlainText {
  std::string text;
  std::vector<std::string> notes = {};  // "took '[1,0]<stdout>:' off 5 lines", one for each kind

  // Empties all lines above the first for which `begins` holds, which the text goes on from, and notes how many;
  // without such a line nothing changes.
  template <typename Begins>
  void begin_at(Begins begins);

 private:
  void empty_above(size_t end);
};

// `bytes` is what a file holds, `name` how errors call it. Throws what unpacked() does (gzip.h); of text it refuses
// nothing. O(bytes).
PlainText plain_text(std::string bytes, const std::string& name, uint64_t limit = uint64_t{1} << 31);

// read_file() and plain_text() of it.
PlainText read_plain_text(const std::string& path, uint64_t limit = uint64_t{1} << 31);

// ---------------------------------------------------------------------------------------- end of the interface

template <typename Begins>
void PlainText::begin_at(Begins begins) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) == std::string::npos ? text.size() : text.find('\n', at);
    if (begins(std::string_view(text).substr(at, end - at))) return empty_above(at);
    at = end + 1;
  }
}

}  // namespace banyan
