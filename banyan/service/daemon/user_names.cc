#include "banyan/service/daemon/user_names.h"

#include <pwd.h>

#include <utility>

namespace banyan::service {
namespace {

constexpr size_t kSpace = 16'384;

}  // namespace

std::optional<std::string> UserNames::system_name_of(uint32_t user) {
  std::vector<char> space(kSpace);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, space.data(), space.size(), &found) != 0 || found == nullptr) return std::nullopt;
  return found->pw_name;
}

std::optional<uint32_t> UserNames::system_number_of(const std::string& name) {
  std::vector<char> space(kSpace);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(name.c_str(), &entry, space.data(), space.size(), &found) != 0 || found == nullptr) {
    return std::nullopt;
  }
  return found->pw_uid;
}

std::string UserNames::name_of(uint32_t user) const {
  const auto found = entries_.find(question_of(user));
  return found == entries_.end() || !found->second.answer ? std::to_string(user) : *found->second.answer;
}

std::optional<uint32_t> UserNames::number_of(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.answer) return std::nullopt;
  return static_cast<uint32_t>(std::stoul(*found->second.answer));
}

bool UserNames::look(const std::string& question) {
  const auto found = entries_.find(question);
  if (found == entries_.end() || !found->second.is_known) return false;
  if (parts_.now() - found->second.since >= kFresh) ask_the_system(question, found->second);
  return true;
}

void UserNames::ask_for(const std::string& question, std::function<void()> then) {
  if (look(question)) return then();
  make_room();
  Entry& entry = entries_[question];
  entry.waiting.push_back(std::move(then));
  ask_the_system(question, entry);
}

// A user that may have any number (root of a container) makes an entry for each.
void UserNames::make_room() {
  if (entries_.size() < kMost) return;
  std::erase_if(entries_, [](const auto& entry) { return !entry.second.is_asked_for; });
}

void UserNames::ask_the_system(const std::string& question, Entry& entry) {
  if (std::exchange(entry.is_asked_for, true)) return;
  const auto tell =
      lifetime_.guard([this, question](std::optional<std::string> found) { answer(question, std::move(found)); });
  const bool is_begun = parts_.elsewhere([question, tell, parts = parts_] {
    std::optional<std::string> found;
    if (question.starts_with(':')) {
      found = parts.name_of(static_cast<uint32_t>(std::stoul(question.substr(1))));
    } else if (const auto number = parts.number_of(question)) {
      found = std::to_string(*number);
    }
    parts.mailbox->post([tell, found] { tell(found); });
  });
  if (!is_begun) parts_.mailbox->post([tell, before = entry.answer] { tell(before); });
}

void UserNames::answer(const std::string& question, std::optional<std::string> found) {
  Entry& entry = entries_.at(question);  // it stays while it is asked for
  entry.answer = std::move(found);
  entry.is_known = true;
  entry.is_asked_for = false;
  entry.since = parts_.now();
  for (auto& then : std::exchange(entry.waiting, {})) parts_.mailbox->post(std::move(then));  // whatever one throws
}

}  // namespace banyan::service
