#include "banyan/job/text/trace_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::job {
namespace {

constexpr size_t kPiece = size_t{1} << 16;

// Traces are packed ten to forty times. What is packed more than this is made to keep readers busy.
constexpr uint64_t kMostPacked = 300;
constexpr uint64_t kLeastLimit = uint64_t{1} << 24;

Error cannot_read(const std::string& name, int code) {
  return Error(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
               std::string("cannot read it: ") + std::strerror(code), name);
}

}  // namespace

class TraceSource::File {
 public:
  explicit File(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe without a writer must not hold us
    if (fd_ < 0) throw cannot_read(path, errno);
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return;
    const bool is_folder = S_ISDIR(info.st_mode), is_pipe = S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode);
    if (!is_folder && !is_pipe) return;
    ::close(fd_);
    if (is_folder) throw cannot_read(path, EISDIR);
    throw Error(ErrorCode::unsupported, "is a pipe, and traces are read more than once; write it into a file first",
                path);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // As much as fits, less only at the end.
  size_t read(std::string& piece, const std::string& name) {
    size_t filled = 0;
    while (filled < piece.size()) {
      const ssize_t got = ::read(fd_, piece.data() + filled, piece.size() - filled);
      if (got < 0 && errno != EINTR) throw cannot_read(name, errno);
      if (got == 0) break;
      if (got > 0) filled += static_cast<size_t>(got);
    }
    return filled;
  }

 private:
  int fd_;
};

struct TraceSource::Packed {
  Packed() { CHECK(::inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK) << "inflateInit2"; }
  ~Packed() { ::inflateEnd(&stream); }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  z_stream stream{};
  bool ended = false;  // a gzip member, of which a file may hold several
  uint64_t read = 0;   // bytes of the file so far
};

TraceSource::TraceSource() = default;
TraceSource::TraceSource(TraceSource&&) noexcept = default;
TraceSource::~TraceSource() = default;

TraceSource TraceSource::from_file(const std::string& path) {
  TraceSource source;
  source.name_ = path;
  source.file_ = std::make_unique<File>(path);
  source.piece_.resize(kPiece);
  return source;
}

TraceSource TraceSource::from_text(std::string_view text, std::string name) {
  TraceSource source;
  source.name_ = std::move(name);
  source.text_ = text;
  return source;
}

std::string_view TraceSource::more_raw() {
  if (!file_) {
    const std::string_view piece = text_.substr(0, size_t{1} << 30);  // zlib counts in 32 bits
    text_.remove_prefix(piece.size());
    return piece;
  }
  return {piece_.data(), file_->read(piece_, name_)};
}

bool TraceSource::give_plain(std::string_view raw) {
  at_ = raw.data();
  end_ = at_ + raw.size();
  given_ += raw.size();
  return at_ != end_;
}

bool TraceSource::refill() {
  if (!begun_) {
    begun_ = true;
    const std::string_view raw = more_raw();
    if (raw.size() >= 2 && raw[0] == '\x1f' && raw[1] == '\x8b') {
      packed_ = std::make_unique<Packed>();
      unpacked_.resize(kPiece);
      packed_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw.data()));
      packed_->stream.avail_in = static_cast<uInt>(raw.size());
      packed_->read = raw.size();
    } else {
      return give_plain(raw);
    }
  }
  if (!packed_) return give_plain(more_raw());
  z_stream& stream = packed_->stream;
  const auto damaged = [&](const std::string& what) {
    return Error(ErrorCode::invalid_input, what + "; copy the file again, or gzip it anew",
                 name_ + " byte " + std::to_string(packed_->read - stream.avail_in));
  };
  stream.next_out = reinterpret_cast<Bytef*>(unpacked_.data());
  stream.avail_out = static_cast<uInt>(unpacked_.size());
  while (stream.avail_out == unpacked_.size()) {
    if (stream.avail_in == 0) {
      const std::string_view raw = more_raw();
      if (raw.empty()) {
        if (packed_->ended) return false;
        throw damaged("the gzip data ends in the middle");
      }
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(raw.data()));
      stream.avail_in = static_cast<uInt>(raw.size());
      packed_->read += raw.size();
    }
    if (packed_->ended) {
      // Another member follows, or padding, which gzip tells to ignore.
      if (*stream.next_in != 0x1f) {
        stream.avail_in = 0;
        continue;
      }
      CHECK(::inflateReset(&stream) == Z_OK) << "inflateReset";
      packed_->ended = false;
    }
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      packed_->ended = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw damaged("the gzip data is damaged" + std::string(stream.msg ? std::string(" (") + stream.msg + ")" : ""));
    }
  }
  at_ = unpacked_.data();
  end_ = at_ + (unpacked_.size() - stream.avail_out);
  given_ += static_cast<uint64_t>(end_ - at_);
  if (given_ > kLeastLimit && given_ / kMostPacked > packed_->read) {
    throw damaged("the gzip data unpacks to more than " + std::to_string(kMostPacked) +
                  " times its size, which no trace does");
  }
  return true;
}

}  // namespace banyan::job
