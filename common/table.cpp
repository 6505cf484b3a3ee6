#include "common/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/error.hpp"

namespace opbook {
namespace {

// UTF-8 marks all bytes of a character but its first as 10xxxxxx.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Table& Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw ArgumentError(
        fmt::format("row: got {} cells; allowed: {}", cells.size(), columns_.size()));
  }
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::render() const {
  std::vector<std::string> headers, rules;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = width(columns_[c].header);
    for (const auto& row : rows_) widest = std::max(widest, width(row[c]));
    headers.push_back(columns_[c].header);
    rules.emplace_back(widest, '-');
  }

  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string padding(rules[c].size() - width(cells[c]), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].align == Align::left ? cells[c] + padding : padding + cells[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line(headers);
  add_line(rules);
  for (const auto& row : rows_) add_line(row);
  return text;
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "n/a";
  std::string text = fmt::format("{:.{}f}", value, decimals);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text.front() == '-' ? text.substr(1) : text;
}

std::string thousands(std::int64_t value) {
  std::string text = fmt::format("{}", value);
  const std::ptrdiff_t first_digit = value < 0 ? 1 : 0;
  for (std::ptrdiff_t i = std::ssize(text) - 3; i > first_digit; i -= 3)
    text.insert(text.begin() + i, ',');
  return text;
}

std::string megabytes(std::int64_t bytes) {
  return fixed(static_cast<double>(bytes) / 1e6, 2);
}

std::string percent(double share, int decimals) {
  return std::isfinite(share) ? fixed(share * 100, decimals) + " %" : fixed(share, decimals);
}

}  // namespace opbook
