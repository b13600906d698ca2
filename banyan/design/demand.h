// Demand: the amounts that endpoints have to send each other, for which a topology is chosen. Endpoints are ranks,
// racks or pods.
//
//   ,gpu0,gpu1,gpu2          0,40GB,1GB            # no names: gpu0, gpu1, ...
//   gpu0,0,40GB,1GB          1GB,0,40GB
//   gpu1,1GB,0,40GB          40GB,1GB,0
//   gpu2,40GB,1GB,0
//
// A CSV of N x N amounts without quotes: line i, cell j is what endpoint i sends to endpoint j. A first line and a
// first column of names may be there, both or either; where both are, they agree. Amounts are bytes (4096, 1.5e9,
// 64KiB, 40GB) or rates (12GB/s, 100Gb/s), one of the two in the whole matrix; a plain 0 is either. An endpoint's
// amount for itself must be 0 unless the rules allow another. Lines that are empty or begin with '#' are left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/fraction.h"

namespace banyan::design {

struct DemandMatrix {
  static constexpr size_t kMaxEndpoints = 256;
  static constexpr uint64_t kMaxAmount = uint64_t{1} << 53;  // of a pair, unless rules say otherwise: exact as doubles

  enum class Unit : uint8_t { bytes, bytes_per_second };
  Unit unit = Unit::bytes;
  std::vector<std::string> names;  // of the endpoints, unique
  bool is_named = false;           // names were given; else they are gpu0, gpu1, ...
  std::vector<uint64_t> amounts;   // row by row

  size_t size() const { return names.size(); }
  uint64_t at(size_t from, size_t to) const { return amounts[from * size() + to]; }
  std::vector<uint64_t> row_totals() const;
  std::vector<uint64_t> column_totals() const;
};

struct DemandRules {
  size_t most_endpoints = DemandMatrix::kMaxEndpoints;
  bool allows_own = false;                          // an endpoint may have something for itself
  uint64_t most_amount = DemandMatrix::kMaxAmount;  // of a pair, below 2^63
};

// Throws Error{invalid_input} with the line and the column (the cell, counted from 1) of what is wrong. `where` (a
// file's name) is put in front of it.
DemandMatrix parse_demand_csv(std::string_view text, const std::string& where, const DemandRules& rules = {});

// Demands that one topology has to serve, one at a time: each of the matrices, and all that differ from one of them by
// at most `uncertainty`: every entry may grow by that part of it, as long as no endpoint sends or receives more in all
// than its row or column says. With 0.3, what is 10 GB in the matrix may be 13.
struct DemandSet {
  std::vector<DemandMatrix> matrices;  // at least one
  Fraction uncertainty;                // 0 or more

  size_t size() const { return matrices.front().size(); }
  // The most that an entry may be: grown, and no more than its row and its column have in all.
  std::vector<uint64_t> most(const DemandMatrix& matrix) const;
};

// Throws Error{mismatch} where the matrices have not the same endpoints and unit, Error{invalid_input} where none has
// any demand or the uncertainty is negative or above 1000.
void check_demands(const DemandSet& demands);

}  // namespace banyan::design
