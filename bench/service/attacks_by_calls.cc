// Attacks by calls that any tenant may make.
#include <cstring>
#include <memory>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/element/data_type.h"
#include "banyan/run/call/operation.h"
#include "bench/service/attacks.h"

namespace bench {
namespace {

using banyan::run::OperationKind;
using Communicators = std::vector<std::unique_ptr<RawTeam::Communicator>>;

constexpr auto kPause = std::chrono::microseconds(100);

Communicators open_some(Attack& attack, RawTeam& team, size_t count, const std::string& tenants = {}) {
  Communicators some;
  while (some.size() < count) {
    auto communicator = team.open(2, 3, tenants.empty() ? tenants : tenants + std::to_string(some.size()));
    if (!communicator) break;
    some.push_back(std::move(communicator));
  }
  attack.refused += team.refused();
  attack.say_begun();
  return some;
}

// All ranks make calls, as many at once as is allowed, and read what comes. `rests`: between two looks at all, when
// nothing has moved.
void call_on_and_on(Attack& attack, RawTeam& team, Communicators& communicators, uint64_t floats, uint32_t depth) {
  while (!attack.is_over()) {
    bool moved = false;
    for (auto& communicator : communicators) {
      for (RawTeam::Seat& seat : communicator->seats) {
        const uint32_t done = team.take(seat);
        attack.acts += done;
        moved |= done > 0;
        while (seat.under_way < depth && team.submit(seat, team.sum_of(seat, floats))) moved = true;
      }
    }
    if (!moved) std::this_thread::sleep_for(kPause);
  }
}

void fill_with_floats(const RawClient::Memory& memory, float value) {
  auto* const floats = reinterpret_cast<float*>(memory.data());
  for (size_t i = 0; i < memory.size() / sizeof(float); ++i) floats[i] = value;
}

}  // namespace

void flood_links(Attack& attack) {
  constexpr size_t kBytes = size_t{256} << 20;
  attack.repeat([&] {
    RawTeam team(attack.team(kBytes));
    Communicators communicators = open_some(attack, team, 8);
    call_on_and_on(attack, team, communicators, kBytes / sizeof(float), 2);
  });
}

void storm_of_small_calls(Attack& attack) {
  attack.repeat([&] {
    RawTeam team(attack.team());
    Communicators communicators = open_some(attack, team, 64);
    call_on_and_on(attack, team, communicators, 1, 8);
  });
}

// Messages to oneself need nobody else, so nothing but the daemon limits how many are completed and not read.
void never_read(Attack& attack) {
  attack.repeat([&] {
    RawTeam team(attack.team());
    Communicators communicators = open_some(attack, team, 16);
    while (!attack.is_over()) {
      bool moved = false;
      for (auto& communicator : communicators) {
        for (RawTeam::Seat& seat : communicator->seats) {
          Submission message = team.sum_of(seat, 1);
          message.other = seat.rank;
          message.kind = static_cast<uint8_t>(OperationKind::send);
          if (!team.submit(seat, message)) continue;
          message.kind = static_cast<uint8_t>(OperationKind::recv);
          team.submit(seat, message);
          moved = true;
          ++attack.acts;
        }
      }
      if (!moved) std::this_thread::sleep_for(kPause);
    }
  });
}

void leave_peers_waiting(Attack& attack) {
  constexpr size_t kBytes = 4 << 20;
  attack.repeat([&] {
    RawTeam team(attack.team(kBytes));
    Communicators communicators = open_some(attack, team, 32);
    for (auto& communicator : communicators) {
      RawTeam::Seat& seat = communicator->seats.front();
      while (seat.under_way < 8 && team.submit(seat, team.sum_of(seat, kBytes / sizeof(float)))) ++attack.acts;
    }
    while (!attack.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
}

// Messages of one tag that nobody receives, before one of another tag that somebody waits for: the daemon of the
// receiver has to keep them. And a receiver that takes one of these in a second.
void read_slowly(Attack& attack) {
  constexpr size_t kBytes = 16 << 20;
  attack.repeat([&] {
    RawTeam team(attack.team(kBytes));
    Communicators communicators = open_some(attack, team, 8);
    const auto message = [&](const RawTeam::Seat& seat, OperationKind kind, uint32_t tag) {
      Submission said = team.sum_of(seat, kBytes / sizeof(float));
      said.kind = static_cast<uint8_t>(kind);
      said.other = 1 - seat.rank;
      said.tag = tag;
      return said;
    };
    for (auto& communicator : communicators) {
      RawTeam::Seat& receiver = communicator->seats.back();
      team.submit(receiver, message(receiver, OperationKind::recv, 2));
    }
    auto next = std::chrono::steady_clock::now();
    while (!attack.is_over()) {
      const bool is_time = std::chrono::steady_clock::now() >= next;
      if (is_time) next += std::chrono::seconds(1);
      for (auto& communicator : communicators) {
        RawTeam::Seat &sender = communicator->seats.front(), &receiver = communicator->seats.back();
        attack.acts += team.take(sender);
        team.take(receiver);
        if (sender.under_way < 8) team.submit(sender, message(sender, OperationKind::send, 1));
        if (is_time) team.submit(receiver, message(receiver, OperationKind::recv, 1));
      }
      std::this_thread::sleep_for(kPause);
    }
  });
}

// Other kinds, roots and sizes each time, in communicators of 64 ranks that are new each time.
void ask_for_many_plans(Attack& attack) {
  constexpr uint32_t kRanks = 64;
  constexpr OperationKind kKinds[] = {OperationKind::all_reduce, OperationKind::broadcast, OperationKind::reduce};
  attack.repeat([&] {
    RawTeam team(attack.team(1 << 20, 4 * kRanks));
    while (!attack.is_over()) {
      const auto communicator = team.open(kRanks);
      if (!communicator) {
        ++attack.refused;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      for (uint32_t call = 0; call < 8; ++call) {
        const uint64_t count = attack.random() % 1000 + 1;
        const OperationKind kind = kKinds[attack.random() % std::size(kKinds)];
        const auto root = static_cast<uint32_t>(attack.random() % kRanks);
        for (RawTeam::Seat& seat : communicator->seats) {
          Submission wish = team.sum_of(seat, count);
          wish.kind = static_cast<uint8_t>(kind);
          wish.other = kind == OperationKind::all_reduce ? 0 : root;
          team.submit(seat, wish);
        }
        ++attack.acts;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      team.close(*communicator);
    }
  });
}

// Shares belong to tenants; a user may call itself what it likes.
void have_many_names(Attack& attack) {
  constexpr size_t kBytes = 4 << 20;
  attack.repeat([&] {
    RawTeam team(attack.team(kBytes));
    Communicators communicators = open_some(attack, team, 16, "0/victim");
    call_on_and_on(attack, team, communicators, kBytes / sizeof(float), 1);
  });
}

// A training job like the victim's, whose calls begin when the victim's may.
void beat_in_time(Attack& attack) {
  constexpr size_t kBytes = 4 << 20;
  attack.repeat([&] {
    RawTeam team(attack.team(kBytes));
    Communicators communicators = open_some(attack, team, 4);
    while (!attack.is_over()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (auto& communicator : communicators) {
        for (RawTeam::Seat& seat : communicator->seats) team.submit(seat, team.sum_of(seat, kBytes / sizeof(float)));
      }
      bool is_done = false;
      while (!is_done && !attack.is_over()) {
        is_done = true;
        for (auto& communicator : communicators) {
          for (RawTeam::Seat& seat : communicator->seats) {
            attack.acts += team.take(seat);
            is_done &= seat.under_way == 0;
          }
        }
        if (!is_done) std::this_thread::sleep_for(kPause);
      }
    }
  });
}

// Numbers so small that processors add them slowly.
void poison_sums(Attack& attack) {
  constexpr size_t kBytes = 4 << 20;
  constexpr float kDenormal = 1e-40F;
  attack.repeat([&] {
    RawTeam team(attack.team(kBytes));
    for (uint32_t side = 0; side < 2; ++side) fill_with_floats(team.input(side), kDenormal);
    Communicators communicators = open_some(attack, team, 4);
    call_on_and_on(attack, team, communicators, kBytes / sizeof(float), 2);
  });
}

}  // namespace bench
