// Exact rational numbers. Optimality in Banyan is an equality of fractions, never of doubles.
//
// A Fraction is kept in lowest terms with a positive denominator, both in 128 bits. An operation whose result does not
// fit throws Error{unsupported}: inputs with absurdly diverse numbers can cause it, so it is no CHECK. Comparison is
// exact and cannot overflow. Immutable value, safe to share between threads.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace banyan {

using int128 = __int128;

class Fraction {
 public:
  constexpr Fraction() = default;
  constexpr Fraction(int64_t whole) : numerator_(whole) {}
  // Throws Error{invalid_input} when denominator is zero.
  Fraction(int128 numerator, int128 denominator);

  // "3", "-2", "1040/3". Throws Error{invalid_input} on anything else.
  static Fraction parse(std::string_view text);

  int128 numerator() const { return numerator_; }
  int128 denominator() const { return denominator_; }
  double to_double() const { return static_cast<double>(numerator_) / static_cast<double>(denominator_); }
  std::string to_string() const;

  friend Fraction operator+(const Fraction& a, const Fraction& b);
  friend Fraction operator-(const Fraction& a, const Fraction& b);
  friend Fraction operator*(const Fraction& a, const Fraction& b);
  friend Fraction operator/(const Fraction& a, const Fraction& b);
  friend bool operator==(const Fraction&, const Fraction&) = default;
  friend std::strong_ordering operator<=>(const Fraction& a, const Fraction& b);

 private:
  int128 numerator_ = 0;
  int128 denominator_ = 1;
};

std::string to_string(int128 value);
std::ostream& operator<<(std::ostream& out, const Fraction& value);

}  // namespace banyan
