// The simulated kernel does what Linux does, and the same seed does the same.
#include "banyan/testing/machines/machines.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

namespace banyan::testing::machines {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr uint16_t kPort = 4000;

sockaddr_in address_of(const char* ip, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, ip, &address.sin_addr);
  return address;
}

int listen_at(const char* ip) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = address_of(ip, kPort);
  const bool is_bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return is_bound && listen(fd, 10) == 0 ? fd : -1;
}

int call(const char* ip) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = address_of(ip, kPort);
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? fd : -1;
}

// The bytes until the end, or until an error, whose text follows in brackets.
std::string read_all(int fd) {
  std::string text;
  char buffer[100];
  for (;;) {
    const ssize_t count = recv(fd, buffer, sizeof buffer, 0);
    if (count == 0) return text;
    if (count < 0) return text + "[" + std::strerror(errno) + "]";
    text.append(buffer, static_cast<size_t>(count));
  }
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

std::string numbers(size_t most) {
  std::string text;
  for (size_t i = 0; i < most; ++i) text += std::to_string(i) + " ";
  return text;
}

// What the two processes of a world tell, one on each of two hosts: the first listens at 10.1.0.1, the second calls.
struct Pair {
  std::function<std::string(int listener)> callee;
  std::function<std::string()> caller;
  std::function<void(Machines&)> events = [](Machines&) {};
};

std::string run_pair(uint64_t seed, const Pair& pair) {
  return run_world([&] {
    Machines machines({.seed = seed});
    machines.add_host({"10.1.0.1"});
    machines.add_host({"10.1.0.2"});
    std::string callee = "nothing", caller = "nothing";
    machines.add_process(0, [&] { callee = pair.callee(listen_at("0.0.0.0")); });
    machines.add_process(1, [&] {
      std::this_thread::sleep_for(milliseconds(100));
      caller = pair.caller();
    });
    pair.events(machines);
    const std::string why = machines.run();
    return "callee: " + callee + "; caller: " + caller + (why.empty() ? "" : "; " + why);
  });
}

TEST(Machines, CarryAllBytesInOrderWhateverTheSeed) {
  const std::string text = numbers(20'000);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Pair pair{.callee =
                        [&](int listener) {
                          const int fd = accept4(listener, nullptr, nullptr, 0);
                          const bool is_right = read_all(fd) == text;
                          write_all(fd, "done");
                          close(fd);
                          return std::string(is_right ? "right" : "wrong");
                        },
                    .caller =
                        [&] {
                          const int fd = call("10.1.0.1");
                          write_all(fd, text);
                          shutdown(fd, SHUT_WR);
                          return read_all(fd);
                        }};
    EXPECT_EQ(run_pair(seed, pair), "callee: right; caller: done");
  }
}

TEST(Machines, RefuseCallsWhereNobodyListens) {
  const Pair pair{.callee = [](int listener) { return std::string(close(listener) == 0 ? "closed" : "?"); },
                  .caller = [] { return std::string(call("10.1.0.1") < 0 ? std::strerror(errno) : "connected"); }};
  EXPECT_EQ(run_pair(3, pair), "callee: closed; caller: Connection refused");
}

TEST(Machines, TellOfTheEndOfAPeerAndOfAReset) {
  // The callee ends: at its end all bytes have arrived; with bytes that it has not read, it resets.
  const auto callee = [](bool reads) {
    return [reads](int listener) {
      const int fd = accept4(listener, nullptr, nullptr, 0);
      char byte;
      if (reads) {
        if (recv(fd, &byte, 1, 0) != 1) return std::string("?");
      } else {
        std::this_thread::sleep_for(seconds(1));
      }
      write_all(fd, "bye");
      return std::string("ended");
    };
  };
  const auto caller = [] {
    const int fd = call("10.1.0.1");
    write_all(fd, "x");
    return read_all(fd);
  };
  EXPECT_EQ(run_pair(4, {.callee = callee(true), .caller = caller}), "callee: ended; caller: bye");
  EXPECT_EQ(run_pair(4, {.callee = callee(false), .caller = caller}),
            "callee: ended; caller: bye[Connection reset by peer]");
}

TEST(Machines, LoseConnectionsAcrossACutOnlyAfterTheUserTimeout) {
  for (const int cut_seconds : {2, 20}) {
    const Pair pair{.callee =
                        [](int listener) {
                          const int fd = accept4(listener, nullptr, nullptr, 0);
                          const unsigned user_timeout = 8000;
                          setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
                          std::this_thread::sleep_for(seconds(2));
                          write_all(fd, "after the cut");
                          shutdown(fd, SHUT_WR);
                          return read_all(fd);
                        },
                    .caller =
                        [] {
                          const int fd = call("10.1.0.1");
                          const std::string text = read_all(fd);
                          return text;
                        },
                    .events =
                        [&](Machines& machines) {
                          machines.after(seconds(1), [&] { machines.set_way(0, 1, "", false); });
                          machines.after(seconds(1 + cut_seconds), [&] { machines.set_way(0, 1, "", true); });
                          machines.after(seconds(60), [&] { machines.kill(1); });
                        }};
    if (cut_seconds == 2) {
      EXPECT_EQ(run_pair(5, pair), "callee: ; caller: after the cut");
    } else {
      EXPECT_EQ(run_pair(5, pair), "callee: [Connection timed out]; caller: nothing");
    }
  }
}

TEST(Machines, RunThreadsWithLocksConditionsAndFutures) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string text = run_world([&] {
      Machines machines({.seed = seed});
      machines.add_host({"10.1.0.1"});
      int sum = 0;
      machines.add_process(0, [&] {
        std::mutex mutex;
        std::condition_variable changed;
        std::promise<int> promise;
        std::vector<std::thread> threads;
        for (int i = 1; i <= 4; ++i) {
          threads.emplace_back([&, i] {
            for (int round = 0; round < 50; ++round) {
              const std::lock_guard lock(mutex);
              const int before = sum;
              std::this_thread::yield();
              sum = before + i;
              changed.notify_all();
            }
          });
        }
        threads.emplace_back([&] {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return sum >= 500; });
          promise.set_value(sum);
        });
        if (promise.get_future().get() != 500) sum = -1;
        for (std::thread& thread : threads) thread.join();
      });
      const std::string why = machines.run();
      return why + std::to_string(sum);
    });
    EXPECT_EQ(text, "500");
  }
}

TEST(Machines, SayWhoWaitsForWhatWhenNothingCanHappen) {
  const std::string text = run_world([] {
    Machines machines({.seed = 1});
    machines.add_host({"10.1.0.1"});
    machines.add_process(0, [] {
      const int fd = eventfd(0, 0);
      uint64_t count = 0;
      if (read(fd, &count, sizeof count) > 0) abort();
    });
    return machines.run();
  });
  EXPECT_THAT(text, HasSubstr("the world stands still: process 5000001 waits for a descriptor"));
}

TEST(Machines, DoTheSameForTheSameSeed) {
  const auto trace = [](uint64_t seed) {
    return run_world([&] {
      Machines machines({.seed = seed});
      machines.add_host({"10.1.0.1"});
      std::string order;
      machines.add_process(0, [&] {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
          threads.emplace_back([&order, i] {
            for (int round = 0; round < 5; ++round) {
              order += static_cast<char>('a' + i);
              std::this_thread::yield();
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
      });
      const std::string why = machines.run();
      return why + order + std::to_string(machines.now().count());
    });
  };
  EXPECT_EQ(trace(7), trace(7));
  EXPECT_NE(trace(7), trace(8));
}

}  // namespace
}  // namespace banyan::testing::machines
