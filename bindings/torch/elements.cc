#include "bindings/torch/elements.h"

#include <optional>

namespace banyan::pytorch {
namespace {

std::optional<DataType> type_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return DataType::int8;
    case at::kShort:
      return DataType::int16;
    case at::kInt:
      return DataType::int32;
    case at::kLong:
      return DataType::int64;
    case at::kByte:
    case at::kBool:
      return DataType::uint8;
    case at::kHalf:
      return DataType::float16;
    case at::kBFloat16:
      return DataType::bfloat16;
    case at::kFloat:
      return DataType::float32;
    case at::kDouble:
      return DataType::float64;
    default:
      return std::nullopt;
  }
}

ReduceOp op_of(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::prod;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return ReduceOp::band;
    case c10d::ReduceOp::BOR:
      return ReduceOp::bor;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::bxor;
    default:
      TORCH_CHECK(false, "Unhandled ReduceOp ", static_cast<int>(op));
  }
}

}  // namespace

ElementReduction reduction_of(at::ScalarType type, const c10d::ReduceOp& op) {
  ElementReduction reduction{.op = op_of(op)};
  if (type == at::kComplexFloat || type == at::kComplexDouble) {
    TORCH_CHECK(reduction.op == ReduceOp::sum || reduction.op == ReduceOp::avg,
                "complex numbers can only be summed, not ", std::string(to_string(reduction.op)));
    reduction.type = type == at::kComplexFloat ? DataType::float32 : DataType::float64;
    reduction.elements_each = 2;
    return reduction;
  }
  const std::optional<DataType> found = type_of(type);
  TORCH_CHECK(found, "Invalid scalar type");
  reduction.type = *found;
  TORCH_CHECK(!is_bitwise(reduction.op) || !is_floating(reduction.type), "Cannot use ReduceOp.",
              reduction.op == ReduceOp::band  ? "BAND"
              : reduction.op == ReduceOp::bor ? "BOR"
                                              : "BXOR",
              " with non-integral dtype");
  if (type == at::kBool) {
    if (reduction.op == ReduceOp::sum) reduction.op = ReduceOp::max;
    if (reduction.op == ReduceOp::prod) reduction.op = ReduceOp::min;
    TORCH_CHECK(reduction.op != ReduceOp::avg, "Cannot use ReduceOp.AVG with booleans");
  }
  return reduction;
}

ElementMove move_of(const at::Tensor& tensor) {
  if (const std::optional<DataType> type = type_of(tensor.scalar_type())) return {.type = *type};
  return {.type = DataType::uint8, .elements_each = static_cast<uint64_t>(tensor.element_size())};
}

}  // namespace banyan::pytorch
