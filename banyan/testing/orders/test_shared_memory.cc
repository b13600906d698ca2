// run::SharedMemory within a run: memory of the arena, which "other processes" see at the same address.
#include <cstdint>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/testing/orders/hooks.h"

namespace banyan::run {
namespace {

// By descriptor. Numbers that no file of the process has.
constexpr int kFirst = 1 << 20;
std::vector<std::pair<std::byte*, size_t>>& files() {
  static std::vector<std::pair<std::byte*, size_t>> all;
  return all;
}

}  // namespace

SharedMemory::SharedMemory(FileDescriptor fd, size_t size, bool, int) : size_(size), fd_(std::move(fd)) {}

SharedMemory SharedMemory::with_pages(size_t size) {
  auto* const data = static_cast<std::byte*>(::operator new (size, std::align_val_t{4096}));
  const uint32_t part = testing::orders::set_part(testing::orders::kNoPart);
  files().emplace_back(data, size);
  testing::orders::set_part(part);
  SharedMemory memory(FileDescriptor(kFirst + static_cast<int>(files().size()) - 1), size, true, 0);
  memory.data_ = data;
  return memory;
}

SharedMemory SharedMemory::with_some_pages(size_t size, size_t) { return with_pages(size); }

SharedMemory SharedMemory::attach(pid_t, int fd, size_t size, bool, int) {
  const auto& [data, bytes] = files().at(static_cast<size_t>(fd - kFirst));
  CHECK(size == bytes) << size << " of " << bytes;
  SharedMemory memory(FileDescriptor(), size, true, 0);
  memory.data_ = data;
  return memory;
}
SharedMemory SharedMemory::attach(pid_t owner, int fd, size_t size) { return attach(owner, fd, size, true, 0); }
SharedMemory SharedMemory::attach_lazily(pid_t owner, int fd, size_t size) { return attach(owner, fd, size, false, 0); }
SharedMemory SharedMemory::attach_to_read(pid_t owner, int fd, size_t size) { return attach(owner, fd, size, true, 0); }

void SharedMemory::provide(const std::byte*, size_t) const {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), fd_(std::move(other.fd_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  fd_ = std::move(other.fd_);
  return *this;
}

SharedMemory::~SharedMemory() = default;

}  // namespace banyan::run
