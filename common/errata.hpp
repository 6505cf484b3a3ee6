#pragma once

// What a chapter's errata are made of: each says what the book says, what is right, and in which
// figures the two differ.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace opbook {

/// What figures are in. Megabytes are held as bytes and printed in units of 10^6.
enum class Unit { megabytes, bytes, flop, flop_per_byte, ratio, count, share, microseconds, text };

/// A column of figures.
struct Measure {
  std::string name;
  Unit unit;
};

/// One figure, exact; none where the plan has nothing of the kind.
using Figure = std::variant<std::monostate, std::int64_t, double, std::string>;

struct FigureLine {
  std::string label;
  std::vector<Figure> figures;  ///< one for each measure
};

struct Figures {
  std::string what;  ///< what a label names: a plan, a kernel, a tensor
  std::vector<Measure> measures;
  std::vector<FigureLine> lines;
};

/// Formulas in `book` and `right` are in the book's symbols: m rows, n columns, rd of which turn.
struct Erratum {
  int number;  ///< counted through all chapters of the book
  std::string title;
  std::string book;   ///< what the book says
  std::string right;  ///< what is right, and what is done here
  Figures figures;    ///< none where the matter has no figures
};

}  // namespace opbook
