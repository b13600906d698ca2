// RememberingDirectory: a directory whose cards, as they were read last, are used while it does not answer.
//
// Daemons that know each other need it for nothing else, and a directory that is away for a while (etcd that elects a
// leader, is stopped or started anew, a folder of a file server) must not keep them from opening communicators, nor
// operators from seeing what goes on. What it says counts again from its first answer on. Of a host that nobody has
// asked for before, nothing is known meanwhile.
//
// One thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/service/daemon/host_directory.h"

namespace banyan::service {

class RememberingDirectory : public HostDirectory {
 public:
  // `name`: of the one behind it, for people: "etcd". `note` is told when it ceases to answer, and when it answers
  // again.
  RememberingDirectory(std::unique_ptr<HostDirectory> directory, std::string name,
                       std::function<void(const std::string& words)> note)
      : directory_(std::move(directory)), name_(std::move(name)), note_(std::move(note)) {}

  // Throws what the directory throws: nobody else can know.
  void publish(const HostCard& card) override;
  void leave() override { directory_->leave(); }
  // Throw what the directory throws, where nothing is remembered.
  std::optional<HostCard> find(const std::string& host) override;
  std::vector<HostCard> cards() override;

  // "etcd does not answer: ...": of the last question; empty: it has answered it.
  const std::string& trouble() const { return trouble_; }

 private:
  void note_answer();
  void note_trouble(const Error& error);

  const std::unique_ptr<HostDirectory> directory_;
  const std::string name_;
  const std::function<void(const std::string& words)> note_;
  std::map<std::string, HostCard> remembered_;  // by host
  std::string trouble_;
};

// What people call the directory at this url: "etcd", "the folder /shared/banyan".
std::string name_of_directory(const std::string& url);

}  // namespace banyan::service
