#include "banyan/service/cluster/host_directory.h"

#include <algorithm>
#include <utility>

#include "banyan/run/seal/primitives.h"
#include "banyan/service/cluster/etcd_directory.h"
#include "banyan/service/cluster/folder_directory.h"

namespace banyan::service {
namespace {

constexpr const char* kFolder = "file://";
// What the secret signs beside cards are other words (run/join/handshake.h).
const std::string kSigned = "card of a host: ";

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

std::unique_ptr<HostDirectory> directory_in_etcd(const std::string& url, [[maybe_unused]] const run::Secret& secret) {
#ifdef BANYAN_HAS_CURL
  EtcdPlace place = EtcdPlace::parse(url);
  const EtcdDirectory::Tls tls = EtcdDirectory::Tls::from_environment();
  if (url.starts_with("etcds://")) tls.expect_usable();
  return std::make_unique<EtcdDirectory>(std::move(place), EtcdDirectory::Options{.tls = tls, .secret = secret});
#else
  throw Error(ErrorCode::unsupported,
              "this Banyan was built without libcurl, by which etcd is asked; build it where "
              "that is installed (Debian: libcurl4-openssl-dev), or give a folder in place of " +
                  in_quotes(url));
#endif
}

}  // namespace

// Behind the version.
template <>
inline constexpr auto kWireFields<HostCard> =
    std::tuple{&HostCard::host, &HostCard::incarnation, &HostCard::name,  &HostCard::node,
               &HostCard::port, &HostCard::addresses,   &HostCard::older, &HostCard::texts};

std::string HostCard::encode() const {
  run::WireWriter writer;
  writer.text(kVersion);
  put(writer, *this);
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

HostCard HostCard::decode(const std::string& text) {
  run::WireReader reader(text);
  HostCard card = read(reader);
  reader.end();
  return card;
}

std::string signed_card(const HostCard& card, const run::Secret& secret) {
  const std::string text = card.encode();
  return text + run::WireWriter().text(secret.is_empty() ? "" : secret.sign(kSigned + text)).take();
}

HostCard checked_card(const std::string& text, const std::string& host, const run::Secret& secret) {
  run::WireReader reader(text);
  HostCard card = HostCard::read(reader);
  const std::string signature = reader.text();
  reader.end();
  if (card.host != host) throw invalid("it says to be of host " + in_quotes(card.host));
  if (secret.is_empty()) return card;
  if (signature.empty()) throw invalid("it is not signed: its daemon has no secret, or somebody else has written it");
  const std::string_view said = std::string_view(text).substr(0, text.size() - sizeof(uint32_t) - signature.size());
  if (!run::are_equal_secrets(signature, secret.sign(kSigned + std::string(said)))) {
    throw invalid("it is signed by another secret than that of this daemon, or was changed");
  }
  return card;
}

HostCard HostCard::read(run::WireReader& reader) {
  const std::string version = reader.text();
  if (version != kVersion) {
    throw invalid("it is no " + std::string(kVersion) + ": its daemon is of another version, or it is no card");
  }
  HostCard card;
  take(reader, card);
  constexpr size_t kLongestName = 255;  // as far as handshakes take them
  if (card.host.size() > kLongestName) {
    throw invalid("its host has a name of " + std::to_string(card.host.size()) + " bytes");
  }
  return card;
}

std::unique_ptr<HostDirectory> HostDirectory::at(const std::string& url, const run::Secret& secret) {
  if (url.empty()) return std::make_unique<OneHost>();
  if (url.starts_with(kFolder) && url.size() > std::string(kFolder).size()) {
    return std::make_unique<FolderDirectory>(url.substr(std::string(kFolder).size()), secret);
  }
  if (url.starts_with("etcd://") || url.starts_with("etcds://")) return directory_in_etcd(url, secret);
  throw Error(ErrorCode::invalid_input, in_quotes(url) +
                                            " is no place where daemons meet (give file:///FOLDER or "
                                            "etcd://HOST:PORT/PREFIX)");
}

}  // namespace banyan::service
