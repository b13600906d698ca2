// Codes, and what they lose.
#include <string>

#include "banyan/base/error.h"
#include "banyan/codec/wire_type.h"
#include "bindings/c/handles.h"

using banyan::Error;
using banyan::ErrorCode;
using banyan::c::add_op;
using banyan::c::expect_pointer;
using banyan::c::guarded;
using banyan::c::guarded_on;
using banyan::element::ReduceOp;

BANYAN_CALL(coded_type, const char* codec, banyan_type_t* type) {
  return guarded(nullptr, [&] {
    expect_pointer(codec, "codec");
    expect_pointer(type, "type");
    *type = static_cast<banyan_type_t>(banyan::codec::WireType(banyan::codec::parse_codec(codec)).number());
  });
}

BANYAN_CALL(residual_create, banyan_residual_t* residual, size_t count) {
  return guarded(nullptr, [&] {
    expect_pointer(residual, "residual");
    *residual = nullptr;
    *residual = new banyan_residual{std::make_shared<banyan::run::Residual>(count)};
  });
}

BANYAN_CALL(residual_values, banyan_residual_t residual, float** values, size_t* count) {
  return guarded(nullptr, [&] {
    expect_pointer(residual, "residual");
    expect_pointer(values, "values");
    const std::span<float> kept = residual->residual->values();
    *values = kept.data();
    if (count != nullptr) *count = kept.size();
  });
}

BANYAN_CALL(residual_destroy, banyan_residual_t residual) {
  return guarded(nullptr, [&] {
    if (residual == nullptr) return;
    residual->residual->values();  // refuses where a call uses it
    delete residual;
  });
}

BANYAN_CALL(op_create_feedback, banyan_op_t* op, banyan_op_kind_t kind, banyan_residual_t residual,
            banyan_comm_t comm) {
  return guarded_on(comm, [&] {
    expect_pointer(op, "op");
    expect_pointer(residual, "residual");
    if (kind != BANYAN_SUM && kind != BANYAN_AVG)
      throw Error(ErrorCode::invalid_input,
                  "feedback is for BANYAN_SUM and BANYAN_AVG, not op " + std::to_string(kind));
    *op = add_op(comm, {.op = kind == BANYAN_SUM ? ReduceOp::sum : ReduceOp::avg, .residual = residual->residual});
  });
}
