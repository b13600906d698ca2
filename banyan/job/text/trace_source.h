// The characters of a trace: from a file or from memory, plain or gzip, without ever holding all of them.
//
// Traces of hundreds of megabytes are usual, gzip makes them ten to thirty times smaller; so a file is read in pieces
// of 64 KiB and inflated on the way. A gzip file is recognised by its first two bytes, not by its name.
//
// Memory: 192 KiB, whatever the file holds. A gzip file may not unpack to more than 300 times its size (beyond 16 MiB),
// so that a hostile one ends in an error and not in days of reading.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "banyan/base/gzip.h"

namespace banyan::job {

class TraceSource {
 public:
  // Throws Error{not_found} or Error{io} naming the path.
  static TraceSource from_file(const std::string& path);
  // `text` is borrowed; `name` is how errors call it.
  static TraceSource from_text(std::string_view text, std::string name);

  TraceSource(TraceSource&&) noexcept;
  ~TraceSource();

  // The next character, or -1 after the last. Throws Error{io} or Error{invalid_input} naming the file and the byte of
  // it at which the gzip data is damaged or ends too early.
  int next() {
    if (at_ != end_) return static_cast<unsigned char>(*at_++);
    return refill() ? static_cast<unsigned char>(*at_++) : -1;
  }
  // The character that next() would give.
  int peek() {
    if (at_ != end_ || refill()) return static_cast<unsigned char>(*at_);
    return -1;
  }

  // The characters that next() will give and that are in memory already; may be empty before the end.
  std::string_view buffered() const { return {at_, static_cast<size_t>(end_ - at_)}; }

  const std::string& name() const { return name_; }
  // The number of characters that next() has given: a place in the text after unpacking.
  uint64_t position() const { return given_ - static_cast<uint64_t>(end_ - at_); }

 private:
  class File;

  TraceSource();
  bool refill();
  bool give_plain(std::string_view raw);
  std::string_view more_raw();  // of the file as it is stored

  std::string name_;
  std::unique_ptr<File> file_;
  std::unique_ptr<Gunzip> packed_;
  std::string_view text_;  // from memory: what is not yet given
  std::string piece_;      // what at_ and end_ point into
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  uint64_t given_ = 0;
  bool begun_ = false;
};

}  // namespace banyan::job
