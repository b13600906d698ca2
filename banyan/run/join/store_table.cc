#include "banyan/run/join/store_table.h"

#include <utility>

#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

// What an entry costs besides its bytes, roughly.
constexpr size_t kEntry = 128;

std::string read_key(WireReader& reader) {
  std::string key = reader.text();
  if (key.empty() || key.size() > Store::kMaxKey) {
    throw Error(ErrorCode::invalid_input, "a key has " + std::to_string(key.size()) + " bytes; 1 to " +
                                              std::to_string(Store::kMaxKey) + " are possible");
  }
  return key;
}

}  // namespace

std::string frame_head(size_t size) { return WireWriter().number(static_cast<uint32_t>(size)).take(); }

std::optional<std::string> FrameReader::next() {
  if (bytes_.size() < kHead) return {};
  const size_t size = WireReader(std::string_view(bytes_).substr(0, kHead)).number<uint32_t>();
  if (size > kMaxFrame) {
    throw Error(ErrorCode::invalid_input, "a message of " + std::to_string(size) + " bytes is too large");
  }
  if (bytes_.size() - kHead < size) return {};
  std::string frame = bytes_.substr(kHead, size);
  bytes_.erase(0, kHead + size);
  return frame;
}

void StoreTable::request(uint64_t client, std::string_view frame) {
  forget(client);
  WireReader reader(frame);
  const auto number = reader.number<uint32_t>();
  const auto verb = static_cast<StoreVerb>(reader.number<uint8_t>());
  const std::string key = read_key(reader);
  const auto value = verb == StoreVerb::set ? std::make_optional(reader.text()) : std::nullopt;
  const uint64_t delta = verb == StoreVerb::add ? reader.number<uint64_t>() : 0;
  reader.end();
  if (verb > StoreVerb::add) throw Error(ErrorCode::invalid_input, "a request has an unknown verb");

  const Value found = find(key);
  if (verb == StoreVerb::wait && found == nullptr) {
    waits_[client] = {.number = number, .key = key};
    waiting_for_[key].insert(client);
    return;
  }
  if (verb == StoreVerb::wait || verb == StoreVerb::try_get) {
    return reply(client, number, found == nullptr ? StoreOutcome::absent : StoreOutcome::done, found);
  }
  try {
    put(key, verb == StoreVerb::set ? *value
                                    : add_to_counter(found == nullptr ? std::nullopt : std::make_optional(*found),
                                                     static_cast<int64_t>(delta)));
  } catch (const Error& error) {
    return reply(client, number, StoreOutcome::failed, std::make_shared<const std::string>(error.message()));
  }
  reply(client, number, StoreOutcome::done, verb == StoreVerb::add ? find(key) : nullptr);
}

void StoreTable::forget(uint64_t client) {
  const auto wait = waits_.find(client);
  if (wait == waits_.end()) return;
  const auto clients = waiting_for_.find(wait->second.key);
  clients->second.erase(client);
  if (clients->second.empty()) waiting_for_.erase(clients);
  waits_.erase(wait);
}

StoreTable::Value StoreTable::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : found->second;
}

void StoreTable::put(const std::string& key, std::string value) {
  const Value old = find(key);
  if (value.size() > Store::kMaxValue) {
    throw Error(ErrorCode::invalid_input, "a value has " + std::to_string(value.size()) + " bytes, which is too many");
  }
  const size_t freed = old == nullptr ? 0 : old->size();
  const size_t needed = value.size() + (old == nullptr ? key.size() + kEntry : 0);
  if (memory_ - freed + needed > max_memory_) {
    throw Error(ErrorCode::invalid_input, "the store is full, with " + std::to_string(memory_) + " bytes");
  }
  memory_ += needed - freed;
  const Value made = std::make_shared<const std::string>(std::move(value));
  values_[key] = made;

  const auto waiting = waiting_for_.find(key);
  if (waiting == waiting_for_.end()) return;
  const std::set<uint64_t> clients = std::move(waiting->second);
  waiting_for_.erase(waiting);
  for (const uint64_t client : clients) {
    const uint32_t number = waits_.at(client).number;
    waits_.erase(client);
    reply(client, number, StoreOutcome::done, made);
  }
}

void StoreTable::reply(uint64_t client, uint32_t number, StoreOutcome outcome, Value value) {
  const std::string head = WireWriter().number(number).number(static_cast<uint8_t>(outcome)).take();
  const size_t size = head.size() + (value == nullptr ? 0 : value->size());
  answer_(client, {.head = frame_head(size) + head, .value = std::move(value)});
}

}  // namespace banyan::run
