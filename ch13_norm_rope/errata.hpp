#pragma once

// Where the book's chapter 13 contradicts itself, entry by entry, with what is right. No figure is
// typed in: each is made from the ledger's plans, the book's beside the corrected ones.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace opbook::ch13 {

/// What figures are in. Megabytes are held as bytes and printed in units of 10^6.
enum class Unit { megabytes, bytes, flop, flop_per_byte, ratio, count, share, text };

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

/// This chapter's errata by number. At the book's default sizes unless a line says otherwise.
std::vector<Erratum> errata();

}  // namespace opbook::ch13
