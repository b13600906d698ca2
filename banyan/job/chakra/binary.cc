#include "banyan/job/chakra/binary.h"

#include <cmath>
#include <utility>

#include "banyan/base/error.h"
#include "chakra.pb.h"

namespace banyan::job::chakra {
namespace {
struct IntegerField {
  const char* name;
  std::optional<int64_t> TraceNode::*member;
};
constexpr IntegerField kIntegerFields[] = {
    {"is_cpu_op", &TraceNode::is_cpu_op}, {"comm_type", &TraceNode::comm_type},
    {"comm_size", &TraceNode::comm_size}, {"comm_src", &TraceNode::comm_src},
    {"comm_dst", &TraceNode::comm_dst},   {"comm_tag", &TraceNode::comm_tag},
    {"num_ops", &TraceNode::num_ops},     {"tensor_size", &TraceNode::tensor_size},
    {"stream", &TraceNode::stream},       {"duration_ps", &TraceNode::duration_ps},
};

int64_t whole(double value, const std::string& name) {
  if (!(std::abs(value) < 9e18) || value != std::trunc(value))
    throw invalid("attribute " + name + " is not a whole number");
  return static_cast<int64_t>(value);
}

int64_t within_range(uint64_t value, const std::string& name) {
  if (value > uint64_t{INT64_MAX}) throw invalid("attribute " + name + " is " + std::to_string(value) + ", above 2^63");
  return static_cast<int64_t>(value);
}

// Writers disagree about the widths of integers, and some write booleans as integers.
int64_t integer_of(const proto::Attribute& attribute) {
  using Case = proto::Attribute::ValueCase;
  switch (attribute.value_case()) {
    case Case::kDoubleValue:
      return whole(attribute.double_value(), attribute.name());
    case Case::kFloatValue:
      return whole(static_cast<double>(attribute.float_value()), attribute.name());
    case Case::kInt32Value:
      return attribute.int32_value();
    case Case::kInt64Value:
      return attribute.int64_value();
    case Case::kUint32Value:
      return attribute.uint32_value();
    case Case::kUint64Value:
      return within_range(attribute.uint64_value(), attribute.name());
    case Case::kSint32Value:
      return attribute.sint32_value();
    case Case::kSint64Value:
      return attribute.sint64_value();
    case Case::kFixed32Value:
      return attribute.fixed32_value();
    case Case::kFixed64Value:
      return within_range(attribute.fixed64_value(), attribute.name());
    case Case::kSfixed32Value:
      return attribute.sfixed32_value();
    case Case::kSfixed64Value:
      return attribute.sfixed64_value();
    case Case::kBoolValue:
      return attribute.bool_value();
    case Case::kBoolList:
    case Case::kStringValue:
    case Case::kBytesValue:
    case Case::VALUE_NOT_SET:
      break;
  }
  throw invalid("attribute " + attribute.name() + " is not a number");
}

void read_attribute(const proto::Attribute& attribute, TraceNode& node) {
  using Case = proto::Attribute::ValueCase;
  for (const IntegerField& field : kIntegerFields) {
    if (attribute.name() == field.name) {
      node.*field.member = integer_of(attribute);
      return;
    }
  }
  if (attribute.name() == "pg_name") {
    const bool is_text = attribute.value_case() == Case::kStringValue || attribute.value_case() == Case::kBytesValue;
    const std::string& text =
        attribute.value_case() == Case::kBytesValue ? attribute.bytes_value() : attribute.string_value();
    node.pg_name = is_text ? text : std::to_string(integer_of(attribute));
  } else if (attribute.name() == "involved_dim" && attribute.value_case() == Case::kBoolList) {
    const auto& values = attribute.bool_list().values();
    node.involved_dim.assign(values.begin(), values.end());
  }
}

void append_varint(uint64_t value, std::string& text) {
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  text += static_cast<char>(value);
}

template <typename Message>
void append_message(const Message& message, std::string& file) {
  append_varint(message.ByteSizeLong(), file);
  message.AppendToString(&file);
}

}  // namespace

struct BinaryReader::Messages {
  proto::Metadata metadata;
  proto::Node node;
};

BinaryReader::BinaryReader(TraceSource& source) : source_(source), messages_(std::make_unique<Messages>()) {
  if (!read_message()) throw invalid("is empty; an execution trace begins with its metadata");
  constexpr char kIdOfNode = 0x08;  // field 1 as a number; the metadata's is a text
  has_message_ = !text_.empty() && text_[0] == kIdOfNode;
  if (!has_message_ && !messages_->metadata.ParseFromString(text_)) {
    throw invalid("the first message is not the metadata of an execution trace; is this a Chakra file?");
  }
}
BinaryReader::~BinaryReader() = default;

bool BinaryReader::read_message() {
  if (source_.peek() < 0) return false;
  uint64_t size = 0;
  for (int shift = 0;; shift += 7) {
    const int byte = source_.next();
    if (byte < 0) throw invalid("ends within the length of a message; the file is cut off");
    if (shift > 28) throw invalid("the length of a message has more than five bytes; the file is damaged");
    size |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) break;
  }
  if (size > kMaxMessage) {
    throw Error(ErrorCode::unsupported, "a message of " + std::to_string(size) + " bytes is above the limit of " +
                                            std::to_string(kMaxMessage) + "; the file is damaged, or no Chakra trace");
  }
  text_.clear();
  while (text_.size() < size) {
    const int byte = source_.next();
    if (byte < 0) {
      throw invalid("ends after " + std::to_string(text_.size()) + " bytes of a message of " + std::to_string(size) +
                    "; the file is cut off");
    }
    text_ += static_cast<char>(byte);
  }
  return true;
}

bool BinaryReader::next(TraceNode& node) {
  if (!std::exchange(has_message_, false) && !read_message()) return false;
  if (text_.empty()) throw invalid("a message of length 0 is no node; the file is damaged");
  proto::Node& message = messages_->node;
  if (!message.ParseFromString(text_))
    throw invalid("a message of " + std::to_string(text_.size()) + " bytes is damaged");
  node = {};
  node.id = message.id();
  node.name = message.name();
  node.type = message.type();
  node.control_dependencies.assign(message.control_dependencies().begin(), message.control_dependencies().end());
  node.data_dependencies.assign(message.data_dependencies().begin(), message.data_dependencies().end());
  node.duration_micros = message.duration_micros();
  if (message.has_inputs()) node.input_values = message.inputs().values();
  for (const proto::Attribute& attribute : message.attributes()) read_attribute(attribute, node);
  return true;
}

std::string metadata_message() {
  proto::Metadata metadata;
  metadata.set_version("1.0.0");
  std::string file;
  append_message(metadata, file);
  return file;
}

void append_node(const TraceNode& node, std::string& file) {
  proto::Node message;
  message.set_id(node.id);
  message.set_name(node.name);
  message.set_type(static_cast<int32_t>(node.type));
  message.mutable_control_dependencies()->Add(node.control_dependencies.begin(), node.control_dependencies.end());
  message.mutable_data_dependencies()->Add(node.data_dependencies.begin(), node.data_dependencies.end());
  message.set_duration_micros(node.duration_micros);
  if (!node.input_values.empty()) message.mutable_inputs()->set_values(node.input_values);
  const auto add_attribute = [&](const char* name) -> proto::Attribute& {
    proto::Attribute& attribute = *message.add_attributes();
    attribute.set_name(name);
    return attribute;
  };
  for (const IntegerField& field : kIntegerFields) {
    const std::optional<int64_t>& value = node.*field.member;
    if (!value) continue;
    proto::Attribute& attribute = add_attribute(field.name);
    // The widths that the schema's own tools expect.
    const std::string_view name = field.name;
    if (name == "is_cpu_op") {
      attribute.set_bool_value(*value != 0);
    } else if (name == "tensor_size") {
      attribute.set_uint64_value(static_cast<uint64_t>(*value));
    } else if ((name == "comm_src" || name == "comm_dst" || name == "comm_tag") && *value <= INT32_MAX) {
      attribute.set_int32_value(static_cast<int32_t>(*value));
    } else {
      attribute.set_int64_value(*value);
    }
  }
  if (node.pg_name) add_attribute("pg_name").set_string_value(*node.pg_name);
  if (!node.involved_dim.empty()) {
    proto::Attribute& attribute = add_attribute("involved_dim");
    for (const bool flag : node.involved_dim) attribute.mutable_bool_list()->add_values(flag);
  }
  append_message(message, file);
}

}  // namespace banyan::job::chakra
