#include "banyan/testing/mscclpp_words.h"

namespace banyan::testing::mscclpp {

Error invalid(std::string_view where, const std::string& message) {
  return Error(ErrorCode::invalid_input, message, std::string(where));
}

const Json& field(const Json& object, const char* key, std::string_view where) {
  if (!object.is_object()) throw invalid(where, std::string("is no object with a ") + key);
  const auto found = object.find(key);
  if (found == object.end()) throw invalid(where, std::string("lacks ") + key);
  return *found;
}

const Json& list(const Json& object, const char* key, std::string_view where) {
  const Json& value = field(object, key, where);
  if (!value.is_array()) throw invalid(where, std::string(key) + " is no list");
  return value;
}

uint32_t number_in(const Json& value, const std::string& what, std::string_view where, uint64_t below) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= below) {
    throw invalid(where, what + " is " + value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40) +
                             ", not a number below " + std::to_string(below));
  }
  return value.get<uint32_t>();
}

uint32_t number(const Json& object, const char* key, std::string_view where, uint64_t below) {
  return number_in(field(object, key, where), key, where, below);
}

std::string text(const Json& object, const char* key, std::string_view where) {
  const Json& value = field(object, key, where);
  if (!value.is_string()) throw invalid(where, std::string(key) + " is no text");
  return value.get<std::string>();
}

bool flag(const Json& object, const char* key, std::string_view where) {
  const Json& value = field(object, key, where);
  if (!value.is_boolean()) throw invalid(where, std::string(key) + " is neither true nor false");
  return value.get<bool>();
}

const std::map<std::string, Verb>& verbs() {
  static const std::map<std::string, Verb> kVerbs = {
      {"nop", {MscclppKind::nop}},
      {"barrier", {MscclppKind::barrier}},
      {"signal", {MscclppKind::signal}},
      {"rlxsignal", {MscclppKind::relaxed_signal}},
      {"wait", {MscclppKind::wait}},
      {"rlxwait", {MscclppKind::relaxed_wait}},
      {"flush", {MscclppKind::flush}},
      {"put", {MscclppKind::copy, false, false, true}},
      {"pws", {MscclppKind::port_put, false, false, true}},
      {"pwsf", {MscclppKind::port_put, false, false, true}},
      {"get", {MscclppKind::copy, false, true, false}},
      {"copy", {MscclppKind::copy}},
      {"re", {MscclppKind::reduce, true, false, false}},
      {"res", {MscclppKind::reduce, true, false, true}},
      {"rre", {MscclppKind::reduce, true, true, false}},
      {"rres", {MscclppKind::reduce, true, true, true}},
      {"glres", {MscclppKind::reduce, true, true, true, true}},
      {"sem_acquire", {MscclppKind::acquire}},
      {"sem_release", {MscclppKind::release}},
  };
  return kVerbs;
}

const std::set<std::string>& names_not_interpreted() {
  static const std::set<std::string> kNames = {"ppkt",   "rppkt",   "cpkt",   "upkt",      "repkt",   "recpkt",
                                               "respkt", "recspkt", "gstore", "gstorepkt", "pipeline"};
  return kNames;
}

ChannelType channel_type(const Json& value, const std::string& where) {
  if (value == "memory") return kMemory;
  if (value == "port") return kPort;
  if (value == "switch") return kSwitch;
  throw invalid(where, "a channel type is memory, port or switch");
}

BufferKind buffer_kind(const Json& value, const std::string& where) {
  if (value == "i") return BufferKind::input;
  if (value == "o") return BufferKind::output;
  if (value == "s") return BufferKind::scratch;
  throw invalid(where, "a buffer type is one of i, o, s");
}

}  // namespace banyan::testing::mscclpp
