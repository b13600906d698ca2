#include "banyan/service/daemon/remembering_directory.h"

#include <string_view>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::service {

void RememberingDirectory::note_answer() {
  if (trouble_.empty()) return;
  trouble_.clear();
  note_(name_ + " answers again");
}

void RememberingDirectory::note_trouble(const Error& error) {
  const bool is_new = trouble_.empty();
  trouble_ = name_ + " does not answer; hosts are taken to be where they were last: " + error.what();
  if (is_new) note_(trouble_);
}

void RememberingDirectory::publish(const HostCard& card) {
  directory_->publish(card);
  remembered_.insert_or_assign(card.host, card);
}

std::optional<HostCard> RememberingDirectory::find(const std::string& host) {
  try {
    std::optional<HostCard> card = directory_->find(host);
    note_answer();
    if (card) {
      remembered_.insert_or_assign(host, *card);
    } else {
      remembered_.erase(host);
    }
    return card;
  } catch (const Error& error) {
    note_trouble(error);
    const auto known = remembered_.find(host);
    if (known == remembered_.end()) throw;
    return known->second;
  }
}

std::vector<HostCard> RememberingDirectory::cards() {
  try {
    std::vector<HostCard> cards = directory_->cards();
    note_answer();
    remembered_.clear();
    for (const HostCard& card : cards) remembered_.insert_or_assign(card.host, card);
    return cards;
  } catch (const Error& error) {
    note_trouble(error);
    if (remembered_.empty()) throw;
  }
  std::vector<HostCard> cards;
  for (const auto& [host, card] : remembered_) cards.push_back(card);
  return cards;
}

std::string name_of_directory(const std::string& url) {
  constexpr std::string_view kFolder = "file://";
  if (url.starts_with(kFolder)) return "the folder " + url.substr(kFolder.size());
  return url.empty() ? "this host" : "etcd";
}

}  // namespace banyan::service
