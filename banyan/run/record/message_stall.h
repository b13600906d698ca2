// Stalls of messages between two ranks: which rank does not send what another waits for, or does not receive what
// another waits to send. A part of the diagnosis of stalls (stall.h); pure.
//
// A rank that waits for a message is to blame for nothing. Its peer is to blame if it has begun fewer sends, or has no
// receive open, and waits for something else than a message, or for nothing: then the peer is named, with what it has
// sent and where it is. If all that wait for messages wait for each other, the circle is named: two that both send
// before they receive, or both receive before they send. A message that its peer has sent, or has a receive open for,
// is said to be on its way, where nothing else explains why all stand still.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "banyan/run/record/stall.h"

namespace banyan::run {

using StatesByRank = std::map<uint32_t, const RankState*>;

// The kind is FindingKind::message. Nothing where no rank waits for a message, or where calls of all ranks explain it.
std::optional<Stall> diagnose_messages(const StatesByRank& states);

// "waits to send 400,000 bytes (tag 0) to rank 1", "waits for message 20 of rank 1 (tag 0)": the message that it waits
// for. Empty where there is none.
std::string words_of_wait(const RankState& state);
// The messages under way besides, such as "also open: receive of 4 bytes (tag 1) from rank 2, ..."; empty: none.
std::string words_of_open_messages(const RankState& state);

}  // namespace banyan::run
