#include "banyan/job/chakra/json.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/job/text/json_stream.h"

namespace banyan::job::chakra {
namespace {
// "node_type", "NodeType", "NODE-TYPE": nodetype.
std::string plain(std::string_view key) {
  std::string text;
  for (const char c : key) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return text;
}

template <size_t kCount>
int64_t number_or_name(const JsonValue& value, const std::array<std::string_view, kCount>& names, const char* what) {
  if (const auto number = value.as_integer()) return *number;
  const std::string name = plain(value.as_text().value_or(""));
  for (size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<int64_t>(i);
  }
  throw invalid(std::string(what) + " " + value.to_text().substr(0, 60) + " is not known");
}

constexpr std::array<std::string_view, 8> kTypes = {"invalidnode", "metadatanode", "memloadnode",  "memstorenode",
                                                    "compnode",    "commsendnode", "commrecvnode", "commcollnode"};
constexpr std::array<std::string_view, 10> kCollectives = {
    "allreduce", "reduce",        "allgather",          "gather", "scatter", "broadcast",
    "alltoall",  "reducescatter", "reducescatterblock", "barrier"};

struct IntegerKey {
  std::string_view key;
  std::optional<int64_t> TraceNode::*member;
};
constexpr IntegerKey kIntegerKeys[] = {
    {"commsize", &TraceNode::comm_size}, {"commsrc", &TraceNode::comm_src},
    {"commdst", &TraceNode::comm_dst},   {"commtag", &TraceNode::comm_tag},
    {"numops", &TraceNode::num_ops},     {"tensorsize", &TraceNode::tensor_size},
    {"stream", &TraceNode::stream},      {"durationps", &TraceNode::duration_ps},
};

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> spellings) {
  return std::ranges::find(spellings, key) != spellings.end();
}

class NodeReader {
 public:
  TraceNode read(const JsonValue& object) {
    if (object.type != JsonValue::Type::object)
      throw invalid("a node is an object, found " + object.to_text().substr(0, 60));
    for (size_t i = 0; i < object.items.size(); ++i) read_member(object.keys[i], object.items[i]);
    if (!has_id_) throw invalid("a node has no id");
    return std::move(node_);
  }

  static bool has_id(const JsonValue& object) {
    return std::ranges::any_of(object.keys, [](const std::string& key) { return is_id(plain(key)); });
  }

 private:
  static bool is_id(std::string_view key) { return is_one_of(key, {"id", "nodeid"}); }
  static int64_t integer(std::string_view key, const JsonValue& value) {
    if (value.type == JsonValue::Type::boolean) return value.boolean;
    const auto number = value.as_integer();
    if (!number) throw invalid("'" + std::string(key) + "' is a whole number, found " + value.to_text().substr(0, 60));
    return *number;
  }
  static uint64_t natural(std::string_view key, const JsonValue& value) {
    const int64_t number = integer(key, value);
    if (number < 0) throw invalid("'" + std::string(key) + "' is negative");
    return static_cast<uint64_t>(number);
  }

  void read_member(std::string_view written, const JsonValue& value) {
    const std::string key = plain(written);
    if (value.type == JsonValue::Type::null) return;
    if (is_id(key)) {
      node_.id = natural(written, value);
      has_id_ = true;
    } else if (is_one_of(key, {"name", "nodename"})) {
      node_.name = value.as_text().value_or("");
    } else if (is_one_of(key, {"type", "nodetype"})) {
      node_.type = number_or_name(value, kTypes, "node type");
    } else if (is_one_of(key, {"ctrldeps", "controldeps", "ctrldep"})) {
      read_dependencies(written, value, node_.control_dependencies);
    } else if (is_one_of(key, {"datadeps", "datadep", "dependencies", "deps"})) {
      read_dependencies(written, value, node_.data_dependencies);
    } else if (is_one_of(key, {"durationmicros", "runtime", "duration"})) {
      node_.duration_micros = natural(written, value);
    } else if (key == "inputs") {
      const JsonValue* values = value.find("values");
      if (values != nullptr) node_.input_values = values->text_or_json();
    } else if (is_one_of(key, {"attr", "attrs", "attribute", "attributes"})) {
      for (const JsonValue& attribute : value.items) read_listed_attribute(attribute);
    } else {
      read_attribute(key, written, value);
    }
  }

  void read_dependencies(std::string_view key, const JsonValue& value, std::vector<uint64_t>& ids) {
    if (value.type != JsonValue::Type::list) throw invalid("'" + std::string(key) + "' is a list of ids");
    for (const JsonValue& id : value.items) ids.push_back(natural(key, id));
  }

  // {"name": "comm_size", "int64Val": "8"}, {"name": "comm_size", "value": 8}
  void read_listed_attribute(const JsonValue& attribute) {
    const JsonValue* name = attribute.find("name");
    if (name == nullptr || !name->as_text()) return;
    for (size_t i = 0; i < attribute.items.size(); ++i) {
      const std::string key = plain(attribute.keys[i]);
      if (!key.ends_with("val") && !key.ends_with("value") && !key.ends_with("list")) continue;
      read_attribute(plain(*name->as_text()), *name->as_text(), attribute.items[i]);
    }
  }

  void read_attribute(const std::string& key, std::string_view written, const JsonValue& value) {
    for (const IntegerKey& known : kIntegerKeys) {
      if (key == known.key) node_.*known.member = integer(written, value);
    }
    if (is_one_of(key, {"iscpuop", "iscpu"})) {
      node_.is_cpu_op = integer(written, value);
    } else if (key == "commtype") {
      node_.comm_type = number_or_name(value, kCollectives, "collective");
    } else if (key == "pgname") {
      node_.pg_name = value.as_text() ? value.written : std::to_string(integer(written, value));
    } else if (key == "involveddim") {
      const JsonValue* values = value.type == JsonValue::Type::object ? value.find("values") : &value;
      if (values == nullptr) return;
      for (const JsonValue& flag : values->items) node_.involved_dim.push_back(integer(written, flag) != 0);
    }
  }

  TraceNode node_;
  bool has_id_ = false;
};

int skip_blanks(TraceSource& source, int c) {
  while (c == ' ' || c == '\n' || c == '\r' || c == '\t') c = source.next();
  return c;
}

// Whether another text begins behind the first, of which `c` stands behind the bracket.
bool has_second_text(TraceSource& source, int c) {
  constexpr uint64_t kMostFirst = uint64_t{1} << 20;  // of metadata, or of a node
  uint64_t depth = 1;
  bool in_string = false;
  for (; depth > 0; c = source.next()) {
    if (c < 0 || source.position() > kMostFirst) return false;
    if (in_string && c == '\\') {
      source.next();
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      depth += c == '{' || c == '[';
      depth -= c == '}' || c == ']';
    }
  }
  return skip_blanks(source, c) == '{';
}

}  // namespace

// A '{' or '[' is also the length of a message, so what follows decides: JSON goes on with blanks, quotes, brackets.
JsonForm json_form(TraceSource source) {
  const int first = skip_blanks(source, source.next());
  if (first != '{' && first != '[') return JsonForm::none;
  const int second = source.next(), c = skip_blanks(source, second);
  const bool is_json = c == '"' || c == '{' || c == '}' || c == ']' || (c != second && c < 0);
  if (!is_json) return JsonForm::none;
  return first == '{' && has_second_text(source, c) ? JsonForm::texts : JsonForm::document;
}

void read_json(TraceSource& source, JsonForm form, const std::function<void(const TraceNode&)>& visit) {
  bool is_found = false;
  stream_json(source, {.streamed = "workload_graph",
                       .element =
                           [&](const JsonValue& value, uint64_t number) {
                             is_found = true;
                             // chakra_jsonizer begins with the file's metadata.
                             if (form == JsonForm::texts && number == 0 && !NodeReader::has_id(value)) return;
                             visit(NodeReader().read(value));
                           },
                       .member =
                           [&](std::string_view key, const JsonValue& value) {
                             if (key != "nodes") return;
                             is_found = true;
                             for (const JsonValue& node : value.items) visit(NodeReader().read(node));
                           },
                       .is_joined = form == JsonForm::texts});
  if (!is_found) throw invalid("holds no nodes: neither 'workload_graph' nor 'nodes'").within(source.name());
}

}  // namespace banyan::job::chakra
