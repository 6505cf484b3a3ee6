#pragma once

// Where the book's chapter 28 contradicts itself, entry by entry, with what is right. Figures are
// made from the ledgers, the book's beside the corrected ones.

#include <vector>

#include "common/errata.hpp"

namespace opbook::ch28 {

/// This chapter's errata by number. At the book's default sizes unless a line says otherwise.
std::vector<Erratum> errata();

}  // namespace opbook::ch28
