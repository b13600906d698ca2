#include "banyan/testing/machines/machines.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>

#include "banyan/base/check.h"
#include "banyan/base/text.h"
#include "banyan/testing/machines/interpose.h"
#include "banyan/testing/machines/kernel.h"

namespace banyan::testing::machines {
namespace {

// "10.3.0.1", or the two first numbers of it, as a number.
uint32_t number_of(const std::string& address, size_t parts) {
  const std::vector<std::string_view> words = split(address, '.');
  CHECK_EQ(words.size(), parts) << address;
  uint32_t number = 0;
  for (const std::string_view word : words) {
    uint8_t byte = 0;
    CHECK(std::from_chars(word.data(), word.data() + word.size(), byte).ec == std::errc()) << address;
    number = number << 8 | byte;
  }
  return number;
}

}  // namespace

Machines::Machines(const Options& options) : kernel_(std::make_unique<Kernel>(options)) {
  CHECK(world == nullptr) << "a process has one world";
  link_threads();
  link_sockets();
  link_host();
  world = kernel_.get();
}

// Threads of it may be asleep for ever, and use it.
Machines::~Machines() { static_cast<void>(kernel_.release()); }

uint32_t Machines::add_host(std::vector<std::string> addresses) {
  std::vector<uint32_t> numbers;
  for (const std::string& address : addresses) numbers.push_back(number_of(address, 4));
  return kernel_->add_host(std::move(numbers));
}

uint32_t Machines::add_process(uint32_t host, std::function<void()> main) {
  Process& process = kernel_->add_process(host);
  kernel_->scheduler().start(process, [kernel = kernel_.get(), &process, main = std::move(main)] {
    main();
    const Unfailing scope;
    kernel->end(process);
  });
  return static_cast<uint32_t>(kernel_->process_count() - 1);
}

std::string Machines::run() {
  return kernel_->scheduler().run(std::chrono::nanoseconds(kernel_->options().ends_after).count());
}

std::chrono::nanoseconds Machines::now() const { return std::chrono::nanoseconds(kernel_->scheduler().now()); }

uint64_t Machines::draw(uint64_t n) const { return kernel_->scheduler().draw(n); }

void Machines::after(std::chrono::nanoseconds delay, std::function<void()> event) {
  kernel_->scheduler().after(delay.count(), std::move(event));
}

void Machines::kill_at_call(uint32_t process, uint64_t nth) { kernel_->process(process).dies_at = nth; }
uint64_t Machines::calls(uint32_t process) const { return kernel_->process(process).calls; }

void Machines::fail_call(uint32_t process, uint64_t nth) { kernel_->process(process).calls_left = nth; }
void Machines::fail_allocation(uint32_t process, uint64_t nth) { kernel_->process(process).allocations_left = nth; }

void Machines::kill(uint32_t process) {
  Process& victim = kernel_->process(process);
  if (victim.is_over) return;
  if (victim.in_libcrypto > 0) {
    victim.dies_at = 1;  // so it does at its next call outside of libcrypto
  } else {
    kernel_->end(victim);
  }
}

void Machines::stop(uint32_t process) { kernel_->process(process).is_stopped = true; }
void Machines::go_on(uint32_t process) { kernel_->process(process).is_stopped = false; }
bool Machines::is_alive(uint32_t process) const { return !kernel_->process(process).is_over; }

void Machines::set_way(uint32_t from, uint32_t to, const std::string& network, bool is_open) {
  kernel_->set_way(from, to, network.empty() ? 0 : number_of(network, 2), is_open);
}

void Machines::reset(uint32_t a, uint32_t b) { kernel_->reset(kernel_->process(a), kernel_->process(b)); }

size_t Machines::open_descriptors(uint32_t process) const { return kernel_->descriptors_of(kernel_->process(process)); }

std::string run_world(const std::function<std::string()>& body, std::chrono::seconds at_most) {
  std::array<int, 2> ends{};
  CHECK_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  CHECK(child >= 0) << "fork";
  if (child == 0) {
    ::close(ends[0]);
    alarm(static_cast<unsigned>(at_most.count()));
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("thrown: ") + error.what();
    }
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    text += signal == SIGALRM ? "the world has not ended in real time" : std::string("killed by ") + strsignal(signal);
  } else if (WEXITSTATUS(status) != 0) {
    text += "ended by status " + std::to_string(WEXITSTATUS(status));
  }
  return text;
}

}  // namespace banyan::testing::machines
