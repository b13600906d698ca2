// The kinds of messages that agents send each other over their connections, each with its reader and its contents.
#pragma once

#include <cstdint>

namespace banyan::run::message {

enum Kind : uint8_t {
  // Hub (hub.cc)
  gone = 1,        // rank, health (left or dead, as a word), why, 1 (certain) or 0, else ranks that live (hub.h)
  gone_confirmed,  // rank that leaves: the sender knows, and all whom it tells
  ended,           // rank, why: its process has ended; asks the hub whether it had left before
  silence,         // rank, 1 or 0 (it answers again), why
  expecting,       // 1 or 0: the sender waits for something
  ping,
  pong,  // nothing
  // StateQueries (state_queries.cc)
  ask,                  // asker, number, communicator, 1 to pass it on to all
  answer,               // asker, number, rank that answers, 1 or 0 (knows no such communicator), text
  broadcast,            // asker, number, communicator, reason, 1 to pass it on to all
  broadcast_confirmed,  // number
  // Membership (membership.cc)
  agreement,  // epoch, and what agreement.h says
  // Suspicion (suspicion.cc)
  ask_sign,      // rank: does it give a sign of life there?
  sign_of_life,  // rank: it does, since that question
};

}  // namespace banyan::run::message
