// LinkQueue: how an end of a cable sends: no faster than its rate, and by classes where these were asked for. Makes the
// lines that tc reads, and runs nothing.
//
// Without classes, a token bucket (tbf) with one queue of 50 ms. With classes, a tree of htb: each class has a rate
// that is its own, and beyond it takes what the others leave, the highest first, up to the rate of the link. Every
// class has a queue of its own, as long as the one without classes. The DS field of a packet (RFC 2474) chooses the
// class:
//
//   class    of 2    of 3    DSCP
//   high     95 %    90 %    32 to 63: CS4 to CS7, AF41 to AF43, EF
//   normal    5 %     5 %    all others, and what has no DS field
//   low               5 %    8 to 15: CS1, AF11 to AF13 (RFC 4594's high-throughput data); 1: LE (RFC 8622)
//
// The percentage is what a class has at least when the link is full. With two classes, low packets are in the normal
// one.
#pragma once

#include <cstdint>
#include <string>

namespace banyan::lab {

inline constexpr uint32_t kMostClasses = 3;

// One DSCP for each class, for those who mark packets: the upper six bits of IP_TOS and IPV6_TCLASS.
inline constexpr uint8_t kHighDscp = 34;  // AF41
inline constexpr uint8_t kNormalDscp = 0;
inline constexpr uint8_t kLowDscp = 8;  // CS1

// The part of a link, in percent, that each class but the highest has to itself.
inline constexpr uint64_t kGuaranteedPercent = 5;

struct LinkQueue {
  uint64_t bytes_per_second = 0;
  uint32_t classes = 1;  // 1: none; at most kMostClasses
  bool is_cut = false;   // swallows everything
};

// Packets that the kernel makes of several are no larger than this.
inline constexpr uint32_t kLargestPacket = 32 << 10;

// For `tc -batch`: makes the interface send so, whatever it did before.
std::string queue_commands(const std::string& interface, const LinkQueue& queue);

}  // namespace banyan::lab
