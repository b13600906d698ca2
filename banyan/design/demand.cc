#include "banyan/design/demand.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/fabric/fabric.h"

namespace banyan::design {
namespace {

struct CsvLine {
  size_t number = 0;  // from 1
  std::vector<std::string_view> cells;
};

struct Amount {
  uint64_t value = 0;
  std::optional<DemandMatrix::Unit> unit;  // none of a plain 0
};

std::vector<CsvLine> split_csv(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the byte order mark of spreadsheets
  std::vector<CsvLine> lines;
  size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::string_view trimmed = trim(line);
    if (trimmed.empty() || trimmed.starts_with('#')) continue;
    lines.push_back({.number = number, .cells = split_cells(line)});
  }
  return lines;
}

Error too_much(std::string_view cell, uint64_t most) {
  return invalid(in_quotes(cell) + " is more than " + std::to_string(most) + ", the most that an entry can be");
}

Amount in_range(double value, std::string_view cell, DemandMatrix::Unit unit, uint64_t most) {
  if (value >= 0x1p64 || static_cast<uint64_t>(value) > most) throw too_much(cell, most);
  if (value != std::floor(value)) {
    throw invalid(in_quotes(cell) + " is no whole number of bytes; scale the whole matrix up");
  }
  return {.value = static_cast<uint64_t>(value), .unit = value > 0 ? std::optional(unit) : std::nullopt};
}

// Throws Error that does not say where.
Amount parse_amount(std::string_view cell, uint64_t most) {
  uint64_t whole = 0;  // which a double may not hold
  const auto [whole_end, whole_code] = std::from_chars(cell.data(), cell.data() + cell.size(), whole);
  if (whole_end == cell.data() + cell.size() && whole_code == std::errc()) {
    if (whole > most) throw too_much(cell, most);
    return {.value = whole, .unit = whole > 0 ? std::optional(DemandMatrix::Unit::bytes) : std::nullopt};
  }
  double plain = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), plain);
  if (end == cell.data() + cell.size() && !cell.empty()) {
    if (code == std::errc::result_out_of_range || !std::isfinite(plain) || std::signbit(plain)) {
      throw invalid(in_quotes(cell) + " is no amount; write bytes such as 4096 or 40GB, or rates such as 12GB/s");
    }
    return in_range(plain, cell, DemandMatrix::Unit::bytes, most);
  }
  if (cell.find("/s") != std::string_view::npos || lower(cell).ends_with("ps")) {
    return in_range(static_cast<double>(Bandwidth::parse(cell).bytes_per_second()), cell,
                    DemandMatrix::Unit::bytes_per_second, most);
  }
  return in_range(static_cast<double>(Bytes::parse(cell).count()), cell, DemandMatrix::Unit::bytes, most);
}

bool is_amount(std::string_view cell) {
  try {
    parse_amount(cell, UINT64_MAX);
    return true;
  } catch (const Error&) {
    // "-5" and "nan" are amounts gone wrong, no names: they are to be reported as such.
    double number = 0;
    return std::from_chars(cell.data(), cell.data() + cell.size(), number).ptr == cell.data() + cell.size() &&
           !cell.empty();
  }
}

class DemandReader {
 public:
  DemandReader(std::string_view text, const std::string& where, const DemandRules& rules)
      : where_(where), rules_(rules), lines_(split_csv(text)) {
    if (lines_.empty()) throw invalid("has no lines; write N lines of N amounts").within(where);
  }

  DemandMatrix read() {
    find_heads();
    read_names();
    for (size_t i = 0; i < demand_.size(); ++i) read_row(i);
    return std::move(demand_);
  }

 private:
  Error error(const CsvLine& line, std::optional<size_t> cell, const std::string& message) const {
    const std::string column = cell ? ", column " + std::to_string(*cell + 1) : "";
    return Error(ErrorCode::invalid_input, message, where_ + " line " + std::to_string(line.number) + column);
  }

  // A first line is one of names when its first cell is empty or no other cell of it is an amount.
  void find_heads() {
    const std::vector<std::string_view>& first = lines_.front().cells;
    has_head_line_ =
        first.front().empty() || (!is_amount(first.front()) && std::none_of(first.begin() + 1, first.end(), is_amount));
    const size_t begin = has_head_line_ ? 1 : 0;
    if (lines_.size() == begin)
      throw error(lines_.back(), std::nullopt, "has names only; N lines of amounts follow them");
    has_head_column_ = first.front().empty() || !is_amount(lines_[begin].cells.front());
    const size_t cells = lines_[begin].cells.size(), rows = lines_.size() - begin;
    const size_t columns = cells - (has_head_column_ ? 1 : 0);
    if (columns != rows) {
      throw error(lines_.back(), std::nullopt,
                  "a demand has as many lines as columns, but there are " + plural(rows, "line") + " and " +
                      plural(columns, "column") + " of amounts");
    }
    if (rows < 2 || rows > rules_.most_endpoints) {
      throw error(lines_.back(), std::nullopt,
                  "a demand has 2 to " + std::to_string(rules_.most_endpoints) + " endpoints, but this one has " +
                      std::to_string(rows));
    }
    demand_.names.resize(rows);
    demand_.amounts.resize(rows * rows);
  }

  const CsvLine& row(size_t i) const { return lines_[i + (has_head_line_ ? 1 : 0)]; }

  void read_names() {
    const size_t n = demand_.size();
    const CsvLine& head = lines_.front();
    // The head line may have a corner above the names of the lines, or not.
    const size_t corner = has_head_line_ && head.cells.size() == n + 1 ? 1 : 0;
    if (has_head_line_ && head.cells.size() != n + corner) {
      throw error(head, std::nullopt, "names " + plural(head.cells.size(), "column") + " of " + std::to_string(n));
    }
    demand_.is_named = has_head_line_ || has_head_column_;
    Fabric::Builder names;  // which knows what a name may be
    for (size_t i = 0; i < n; ++i) {
      if (!has_head_line_ && !has_head_column_) {
        demand_.names[i] = "gpu" + std::to_string(i);
        continue;
      }
      const CsvLine& line = has_head_line_ ? head : row(i);
      const size_t cell = has_head_line_ ? i + corner : 0;
      const std::string_view name = line.cells[cell];
      try {
        names.add_rank(std::string(name));
      } catch (const Error& cause) {
        throw error(line, cell, cause.what());
      }
      demand_.names[i] = name;
      if (has_head_line_ && has_head_column_ && row(i).cells.front() != name) {
        throw error(row(i), 0,
                    in_quotes(row(i).cells.front()) + " stands where the first line has " + in_quotes(name) +
                        "; name lines and columns in one order");
      }
    }
  }

  void read_row(size_t i) {
    const CsvLine& line = row(i);
    const size_t n = demand_.size(), first = has_head_column_ ? 1 : 0;
    if (line.cells.size() != n + first) {
      throw error(line, std::nullopt,
                  "has " + plural(line.cells.size() - std::min(first, line.cells.size()), "amount") +
                      " but the demand has " + plural(n, "endpoint"));
    }
    for (size_t j = 0; j < n; ++j) {
      try {
        demand_.amounts[i * n + j] = read_cell(line.cells[j + first], i, j);
      } catch (const Error& cause) {
        throw error(line, j + first, cause.what());
      }
    }
  }

  uint64_t read_cell(std::string_view cell, size_t i, size_t j) {
    const Amount amount = parse_amount(cell, rules_.most_amount);
    if (amount.unit) {
      if (i == j && !rules_.allows_own)
        throw invalid(demand_.names[i] + " has " + in_quotes(cell) + " for itself; write 0");
      if (unit_ && *unit_ != *amount.unit) {
        throw invalid(in_quotes(cell) + (*amount.unit == DemandMatrix::Unit::bytes ? " is in bytes" : " is a rate") +
                      ", unlike what comes before; write all of a demand in one of the two");
      }
      demand_.unit = *(unit_ = amount.unit);
    }
    return amount.value;
  }

  std::string where_;
  DemandRules rules_;
  std::vector<CsvLine> lines_;
  bool has_head_line_ = false, has_head_column_ = false;
  std::optional<DemandMatrix::Unit> unit_;
  DemandMatrix demand_;
};

bool has_any(const DemandMatrix& demand) {
  return std::any_of(demand.amounts.begin(), demand.amounts.end(), [](uint64_t amount) { return amount > 0; });
}

}  // namespace

std::vector<uint64_t> DemandMatrix::row_totals() const {
  std::vector<uint64_t> totals(size());
  for (size_t i = 0; i < size(); ++i) {
    for (size_t j = 0; j < size(); ++j) totals[i] += at(i, j);
  }
  return totals;
}

std::vector<uint64_t> DemandMatrix::column_totals() const {
  std::vector<uint64_t> totals(size());
  for (size_t i = 0; i < size(); ++i) {
    for (size_t j = 0; j < size(); ++j) totals[j] += at(i, j);
  }
  return totals;
}

std::vector<uint64_t> DemandSet::most(const DemandMatrix& matrix) const {
  const std::vector<uint64_t> rows = matrix.row_totals(), columns = matrix.column_totals();
  const Fraction factor = Fraction(1) + uncertainty;
  std::vector<uint64_t> result(matrix.amounts.size());
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < matrix.size(); ++j) {
      // No entry can be more than its row and its column have in all.
      const int128 grown = int128{matrix.at(i, j)} * factor.numerator() / factor.denominator();
      result[i * matrix.size() + j] = static_cast<uint64_t>(std::min<int128>(grown, std::min(rows[i], columns[j])));
    }
  }
  return result;
}

DemandMatrix parse_demand_csv(std::string_view text, const std::string& where, const DemandRules& rules) {
  return DemandReader(text, where, rules).read();
}

void check_demands(const DemandSet& demands) {
  if (demands.uncertainty < Fraction(0) || demands.uncertainty > Fraction(1000)) {
    throw invalid("an uncertainty is from 0 to 1000, such as 0.3");
  }
  const DemandMatrix& first = demands.matrices.front();
  bool any = false;
  std::optional<DemandMatrix::Unit> unit;
  for (const DemandMatrix& matrix : demands.matrices) {
    if (matrix.names != first.names) {
      throw Error(ErrorCode::mismatch, "demands for one topology name the same endpoints in the same order");
    }
    if (!has_any(matrix)) continue;
    any = true;
    if (unit.value_or(matrix.unit) != matrix.unit) {
      throw Error(ErrorCode::mismatch, "demands for one topology are all in bytes or all rates");
    }
    unit = matrix.unit;
  }
  if (!any) throw invalid("all demands are 0; there is nothing to choose links for");
}

}  // namespace banyan::design
