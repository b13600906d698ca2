#include "banyan/run/seal/password_exchange.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/obj_mac.h>

#include <cstdint>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/seal/primitives.h"

namespace banyan::run {
namespace {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* thing) const {
    kFree(thing);
  }
};
using Number = std::unique_ptr<BIGNUM, Freed<BN_clear_free>>;
using Point = std::unique_ptr<EC_POINT, Freed<EC_POINT_clear_free>>;
using Group = std::unique_ptr<EC_GROUP, Freed<EC_GROUP_free>>;
using Workspace = std::unique_ptr<BN_CTX, Freed<BN_CTX_free>>;

// RFC 9382, section 4: points whose logarithms nobody knows.
constexpr std::string_view kM = "02886e2f97ace46e55ba9dd7242579f2993b64e16ef3dcab95afd497333d8fa12f";
constexpr std::string_view kN = "03d8bbd6c639c62937b04d997f38c3770719c629d7014d49a24b4f98baa1292b49";
constexpr size_t kScalarSize = 32, kKeyMaterial = 48;

void demand(bool has_worked) { demand_of_libcrypto(has_worked, "calculate on its curve"); }

Group p256() {
  Group group(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  demand(group != nullptr);
  return group;
}

Workspace workspace() {
  Workspace space(BN_CTX_secure_new());
  demand(space != nullptr);
  return space;
}

Point new_point(const EC_GROUP* group) {
  Point point(EC_POINT_new(group));
  demand(point != nullptr);
  return point;
}

Number number_of(std::string_view bytes) {
  Number number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()), nullptr));
  demand(number != nullptr);
  BN_set_flags(number.get(), BN_FLG_CONSTTIME);
  return number;
}

// Below the order of the group, and evenly spread when `bytes` are, of which there are 16 more than needed.
Number scalar_from(const EC_GROUP* group, std::string_view bytes, BN_CTX* space) {
  const Number wide = number_of(bytes);
  Number scalar(BN_secure_new());
  demand(scalar != nullptr && BN_nnmod(scalar.get(), wide.get(), EC_GROUP_get0_order(group), space) == 1);
  BN_set_flags(scalar.get(), BN_FLG_CONSTTIME);
  return scalar;
}

std::string text_of(const EC_GROUP* group, const EC_POINT* point, BN_CTX* space) {
  std::string bytes(PasswordExchange::kShareSize, '\0');
  demand(EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, reinterpret_cast<unsigned char*>(bytes.data()),
                            bytes.size(), space) == bytes.size());
  return bytes;
}

void append_sized(std::string& text, std::string_view part) {
  for (size_t i = 0; i < sizeof(uint64_t); ++i) text += static_cast<char>(uint64_t{part.size()} >> (8 * i));
  text += part;
}

}  // namespace

struct Password::Points {
  Group group = p256();
  std::string scalar;                  // w of the RFC, as bytes
  Point caller_mask, callee_mask;      // w*M, w*N
  Point caller_unmask, callee_unmask;  // their negatives

  explicit Points(Number w) {
    const Workspace space = workspace();
    scalar.resize(kScalarSize);
    demand(BN_bn2binpad(w.get(), reinterpret_cast<unsigned char*>(scalar.data()), kScalarSize) == kScalarSize);
    const auto times = [&](std::string_view constant) {
      const Point base = new_point(group.get());
      Point product = new_point(group.get());
      demand(EC_POINT_hex2point(group.get(), std::string(constant).c_str(), base.get(), space.get()) != nullptr);
      demand(EC_POINT_mul(group.get(), product.get(), nullptr, base.get(), w.get(), space.get()) == 1);
      return product;
    };
    const auto negated = [&](const Point& point) {
      Point negative(EC_POINT_dup(point.get(), group.get()));
      demand(negative != nullptr && EC_POINT_invert(group.get(), negative.get(), space.get()) == 1);
      return negative;
    };
    caller_mask = times(kM);
    callee_mask = times(kN);
    caller_unmask = negated(caller_mask);
    callee_unmask = negated(callee_mask);
  }
};

Password::Password(std::unique_ptr<Points> points) : points_(std::move(points)) {}
Password::~Password() = default;

std::shared_ptr<const Password> Password::from_key(std::string_view key) {
  CHECK_EQ(key.size(), kKeyMaterial);
  const Group group = p256();
  const Workspace space = workspace();
  return std::shared_ptr<const Password>(
      new Password(std::make_unique<Points>(scalar_from(group.get(), key, space.get()))));
}

std::shared_ptr<const Password> Password::from_scalar(std::string_view scalar) {
  return std::shared_ptr<const Password>(new Password(std::make_unique<Points>(number_of(scalar))));
}

class PasswordExchange::Scalar {
 public:
  explicit Scalar(Number drawn) : number(std::move(drawn)) {}
  Number number;
};

PasswordExchange::PasswordExchange(bool is_caller, std::shared_ptr<const Password> password, const Names& names,
                                   const std::optional<std::string>& scalar)
    : is_caller_(is_caller), password_(std::move(password)), names_(names) {
  const Password::Points& known = *password_->points_;
  const EC_GROUP* const group = known.group.get();
  const Workspace space = workspace();
  scalar_ = std::make_unique<Scalar>(scalar ? number_of(*scalar)
                                            : scalar_from(group, random_bytes(kKeyMaterial), space.get()));
  const Point plain = new_point(group), masked = new_point(group);
  demand(EC_POINT_mul(group, plain.get(), scalar_->number.get(), nullptr, nullptr, space.get()) == 1);
  const Point& mask = is_caller_ ? known.caller_mask : known.callee_mask;
  demand(EC_POINT_add(group, masked.get(), plain.get(), mask.get(), space.get()) == 1);
  share_ = text_of(group, masked.get(), space.get());
}

PasswordExchange::~PasswordExchange() = default;

bool PasswordExchange::take(std::string_view share, std::string_view context) {
  const Password::Points& known = *password_->points_;
  const EC_GROUP* const group = known.group.get();
  const Workspace space = workspace();
  const Point masked = new_point(group), plain = new_point(group), product = new_point(group);
  // Which checks that it is on the curve, whose order is prime.
  if (share.size() != kShareSize ||
      EC_POINT_oct2point(group, masked.get(), reinterpret_cast<const unsigned char*>(share.data()), share.size(),
                         space.get()) != 1) {
    return false;
  }
  const Point& unmask = is_caller_ ? known.callee_unmask : known.caller_unmask;
  demand(EC_POINT_add(group, plain.get(), masked.get(), unmask.get(), space.get()) == 1);
  if (EC_POINT_is_at_infinity(group, plain.get()) == 1) return false;  // the peer's scalar would be zero
  demand(EC_POINT_mul(group, product.get(), nullptr, plain.get(), scalar_->number.get(), space.get()) == 1);
  std::string transcript;
  append_sized(transcript, names_.caller);
  append_sized(transcript, names_.callee);
  append_sized(transcript, is_caller_ ? std::string_view(share_) : share);
  append_sized(transcript, is_caller_ ? share : std::string_view(share_));
  append_sized(transcript, text_of(group, product.get(), space.get()));
  append_sized(transcript, known.scalar);
  const std::string digest = sha256(transcript);
  key_ = digest.substr(0, kKeySize);
  const std::string keys = hkdf_sha256(std::string_view(digest).substr(kKeySize), {},
                                       "ConfirmationKeys" + std::string(context), 2 * kKeySize);
  const std::string of_caller = hmac_sha256(std::string_view(keys).substr(0, kKeySize), transcript);
  const std::string of_callee = hmac_sha256(std::string_view(keys).substr(kKeySize), transcript);
  own_proof_ = is_caller_ ? of_caller : of_callee;
  peer_proof_ = is_caller_ ? of_callee : of_caller;
  return true;
}

bool PasswordExchange::is_proof_of_peer(std::string_view proof) const {
  CHECK(!peer_proof_.empty()) << "there is no share yet";
  return are_equal_secrets(proof, peer_proof_);
}

}  // namespace banyan::run
