// attacker: a tenant that means harm, for bench/service/isolation.py.
//
//   attacker --attack 3 --first a.sock --second b.sock --seconds 5
//
// It writes "begun" when it has what it needs, and at the end what it has done: "acts 12345 refused 67". A daemon that
// has gone is status 1.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "banyan/base/error.h"
#include "bench/service/attacks.h"

namespace bench {

void Attack::repeat(const std::function<void()>& body) {
  while (!is_over()) {
    try {
      body();
    } catch (const banyan::Error& error) {
      ++refused;
      if (refused == 1) std::fprintf(stderr, "refused: %s\n", error.what());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

// Eight TCP connections of its own, each as quick as it can be.
void flood_beside(Attack& attack) {
  const banyan::run::FileDescriptor door(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(door.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(door.get(), 16) != 0) return;
  getsockname(door.get(), reinterpret_cast<sockaddr*>(&address), &length);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    auto caller = std::make_shared<banyan::run::FileDescriptor>(socket(AF_INET, SOCK_STREAM, 0));
    if (connect(caller->get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) continue;
    auto callee = std::make_shared<banyan::run::FileDescriptor>(accept(door.get(), nullptr, nullptr));
    threads.emplace_back([&attack, caller] {
      const std::string bytes(1 << 18, 'x');
      while (!attack.is_over()) send(caller->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      shutdown(caller->get(), SHUT_RDWR);
    });
    threads.emplace_back([callee] {
      std::string bytes(1 << 18, 'x');
      while (recv(callee->get(), bytes.data(), bytes.size(), 0) > 0) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void hog_memory(Attack& attack) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&attack] {
      constexpr size_t kBytes = size_t{64} << 20;
      std::vector<char> from(kBytes, 1), to(kBytes, 2);
      while (!attack.is_over()) {
        std::memcpy(to.data(), from.data(), kBytes);
        from[static_cast<size_t>(to[0])] = to[kBytes - 1];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

const std::vector<NamedAttack>& attacks() {
  static const std::vector<NamedAttack> all = {{"256 MiB calls on 8 communicators", flood_links, true},
                                               {"4 B calls, 8 at once on 64 communicators", storm_of_small_calls, true},
                                               {"completions never read", never_read, true},
                                               {"impossible positions in rings", jump_in_rings},
                                               {"random submissions, changed while read", submit_nonsense},
                                               {"memory punched out during calls", take_memory_away},
                                               {"one rank never calls", leave_peers_waiting, true},
                                               {"messages that nobody receives", read_slowly, true},
                                               {"communicators come and go", come_and_go},
                                               {"plans for 64 ranks, all different", ask_for_many_plans},
                                               {"thousands of connections", take_all_connections},
                                               {"thousands of regions, huge ones, churn", churn_regions},
                                               {"killed and stopped at any step", die_anywhere},
                                               {"16 names of tenants", have_many_names, true},
                                               {"doorbells and events in vain", wake_in_vain},
                                               {"own TCP connections beside", flood_beside},
                                               {"copies of 64 MiB beside", hog_memory},
                                               {"capabilities guessed", guess_capabilities},
                                               {"calls in the victim's rhythm", beat_in_time, true},
                                               {"sums of denormal numbers", poison_sums, true}};
  return all;
}

// Takes so much of a core, in pieces of a millisecond: what an attack costs that leaves the daemons alone.
void burn(Attack& attack, double cores) {
  std::vector<std::thread> threads;
  for (; cores > 0; cores -= 1) {
    threads.emplace_back([&attack, part = std::min(cores, 1.0)] {
      using Clock = std::chrono::steady_clock;
      constexpr auto kPeriod = std::chrono::milliseconds(1);
      for (auto next = Clock::now(); !attack.is_over(); next += kPeriod) {
        while (Clock::now() < next + std::chrono::duration_cast<Clock::duration>(part * kPeriod)) {
        }
        std::this_thread::sleep_until(next + kPeriod);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace bench

int main(int count, char** arguments) {
  bench::Attack attack;
  int number = 0;
  double cores = 0;
  uint64_t seed = 1;
  bool lists = false;
  CLI::App app("A tenant that means harm; for bench/service.");
  app.add_option("--attack", number, "which, from 1 to 20")->check(CLI::Range(1, 20));
  app.add_option("--burn", cores, "instead: takes so many cores, and touches no daemon")->check(CLI::Range(0.0, 64.0));
  app.add_option("--first", attack.first, "socket of a daemon");
  app.add_option("--second", attack.second, "socket of another");
  app.add_option("--seconds", attack.seconds, "how long");
  app.add_option("--seed", seed, "of what is random");
  app.add_flag("--list", lists, "names of the attacks");
  CLI11_PARSE(app, count, arguments);
  if (lists) {
    for (const bench::NamedAttack& each : bench::attacks()) std::printf("%s\n", each.name);
    return 0;
  }
  attack.random.seed(seed);
  if (number == 0) {
    bench::burn(attack, cores);
    return 0;
  }
  const bench::NamedAttack& chosen = bench::attacks()[static_cast<size_t>(number) - 1];
  if (!chosen.prepares) attack.say_begun();
  chosen.run(attack);
  std::printf("acts %llu refused %llu\n", static_cast<unsigned long long>(attack.acts),
              static_cast<unsigned long long>(attack.refused));
  return 0;
}
