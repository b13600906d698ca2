#include "banyan/job/text/trace_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::job {
namespace {

constexpr size_t kPiece = size_t{1} << 16;

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
  if (begun_) return give_plain(packed_ ? packed_->next([&] { return more_raw(); }) : more_raw());
  begun_ = true;
  std::string_view first = more_raw();
  if (is_gzip(first)) packed_ = std::make_unique<Gunzip>(name_);
  const bool has_some = give_plain(
      packed_ ? packed_->next([&] { return first.empty() ? more_raw() : std::exchange(first, {}); }) : first);
  // Some editors put a mark in front of UTF-8.
  if (std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with("\xef\xbb\xbf")) at_ += 3;
  return has_some && (at_ != end_ || refill());
}

}  // namespace banyan::job
