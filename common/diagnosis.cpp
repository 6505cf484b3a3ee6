#include "common/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace opbook {
namespace {

/// Some elements of a matrix.
class Places {
 public:
  Places(const Array& array, const std::function<bool(std::int64_t)>& holds)
      : rows_(array.row_count()), cols_(array.cols()), in_row_(rows_), in_column_(cols_) {
    for (std::int64_t i = 0; i < array.elements(); ++i) {
      if (!holds(i)) continue;
      if (count_++ == 0) first_ = i;
      ++in_row_[i / cols_];
      ++in_column_[i % cols_];
    }
  }

  std::int64_t count() const { return count_; }
  std::int64_t first() const { return first_; }

  /// True for the last columns of every row and nothing else.
  bool are_last_columns() const {
    const std::int64_t begin = first_ % cols_;
    const bool together = std::all_of(in_column_.begin() + begin, in_column_.end(),
                                      [&](std::int64_t count) { return count == rows_; });
    return begin > 0 && together && count_ == (cols_ - begin) * rows_;
  }

  std::string text() const {
    if (count_ == rows_ * cols_) return "every element";
    if (are_last_columns()) {
      const std::string which = range("column", first_ % cols_, cols_ - 1);
      return rows_ == 1 ? which : which + " of every row";
    }
    const std::int64_t whole = std::count(in_row_.begin(), in_row_.end(), cols_);
    if (whole > 0 && count_ == whole * cols_) return rows_text(whole);
    return fmt::format("{} of {} elements", count_, rows_ * cols_);
  }

 private:
  static std::string range(const char* what, std::int64_t first, std::int64_t last) {
    return first == last ? fmt::format("{} {}", what, first)
                         : fmt::format("{}s {} to {}", what, first, last);
  }
  std::string rows_text(std::int64_t whole) const {
    const std::int64_t first = first_ / cols_;
    const auto full = [this](std::int64_t count) { return count == cols_; };
    if (std::all_of(in_row_.begin() + first, in_row_.begin() + first + whole, full)) {
      return range("row", first, first + whole - 1);
    }
    return fmt::format("{} of {} rows, the first of them row {}", whole, rows_, first);
  }

  std::int64_t rows_, cols_;
  std::int64_t count_ = 0;
  std::int64_t first_ = 0;
  std::vector<std::int64_t> in_row_, in_column_;
};

/// Whether one element passes the check.
bool passes(const Array& actual, const Check& check, std::int64_t i) {
  Array element("", actual.dtype(), {1});
  const std::int64_t size = size_of(actual.dtype());
  std::memcpy(element.raw(), actual.raw() + i * size, size);
  return compare(element, {{check.expected.value[i]}, {}}, check.tolerance_ulp).pass;
}

std::string element_text(const Array& actual, const Check& check, std::int64_t i) {
  const std::string index = actual.shape().size() < 2
                                ? fmt::format("{}", i)
                                : fmt::format("{}, {}", i / actual.cols(), i % actual.cols());
  const auto number = [](double value) {
    return std::isnan(value) ? "NaN" : fmt::format("{:.8g}", value);  // whatever its sign
  };
  return fmt::format("{}({}): got {}, expected {}", actual.name(), index, number(actual.value(i)),
                     number(check.expected.value[i]));
}

}  // namespace

std::string diagnose(const Array& actual, const Check& check, const std::vector<Slip>& slips) {
  const Places unwritten(actual, [&](std::int64_t i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, actual.raw() + i * sizeof bits, sizeof bits);
    return bits == 0xFFFFFFFFu;
  });
  if (unwritten.count() > 0) {
    std::string text = fmt::format("{}: never written: {}", actual.name(), unwritten.text());
    if (unwritten.are_last_columns()) {
      text += fmt::format(
          ".\nA loop that takes several columns at a time leaves a rest where they do not divide "
          "{}: it needs a loop of its own.",
          actual.cols());
    }
    return text;
  }
  const Places wrong(actual, [&](std::int64_t i) { return !passes(actual, check, i); });
  const std::string first = element_text(actual, check, wrong.first());
  for (const Slip& slip : slips) {
    if (slip.check.tensor == actual.name() &&
        compare(actual, slip.check.expected, slip.check.tolerance_ulp).pass) {
      return fmt::format("{}: {}.\n{}", actual.name(), slip.text, first);
    }
  }
  const Places nan(actual, [&](std::int64_t i) { return std::isnan(actual.value(i)); });
  if (nan.count() > 0) {
    return fmt::format(
        "{}: NaN in {}. A NaN comes of the root of a negative number, of 0 / 0 or of Inf - "
        "Inf.\n{}",
        actual.name(), nan.text(), element_text(actual, check, nan.first()));
  }
  return fmt::format("{}: wrong in {}.\n{}", actual.name(), wrong.text(), first);
}

}  // namespace opbook
