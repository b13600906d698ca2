// FairQueue: who is served next, by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996).
//
// Each client has a weight. A piece of work of cost c that is served to client k gets the start tag S = max(V, F_k)
// and the finish tag F_k = S + c / weight_k; of all that wait, the client with the least start tag is served; V, the
// virtual time, is the start tag of what was served last, and the largest finish tag when nobody waits.
//
// So of two clients that both have work all through an interval, what they get in it, each divided by its weight,
// differs by no more than max_a / weight_a + max_b / weight_b, where max is the largest cost. And on a link of constant
// rate, while weights stay, a piece has to wait for no more than one largest piece of each other client after it would
// begin on a private fluid link of its client's part of the rate. A client that was idle neither saves up nor pays for
// it, since V went on. A queue that is made with a `credit` differs: a client that begins to wait then has
// max(V - credit, F_k), so that one which takes less than its part is served at once, in bursts of as much. The first
// bound then grows by the credit, and a piece waits for so much more of each other client. Weights may change at any
// time and count from the next piece on; then the first bound has the largest cost / weight of any piece of each.
//
// These bounds hold for clients that are served in their turn. While the next one is passed over, V stands still: the
// next one keeps its claim, newcomers begin where V stands, and all of them come before those that were served instead.
// A client that cannot use its turn for long should cease to wait.
//
// Costs may be bytes, seconds of a link or of a core: tags are kept near zero, so that neither their unit nor the age
// of the queue matters. Ties go to the lower number. One thread. serve() takes time O(log n).
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

  // In cost per weight; 0 or above.
  explicit FairQueue(double credit = 0);

  // From now on; a new client begins at the virtual time. `weight` > 0.
  void set_weight(Client client, double weight);
  // It leaves; what it got counts no more. Nothing happens where there is none.
  void remove(Client client);
  // Sets if the client has work; new clients have none. One that was idle begins at the virtual time less the credit,
  // or at its own finish tag where that is later. A client is made known by set_weight.
  void set_waiting(Client client, bool is_waiting);
  bool is_waiting(Client client) const;

  // The client whose turn it is; nothing when nobody waits. Asking changes nothing.
  std::optional<Client> next() const;
  // The client, which waits, got work of this cost; it still waits afterwards. It need not be the next one: to serve
  // another (since the next one could not use it now) moves that client's own tags only.
  void serve(Client client, double cost);

  // Since the queue was made, in cost per weight. Never goes back.
  double virtual_time() const { return passed_ + virtual_time_; }
  // The lead of this client over the virtual time, in cost per weight; negative: the virtual time went on so far while
  // the client was idle.
  double lead(Client client) const;

 private:
  struct State {
    double weight = 1;
    double finish = 0;  // of one that waits: the start tag of its next piece
    bool is_waiting = false;
  };
  State& known(Client client);
  void stop_waiting(Client client, const State& state);
  void bring_tags_near_zero();

  const double credit_;
  std::map<Client, State> clients_;
  std::set<std::pair<double, Client>> waiting_;  // by start tag; none is below the virtual time less the credit
  double virtual_time_ = 0;                      // as tags are
  double last_finish_ = 0;                       // the largest of all finish tags
  double passed_ = 0;                            // that tags have been brought nearer to zero
  uint32_t served_ = 0;                          // since then
};

}  // namespace banyan::service
