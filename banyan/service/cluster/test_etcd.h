// Cards, and waits, for the tests of cards in folders and in etcd.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "banyan/service/cluster/host_directory.h"

namespace banyan::service {

inline HostCard card_of(const std::string& host, uint16_t port = 4711) {
  return {.host = host, .name = "node of " + host, .addresses = {"10.1.2.3", "fe80::1"}, .port = port};
}

inline std::vector<std::string> hosts_of(HostDirectory& directory) {
  std::vector<std::string> hosts;
  for (const HostCard& card : directory.cards().cards) hosts.push_back(card.host);
  return hosts;
}

// Whether it comes true in the time that a test waits for anything.
template <typename Condition>
bool comes_true(const Condition& condition, std::chrono::seconds within = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace banyan::service
