#include "banyan/job/chakra/json.h"

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
  for (const std::string_view one : spellings) {
    if (key == one) return true;
  }
  return false;
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

 private:
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
    if (is_one_of(key, {"id", "nodeid"})) {
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
      if (values != nullptr)
        node_.input_values = values->as_text() ? std::string(*values->as_text()) : values->to_text();
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
      node_.pg_name = value.as_text() ? std::string(*value.as_text()) : std::to_string(integer(written, value));
    } else if (key == "involveddim") {
      const JsonValue* values = value.type == JsonValue::Type::object ? value.find("values") : &value;
      if (values == nullptr) return;
      for (const JsonValue& flag : values->items) node_.involved_dim.push_back(integer(written, flag) != 0);
    }
  }

  TraceNode node_;
  bool has_id_ = false;
};

}  // namespace

void read_json(TraceSource& source, const std::function<void(const TraceNode&)>& visit) {
  bool is_found = false;
  stream_json(source, {.streamed = "workload_graph",
                       .element =
                           [&](const JsonValue& value, uint64_t) {
                             is_found = true;
                             visit(NodeReader().read(value));
                           },
                       .member =
                           [&](std::string_view key, const JsonValue& value) {
                             if (key != "nodes") return;
                             is_found = true;
                             for (const JsonValue& node : value.items) visit(NodeReader().read(node));
                           }});
  if (!is_found)
    throw Error(ErrorCode::invalid_input, "holds no nodes: neither 'workload_graph' nor 'nodes'", source.name());
}

}  // namespace banyan::job::chakra
