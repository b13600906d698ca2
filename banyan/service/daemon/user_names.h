// UserNames: names of users by their numbers, and numbers by their names, as the system has them.
//
// The system may ask a server (LDAP, SSSD), and wait for it. So it is asked on another thread, about one user after the
// other, and only those wait who need an answer that is not known yet. Answers are kept, for kMost users or so. An
// answer older than kFresh is asked for again, and holds meanwhile. A user without a name is called by the number.
//
// On the thread of the mailbox.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/lifetime.h"

namespace banyan::service {

class UserNames {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFresh{60};
  static constexpr size_t kMost = 4096;

  struct Parts {
    std::shared_ptr<run::Mailbox> mailbox;
    // Runs a task on another thread, after those before it; false where there is no thread for it.
    std::function<bool(std::function<void()> task)> elsewhere;
    std::function<Clock::time_point()> now = Clock::now;
    // As the system says, each on any thread; nothing: there is none.
    std::function<std::optional<std::string>(uint32_t user)> name_of = system_name_of;
    std::function<std::optional<uint32_t>(const std::string& name)> number_of = system_number_of;
  };
  explicit UserNames(Parts parts) : parts_(std::move(parts)) {}

  // True if there is an answer.
  bool knows(uint32_t user) { return look(question_of(user)); }
  bool knows(const std::string& name) { return look(name); }
  // The answers; before there is one, as for a user whom the system does not have.
  std::string name_of(uint32_t user) const;
  std::optional<uint32_t> number_of(const std::string& name) const;
  // Calls `then` once there is an answer: at once, where there is one, else as a task of its own.
  void ask(uint32_t user, std::function<void()> then) { ask_for(question_of(user), std::move(then)); }
  void ask(const std::string& name, std::function<void()> then) { ask_for(name, std::move(then)); }

  static std::optional<std::string> system_name_of(uint32_t user);
  static std::optional<uint32_t> system_number_of(const std::string& name);

 private:
  struct Entry {
    bool is_known = false, is_asked_for = false;
    std::optional<std::string> answer;  // a number in digits
    Clock::time_point since;
    std::vector<std::function<void()>> waiting;
  };

  static std::string question_of(uint32_t user) { return ":" + std::to_string(user); }  // no name has a colon
  bool look(const std::string& question);
  void make_room();
  void ask_for(const std::string& question, std::function<void()> then);
  void ask_the_system(const std::string& question, Entry& entry);
  void answer(const std::string& question, std::optional<std::string> found);

  const Parts parts_;
  std::map<std::string, Entry> entries_;  // by question
  const Lifetime lifetime_;               // answers may come when it has ended
};

}  // namespace banyan::service
