#include "banyan/service/cluster/etcd_directory.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <thread>

#include "banyan/base/check.h"
#include "banyan/base/json_line.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/text.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/thread.h"
#include "banyan/service/http/curl_request.h"
#include "banyan/service/protocol/capability.h"

namespace banyan::service {
namespace {

// The longest value that an etcd takes as it comes has 1.5 MiB, which are 2 MiB here.
constexpr size_t kLongestAnswer = 4 << 20;
constexpr uint32_t kPage = 500;  // cards that are asked for at once
constexpr size_t kMostCards = 100'000;
constexpr size_t kMostEndpoints = 16;
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool consists_of(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string_view::npos;
}

// "node1:2379", "[fe80::1]:2379".
bool is_host_and_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = text.substr(0, colon);
  const std::string port(text.substr(colon + 1));
  if (!consists_of(port, "0123456789") || port.size() > 5 || std::stoul(port) - 1 >= 65'535) return false;
  if (!host.starts_with('[')) {
    return consists_of(host, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_");
  }
  return host.ends_with(']') && consists_of(host.substr(1, host.size() - 2), "0123456789abcdefABCDEF:.");
}

// ---- HTTP ----

struct CloseMulti {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};

void expect(CURLMcode code) {
  if (code != CURLM_OK) throw Error(ErrorCode::io, std::string("libcurl: ") + curl_multi_strerror(code));
}

class TooLong : public Error {
 public:
  TooLong() : Error(ErrorCode::io, "its answer is longer than 4 MiB") {}
};

// Asks one server at a time. The interface for many at once is taken since its waits can be cut into pieces, so that a
// Deadline is looked at.
class HttpClient {
 public:
  explicit HttpClient(const EtcdDirectory::Tls& tls);

  // What `url` answers to it. Throws Error{io} for whatever goes wrong, Error{timed_out}.
  std::string post(const std::string& url, const std::string& body, const run::Deadline& deadline);

 private:
  // While it lives, libcurl works on the request.
  class Work {
   public:
    Work(CURLM* multi, CURL* easy) : multi_(multi), easy_(easy) { expect(curl_multi_add_handle(multi_, easy_)); }
    ~Work() { curl_multi_remove_handle(multi_, easy_); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    CURLM* const multi_;
    CURL* const easy_;
  };

  void carry_out(const run::Deadline& deadline);

  CurlRequest request_{"http,https", kLongestAnswer};  // the first, since it sets up libcurl
  std::unique_ptr<CURLM, CloseMulti> multi_;
};

HttpClient::HttpClient(const EtcdDirectory::Tls& tls) : multi_(curl_multi_init()) {
  if (!multi_) throw out_of_memory();
  request_.set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  if (!tls.ca.empty()) request_.set(CURLOPT_CAINFO, tls.ca.c_str());
  if (!tls.certificate.empty()) request_.set(CURLOPT_SSLCERT, tls.certificate.c_str());
  if (!tls.key.empty()) request_.set(CURLOPT_SSLKEY, tls.key.c_str());
}

std::string HttpClient::post(const std::string& url, const std::string& body, const run::Deadline& deadline) {
  request_.take_answer();  // the rest of one that was given up
  request_.set(CURLOPT_URL, url.c_str());
  request_.set_body(body);
  carry_out(deadline);
  const long status = request_.info<long>(CURLINFO_RESPONSE_CODE);
  std::string answer = request_.take_answer();
  if (status != 200) {
    throw Error(ErrorCode::io, "it answers " + std::to_string(status) + ": " + in_quotes(answer));
  }
  return answer;
}

void HttpClient::carry_out(const run::Deadline& deadline) {
  const Work work(multi_.get(), request_.handle());
  for (int running = 1;;) {
    expect(curl_multi_perform(multi_.get(), &running));
    if (running == 0) break;
    if (deadline.has_passed()) throw Error(ErrorCode::timed_out, "it has not answered within " + deadline.text());
    const auto sleep = static_cast<int>(deadline.next_sleep().count());
    expect(curl_multi_poll(multi_.get(), nullptr, 0, sleep, nullptr));
  }
  int others = 0;
  const CURLMsg* const message = curl_multi_info_read(multi_.get(), &others);
  CHECK(message != nullptr && message->msg == CURLMSG_DONE);
  const CURLcode result = message->data.result;
  if (result == CURLE_OK) return;
  if (result == CURLE_WRITE_ERROR) throw TooLong();
  throw Error(ErrorCode::io, request_.problem(result));
}

// ---- etcd ----

// One thread at a time.
class EtcdClient {
 public:
  EtcdClient(const EtcdPlace& place, const EtcdDirectory::Tls& tls) : endpoints_(place.endpoints), http_(tls) {}

  std::string grant(std::chrono::seconds ttl, const run::Deadline& deadline) {
    return ask("/v3/lease/grant", JsonLine().add("TTL", ttl.count()).take(), deadline, [](const JsonNode& answer) {
      const JsonNode id = answer.at("ID");
      const std::string lease = id.text();
      // A number of 63 bits, which JSON has as a text.
      if (!consists_of(lease, "0123456789") || lease.size() > 19 || lease == "0") throw id.error("is no lease");
      return lease;
    });
  }
  // False when there is no such lease.
  bool keep_alive(const std::string& lease, const run::Deadline& deadline) {
    return ask("/v3/lease/keepalive", JsonLine().add("ID", lease).take(), deadline, [](const JsonNode& answer) {
      const JsonNode result = answer.at("result");
      result.at("header");
      const std::optional<JsonNode> ttl = result.find("TTL");  // zero is left out
      return ttl && consists_of(ttl->text(), "0123456789") && ttl->text() != "0";
    });
  }
  void revoke(const std::string& lease, const run::Deadline& deadline) {
    ask("/v3/lease/revoke", JsonLine().add("ID", lease).take(), deadline,
        [](const JsonNode& answer) { answer.at("header"); });
  }
  void put(const std::string& key, const std::string& value, const std::string& lease, const run::Deadline& deadline) {
    ask("/v3/kv/put", JsonLine().add("key", to_base64(key)).add("value", to_base64(value)).add("lease", lease).take(),
        deadline, [](const JsonNode& answer) { answer.at("header"); });
  }
  std::optional<std::string> get(const std::string& key, const run::Deadline& deadline) {
    return ask("/v3/kv/range", JsonLine().add("key", to_base64(key)).take(), deadline,
               [](const JsonNode& answer) -> std::optional<std::string> {
                 answer.at("header");  // of a stranger, {} means nothing
                 const std::optional<JsonNode> found = answer.find("kvs");
                 if (!found || found->size() == 0) return std::nullopt;
                 const std::optional<JsonNode> value = (*found)[0].find("value");
                 return value ? value->parsed(from_base64) : "";
               });
  }
  struct Pair {
    std::string key;
    std::optional<std::string> value;  // nothing: it is longer than an answer may be
  };
  // All keys from `first` on that are below `end`, in ascending order, with their values. Each page may take so long.
  std::vector<Pair> get_all(std::string first, const std::string& end, std::chrono::milliseconds patience) {
    std::vector<Pair> all;
    for (uint32_t limit = kPage;;) {
      Page page;
      try {
        page = get_page({.first = first, .end = end, .limit = limit}, run::Deadline::after(patience));
      } catch (const TooLong&) {
        if (limit > 1) {
          limit /= 2;
          continue;
        }
        page = get_page({.first = first, .end = end, .limit = 1, .is_of_keys_alone = true},
                        run::Deadline::after(patience));
      }
      std::move(page.pairs.begin(), page.pairs.end(), std::back_inserter(all));
      if (!page.has_more) return all;
      if (all.size() > kMostCards)
        throw Error(ErrorCode::io, "etcd has more than " + std::to_string(kMostCards) + " hosts");
      first = all.back().key + '\0';  // the next that there can be
    }
  }

 private:
  struct Range {
    const std::string &first, &end;
    uint32_t limit = 1;
    bool is_of_keys_alone = false;
  };
  struct Page {
    std::vector<Pair> pairs;
    bool has_more = false;
  };
  // Throws TooLong, too, unless it is of keys alone.
  Page get_page(const Range& range, const run::Deadline& deadline) {
    JsonLine question;
    question.add("key", to_base64(range.first)).add("range_end", to_base64(range.end)).add("limit", range.limit);
    std::string body = question.take();
    if (range.is_of_keys_alone) body.insert(body.size() - 1, R"(,"keys_only":true)");
    const auto read = [&range](const JsonNode& answer) {
      answer.at("header");
      Page page;
      std::string least = range.first;
      const auto take = [&](const JsonNode& node) {
        Pair& pair = page.pairs.emplace_back();
        pair.key = node.at("key").parsed(from_base64);
        if (pair.key < least || pair.key >= range.end) throw node.error("was not asked for");
        least = pair.key + '\0';
        const std::optional<JsonNode> value = node.find("value");  // left out where it is empty
        if (!range.is_of_keys_alone) pair.value = value ? value->parsed(from_base64) : "";
      };
      if (const std::optional<JsonNode> found = answer.find("kvs")) {
        for (const JsonNode node : found->items()) take(node);
      }
      const std::optional<JsonNode> more = answer.find("more");
      page.has_more = more && more->boolean();
      if (page.has_more && page.pairs.empty()) throw answer.error("says that there is more, and gives nothing");
      return page;
    };
    return ask("/v3/kv/range", body, deadline, read, !range.is_of_keys_alone);
  }

  // What `read` makes of the first answer of which it makes anything. A TooLong answer is one of which it does not,
  // unless it is thrown.
  template <typename Read>
  auto ask(const std::string& path, const std::string& body, const run::Deadline& deadline, Read read,
           bool throws_too_long = false) -> decltype(read(std::declval<JsonNode>())) {
    std::string problems;
    for (size_t left = endpoints_.size(); left > 0; --left) {
      const std::string& endpoint = endpoints_[asked_];
      const auto note = [&](const Error& error) {
        problems += (problems.empty() ? "" : ", ") + endpoint + " (" + error.what() + ")";
        asked_ = (asked_ + 1) % endpoints_.size();
      };
      try {
        const std::string answer = http_.post(endpoint + path, body, deadline.within(deadline.left() / left));
        const JsonDocument document(answer, {.name = "answer"});
        return read(document.root());
      } catch (const TooLong& error) {
        if (throws_too_long) throw;
        note(error);
      } catch (const Error& error) {
        note(error);
      }
    }
    throw Error(ErrorCode::io, "no etcd does what it is asked for within " + deadline.text() + ": " + problems +
                                   "; start etcd there, or name others by --world");
  }

  const std::vector<std::string> endpoints_;
  size_t asked_ = 0;  // of endpoints_
  HttpClient http_;
};

}  // namespace

// ---- The directory ----

class EtcdDirectory::Impl {
 public:
  Impl(EtcdPlace place, Options options)
      : place_(std::move(place)),
        options_(std::move(options)),
        reader_(place_, options_.tls),
        writer_(place_, options_.tls) {}
  ~Impl();

  void publish(const HostCard& card);
  void leave();
  std::optional<HostCard> find(const std::string& host);
  HostCards cards();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kPauses = 4;  // as long as a question that nobody answered, before the next one

  run::Deadline deadline() const { return run::Deadline::after(options_.patience); }
  // What the question gives; in a pause it fails as the last one did.
  template <typename Question>
  auto ask(const Question& question) -> decltype(question(std::declval<EtcdClient&>(), deadline()));
  bool is_pause(Clock::time_point now) const;
  // Returns the lease. Always a new one: the key then goes over to it, wherever it was before.
  std::string put_under_lease(const HostCard& card, const run::Deadline& deadline);
  void keep();
  void keep_once(const run::Deadline& deadline);
  void complain(const Error& error) noexcept;
  void give_back(const std::string& lease) noexcept;

  const EtcdPlace place_;
  const Options options_;
  EtcdClient reader_;
  std::optional<Error> failure_;  // of the last question, if it failed
  Clock::time_point next_;        // until then no other is asked
  uint64_t answered_before_ = 0;  // answered_ then

  // How often the thread has heard etcd, while it has a card to keep there; 0: it has none.
  std::atomic<uint64_t> answered_{0};
  std::mutex turn_;  // protects what follows: publish() and the thread take turns
  EtcdClient writer_;
  std::optional<HostCard> card_;
  std::string lease_;  // empty: the card has to be put anew
  bool is_in_trouble_ = false;

  std::condition_variable_any wake_;
  std::stop_source stop_;
  std::thread thread_;  // runs from the first publication on
};

EtcdDirectory::Impl::~Impl() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
  give_back(lease_);
}

void EtcdDirectory::Impl::give_back(const std::string& lease) noexcept {
  if (lease.empty()) return;
  try {
    writer_.revoke(lease, deadline());
  } catch (const std::exception&) {  // what is under it goes when it runs out
  }
}

std::string EtcdDirectory::Impl::put_under_lease(const HostCard& card, const run::Deadline& deadline) {
  std::string lease = writer_.grant(options_.ttl, deadline);
  writer_.put(place_.key_of(card.host), signed_card(card, options_.secret), lease, deadline);
  return lease;
}

void EtcdDirectory::Impl::publish(const HostCard& card) {
  const std::lock_guard lock(turn_);
  // When this fails, nobody knows which card is there.
  const std::string former = std::exchange(lease_, "");
  lease_ = put_under_lease(card, deadline());
  card_ = card;
  ++answered_;
  give_back(former);  // with the card of another host name, which is under it still
  if (!thread_.joinable()) thread_ = run::start_thread("banyan-etcd", [this] { keep(); });
}

template <typename Question>
auto EtcdDirectory::Impl::ask(const Question& question) -> decltype(question(std::declval<EtcdClient&>(), deadline())) {
  const Clock::time_point begin = Clock::now();
  if (failure_ && is_pause(begin)) throw Error(*failure_);
  failure_.reset();
  try {
    return question(reader_, run::Deadline::after(std::min(options_.reading, options_.patience)));
  } catch (const Error& error) {
    failure_ = error;
    next_ = Clock::now() + kPauses * (Clock::now() - begin);
    answered_before_ = answered_;
    throw;
  }
}

bool EtcdDirectory::Impl::is_pause(Clock::time_point now) const {
  const uint64_t answered = answered_;
  return now < next_ || (answered > 0 && answered == answered_before_);
}

std::optional<HostCard> EtcdDirectory::Impl::find(const std::string& host) {
  const std::optional<std::string> value =
      ask([&](EtcdClient& etcd, const run::Deadline& deadline) { return etcd.get(place_.key_of(host), deadline); });
  if (!value) return std::nullopt;
  try {
    return checked_card(*value, host, options_.secret);
  } catch (const Error& error) {
    throw error.within("the card of host " + in_quotes(host) + " in etcd");
  }
}

// The lease holds nothing any more.
void EtcdDirectory::Impl::leave() {
  const std::lock_guard lock(turn_);
  card_.reset();
  answered_ = 0;
  give_back(std::exchange(lease_, ""));
}

HostCards EtcdDirectory::Impl::cards() {
  const auto [first, end] = place_.range();
  const auto question = [&, &first = first, &end = end](EtcdClient& etcd, const run::Deadline&) {
    return etcd.get_all(first, end, std::min(options_.reading, options_.patience));
  };
  HostCards all;
  for (const auto& [key, value] : ask(question)) {
    const std::string name = key.substr(first.size());
    const std::string host = from_hexadecimal(name).value_or(name);
    try {
      if (!value) throw invalid("it is longer than any card");
      all.cards.push_back(checked_card(*value, host, options_.secret));
    } catch (const Error& error) {
      all.unread.emplace(host, Error(error).within("the card of host " + in_quotes(host) + " in etcd").what());
    }
  }
  std::sort(all.cards.begin(), all.cards.end(), [](const HostCard& a, const HostCard& b) { return a.host < b.host; });
  return all;
}

void EtcdDirectory::Impl::keep() {
  const std::stop_token stop = stop_.get_token();
  const std::chrono::milliseconds third = std::chrono::milliseconds(options_.ttl) / 3;
  std::unique_lock lock(turn_);
  for (;;) {
    wake_.wait_for(lock, stop, third, [] { return false; });
    if (stop.stop_requested()) return;
    try {
      keep_once(deadline().unless(stop));
      is_in_trouble_ = false;
    } catch (...) {
      if (!stop.stop_requested()) complain(current_error());
    }
  }
}

void EtcdDirectory::Impl::keep_once(const run::Deadline& deadline) {
  if (!card_) return;  // it has left it
  const bool is_there = !lease_.empty() && writer_.keep_alive(lease_, deadline);
  if (!is_there) lease_ = put_under_lease(*card_, deadline);
  ++answered_;
  if (is_there) return;
  BANYAN_LOG(info) << "the card of this host has been put into etcd anew";
}

void EtcdDirectory::Impl::complain(const Error& error) noexcept {
  if (std::exchange(is_in_trouble_, true)) return;
  try {
    BANYAN_LOG(warning) << "the card of this host may go from etcd, and daemons that start then do not find it; this "
                           "is tried again and again: "
                        << error.what();
  } catch (const std::exception&) {  // no memory to say so
  }
}

EtcdDirectory::EtcdDirectory(EtcdPlace place, Options options)
    : impl_(std::make_unique<Impl>(std::move(place), std::move(options))) {}
EtcdDirectory::~EtcdDirectory() = default;
void EtcdDirectory::publish(const HostCard& card) { impl_->publish(card); }
std::optional<HostCard> EtcdDirectory::find(const std::string& host) { return impl_->find(host); }
void EtcdDirectory::leave() { impl_->leave(); }
HostCards EtcdDirectory::cards() { return impl_->cards(); }

EtcdDirectory::Tls EtcdDirectory::Tls::from_environment() {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {.ca = value_of("ETCDCTL_CACERT"), .certificate = value_of("ETCDCTL_CERT"), .key = value_of("ETCDCTL_KEY")};
}

EtcdPlace EtcdPlace::parse(const std::string& url) {
  const auto refuse = [&](const std::string& why) {
    throw invalid(in_quotes(url) + " " + why + "; write etcd://HOST:PORT[,HOST:PORT...]/PREFIX, or etcds:// for https");
  };
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) refuse("is no place in etcd");
  const bool is_secure = url.starts_with("etcds://");
  if (!is_secure && !url.starts_with("etcd://")) refuse("is no place in etcd");
  const std::string_view rest = std::string_view(url).substr(scheme + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  EtcdPlace place{.endpoints = {}, .prefix = std::string(rest.substr(slash))};
  while (place.prefix.ends_with('/')) place.prefix.pop_back();
  if (place.prefix.empty()) refuse("has no prefix under which the keys stand");
  for (const std::string_view server : split(rest.substr(0, slash), ',')) {
    if (!is_host_and_port(server)) refuse("has " + in_quotes(server) + " in place of a host and a port");
    place.endpoints.push_back((is_secure ? "https://" : "http://") + std::string(server));
  }
  if (place.endpoints.size() > kMostEndpoints) refuse("names more than 16 servers");
  return place;
}

std::string EtcdPlace::key_of(const std::string& host) const { return range().first + in_hexadecimal(host); }

std::pair<std::string, std::string> EtcdPlace::range() const {
  static_assert('0' == '/' + 1);
  return {prefix + "/hosts/", prefix + "/hosts0"};
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view three = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < three.size() ? static_cast<uint8_t>(three[k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= three.size() ? kBase64[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  const auto refuse = [&] { throw invalid("is no base64: " + in_quotes(text)); };
  if (text.size() % 4 != 0) refuse();
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  uint32_t bits = 0;
  size_t count = 0;  // of bits
  for (const char letter : text.substr(0, text.size() - padding)) {
    const size_t digit = kBase64.find(letter);
    if (digit == std::string_view::npos) refuse();
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
    bits &= (1u << count) - 1;
  }
  if (bits != 0) refuse();
  return bytes;
}

}  // namespace banyan::service
