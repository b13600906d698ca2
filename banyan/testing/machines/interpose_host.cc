// Processes and their memory, names of hosts, files, chance.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#define OPENSSL_SUPPRESS_DEPRECATED  // the method of RAND, which has no successor for a whole process
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "banyan/testing/machines/interpose.h"

namespace banyan::testing::machines {

void link_host() {}

bool is_in_libcrypto(const void* address) {
  struct Range {
    uintptr_t begin = 0, end = 0;
  };
  using Ranges = std::array<Range, 2>;
  static const Ranges code = [] {
    Ranges ranges;
    const auto look = [](dl_phdr_info* library, size_t, void* found) {
      const std::string_view name = library->dlpi_name;
      const bool is_libcrypto = name.find("/libcrypto.") != std::string_view::npos;
      if (!is_libcrypto && name.find("/libssl.") == std::string_view::npos) return 0;
      for (int i = 0; i < library->dlpi_phnum; ++i) {
        const auto& part = library->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
        static_cast<Ranges*>(found)->at(is_libcrypto ? 0 : 1) = {library->dlpi_addr + part.p_vaddr,
                                                                 library->dlpi_addr + part.p_vaddr + part.p_memsz};
      }
      return 0;
    };
    dl_iterate_phdr(look, &ranges);
    return ranges;
  }();
  const auto place = reinterpret_cast<uintptr_t>(address);
  return std::any_of(code.begin(), code.end(),
                     [&](const Range& range) { return place >= range.begin && place < range.end; });
}

namespace {

// Files of /proc that are another process's, or the host's, in place of what Linux would tell.
struct Redirected {
  bool is_missing = false;
  std::string path;
};
Redirected redirect(const char* path) {
  constexpr std::string_view kProc = "/proc/";
  const std::string_view text = path;
  if (!text.starts_with(kProc)) return {.path = path};
  int32_t pid = 0;
  const char* const begin = path + kProc.size();
  const auto [end, error] = std::from_chars(begin, path + text.size(), pid);
  if (error != std::errc() || pid < kFirstPid) return {.path = path};
  const Process* const process = world->process_of(pid);
  const bool is_here = process != nullptr && !process->is_over && process->host == world->own().host;
  std::string rest = end;
  const std::string task = "/task/" + std::to_string(pid);  // its first thread
  if (rest.starts_with(task)) rest.replace(0, task.size(), "/task/" + std::to_string(real_calls().getpid()));
  return {.is_missing = !is_here, .path = "/proc/self" + rest};
}

// The boot of a host names it.
int open_boot_id() {
  const std::string id = "simulated-boot-of-host-" + std::to_string(world->own().host) + "\n";
  const int fd = memfd_create("boot_id", MFD_CLOEXEC);
  if (real_calls().write(fd, id.data(), id.size()) < 0) abort();
  lseek(fd, 0, SEEK_SET);
  return fd;
}
bool is_boot_id(const char* path) { return std::string_view(path) == "/proc/sys/kernel/random/boot_id"; }

FILE* open_stream(const char* path, const char* mode) {
  if (is_boot_id(path)) return fdopen(open_boot_id(), mode);
  const Redirected redirected = redirect(path);
  if (!redirected.is_missing) return real_calls().fopen(redirected.path.c_str(), mode);
  errno = ENOENT;
  return nullptr;
}
int open_file(const char* path, int flags, mode_t mode) {
  if (is_boot_id(path)) return open_boot_id();
  const Redirected redirected = redirect(path);
  return redirected.is_missing ? fail(ENOENT) : real_calls().open(redirected.path.c_str(), flags, mode);
}

}  // namespace
}  // namespace banyan::testing::machines

using namespace banyan::testing::machines;  // these are its functions

extern "C" {

// ---- Processes and memory ----

pid_t getpid() noexcept { return is_simulated_here() ? world->own().pid : real_calls().getpid(); }

int kill(pid_t pid, int signal) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().kill(pid, signal);
  Process* const process = world->process_of(pid);
  if (process == nullptr || process->is_over || process->host != world->own().host) return fail(ESRCH);
  if (signal == SIGKILL) world->end(*process);
  return 0;
}

ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals, const iovec* remote,
                         unsigned long remotes, unsigned long flags) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().process_vm_readv(pid, local, locals, remote, remotes, flags);
  const Process* const process = world->process_of(pid);
  if (process == nullptr || process->is_over || process->host != world->own().host) return fail(ESRCH);
  return real_calls().process_vm_readv(real_calls().getpid(), local, locals, remote, remotes, flags);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  const Unfailing scope;
  if (is_simulated_here() && world->own().fails_call()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const mapped = real_calls().mmap(at, size, protection, flags, fd, offset);
  if (mapped != MAP_FAILED && (flags & MAP_SHARED) != 0 && fd >= 0 && is_simulated_here()) {
    world->note_mapping(mapped, size, fd, offset);
  }
  return mapped;
}

int munmap(void* at, size_t size) noexcept {
  const Unfailing scope;
  if (is_simulated_here()) world->forget_mapping(at);
  return real_calls().munmap(at, size);
}

// ---- Names of hosts ----

int gethostname(char* name, size_t size) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().gethostname(name, size);
  std::snprintf(name, size, "%s", world->host(world->own().host).name.c_str());
  return 0;
}

int getifaddrs(ifaddrs** first) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().getifaddrs(first);
  static char name[] = "eth";
  *first = nullptr;
  const std::vector<uint32_t>& own = world->host(world->own().host).addresses;
  for (auto at = own.rbegin(); at != own.rend(); ++at) {
    auto* const entry = static_cast<ifaddrs*>(std::calloc(1, sizeof(ifaddrs)));
    auto* const address = static_cast<sockaddr*>(std::calloc(1, sizeof(sockaddr_in)));
    socklen_t size = sizeof(sockaddr_in);
    put({.ip = *at, .port = 0}, address, &size);
    *entry = {};
    entry->ifa_next = *first;
    entry->ifa_name = name;
    entry->ifa_flags = IFF_UP;
    entry->ifa_addr = address;
    *first = entry;
  }
  return 0;
}

void freeifaddrs(ifaddrs* first) noexcept {
  if (!is_simulated_here()) return real_calls().freeifaddrs(first);
  while (first != nullptr) {
    ifaddrs* const next = first->ifa_next;
    std::free(first->ifa_addr);
    std::free(first);
    first = next;
  }
}

int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  const Entry inside(kCall);
  if (!inside) return real_calls().getaddrinfo(name, service, hints, found);
  in_addr numeric{};
  uint32_t ip = 0;
  if (inet_pton(AF_INET, name, &numeric) == 1) {
    ip = ntohl(numeric.s_addr);
  } else {
    for (uint32_t host = 0; host < world->host_count(); ++host) {
      if (world->host(host).name == name) ip = world->host(host).addresses.front();
    }
  }
  if (ip == 0) return EAI_NONAME;
  auto* const entry = static_cast<addrinfo*>(std::calloc(1, sizeof(addrinfo)));
  auto* const address = static_cast<sockaddr*>(std::calloc(1, sizeof(sockaddr_in)));
  entry->ai_family = AF_INET;
  entry->ai_socktype = SOCK_STREAM;
  entry->ai_addrlen = sizeof(sockaddr_in);
  entry->ai_addr = address;
  put({.ip = ip, .port = 0}, address, &entry->ai_addrlen);
  *found = entry;
  return 0;
}

void freeaddrinfo(addrinfo* found) noexcept {
  if (!is_simulated_here()) return real_calls().freeaddrinfo(found);
  std::free(found->ai_addr);
  std::free(found);
}

// ---- Files ----

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>(va_arg(arguments, int));
  va_end(arguments);
  const Entry inside(kCall);
  return inside ? open_file(path, flags, mode) : real_calls().open(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>(va_arg(arguments, int));
  va_end(arguments);
  const Entry inside(kCall);
  return inside ? open_file(path, flags, mode) : real_calls().open(path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  const Entry inside(kCall);
  return inside ? open_stream(path, mode) : real_calls().fopen(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  const Entry inside(kCall);
  return inside ? open_stream(path, mode) : real_calls().fopen(path, mode);
}

}  // extern "C"

// ---- Memory of processes ----

namespace {

void* allocate(size_t size, size_t alignment) {
  if (is_simulated_here() && !Unfailing::is_here() && world->own().fails_allocation()) return nullptr;
  // A size of zero has an address of its own, too.
  return alignment == 0 ? std::malloc(size == 0 ? 1 : size)
                        : std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
}
void* allocate_or_throw(size_t size, size_t alignment) {
  void* const memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// ---- libcrypto ----

namespace {

int draw_bytes(unsigned char* into, int size) {
  if (!is_simulated_here()) return RAND_OpenSSL()->bytes(into, size);
  for (int i = 0; i < size; ++i) into[i] = static_cast<unsigned char>(world->scheduler().draw(256));
  return 1;
}

void* reallocate(void* memory, size_t size) {
  if (memory == nullptr) return allocate(size, 0);
  if (is_simulated_here() && !Unfailing::is_here() && world->own().fails_allocation()) return nullptr;
  return std::realloc(memory, size);
}

// Its chance is that of the world, and its memory is short as that of the process, libssl's too. Before it allocates
// anything.
[[gnu::constructor(101)]] void take_over_libcrypto() {
  const bool is_ours =
      CRYPTO_set_mem_functions([](size_t size, const char*, int) { return allocate(size, 0); },
                               [](void* memory, size_t size, const char*, int) { return reallocate(memory, size); },
                               [](void* memory, const char*, int) { std::free(memory); }) == 1;
  static const RAND_METHOD chance{
      .seed = nullptr, .bytes = draw_bytes, .cleanup = nullptr, .add = nullptr, .pseudorand = draw_bytes, .status = [] {
        return 1;
      }};
  if (!is_ours || RAND_set_rand_method(&chance) != 1) std::abort();
}

}  // namespace

void* operator new(size_t size) { return allocate_or_throw(size, 0); }
void* operator new[](size_t size) { return allocate_or_throw(size, 0); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
