#include "banyan/service/daemon/host_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/daemon/etcd_directory.h"

namespace banyan::service {
namespace {

constexpr uint64_t kMaxCard = 16 * 1024;
constexpr const char* kFolder = "file://";

class FolderDirectory : public HostDirectory {
 public:
  // A folder that is there has to be right. One that is not may be mounted later.
  explicit FolderDirectory(std::string folder) : folder_(std::move(folder)) {
    struct stat status {};
    is_open_ = stat(folder_.c_str(), &status) == 0;
    if (is_open_) expect_of_daemons_alone(status);
  }

  void publish(const HostCard& card) override {
    open();
    try {
      write_file_unsynced(path_of(card.host), card.encode());
    } catch (const Error& error) {
      throw Error(ErrorCode::io, error.message(), error.where());  // the folder may be gone
    }
  }
  std::optional<HostCard> find(const std::string& host) override {
    open();
    try {
      return HostCard::decode(read_file(path_of(host), kMaxCard), host);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
    }
    // Whether there is no card, or nobody knows.
    if (access(folder_.c_str(), F_OK) != 0) throw run::system_error("cannot look into the folder '" + folder_ + "'");
    return std::nullopt;
  }
  HostCards cards() override {
    open();
    HostCards all;
    std::error_code trouble;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, trouble)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(kCard)) continue;
      const auto host = from_hexadecimal(name.substr(std::string(kCard).size()));
      if (!host) continue;
      try {
        if (std::optional<HostCard> card = find(*host)) all.cards.push_back(*std::move(card));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_input) throw;
        all.unread.emplace(*host, error.what());
      }
    }
    if (trouble) throw Error(ErrorCode::io, "cannot read the folder '" + folder_ + "': " + trouble.message());
    std::sort(all.cards.begin(), all.cards.end(), [](const HostCard& a, const HostCard& b) { return a.host < b.host; });
    return all;
  }

 private:
  static constexpr const char* kCard = "host-";

  // Made once at most: a folder that goes away comes back with its cards.
  void open() {
    if (is_open_) return;
    if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
      throw run::system_error("cannot make the folder '" + folder_ + "'");
    }
    struct stat status {};
    if (stat(folder_.c_str(), &status) != 0) throw run::system_error("cannot look at the folder '" + folder_ + "'");
    try {
      expect_of_daemons_alone(status);
    } catch (const Error& error) {  // not the card is wrong, as invalid_input would say
      throw Error(ErrorCode::io, error.message());
    }
    is_open_ = true;
  }

  void expect_of_daemons_alone(const struct stat& status) const {
    if (status.st_uid != geteuid() && status.st_uid != 0) {
      throw invalid("the folder '" + folder_ + "' belongs to user " + std::to_string(status.st_uid) +
                    ", who could pretend to be a host; let the daemons meet in one of their own user");
    }
    if ((status.st_mode & S_IWOTH) != 0) {
      throw invalid("every user may write to the folder '" + folder_ +
                    "' and pretend to be a host; take that right away (chmod o-w), or name a folder in it");
    }
  }

  std::string path_of(const std::string& host) const { return folder_ + "/" + kCard + in_hexadecimal(host); }

  const std::string folder_;
  bool is_open_ = false;
};

class OneHost : public HostDirectory {
 public:
  void publish(const HostCard& card) override { card_ = card; }
  std::optional<HostCard> find(const std::string& host) override {
    return card_ && card_->host == host ? card_ : std::nullopt;
  }
  HostCards cards() override { return {.cards = card_ ? std::vector{*card_} : std::vector<HostCard>(), .unread = {}}; }

 private:
  std::optional<HostCard> card_;
};

std::unique_ptr<HostDirectory> directory_in_etcd(const std::string& url) {
#ifdef BANYAN_HAS_CURL
  EtcdPlace place = EtcdPlace::parse(url);
  const EtcdDirectory::Tls tls = EtcdDirectory::Tls::from_environment();
  if (url.starts_with("etcds://")) tls.expect_usable();
  return std::make_unique<EtcdDirectory>(std::move(place), EtcdDirectory::Options{.tls = tls});
#else
  throw Error(ErrorCode::unsupported,
              "this Banyan was built without libcurl, by which etcd is asked; build it where "
              "that is installed (Debian: libcurl4-openssl-dev), or give a folder in place of " +
                  in_quotes(url));
#endif
}

}  // namespace

std::string in_hexadecimal(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char letter : bytes) {
    const auto byte = static_cast<uint8_t>(letter);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<std::string> from_hexadecimal(std::string_view text) {
  std::string bytes;
  if (text.size() % 2 != 0) return std::nullopt;
  for (size_t at = 0; at < text.size(); at += 2) {
    uint8_t byte = 0;
    const char* const begin = text.data() + at;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string HostCard::encode() const {
  run::WireWriter writer;
  writer.text(kVersion)
      .text(host)
      .number(incarnation)
      .text(name)
      .text(node)
      .number(port)
      .number(static_cast<uint32_t>(addresses.size()));
  for (const std::string& address : addresses) writer.text(address);
  writer.number(static_cast<uint32_t>(older.size()));
  for (const OlderDaemon& daemon : older) {
    writer.number(daemon.incarnation).number(daemon.port).number(static_cast<uint32_t>(daemon.addresses.size()));
    for (const std::string& address : daemon.addresses) writer.text(address);
  }
  writer.number(texts);
  return writer.take();
}

std::vector<HostCard> HostCard::daemons() const {
  std::vector<HostCard> cards = {*this};
  cards.front().older.clear();
  for (const OlderDaemon& daemon : older) {
    HostCard card = cards.front();
    card.incarnation = daemon.incarnation;
    card.addresses = daemon.addresses;
    card.port = daemon.port;
    cards.push_back(std::move(card));
  }
  return cards;
}

bool HostCard::has(uint64_t daemon) const {
  return daemon == incarnation ||
         std::any_of(older.begin(), older.end(), [&](const OlderDaemon& each) { return each.incarnation == daemon; });
}

HostCard HostCard::decode(const std::string& text, const std::optional<std::string>& host) {
  run::WireReader reader(text);
  const std::string version = reader.text();
  if (version != kVersion) {
    throw invalid("it is no " + std::string(kVersion) + ": its daemon is of another version, or it is no card");
  }
  HostCard card;
  card.host = reader.text();
  if (host && card.host != *host) throw invalid("it says to be of host " + in_quotes(card.host));
  card.incarnation = reader.number<uint64_t>();
  card.name = reader.text();
  card.node = reader.text();
  card.port = reader.number<uint16_t>();
  card.addresses.resize(reader.count(sizeof(uint32_t)));
  for (std::string& address : card.addresses) address = reader.text();
  card.older.resize(reader.count(sizeof(uint64_t) + sizeof(uint16_t) + sizeof(uint32_t)));
  for (OlderDaemon& daemon : card.older) {
    daemon.incarnation = reader.number<uint64_t>();
    daemon.port = reader.number<uint16_t>();
    daemon.addresses.resize(reader.count(sizeof(uint32_t)));
    for (std::string& address : daemon.addresses) address = reader.text();
  }
  card.texts = reader.number<uint32_t>();
  reader.end();
  return card;
}

std::unique_ptr<HostDirectory> HostDirectory::at(const std::string& url) {
  if (url.empty()) return std::make_unique<OneHost>();
  if (url.starts_with(kFolder) && url.size() > std::string(kFolder).size()) {
    return std::make_unique<FolderDirectory>(url.substr(std::string(kFolder).size()));
  }
  if (url.starts_with("etcd://") || url.starts_with("etcds://")) return directory_in_etcd(url);
  throw Error(ErrorCode::invalid_input, in_quotes(url) +
                                            " is no place where daemons meet (give file:///FOLDER or "
                                            "etcd://HOST:PORT/PREFIX)");
}

}  // namespace banyan::service
