#include "lab/link_queue.h"

#include "banyan/testing/test.h"

namespace banyan::lab {
namespace {

constexpr const char* kBucket = "qdisc replace dev cable3 root tbf rate 200000000bit burst 32768 latency 50ms\n";
constexpr const char* kFastBucket = "qdisc replace dev cable3 root tbf rate 800000000bit burst 100000 latency 50ms\n";
constexpr const char* kCut = "qdisc replace dev cable3 root blackhole\n";
constexpr const char* kTwoClasses =
    "qdisc replace dev cable3 root blackhole\n"
    "qdisc replace dev cable3 root handle 1: htb default 20\n"
    "class add dev cable3 parent 1: classid 1:1 htb rate 200000000bit ceil 200000000bit burst 32768 cburst 32768 "
    "quantum 32768\n"
    "class add dev cable3 parent 1:1 classid 1:10 htb prio 0 rate 190000000bit ceil 200000000bit burst 32768 "
    "cburst 32768 quantum 32768\n"
    "qdisc add dev cable3 parent 1:10 handle 10: bfifo limit 1282768\n"
    "filter add dev cable3 parent 1: protocol ip prio 1 u32 match ip dsfield 0x80 0x80 flowid 1:10\n"
    "filter add dev cable3 parent 1: protocol ipv6 prio 2 u32 match ip6 priority 0x80 0x80 flowid 1:10\n"
    "class add dev cable3 parent 1:1 classid 1:20 htb prio 1 rate 10000000bit ceil 200000000bit burst 32768 "
    "cburst 32768 quantum 32768\n"
    "qdisc add dev cable3 parent 1:20 handle 20: bfifo limit 1282768\n";
constexpr const char* kThreeClasses =
    "qdisc replace dev cable3 root blackhole\n"
    "qdisc replace dev cable3 root handle 1: htb default 20\n"
    "class add dev cable3 parent 1: classid 1:1 htb rate 8000bit ceil 8000bit burst 32768 cburst 32768 quantum 32768\n"
    "class add dev cable3 parent 1:1 classid 1:10 htb prio 0 rate 7200bit ceil 8000bit burst 32768 cburst 32768 "
    "quantum 32768\n"
    "qdisc add dev cable3 parent 1:10 handle 10: bfifo limit 32818\n"
    "filter add dev cable3 parent 1: protocol ip prio 1 u32 match ip dsfield 0x80 0x80 flowid 1:10\n"
    "filter add dev cable3 parent 1: protocol ipv6 prio 2 u32 match ip6 priority 0x80 0x80 flowid 1:10\n"
    "class add dev cable3 parent 1:1 classid 1:20 htb prio 1 rate 400bit ceil 8000bit burst 32768 cburst 32768 "
    "quantum 32768\n"
    "qdisc add dev cable3 parent 1:20 handle 20: bfifo limit 32818\n"
    "class add dev cable3 parent 1:1 classid 1:30 htb prio 2 rate 400bit ceil 8000bit burst 32768 cburst 32768 "
    "quantum 32768\n"
    "qdisc add dev cable3 parent 1:30 handle 30: bfifo limit 32818\n"
    "filter add dev cable3 parent 1: protocol ip prio 1 u32 match ip dsfield 0x20 0xe0 flowid 1:30\n"
    "filter add dev cable3 parent 1: protocol ipv6 prio 2 u32 match ip6 priority 0x20 0xe0 flowid 1:30\n"
    "filter add dev cable3 parent 1: protocol ip prio 1 u32 match ip dsfield 0x04 0xfc flowid 1:30\n"
    "filter add dev cable3 parent 1: protocol ipv6 prio 2 u32 match ip6 priority 0x04 0xfc flowid 1:30\n";

struct Row {
  const char* name;
  LinkQueue queue;
  const char* commands;
};

class LinkQueueTable : public ::testing::TestWithParam<Row> {};

TEST_P(LinkQueueTable, IsMadeByTheseCommands) {
  EXPECT_EQ(queue_commands("cable3", GetParam().queue), GetParam().commands);
}

INSTANTIATE_TEST_SUITE_P(
    LinkQueue, LinkQueueTable,
    ::testing::Values(
        Row{.name = "Plain", .queue = {.bytes_per_second = 25'000'000}, .commands = kBucket},
        Row{.name = "FastPlain", .queue = {.bytes_per_second = 100'000'000}, .commands = kFastBucket},
        Row{.name = "Cut", .queue = {.bytes_per_second = 25'000'000, .is_cut = true}, .commands = kCut},
        Row{.name = "CutWithClasses",
            .queue = {.bytes_per_second = 25'000'000, .classes = 3, .is_cut = true},
            .commands = kCut},
        Row{.name = "TwoClasses", .queue = {.bytes_per_second = 25'000'000, .classes = 2}, .commands = kTwoClasses},
        Row{.name = "ThreeClassesOfTheSlowestLink",
            .queue = {.bytes_per_second = 1000, .classes = 3},
            .commands = kThreeClasses}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace banyan::lab
