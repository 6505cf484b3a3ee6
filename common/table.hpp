#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opbook {

enum class Align { left, right };

struct Column {
  std::string header;
  Align align = Align::right;
};

/// A table in plain text for terminals and READMEs: a header, a rule, one line a row, two spaces
/// between columns, none at the end of a line.
///
///     op         kernels     MB
///     ---------  -------  -----
///     scale_add        2  20.97
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Throws ArgumentError unless there is one cell for each column.
  Table& add_row(std::vector<std::string> cells);

  /// Each line ends in a newline. Widths count UTF-8 characters, each one column wide.
  std::string render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Numbers as text. What is not finite reads "n/a": a figure that was not measured shows as that.

/// 1.005 with two decimals is "1.00": correctly rounded from the exact binary value.
std::string fixed(double value, int decimals);

/// 1234567 is "1,234,567".
std::string thousands(std::int64_t value);

/// Bytes in units of 10^6, two decimals and no unit: 85467136 is "85.47".
std::string megabytes(std::int64_t bytes);

/// 0.845 is "84.5 %".
std::string percent(double share, int decimals = 1);

}  // namespace opbook
