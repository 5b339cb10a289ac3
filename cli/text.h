// Tables and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradwire::cli {

/// 1234567 -> "1,234,567".
std::string with_separators(std::uint64_t number);

/// A share such as 0.6604; "-" when `whole` is 0.
std::string fraction_text(double part, double whole);

/// Rows of cells, aligned in columns; the first row is the heading.
class TextTable {
 public:
  /// One letter a column: l or r.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gradwire::cli
