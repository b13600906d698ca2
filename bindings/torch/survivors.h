// Survivors: who is left of a group of which ranks have died, and a line among them, by which they can agree where to
// meet anew.
#pragma once

#include <string>
#include <vector>

#include "banyan/run/communicator/communicator.h"

namespace banyan::pytorch {

// One thread.
class Survivors {
 public:
  // Collective over the communicator, which has just been made of who lives. `rank` was this one's in a group of
  // `size`.
  Survivors(run::Communicator communicator, int rank, int size);

  int rank() const { return static_cast<int>(communicator_.rank()); }
  int size() const { return static_cast<int>(communicator_.size()); }
  // Ranks in the former group: those that live, in the order of their new ranks, and those that do not.
  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<int>& lost() const { return lost_; }

  // An address of this process by which all others of them reach it: the loopback where all are in one network.
  std::string own_address() const;
  // Collective: what rank 0 says, at all. Throws CommunicationError when one more has died.
  std::string spread(std::string text);

 private:
  run::Communicator communicator_;
  std::vector<int> ranks_, lost_;
};

}  // namespace banyan::pytorch
