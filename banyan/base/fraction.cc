#include "banyan/base/fraction.h"

#include <algorithm>
#include <ostream>

#include "banyan/base/error.h"

namespace banyan {
namespace {

int128 gcd(int128 a, int128 b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    int128 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

[[noreturn]] void throw_overflow() {
  throw Error(ErrorCode::unsupported, "an exact fraction needs more than 128 bits; use rounder bandwidths or weights");
}

int128 multiply(int128 a, int128 b) {
  int128 result;
  if (__builtin_mul_overflow(a, b, &result)) throw_overflow();
  return result;
}

int128 add(int128 a, int128 b) {
  int128 result;
  if (__builtin_add_overflow(a, b, &result)) throw_overflow();
  return result;
}

int128 floor_divide(int128 a, int128 b) {  // b > 0
  int128 quotient = a / b;
  return (a % b < 0) ? quotient - 1 : quotient;
}

// Compares a/b with c/d, all denominators positive, by their continued fractions: no product is ever formed.
std::strong_ordering compare(int128 a, int128 b, int128 c, int128 d) {
  for (;;) {
    const int128 left = floor_divide(a, b), right = floor_divide(c, d);
    if (left != right) return left < right ? std::strong_ordering::less : std::strong_ordering::greater;
    a -= left * b;
    c -= right * d;
    if (a == 0 || c == 0) {
      if (a == c) return std::strong_ordering::equal;
      return a == 0 ? std::strong_ordering::less : std::strong_ordering::greater;
    }
    // Both are now proper fractions, and a/b < c/d exactly when d/c < b/a.
    std::swap(a, d);
    std::swap(b, c);
  }
}

int128 parse_integer(std::string_view text, std::string_view whole) {
  bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 38 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    throw Error(ErrorCode::invalid_input,
                "'" + std::string(whole.substr(0, 80)) + "' is not a fraction such as 1040/3");
  }
  int128 value = 0;
  for (char c : text) value = add(multiply(value, 10), c - '0');
  return negative ? -value : value;
}

}  // namespace

Fraction::Fraction(int128 numerator, int128 denominator) {
  if (denominator == 0) throw Error(ErrorCode::invalid_input, "a fraction has denominator zero");
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  const int128 common = gcd(numerator, denominator);
  numerator_ = numerator / common;
  denominator_ = denominator / common;
}

Fraction Fraction::parse(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return Fraction(parse_integer(text, text), 1);
  return Fraction(parse_integer(text.substr(0, slash), text), parse_integer(text.substr(slash + 1), text));
}

std::string Fraction::to_string() const {
  std::string text = banyan::to_string(numerator_);
  if (denominator_ != 1) text += "/" + banyan::to_string(denominator_);
  return text;
}

Fraction operator+(const Fraction& a, const Fraction& b) {
  const int128 common = gcd(a.denominator_, b.denominator_);
  const int128 scale_a = b.denominator_ / common, scale_b = a.denominator_ / common;
  return Fraction(add(multiply(a.numerator_, scale_a), multiply(b.numerator_, scale_b)),
                  multiply(a.denominator_, scale_a));
}

Fraction operator-(const Fraction& a, const Fraction& b) { return a + Fraction(-b.numerator_, b.denominator_); }

Fraction operator*(const Fraction& a, const Fraction& b) {
  const Fraction left(a.numerator_, b.denominator_), right(b.numerator_, a.denominator_);
  return Fraction(multiply(left.numerator_, right.numerator_), multiply(left.denominator_, right.denominator_));
}

Fraction operator/(const Fraction& a, const Fraction& b) { return a * Fraction(b.denominator_, b.numerator_); }

std::strong_ordering operator<=>(const Fraction& a, const Fraction& b) {
  return compare(a.numerator_, a.denominator_, b.numerator_, b.denominator_);
}

std::string to_string(int128 value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  std::string digits;
  while (value != 0) {
    const int digit = static_cast<int>(value % 10);
    digits.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
    value /= 10;
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::ostream& operator<<(std::ostream& out, const Fraction& value) { return out << value.to_string(); }

}  // namespace banyan
