#pragma once

// Where the book's chapter 13 contradicts itself, entry by entry, with what is right. No figure is
// typed in: each is made from the ledger's plans, the book's beside the corrected ones.

#include <vector>

#include "common/errata.hpp"

namespace opbook::ch13 {

/// This chapter's errata by number. At the book's default sizes unless a line says otherwise.
std::vector<Erratum> errata();

}  // namespace opbook::ch13
