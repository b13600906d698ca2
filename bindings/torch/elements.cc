#include "bindings/torch/elements.h"

#include <optional>
#include <utility>

namespace banyan::pytorch {
namespace {

constexpr std::pair<at::ScalarType, element::DataType> kTypes[] = {
    {at::kChar, element::DataType::int8},     {at::kShort, element::DataType::int16},
    {at::kInt, element::DataType::int32},     {at::kLong, element::DataType::int64},
    {at::kByte, element::DataType::uint8},    {at::kBool, element::DataType::uint8},
    {at::kHalf, element::DataType::float16},  {at::kBFloat16, element::DataType::bfloat16},
    {at::kFloat, element::DataType::float32}, {at::kDouble, element::DataType::float64},
};
constexpr std::pair<c10d::ReduceOp::RedOpType, element::ReduceOp> kOps[] = {
    {c10d::ReduceOp::SUM, element::ReduceOp::sum},      {c10d::ReduceOp::AVG, element::ReduceOp::avg},
    {c10d::ReduceOp::PRODUCT, element::ReduceOp::prod}, {c10d::ReduceOp::MIN, element::ReduceOp::min},
    {c10d::ReduceOp::MAX, element::ReduceOp::max},      {c10d::ReduceOp::BAND, element::ReduceOp::band},
    {c10d::ReduceOp::BOR, element::ReduceOp::bor},      {c10d::ReduceOp::BXOR, element::ReduceOp::bxor},
};

template <typename Theirs, typename Ours, size_t kCount>
std::optional<Ours> find(const std::pair<Theirs, Ours> (&table)[kCount], Theirs key) {
  for (const auto& [theirs, ours] : table) {
    if (theirs == key) return ours;
  }
  return std::nullopt;
}

std::optional<element::DataType> type_of(at::ScalarType type) { return find(kTypes, type); }

element::ReduceOp op_of(c10d::ReduceOp::RedOpType op) {
  const std::optional<element::ReduceOp> found = find(kOps, op);
  TORCH_CHECK(found, "Unhandled ReduceOp ", static_cast<int>(op));
  return *found;
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
