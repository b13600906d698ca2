// Attacks by what no client library would do: rings, descriptors and memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/run/call/operation.h"
#include "bench/service/attacks.h"

namespace bench {
namespace {

using banyan::run::SharedMemory;
namespace service = banyan::service;

uint64_t some_number(Attack& attack) {
  const uint64_t random = attack.random();
  switch (random % 6) {
    case 0:
      return random;
    case 1:
      return UINT64_MAX - random % 64;
    case 2:
      return uint64_t{1} << (random / 8 % 64);
    case 3:
      return random % 64;
    default:
      return (uint64_t{1} << 63) + random % 1024;
  }
}

// A submission of which some fields are right.
Submission half_sense(Attack& attack, const RawTeam& team, const RawTeam::Seat& seat) {
  Submission wish = team.sum_of(seat, 1);
  wish.sequence = 1;
  auto* const bytes = reinterpret_cast<uint8_t*>(&wish);
  const uint64_t changes = attack.random() % 8 + 1;
  for (uint64_t i = 0; i < changes; ++i) {
    const uint64_t random = attack.random();
    if (random % 3 == 0) {
      const uint64_t number = some_number(attack);
      std::memcpy(bytes + random / 3 % (sizeof wish / 8) * 8, &number, sizeof number);
    } else {
      bytes[random / 3 % sizeof wish] = static_cast<uint8_t>(random >> 32);
    }
  }
  return wish;
}

}  // namespace

void jump_in_rings(Attack& attack) {
  attack.repeat([&] {
    RawTeam team(attack.team());
    while (!attack.is_over()) {
      const auto communicator = team.open();
      if (!communicator) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      for (RawTeam::Seat& seat : communicator->seats) {
        seat.page->submissions[0] = team.sum_of(seat, 1);
        for (int jumps = 0; jumps < 16; ++jumps) {
          const uint64_t random = attack.random();
          (random % 2 == 0 ? seat.page->submitted : seat.page->taken).store(some_number(attack));
          if (random % 5 == 0) seat.page->client_sleeps.store(static_cast<uint32_t>(random));
          team.side(seat.side).ring(seat.session);
          ++attack.acts;
        }
      }
      team.close(*communicator);
    }
    attack.refused += team.refused();
  });
}

// Random descriptors, and one thread that changes them while they are read.
void submit_nonsense(Attack& attack) {
  attack.repeat([&] {
    RawTeam team(attack.team());
    while (!attack.is_over()) {
      const auto communicator = team.open();
      if (!communicator) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      std::atomic<bool> stops = false;
      std::thread changer([&, seed = attack.random()] {
        std::mt19937_64 random(seed);
        while (!stops) {
          for (RawTeam::Seat& seat : communicator->seats) {
            auto* const words = reinterpret_cast<uint64_t*>(seat.page->submissions);
            std::atomic_ref<uint64_t>(words[random() % 16]).store(random() % 4, std::memory_order_relaxed);
          }
        }
      });
      for (RawTeam::Seat& seat : communicator->seats) {
        for (int calls = 0; calls < 4; ++calls) {
          if (!seat.rings->has_room()) break;
          team.submit(seat, half_sense(attack, team, seat));
          ++attack.acts;
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      stops = true;
      changer.join();
      team.close(*communicator);
    }
    attack.refused += team.refused();
  });
}

// Memory that is cut off, which its seals forbid, and punched out again and again, which they do not.
void take_memory_away(Attack& attack) {
  constexpr size_t kBytes = 4 << 20;
  attack.repeat([&] {
    RawTeam team(attack.team(kBytes));
    const auto communicator = team.open();
    if (!communicator) throw banyan::Error(banyan::ErrorCode::unsupported, "refused");
    while (!attack.is_over()) {
      for (RawTeam::Seat& seat : communicator->seats) {
        attack.acts += team.take(seat);
        if (seat.under_way < 2) team.submit(seat, team.sum_of(seat, kBytes / sizeof(float)));
        for (const RawClient::Memory* memory : {&team.input(seat.side), &team.output(seat.side)}) {
          // As FALLOC_FL_PUNCH_HOLE, through the mapping.
          madvise(memory->data(), memory->size(), MADV_REMOVE);
        }
      }
    }
  });
}

// Every doorbell and the event are set again and again, with nothing behind them.
void wake_in_vain(Attack& attack) {
  attack.repeat([&] {
    RawTeam team(attack.team());
    const auto communicator = team.open();
    for (uint32_t number = 0; number < 2; ++number) fcntl(team.side(number).event(), F_SETFL, 0);
    while (!attack.is_over()) {
      for (uint32_t number = 0; number < 2; ++number) {
        RawClient& side = team.side(number);
        for (auto& word : side.doorbell().sessions) word.store(UINT64_MAX, std::memory_order_relaxed);
        side.doorbell().groups.store(UINT64_MAX);
        side.set_event();
        // Without O_NONBLOCK whoever reads it when it is 0 waits; this makes it 0.
        uint64_t count = 0;
        fcntl(side.event(), F_SETFL, O_NONBLOCK);
        if (read(side.event(), &count, sizeof count) > 0) ++attack.acts;
        fcntl(side.event(), F_SETFL, 0);
      }
    }
  });
}

// Ranks of communicators whose capability is guessed, or that of another job of this process, and ranks of others.
void guess_capabilities(Attack& attack) {
  attack.repeat([&] {
    RawClient client(attack.first);
    const RawClient other(attack.second);
    const RawClient::Memory page = client.offer(sizeof(SessionPage));
    while (!attack.is_over()) {
      service::OpenSession wish;
      wish.wish = client.next_wish();
      wish.session = static_cast<uint32_t>(attack.random() % 4096);
      wish.page = page.name;
      wish.communicator = attack.random() % 4;
      wish.members = {0, 1};
      wish.job_size = 2;
      wish.hosts = {client.welcome().host, other.welcome().host};
      wish.host_of_rank = {0, 1};
      wish.timeout = wish.join_timeout = 1000;
      if (attack.random() % 2 == 0) wish.capability = client.welcome().capability;
      for (uint8_t& byte : wish.capability) {
        if (attack.random() % 4 == 0) byte = static_cast<uint8_t>(attack.random());
      }
      client.say(wish);
      const bool is_open = client.is_granted(wish.wish);
      if (!is_open) ++attack.refused;
      auto* const rings = reinterpret_cast<SessionPage*>(page.data());
      if (is_open) {
        Submission& barrier = rings->submissions[0];
        barrier = {};
        barrier.kind = static_cast<uint8_t>(banyan::run::OperationKind::barrier);
        barrier.sequence = 1;
        rings->submitted.store(1);
        client.ring(wish.session);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        client.say(service::CloseSession{.session = wish.session});
      }
      std::memset(static_cast<void*>(rings), 0, sizeof *rings);
      ++attack.acts;
    }
  });
}

}  // namespace bench
