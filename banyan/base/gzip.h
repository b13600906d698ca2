// gzip, unpacked on the way: of whole files and of streams.
//
// A file may hold several members, and padding behind them. Input that unpacks to more than kMostPacked times its size
// (beyond 16 MiB) is refused, so that a hostile file ends in an error and not in days of reading.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace banyan {

// Told by its first two bytes.
inline bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

class Gunzip {
 public:
  static constexpr uint64_t kMostPacked = 300;  // traces and tables are packed ten to forty times

  // `name` is how errors call the file.
  explicit Gunzip(std::string name);
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // The next unpacked bytes, up to 64 KiB, good until the next call; none at the end. `more` is asked for the next
  // packed bytes, below 4 GiB, which stay until it is asked again; it gives none at the end. Throws
  // Error{invalid_input} with the byte where the data is damaged or ends too early.
  std::string_view next(const std::function<std::string_view()>& more);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// All of it where it is gzip, else as it is. Throws as Gunzip, and Error{invalid_input} beyond `limit` bytes.
std::string unpacked(std::string bytes, const std::string& name, uint64_t limit);

}  // namespace banyan
