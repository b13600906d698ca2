// Attacks by control messages, connections and processes.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "banyan/base/error.h"
#include "bench/service/attacks.h"

namespace bench {
namespace {

using banyan::run::FileDescriptor;
namespace service = banyan::service;

FileDescriptor call(const std::string& path) {
  FileDescriptor caller(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) caller.reset();
  return caller;
}

// What a child does until it is killed.
void live_on(const Attack& attack, uint64_t step) {
  if (step == 0) {
    const FileDescriptor silent = call(attack.first);
    for (;;) pause();
  }
  RawTeam team(attack.team(1 << 20));
  if (step == 1) {
    for (;;) pause();
  }
  const auto communicator = team.open(2, step == 2 ? 1 : 3);
  if (step == 3 && fork() == 0) {  // who holds the sockets when its parent has gone
    sleep(1);
    _exit(0);
  }
  for (;;) {
    for (RawTeam::Seat& seat : communicator->seats) {
      team.take(seat);
      if (seat.under_way < 8) team.submit(seat, team.sum_of(seat, (1 << 20) / sizeof(float)));
    }
  }
}

}  // namespace

// As quickly as the daemons answer; every other communicator has ranks on one side only.
void come_and_go(Attack& attack) {
  attack.repeat([&] {
    RawTeam team(attack.team());
    for (uint64_t round = 0; !attack.is_over(); ++round) {
      const auto communicator = team.open(2, round % 2 == 0 ? 3 : 1);
      if (!communicator) {
        ++attack.refused;
        continue;
      }
      for (RawTeam::Seat& seat : communicator->seats) team.submit(seat, team.sum_of(seat, 1));
      team.close(*communicator);
      ++attack.acts;
    }
  });
}

// Some that say nothing, some that say hello.
void take_all_connections(Attack& attack) {
  const rlimit most{.rlim_cur = 65'536, .rlim_max = 65'536};
  if (setrlimit(RLIMIT_NOFILE, &most) != 0) {
    rlimit own{};
    getrlimit(RLIMIT_NOFILE, &own);
    own.rlim_cur = own.rlim_max;
    setrlimit(RLIMIT_NOFILE, &own);
  }
  attack.repeat([&] {
    std::vector<FileDescriptor> silent;
    std::vector<std::unique_ptr<RawClient>> greeted;
    while (!attack.is_over()) {
      FileDescriptor one = call(attack.random() % 2 == 0 ? attack.first : attack.second);
      if (!one.is_open() || silent.size() > 5000) {
        ++attack.refused;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (silent.size() > 5000) silent.clear();
        continue;
      }
      silent.push_back(std::move(one));
      ++attack.acts;
      if (silent.size() % 4 != 0 || greeted.size() >= 2000) continue;
      try {
        greeted.push_back(std::make_unique<RawClient>(attack.first));
      } catch (const banyan::Error&) {
        ++attack.refused;
      }
    }
  });
}

// Very many small ones, very large ones, what is no memory at all, and some that come and go.
void churn_regions(Attack& attack) {
  attack.repeat([&] {
    RawClient client(attack.first);
    const auto offer = [&](int descriptor, uint64_t bytes) {
      const uint64_t wish = client.next_wish();
      client.say(service::OfferRegion{.wish = wish, .bytes = bytes}, descriptor);
      ++attack.acts;
      if (!client.is_granted(wish)) ++attack.refused;
    };
    const auto sparse = [](uint64_t bytes) {
      FileDescriptor memory(memfd_create("attack", MFD_ALLOW_SEALING | MFD_CLOEXEC));
      if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) return FileDescriptor();
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
      return memory;
    };
    offer(sparse(uint64_t{100} << 30).get(), uint64_t{100} << 30);
    for (int i = 0; i < 4096 && !attack.is_over(); ++i) offer(sparse(4096).get(), 4096);
    FileDescriptor peer;
    {
      // There are bytes that nobody takes.
      const FileDescriptor linger = service::lingering_socket(peer, std::chrono::seconds(30));
      client.say(service::OfferRegion{.wish = client.next_wish(), .bytes = 4096}, linger.get());
    }
    const FileDescriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
    offer(nothing.get(), 4096);
    client.say(service::Hello{});  // hangs up
    while (!attack.is_over()) {
      RawClient another(attack.first);
      for (int i = 0; i < 200 && !attack.is_over(); ++i) {
        const RawClient::Memory memory = another.offer(1 << 20);
        another.say(
            service::WithdrawRegion{.place = {.index = memory.name.region, .generation = memory.name.generation}});
        ++attack.acts;
      }
    }
  });
}

void die_anywhere(Attack& attack) {
  while (!attack.is_over()) {
    const uint64_t random = attack.random();
    const pid_t child = fork();
    if (child == 0) {
      try {
        live_on(attack, random % 6);
      } catch (...) {
      }
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random / 8 % 60'000));
    if (random % 3 == 0) {
      kill(child, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    ++attack.acts;
  }
}

}  // namespace bench
