// FairQueue: who is served next, by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996).
//
// Each client has a weight. A piece of work of cost c that is served to client k gets the start tag S = max(V, F_k) and
// the finish tag F_k = S + c / weight_k; of all that wait, the client with the least start tag is served; V, the virtual
// time, is the start tag of what is in service. So of two clients that always have work, what they got, each divided by
// its weight, differs by no more than max_a / weight_a + max_b / weight_b, where max is the largest cost. Who was idle
// neither saves up nor pays for it, since V went on. Weights may change at any time and count from the next piece on.
//
// Costs may be bytes, seconds of a link or of a core. Ties go to the lower number. One thread. serve() takes time
// O(log n).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace banyan::service {

class FairQueue {
 public:
  using Client = uint32_t;

  // From now on; a new client begins at the virtual time. `weight` > 0.
  void set_weight(Client client, double weight);
  // It leaves; what it got counts no more.
  void remove(Client client);
  // Whether it has work. One that was idle begins at the virtual time, or at its own finish tag where that is later.
  void set_waiting(Client client, bool is_waiting);
  bool is_waiting(Client client) const;

  // Whose turn it is; nothing when nobody waits. Asking changes nothing.
  std::optional<Client> next() const;
  // The client, which waits, got work of this cost; it still waits afterwards. It need not be the next one: who serves
  // somebody else (since the next one could not use it now) moves that client's own tags only.
  void serve(Client client, double cost);

  double virtual_time() const { return virtual_time_; }
  // How far this client is ahead of the virtual time, in cost per weight; negative: behind.
  double lead(Client client) const;

 private:
  struct State {
    double weight = 1, finish = 0;
    bool is_waiting = false;
  };
  double start_of(const State& state) const;

  std::map<Client, State> clients_;
  std::set<std::pair<double, Client>> waiting_;  // by start tag
  double virtual_time_ = 0;
};

}  // namespace banyan::service
