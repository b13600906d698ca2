#include "bindings/torch/elements.h"

#include <optional>

namespace banyan::pytorch {
namespace {

std::optional<element::DataType> type_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return element::DataType::int8;
    case at::kShort:
      return element::DataType::int16;
    case at::kInt:
      return element::DataType::int32;
    case at::kLong:
      return element::DataType::int64;
    case at::kByte:
    case at::kBool:
      return element::DataType::uint8;
    case at::kHalf:
      return element::DataType::float16;
    case at::kBFloat16:
      return element::DataType::bfloat16;
    case at::kFloat:
      return element::DataType::float32;
    case at::kDouble:
      return element::DataType::float64;
    default:
      return std::nullopt;
  }
}

element::ReduceOp op_of(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return element::ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return element::ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT:
      return element::ReduceOp::prod;
    case c10d::ReduceOp::MIN:
      return element::ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return element::ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return element::ReduceOp::band;
    case c10d::ReduceOp::BOR:
      return element::ReduceOp::bor;
    case c10d::ReduceOp::BXOR:
      return element::ReduceOp::bxor;
    default:
      TORCH_CHECK(false, "Unhandled ReduceOp ", static_cast<int>(op));
  }
}

}  // namespace

ElementReduction reduction_of(at::ScalarType type, const c10d::ReduceOp& op) {
  ElementReduction reduction{.op = op_of(op)};
  if (type == at::kComplexFloat || type == at::kComplexDouble) {
    TORCH_CHECK(reduction.op == element::ReduceOp::sum || reduction.op == element::ReduceOp::avg,
                "complex numbers can only be summed, not ", std::string(to_string(reduction.op)));
    reduction.type = type == at::kComplexFloat ? element::DataType::float32 : element::DataType::float64;
    reduction.elements_each = 2;
    return reduction;
  }
  const std::optional<element::DataType> found = type_of(type);
  TORCH_CHECK(found, "Invalid scalar type");
  reduction.type = *found;
  TORCH_CHECK(!is_bitwise(reduction.op) || !is_floating(reduction.type), "Cannot use ReduceOp.",
              reduction.op == element::ReduceOp::band  ? "BAND"
              : reduction.op == element::ReduceOp::bor ? "BOR"
                                                       : "BXOR",
              " with non-integral dtype");
  if (type == at::kBool) {
    if (reduction.op == element::ReduceOp::sum) reduction.op = element::ReduceOp::max;
    if (reduction.op == element::ReduceOp::prod) reduction.op = element::ReduceOp::min;
    TORCH_CHECK(reduction.op != element::ReduceOp::avg, "Cannot use ReduceOp.AVG with booleans");
  }
  return reduction;
}

ElementMove move_of(const at::Tensor& tensor) {
  if (const std::optional<element::DataType> type = type_of(tensor.scalar_type())) return {.type = *type};
  return {.type = element::DataType::uint8, .elements_each = static_cast<uint64_t>(tensor.element_size())};
}

}  // namespace banyan::pytorch
