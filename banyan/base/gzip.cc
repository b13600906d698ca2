#include "banyan/base/gzip.h"

#include <zlib.h>

#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan {
namespace {

constexpr size_t kGunzipPiece = size_t{1} << 16;
constexpr uint64_t kLeastLimit = uint64_t{1} << 24;

}  // namespace

struct Gunzip::State {
  explicit State(std::string of) : name(std::move(of)), unpacked(kGunzipPiece, '\0') {
    CHECK(::inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK) << "inflateInit2";
  }
  ~State() { ::inflateEnd(&stream); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Error damaged(const std::string& what) const {
    return Error(ErrorCode::invalid_input, what + "; copy the file again, or gzip it anew",
                 name + " byte " + std::to_string(read - stream.avail_in));
  }

  std::string name;
  std::string unpacked;
  z_stream stream{};
  bool ended = false;  // a member, of which a file may hold several
  uint64_t read = 0;   // packed bytes so far
  uint64_t given = 0;  // unpacked ones
};

Gunzip::Gunzip(std::string name) : state_(std::make_unique<State>(std::move(name))) {}
Gunzip::~Gunzip() = default;

std::string_view Gunzip::next(const std::function<std::string_view()>& more) {
  State& state = *state_;
  z_stream& stream = state.stream;
  stream.next_out = reinterpret_cast<Bytef*>(state.unpacked.data());
  stream.avail_out = static_cast<uInt>(state.unpacked.size());
  while (stream.avail_out == state.unpacked.size()) {
    if (stream.avail_in == 0) {
      const std::string_view raw = more();
      if (raw.empty()) {
        if (state.ended) return {};
        throw state.damaged("the gzip data ends in the middle");
      }
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw.data()));
      stream.avail_in = static_cast<uInt>(raw.size());
      state.read += raw.size();
    }
    if (state.ended) {
      // Another member follows, or padding, which gzip tells to ignore.
      if (*stream.next_in != 0x1f) {
        stream.avail_in = 0;
        continue;
      }
      CHECK(::inflateReset(&stream) == Z_OK) << "inflateReset";
      state.ended = false;
    }
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      state.ended = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw state.damaged("the gzip data is damaged" +
                          std::string(stream.msg ? std::string(" (") + stream.msg + ")" : ""));
    }
  }
  const size_t size = state.unpacked.size() - stream.avail_out;
  state.given += size;
  if (state.given > kLeastLimit && state.given / kMostPacked > state.read) {
    throw state.damaged("the gzip data unpacks to more than " + std::to_string(kMostPacked) +
                        " times its size, which no trace does");
  }
  return {state.unpacked.data(), size};
}

std::string unpacked(std::string bytes, const std::string& name, uint64_t limit) {
  if (!is_gzip(bytes)) return bytes;
  std::string_view left = bytes;
  const auto more = [&] {
    const std::string_view piece = left.substr(0, size_t{1} << 30);  // zlib counts in 32 bits
    left.remove_prefix(piece.size());
    return piece;
  };
  Gunzip gunzip(name);
  std::string text;
  while (true) {
    const std::string_view piece = gunzip.next(more);
    if (piece.empty()) return text;
    text += piece;
    if (text.size() > limit) {
      throw Error(ErrorCode::invalid_input, "unpacks to more than " + std::to_string(limit) + " bytes", name);
    }
  }
}

}  // namespace banyan
