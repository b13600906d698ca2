// The words of MSCCL++'s JSON, and its values, which are refused in words where they are of another kind. Private to
// its reader.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/testing/mscclpp_interpreter.h"

namespace banyan::testing::mscclpp {

using Json = nlohmann::json;

Error invalid(std::string_view where, const std::string& message);

// Of an object. All throw Error{invalid_input} with `where`.
const Json& field(const Json& object, const char* key, std::string_view where);
const Json& list(const Json& object, const char* key, std::string_view where);
uint32_t number_in(const Json& value, const std::string& what, std::string_view where, uint64_t below);
uint32_t number(const Json& object, const char* key, std::string_view where, uint64_t below);
std::string text(const Json& object, const char* key, std::string_view where);
bool flag(const Json& object, const char* key, std::string_view where);

// The names of the reader's table and what each does.
struct Verb {
  MscclppKind kind;
  bool sums = false, reads_remote = false, writes_remote = false;
  bool by_switch = false;
};

const std::map<std::string, Verb>& verbs();
const std::set<std::string>& names_not_interpreted();

enum ChannelType : uint8_t { kMemory = 0, kPort = 1, kSwitch = 2 };

ChannelType channel_type(const Json& value, const std::string& where);
BufferKind buffer_kind(const Json& value, const std::string& where);

}  // namespace banyan::testing::mscclpp
