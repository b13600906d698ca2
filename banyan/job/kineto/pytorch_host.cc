#include "banyan/job/kineto/pytorch_host.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/job/text/id_table.h"
#include "banyan/job/text/json_stream.h"

namespace banyan::job::kineto {
namespace {

constexpr std::string_view kParamComms = "record_param_comms";
constexpr std::string_view kGroupInit = "## process_group:init ##";

// What a node has: fields of its own before schema 1.1, later attributes of a list.
class Fields {
 public:
  explicit Fields(const JsonValue& node) : node_(node), attributes_(node.find("attrs")) {}

  const JsonValue* find(std::string_view name) const {
    if (const JsonValue* own = node_.find(name)) return own;
    if (attributes_ == nullptr) return nullptr;
    for (const JsonValue& attribute : attributes_->items) {
      if (text_of(attribute.find("name")) == name) return attribute.find("value");
    }
    return nullptr;
  }

  const JsonValue* inputs() const { return part("inputs", "values"); }
  const JsonValue* outputs() const { return part("outputs", "values"); }

 private:
  const JsonValue* part(std::string_view which, std::string_view key) const {
    const JsonValue* value = node_.find(which);
    return value && value->type == JsonValue::Type::object ? value->find(key) : value;
  }

  const JsonValue& node_;
  const JsonValue* attributes_;
};

// Elements of several tensors together. Of different types, they are counted as bytes.
class Tensors {
 public:
  void add(uint64_t elements, uint32_t width) {
    if (any() && width != width_) {
      elements_ = times(elements_, std::exchange(width_, 1));
      elements = times(elements, std::exchange(width, 1));
    }
    width_ = width;
    if (__builtin_add_overflow(elements_, elements, &elements_)) elements_ = UINT64_MAX;
  }

  bool any() const { return width_ > 0; }
  uint64_t elements() const { return elements_; }
  uint32_t width() const { return width_; }  // bytes of an element

 private:
  // What overflows stays too large, and is refused with its event when it is looked at.
  static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t out = 0;
    return __builtin_mul_overflow(a, b, &out) ? UINT64_MAX : out;
  }

  uint64_t elements_ = 0;
  uint32_t width_ = 0;
};

// Tensors are written as [id, storage, offset, elements, bytes of an element, "cuda:0"], newer ones with a few more
// numbers; lists of tensors as lists of such.
void add_tensors(const JsonValue& value, Tensors& sum) {
  if (value.type != JsonValue::Type::list) return;
  const std::vector<JsonValue>& items = value.items;
  if (items.size() >= 6 && items[5].type == JsonValue::Type::text) {
    const auto elements = items[3].as_integer(), width = items[4].as_integer();
    if (elements && width && *elements >= 0 && *width > 0 && *width <= 64) {
      sum.add(static_cast<uint64_t>(*elements), static_cast<uint32_t>(*width));
    }
    return;
  }
  for (const JsonValue& item : items) add_tensors(item, sum);
}

bool is_list(const JsonValue& value) { return value.type == JsonValue::Type::list; }

class Reader {
 public:
  explicit Reader(std::string source) { trace_.source = std::move(source); }

  void element(const JsonValue& value) {
    if (value.type != JsonValue::Type::object) throw invalid("is not an object");
    ++trace_.node_count;
    const Fields fields(value);
    const auto id = integer_of(value.find("id"));
    const std::string_view name = text_of(value.find("name"));
    if (!id || *id < 0 || name.empty()) {
      throw invalid("has no id or no name; is this a PyTorch execution trace?");
    }
    // The process is its own parent; threads hang on it. They are no operators.
    const bool is_operator = !name.starts_with("[pytorch|profiler|");
    const auto number = is_operator ? static_cast<uint32_t>(trace_.nodes.size()) : kNoOperator;
    if (!numbers_.add(static_cast<uint64_t>(*id), number)) {
      ++trace_.counts.repeated_nodes;
      return;
    }
    if (!is_operator) return;
    HostNode node;
    node.id = static_cast<uint64_t>(*id);
    node.record_id = integer_of(fields.find("rf_id")).value_or(-1);
    node.name = trace_.names.add(name);
    if (name == kParamComms) {
      param_comms(fields, node);
    } else if (name == kGroupInit) {
      if (const JsonValue* inputs = fields.inputs()) init(*inputs);
    } else if (name.starts_with("gloo:") || name.starts_with("nccl:") || name.starts_with("c10d::")) {
      tensors_of(name, fields, node);
    }
    parents_.push_back(parent_of(value));
    trace_.nodes.push_back(node);
  }

  HostTrace finish(const JsonStreamResult& result) {
    trace_.counts.cut_files = result.cut;
    trace_.counts.mended_text = result.mended;
    link_parents();
    take_over_from_around();
    return std::move(trace_);
  }

 private:
  static int64_t parent_of(const JsonValue& value) {
    const JsonValue* parent = value.find("ctrl_deps");
    if (parent == nullptr) parent = value.find("parent");
    if (parent && is_list(*parent)) parent = parent->items.empty() ? nullptr : &parent->items.front();
    return integer_of(parent).value_or(-1);
  }

  void add(CommCall call, HostNode& node) {
    node.comm = static_cast<uint32_t>(trace_.comms.size());
    trace_.comms.push_back(std::move(call));
  }

  static std::optional<uint64_t> elements(const JsonValue* value) {
    const auto given = integer_of(value);
    if (!given || *given < 0) return std::nullopt;
    return static_cast<uint64_t>(*given);
  }

  void param_comms(const Fields& fields, HostNode& node) {
    CommCall call;
    const JsonValue* name = fields.find("collective_name");
    const JsonValue* inputs = fields.inputs();
    const size_t at = inputs && is_list(*inputs) ? place_of_name(*inputs) : SIZE_MAX;
    if (name == nullptr && at == SIZE_MAX) return;
    if (read_comm_name(name ? text_of(name) : text_of(&inputs->items[at]), call) == CommName::wrapper) return;
    if (at != SIZE_MAX) by_position(*inputs, at, call);
    Tensors in, out;
    if (inputs && is_list(*inputs) && at != SIZE_MAX) {
      for (size_t i = 0; i < at; ++i) add_tensors(inputs->items[i], in);
    }
    if (const JsonValue* outputs = fields.outputs()) add_tensors(*outputs, out);
    if (in.any()) call.in_elements = in.elements();
    if (out.any()) call.out_elements = out.elements();
    call.width = in.any() ? in.width() : out.width();
    if (const auto given = elements(fields.find("in_msg_nelems"))) call.in_elements = given;
    if (const auto given = elements(either(fields, "out_msg_nelems", "Out msg nelems"))) call.out_elements = given;
    if (const uint32_t width = element_width(text_of(fields.find("dtype")))) call.width = width;
    if (const JsonValue* group = fields.find("pg_name")) {
      call.group = group->text_or_json();
      call.group_is_object = false;
    }
    if (const auto size = elements(fields.find("pg_size")))
      call.group_size = static_cast<uint32_t>(std::min<uint64_t>(*size, UINT32_MAX));
    if (const auto first = integer_of(fields.find("global_rank_start"))) call.first_rank = *first;
    if (const auto stride = integer_of(fields.find("global_rank_stride"))) call.rank_stride = *stride;
    add(std::move(call), node);
  }

  static const JsonValue* either(const Fields& fields, std::string_view a, std::string_view b) {
    const JsonValue* first = fields.find(a);
    return first ? first : fields.find(b);
  }

  // The collective's name is the only text that is one: before it stand tensors, number of the call, group and rank.
  static size_t place_of_name(const JsonValue& inputs) {
    for (size_t i = 0; i < inputs.items.size(); ++i) {
      CommCall ignored;
      if (inputs.items[i].type == JsonValue::Type::text &&
          read_comm_name(inputs.items[i].written, ignored) != CommName::none) {
        return i;
      }
    }
    return SIZE_MAX;
  }

  // [tensors], seq, group, rank, NAME, in splits, out splits [, first rank, stride], group's size. The group is the
  // address of its object, later a pair (name, description).
  static void by_position(const JsonValue& inputs, size_t at, CommCall& call) {
    const std::vector<JsonValue>& items = inputs.items;
    if (at >= 1) {
      const auto rank = integer_of(&items[at - 1]);
      if (rank && *rank >= 0 && *rank < int64_t{Job::kMaxRanks}) call.peer = static_cast<uint32_t>(*rank);
    }
    if (at >= 2) {
      const JsonValue& group = items[at - 2];
      if (is_list(group) && !group.items.empty() && group.items[0].as_text()) {
        call.group = *group.items[0].as_text();
      } else if (group.as_text()) {
        call.group = *group.as_text();
      } else if (const auto object = integer_of(&group)) {
        call.group = std::to_string(*object);
        call.group_is_object = true;
      }
    }
    std::vector<int64_t> numbers;
    for (size_t i = at + 1; i < items.size(); ++i) {
      if (items[i].type == JsonValue::Type::whole) numbers.push_back(items[i].integer);
    }
    if (!numbers.empty() && numbers.back() > 0 && numbers.back() <= int64_t{Job::kMaxRanks}) {
      call.group_size = static_cast<uint32_t>(numbers.back());
    }
    if (numbers.size() == 3) {
      call.first_rank = numbers[0];
      call.rank_stride = numbers[1];
    }
  }

  void init(const JsonValue& inputs) {
    const JsonValue* table = is_list(inputs) && !inputs.items.empty() ? &inputs.items[0] : &inputs;
    for (ProcessGroup& group : read_group_table(table->text_or_json())) {
      trace_.groups.push_back(std::move(group));
    }
  }

  // gloo:all_reduce has the tensors, c10d::broadcast_ the root or peer behind them.
  void tensors_of(std::string_view name, const Fields& fields, HostNode& node) {
    CommCall call;
    if (read_comm_name(name, call) != CommName::call) return;
    const JsonValue* inputs = fields.inputs();
    if (inputs == nullptr || !is_list(*inputs)) return;
    Tensors in;
    if (name.starts_with("c10d::")) {
      // The first whole number is the root or the peer where there is one.
      for (const JsonValue& input : inputs->items) {
        if (input.type != JsonValue::Type::whole) continue;
        const bool pointed = call.kind != CommCall::Kind::collective || is_rooted(call.collective);
        if (pointed && input.integer >= 0 && input.integer < int64_t{Job::kMaxRanks}) {
          call.peer = static_cast<uint32_t>(input.integer);
        }
        break;
      }
    } else {
      for (const JsonValue& input : inputs->items) add_tensors(input, in);
      if (in.any()) call.in_elements = in.elements();
      call.width = in.width();
      if (call.kind == CommCall::Kind::receive) std::swap(call.in_elements, call.out_elements);
    }
    add(std::move(call), node);
  }

  void link_parents() {
    std::vector<uint32_t> order(trace_.nodes.size()), place(trace_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](uint32_t a) { return trace_.nodes[a].id; });
    std::vector<HostNode> sorted;
    sorted.reserve(order.size());
    for (const uint32_t number : order) {
      place[number] = static_cast<uint32_t>(sorted.size());
      sorted.push_back(trace_.nodes[number]);
    }
    for (uint32_t number = 0; number < order.size(); ++number) {
      if (parents_[number] < 0) continue;
      const auto parent = numbers_.find(static_cast<uint64_t>(parents_[number]));
      if (!parent) {
        ++trace_.counts.missing_parents;
      } else if (*parent != kNoOperator && place[*parent] < place[number]) {
        // A parent began earlier, so no node is above itself.
        sorted[place[number]].parent = place[*parent];
      }
    }
    trace_.nodes = std::move(sorted);
  }

  // Root and peer of a gloo: or nccl: operator stand at the c10d:: operator around it. That one is no communication of
  // its own then, but what it holds.
  void take_over_from_around() {
    std::vector<bool> covered(trace_.nodes.size());
    for (size_t i = 0; i < trace_.nodes.size(); ++i) {
      HostNode& node = trace_.nodes[i];
      if (node.comm == HostNode::kNone) continue;
      uint32_t around = node.parent;
      for (int up = 0; up < 4 && around != HostNode::kNone; ++up) {
        const HostNode& outer = trace_.nodes[around];
        if (outer.comm != HostNode::kNone) {
          covered[around] = true;
          CommCall& inner_call = trace_.comms[node.comm];
          const CommCall& outer_call = trace_.comms[outer.comm];
          if (!inner_call.peer && outer_call.kind == inner_call.kind &&
              outer_call.collective == inner_call.collective) {
            inner_call.peer = outer_call.peer;
          }
        }
        around = outer.parent;
      }
    }
    for (size_t i = 0; i < trace_.nodes.size(); ++i) {
      HostNode& node = trace_.nodes[i];
      const std::string_view name = trace_.name(node);
      // record_param_comms knows more than what it holds.
      const bool bare = name.starts_with("c10d::");
      if (node.comm != HostNode::kNone && bare && (covered[i] || !trace_.comms[node.comm].width))
        node.comm = HostNode::kNone;
      if (name.starts_with("nccl:") && node.parent != HostNode::kNone &&
          trace_.name(trace_.nodes[node.parent]) == kParamComms) {
        node.comm = HostNode::kNone;
      }
    }
  }

  static constexpr uint32_t kNoOperator = UINT32_MAX - 1;  // the number of a process or thread

  HostTrace trace_;
  std::vector<int64_t> parents_;  // ids, like nodes before they are sorted
  IdTable numbers_;               // by id: of the node before they are sorted
};

}  // namespace

HostTrace read_host_trace(TraceSource source) {
  Reader reader(source.name());
  const JsonStreamResult result =
      stream_json(source, {.streamed = "nodes",
                           .element = [&](const JsonValue& value, uint64_t) { reader.element(value); },
                           .member = {},
                           .accept_cut = true});
  HostTrace trace = reader.finish(result);
  if (trace.node_count == 0) {
    throw invalid("holds no nodes; give the JSON that ExecutionTraceObserver writes").within(trace.source);
  }
  return trace;
}

}  // namespace banyan::job::kineto
